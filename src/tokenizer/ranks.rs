//! The ordinary tokens: all bytes in one arena, found by rank or by content.

use std::hash::{BuildHasher, RandomState};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::error::{Error, excerpt};

/// Marks a free place, in the table and among ranks not yet seen.
const NONE: u32 = u32::MAX;

/// The bytes of every rank. 163,584 tokens take 4 MB: the bytes, one offset each, and a hash table of ranks.
pub(super) struct Ranks {
    arena: Vec<u8>,
    /// Where each token begins in the arena, and the arena's end.
    offsets: Vec<u32>,
    /// Ranks by the hash of their bytes, open addressing, at most half full.
    table: Vec<u32>,
    hasher: RandomState,
    longest: usize,
}

impl std::fmt::Debug for Ranks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ranks")
            .field("len", &self.len())
            .field("longest", &self.longest)
            .finish_non_exhaustive()
    }
}

impl Ranks {
    /// Reads lines of base64, a space and a rank. The ranks must be `0..count`, in any order; empty lines are skipped.
    pub(super) fn parse(path: &Path, text: &[u8], count: u32) -> Result<Self, Error> {
        let at_line = |line: usize, expected: String, found: String| Error::Line {
            path: path.to_owned(),
            line,
            expected,
            found,
        };
        let mut read = Vec::with_capacity(text.len() / 2);
        // No more places than lines, whatever `count` asks for.
        let lines = text.split(|&byte| byte == b'\n').count();
        let mut spans = vec![(NONE, NONE); lines.min(count as usize)];
        let mut found = 0;
        for (number, line) in text.split(|&byte| byte == b'\n').enumerate() {
            let number = number + 1;
            let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
            let Some(token) = fields.next() else { continue };
            let (Some(rank), None) = (fields.next(), fields.next()) else {
                return Err(at_line(number, "base64, a space and a rank".to_owned(), excerpt(line)));
            };
            let start = read.len();
            if let Err(error) = STANDARD.decode_vec(token, &mut read) {
                let found = format!("{} ({error})", excerpt(token));
                return Err(at_line(number, "a token in base64".to_owned(), found));
            }
            let text = std::str::from_utf8(rank).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
            let Some(rank) = text.and_then(|text| text.parse().ok()).filter(|&rank: &u32| rank < count)
            else {
                let expected = format!("a rank from 0 to {} (`vocab_size` less 256 reserved ids)", count - 1);
                return Err(at_line(number, expected, excerpt(rank)));
            };
            // `read` is shorter than the file, whose length has a limit far below 4 GiB.
            let offset = |n: usize| u32::try_from(n).unwrap_or(NONE);
            if let Some(span) = spans.get_mut(rank as usize) {
                if span.0 != NONE {
                    return Err(at_line(number, "each rank once".to_owned(), format!("rank {rank} again")));
                }
                *span = (offset(start), offset(read.len()));
            }
            found += 1;
        }
        if found < count {
            let missing = spans.iter().position(|span| span.0 == NONE).unwrap_or(spans.len());
            let missing = u32::try_from(missing).unwrap_or(NONE);
            return Err(Error::Gap { path: path.to_owned(), expected: count, found, missing });
        }
        Self::build(path, &read, &spans)
    }

    /// Puts the tokens in the order of their ranks and makes them findable.
    fn build(path: &Path, read: &[u8], spans: &[(u32, u32)]) -> Result<Self, Error> {
        let mut ranks = Self {
            arena: Vec::with_capacity(read.len()),
            offsets: Vec::with_capacity(spans.len() + 1),
            table: vec![NONE; (spans.len() * 2).next_power_of_two()],
            hasher: RandomState::new(),
            longest: 0,
        };
        ranks.offsets.push(0);
        for (second, &(start, end)) in (0_u32..).zip(spans) {
            let token = &read[start as usize..end as usize];
            ranks.longest = ranks.longest.max(token.len());
            match ranks.place(token) {
                Ok(first) => {
                    let token = String::from_utf8_lossy(&token[..token.len().min(40)]).into_owned();
                    return Err(Error::SameToken { path: path.to_owned(), token, first, second });
                }
                Err(slot) => ranks.table[slot] = second,
            }
            ranks.arena.extend_from_slice(token);
            ranks.offsets.push(u32::try_from(ranks.arena.len()).unwrap_or(NONE));
        }
        match (0..=u8::MAX).find(|&byte| ranks.rank(&[byte]).is_none()) {
            Some(byte) => Err(Error::MissingByte { path: path.to_owned(), byte }),
            None => Ok(ranks),
        }
    }

