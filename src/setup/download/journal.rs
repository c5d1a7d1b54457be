//! Which blocks of a partial file are on the disk: one line of JSON about the file, then one line for each block with
//! its length and hash. A line counts once its line feed is there, so a torn one at the end is no harm.

use serde::{Deserialize, Serialize};

const FORMAT: u32 = 1;

/// The file that a journal is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    format: u32,
    /// Where it was listed.
    pub(super) commit: String,
    pub(super) size: u64,
    /// With its kind; empty if none is published.
    pub(super) digest: String,
}

impl Header {
    pub(super) fn new(commit: &str, size: u64, digest: String) -> Self {
        Self { format: FORMAT, commit: commit.to_owned(), size, digest }
    }

    /// Its line.
    pub(super) fn line(&self) -> String {
        // A struct of numbers and text always serializes.
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// Whether bytes that were fetched for `self` are bytes of `other`. A digest pins the content, whatever commit it
    /// was listed in; without one only the commit does.
    fn is_of(&self, other: &Self) -> bool {
        let same = self.format == other.format && self.size == other.size && self.digest == other.digest;
        same && (!self.digest.is_empty() || self.commit == other.commit)
    }
}

/// A block that was written through to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) len: u64,
    /// XXH3: it must tell torn and rotten bytes from good ones; the published digest over the whole file does the rest.
    pub(super) hash: u64,
}

impl Block {
    /// Its line.
    pub(super) fn line(self) -> String {
        format!("{} {:016x}\n", self.len, self.hash)
    }

    fn parse(line: &str) -> Option<Self> {
        let (len, hash) = line.split_once(' ')?;
        let len = len.parse().ok().filter(|len| *len > 0)?;
        let hash = u64::from_str_radix(hash, 16).ok().filter(|_| hash.len() == 16)?;
        Some(Self { len, hash })
    }
}

/// The blocks in the text of a journal that are good for `wanted`, as far as a partial file of `len` bytes can hold
/// them. `None` if the journal is about something else.
pub(super) fn blocks(text: &str, wanted: &Header, len: u64) -> Option<Vec<Block>> {
    let (first, rest) = text.split_once('\n')?;
    let header: Header = serde_json::from_str(first).ok()?;
    if !header.is_of(wanted) {
        return None;
    }
    let mut end = 0_u64;
    let mut blocks = Vec::new();
    for line in rest.split_inclusive('\n') {
        let Some(block) = line.strip_suffix('\n').and_then(Block::parse) else { break };
        end = end.saturating_add(block.len);
        if end > len.min(wanted.size) {
            break;
        }
        blocks.push(block);
    }
    Some(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(commit: &str, digest: &str) -> Header {
        Header::new(commit, 100, digest.to_owned())
    }

    fn journal(header: &Header, blocks: &[Block]) -> String {
        header.line() + &blocks.iter().map(|block| block.line()).collect::<String>()
    }

    const BLOCKS: [Block; 3] =
        [Block { len: 40, hash: 1 }, Block { len: 40, hash: u64::MAX }, Block { len: 20, hash: 0 }];

    #[test]
    fn what_was_written_is_read_again() {
        let wanted = header("c", "sha256:x");
        let text = journal(&wanted, &BLOCKS);
        assert_eq!(blocks(&text, &wanted, 100).unwrap(), BLOCKS);
    }

    #[test]
    fn d16_a_journal_cut_anywhere_gives_whole_blocks_only() {
        let wanted = header("c", "sha256:x");
        let text = journal(&wanted, &BLOCKS);
        let first = wanted.line().len();
        for cut in 0..text.len() {
            match blocks(&text[..cut], &wanted, 100) {
                None => assert!(cut < first, "{cut}"),
                Some(found) => {
                    let lines = text[first..cut].matches('\n').count();
                    assert_eq!(found, BLOCKS[..lines], "{cut}");
                }
            }
        }
    }

    #[test]
    fn blocks_beyond_the_partial_file_or_the_size_do_not_count() {
        let wanted = header("c", "sha256:x");
        let text = journal(&wanted, &BLOCKS);
        assert_eq!(blocks(&text, &wanted, 99).unwrap(), BLOCKS[..2]);
        assert_eq!(blocks(&text, &wanted, 0).unwrap(), []);
        let huge = wanted.line() + "18446744073709551615 0000000000000000\n1 0000000000000000\n";
        assert_eq!(blocks(&huge, &wanted, u64::MAX).unwrap(), []);
    }

    #[test]
    fn d36_a_journal_of_another_content_is_not_used() {
        let text = journal(&header("c", "sha256:x"), &BLOCKS);
        assert!(blocks(&text, &header("c", "sha256:y"), 100).is_none());
        assert!(blocks(&text, &header("d", "sha256:x"), 100).is_some(), "the same content in another commit");
        let text = journal(&header("c", ""), &BLOCKS);
        assert!(blocks(&text, &header("d", ""), 100).is_none(), "nothing says that it is the same content");
        assert!(blocks("no journal\n", &header("c", ""), 100).is_none());
    }
}