    /// The rank of `token`, or the free place in the table where it belongs.
    #[expect(clippy::cast_possible_truncation, reason = "any bits of a hash will do")]
    fn place(&self, token: &[u8]) -> Result<u32, usize> {
        let mask = self.table.len() - 1;
        let mut slot = self.hasher.hash_one(token) as usize & mask;
        loop {
            match self.table[slot] {
                NONE => return Err(slot),
                rank if self.token(rank) == Some(token) => return Ok(rank),
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    /// The rank whose bytes are `token`.
    pub(super) fn rank(&self, token: &[u8]) -> Option<u32> {
        if token.len() > self.longest { None } else { self.place(token).ok() }
    }

    /// The bytes of a rank.
    pub(super) fn token(&self, rank: u32) -> Option<&[u8]> {
        let place = rank as usize;
        let (&start, &end) = (self.offsets.get(place)?, self.offsets.get(place.checked_add(1)?)?);
        self.arena.get(start as usize..end as usize)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.offsets.len() - 1
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Lines for the 256 single bytes, ranked by value, and then for `more`.
    pub(in crate::tokenizer) fn lines(more: &[&str]) -> String {
        let bytes = (0..=u8::MAX).map(|byte| vec![byte]);
        let all = bytes.chain(more.iter().map(|token| token.as_bytes().to_vec()));
        let lines: Vec<String> =
            all.enumerate().map(|(rank, token)| format!("{} {rank}\n", STANDARD.encode(token))).collect();
        lines.concat()
    }

    fn parse(text: &str, count: u32) -> Result<Ranks, Error> {
        Ranks::parse(Path::new("dir/tiktoken.model"), text.as_bytes(), count)
    }

    #[test]
    fn tokens_are_found_by_rank_and_by_bytes() {
        let ranks = parse(&lines(&["ab", "abc", "\u{4f60}"]), 259).unwrap();
        assert_eq!(ranks.len(), 259);
        for rank in 0..259 {
            assert_eq!(ranks.rank(ranks.token(rank).unwrap()), Some(rank));
        }
        assert_eq!(ranks.token(257), Some(b"abc".as_slice()));
        assert_eq!((ranks.token(259), ranks.token(u32::MAX)), (None, None));
        assert_eq!((ranks.rank(b"bc"), ranks.rank(b""), ranks.rank(b"abcd")), (None, None, None));
    }

    #[test]
    fn the_order_of_lines_does_not_matter_nor_do_empty_ones() {
        let forward = lines(&["ab", "xyz"]);
        let backward: Vec<&str> = forward.lines().rev().collect();
        let ranks = parse(&format!("\n{}\r\n\n", backward.join("\r\n")), 258).unwrap();
        assert_eq!((ranks.token(0), ranks.token(257)), (Some(b"\0".as_slice()), Some(b"xyz".as_slice())));
    }

    #[test]
    fn damage_is_refused_with_its_place() {
        let good = lines(&["ab", "abc"]);
        let with = |line: &str| format!("{good}{line}\n");
        let without = |rank: u32| {
            good.lines().filter(|line| !line.ends_with(&format!(" {rank}"))).collect::<Vec<_>>().join("\n")
        };
        let range = "expected a rank from 0 to 258 (`vocab_size` less 256 reserved ids)";
        for (text, message) in [
            (with("?!x= 258"), "line 259: expected a token in base64, found \"?!x=\" (".to_owned()),
            (with("YQ 258"), "line 259: expected a token in base64, found \"YQ\" (".to_owned()),
            (with("eHk="), "line 259: expected base64, a space and a rank, found \"eHk=\"".to_owned()),
            (
                with("eHk= 258 1"),
                "line 259: expected base64, a space and a rank, found \"eHk= 258 1\"".to_owned(),
            ),
            (with("eHk= 259"), format!("line 259: {range}, found \"259\"")),
            (with("eHk= -1"), format!("line 259: {range}, found \"-1\"")),
            (with("eHk= +9"), format!("line 259: {range}, found \"+9\"")),
            (with("eHk= 99999999999"), format!("line 259: {range}, found \"99999999999\"")),
            (with("eHk= \u{1b}[2J"), format!("line 259: {range}, found \"\\u{{1b}}[2J\"")),
            (with("eHk= 257"), "line 259: expected each rank once, found rank 257 again".to_owned()),
            (
                good.clone(),
                "expected 259 ranks (`vocab_size` less 256), found 258; rank 258 is missing".to_owned(),
            ),
            (
                without(7),
                "expected 259 ranks (`vocab_size` less 256), found 257; rank 7 is missing".to_owned(),
            ),
            (with("YWI= 258"), "found \"ab\" as rank 256 and as rank 258".to_owned()),
            (
                good.replace("AA== 0\n", "QUFB 0\n") + "eHk= 258",
                "expected a token for each of the 256 bytes, found none for 0x00".to_owned(),
            ),
            ("eHk= 258".to_owned(), "found 1; rank 0 is missing".to_owned()),
            (String::new(), "found 0; rank 0 is missing".to_owned()),
        ] {
            let error = parse(&text, 259).unwrap_err().to_string();
            assert!(
                error.starts_with("dir/tiktoken.model") && error.contains(&message),
                "{error}\nnot: {message}"
            );
        }
    }
}
