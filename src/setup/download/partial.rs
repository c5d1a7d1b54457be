//! A file on its way: bytes under a partial name beside the final one, and the journal of what is safe on the disk.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3Default;

use super::error::Error;
use super::hash::{Hasher, Judgement};
use super::journal::{self, Block, Header};
use super::manifest::{Entry, OWN};
use crate::sys::buffer::{ALIGN, Buffer, usize_of};
use crate::sys::file::{self, Source};

const CHUNK: usize = 1 << 20;
/// What is read at once of a file that is whole.
const PIECE: usize = 4 << 20;
/// Of 17 GB in blocks of 64 MiB a journal takes 7 kB.
const MOST_JOURNAL: u64 = 64 << 20;

/// Where a file of the list lies, and where it lies until it is whole.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pub(super) whole: PathBuf,
    pub(super) part: PathBuf,
    journal: PathBuf,
}

impl Places {
    pub(super) fn of(folder: &Path, entry: &Entry) -> Self {
        // Components are joined one by one, so that the separator is the system's.
        let whole = entry.path.split('/').fold(folder.to_owned(), |path, part| path.join(part));
        let name = entry.path.rsplit('/').next().unwrap_or_default();
        let beside = |suffix: &str| whole.with_file_name(format!(".{name}{suffix}"));
        let [part, journal] = OWN.map(beside);
        Self { whole, part, journal }
    }

    /// The journal's blocks, if it is about this content.
    fn blocks(&self, header: &Header) -> Option<Vec<Block>> {
        let len = fs::metadata(&self.part).ok()?.len();
        let text = file::read_small(&self.journal, MOST_JOURNAL).ok()?;
        // A torn write may leave anything at the end; lines before it are ASCII.
        journal::blocks(&String::from_utf8_lossy(&text), header, len)
    }

    /// Bytes that an earlier run has left, unless they turn out to be damaged.
    pub(super) fn kept(&self, header: &Header) -> u64 {
        self.blocks(header).unwrap_or_default().iter().map(|block| block.len).sum()
    }
}

/// Called with the bytes looked at so far; false stops it.
pub(in crate::setup) type OnBytes<'a> = &'a mut dyn FnMut(u64) -> bool;

/// A file that is being fetched.
pub(super) struct Partial<'a> {
    entry: &'a Entry,
    header: Header,
    places: Places,
    file: File,
    journal: File,
    /// Over everything so far.
    hasher: Hasher,
    /// Over the block that is not yet in the journal.
    block: Xxh3Default,
    block_len: u64,
    block_size: u64,
    /// Bytes written.
    at: u64,
}

impl<'a> Partial<'a> {
    /// Goes on where an earlier run was, as far as its blocks are what its journal says.
    pub(super) fn open(
        entry: &'a Entry,
        header: Header,
        places: Places,
        block_size: u64,
        checked: OnBytes<'_>,
    ) -> Result<Self, Error> {
        if let Some(parent) = places.part.parent() {
            fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
        }
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&places.part).map_err(Error::io("open", &places.part))?;
        let kept = places.blocks(&header);
        let journal = options.open(&places.journal).map_err(Error::io("open", &places.journal))?;
        let mut partial = Self {
            hasher: Hasher::new(&entry.digest, entry.size),
            entry,
            header,
            places,
            file,
            journal,
            block: Xxh3Default::new(),
            block_len: 0,
            block_size: block_size.max(1),
            at: 0,
        };
        let good = partial.check(kept.as_deref().unwrap_or_default(), checked)?;
        partial.keep(&good)?;
        Ok(partial)
    }

    /// Reads the blocks, up to the first that is damaged, and gives the good ones.
    fn check(&mut self, blocks: &[Block], checked: OnBytes<'_>) -> Result<Vec<Block>, Error> {
        let failed = |part: &Path| Error::io("read", part);
        let mut buffer = vec![0; CHUNK];
        let mut good = Vec::new();
        self.file.seek(SeekFrom::Start(0)).map_err(failed(&self.places.part))?;
        for block in blocks {
            // Of a damaged block nothing may stay in the hash of the file.
            let before = self.hasher.clone();
            let mut hash = Xxh3Default::new();
            let mut left = block.len;
            while left > 0 {
                let want = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
                self.file.read_exact(&mut buffer[..want]).map_err(failed(&self.places.part))?;
                hash.update(&buffer[..want]);
                self.hasher.update(&buffer[..want]);
                left -= want as u64;
            }
            if hash.digest() != block.hash {
                self.hasher = before;
                break;
            }
            self.at += block.len;
            good.push(*block);
            if !checked(self.at) {
                return Err(Error::Stopped);
            }
        }
        Ok(good)
    }

    /// Cuts the partial file behind the good blocks and writes the journal anew.
    fn keep(&mut self, good: &[Block]) -> Result<(), Error> {
        // In this order: a journal that says more than there is does no harm, since its blocks are looked at.
        self.file.set_len(self.at).map_err(Error::io("shorten", &self.places.part))?;
        let text = self.header.line() + &good.iter().map(|block| block.line()).collect::<String>();
        self.journal
            .set_len(0)
            .and_then(|()| self.journal.seek(SeekFrom::Start(0)))
            .and_then(|_| self.journal.write_all(text.as_bytes()))
            .map_err(Error::io("write", &self.places.journal))
    }

    /// Bytes written so far; the next one to fetch.
    pub(super) const fn at(&self) -> u64 {
        self.at
    }

    /// Bytes that a kill cannot take away.
    pub(super) const fn safe(&self) -> u64 {
        self.at - self.block_len
    }

    /// Bytes still to come.
    pub(super) const fn remaining(&self) -> u64 {
        self.entry.size.saturating_sub(self.at)
    }

    /// Throws everything away.
    pub(super) fn restart(&mut self) -> Result<(), Error> {
        self.at = 0;
        self.block_len = 0;
        self.block = Xxh3Default::new();
        self.hasher = Hasher::new(&self.entry.digest, self.entry.size);
        self.keep(&[])
    }

    /// Adds bytes, never beyond the size in the list.
    pub(super) fn write(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        bytes = &bytes[..bytes.len().min(usize::try_from(self.remaining()).unwrap_or(usize::MAX))];
        while !bytes.is_empty() {
            let room = usize::try_from(self.block_size - self.block_len).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.file
                .seek(SeekFrom::Start(self.at))
                .and_then(|_| self.file.write_all(now))
                .map_err(Error::io("write", &self.places.part))?;
            self.hasher.update(now);
            self.block.update(now);
            self.block_len += now.len() as u64;
            self.at += now.len() as u64;
            if self.block_len == self.block_size {
                self.seal()?;
            }
            bytes = later;
        }
        Ok(())
    }

    /// Makes what was written safe: through to the disk, then into the journal.
    pub(super) fn seal(&mut self) -> Result<(), Error> {
        if self.block_len == 0 {
            return Ok(());
        }
        self.file.sync_data().map_err(Error::io("write", &self.places.part))?;
        let line = Block { len: self.block_len, hash: self.block.digest() }.line();
        self.journal.write_all(line.as_bytes()).map_err(Error::io("write", &self.places.journal))?;
        self.block_len = 0;
        self.block = Xxh3Default::new();
        Ok(())
    }

    /// Holds the file against its digest. Only if it is right (or none is published) it gets its final name; if it is
    /// wrong, all of it is thrown away.
    pub(super) fn finish(mut self) -> Result<Judgement, Error> {
        self.seal()?;
        let judgement = self.hasher.judge(&self.entry.digest);
        let places = &self.places;
        if matches!(judgement, Judgement::Wrong(_)) {
            fs::remove_file(&places.journal).map_err(Error::io("remove", &places.journal))?;
            fs::remove_file(&places.part).map_err(Error::io("remove", &places.part))?;
        } else {
            self.file.sync_all().map_err(Error::io("write", &places.part))?;
            fs::rename(&places.part, &places.whole).map_err(Error::io("name", &places.whole))?;
            fs::remove_file(&places.journal).map_err(Error::io("remove", &places.journal))?;
        }
        Ok(judgement)
    }
}

/// Holds a file that is already there against the list. `None` if it is not there, or not a file of that length. Reads
/// past the system's cache where that can be: nobody wants 1.56 TB in there.
pub(in crate::setup) fn judge(
    folder: &Path,
    entry: &Entry,
    checked: OnBytes<'_>,
) -> Result<Option<Judgement>, Error> {
    let path = &Places::of(folder, entry).whole;
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() && metadata.len() == entry.size => {}
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("look at", path)(error)),
    }
    let mut buffer = Buffer::new(PIECE).map_err(Error::io("find memory to read", path))?;
    if let Ok(source) = Source::open_direct(path)
        && let Ok(hasher) = hash(&source, entry, &mut buffer, checked)
    {
        return hasher.map_or(Err(Error::Stopped), |hasher| Ok(Some(hasher.judge(&entry.digest))));
    }
    // A file system may refuse direct reads at the first of them only, and of a failing disk the others say more.
    let source = Source::open(path)?;
    let hasher = hash(&source, entry, &mut buffer, checked)?;
    hasher.map_or(Err(Error::Stopped), |hasher| Ok(Some(hasher.judge(&entry.digest))))
}

/// Reads all of a file. Nothing if it was stopped.
fn hash(
    source: &Source,
    entry: &Entry,
    buffer: &mut Buffer,
    checked: OnBytes<'_>,
) -> Result<Option<Hasher>, file::Error> {
    let mut hasher = Hasher::new(&entry.digest, entry.size);
    let mut at = 0;
    while at < entry.size {
        let len = usize_of(entry.size - at).min(buffer.len());
        source.read_pages(buffer, at, ALIGN, len)?;
        hasher.update(&buffer[..len]);
        at += len as u64;
        if !checked(at) {
            return Ok(None);
        }
    }
    Ok(Some(hasher))
}

#[cfg(test)]
mod tests {
    use super::super::manifest::Digest;
    use super::*;

    fn entry() -> Entry {
        Entry {
            path: "sub/f".into(),
            size: 11,
            digest: Digest::Sha256("b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9".into()),
        }
    }

    fn open<'a>(folder: &Path, entry: &'a Entry) -> Partial<'a> {
        let header = Header::new("c", entry.size, entry.digest.label());
        Partial::open(entry, header, Places::of(folder, entry), 4, &mut |_| true).unwrap()
    }

    #[test]
    fn d16_what_is_in_the_journal_survives_and_the_rest_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let entry = entry();
        let mut partial = open(dir.path(), &entry);
        partial.write(b"hello ").unwrap();
        assert_eq!((partial.at(), partial.safe()), (6, 4));
        drop(partial);
        let mut partial = open(dir.path(), &entry);
        assert_eq!(partial.at(), 4);
        partial.write(b"o world").unwrap();
        assert_eq!(partial.finish().unwrap(), Judgement::Right);
        assert_eq!(fs::read(dir.path().join("sub/f")).unwrap(), b"hello world");
        assert_eq!(fs::read_dir(dir.path().join("sub")).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn a_block_that_rotted_is_fetched_again() {
        let dir = tempfile::tempdir().unwrap();
        let entry = entry();
        let mut partial = open(dir.path(), &entry);
        partial.write(b"hello wo").unwrap();
        drop(partial);
        let part = Places::of(dir.path(), &entry).part;
        let mut bytes = fs::read(&part).unwrap();
        bytes[5] ^= 1;
        fs::write(&part, bytes).unwrap();
        let mut partial = open(dir.path(), &entry);
        assert_eq!(partial.at(), 4);
        partial.write(b"o world").unwrap();
        assert_eq!(partial.finish().unwrap(), Judgement::Right);
    }

    #[test]
    fn d08_wrong_bytes_never_get_the_final_name() {
        let dir = tempfile::tempdir().unwrap();
        let entry = entry();
        let mut partial = open(dir.path(), &entry);
        partial.write(b"hello worle").unwrap();
        assert!(matches!(partial.finish().unwrap(), Judgement::Wrong(_)));
        assert_eq!(fs::read_dir(dir.path().join("sub")).unwrap().count(), 0);
    }

    #[test]
    fn d32_nothing_is_written_beyond_the_size() {
        let dir = tempfile::tempdir().unwrap();
        let entry = entry();
        let mut partial = open(dir.path(), &entry);
        partial.write(b"hello world and more").unwrap();
        assert_eq!((partial.at(), partial.remaining()), (11, 0));
        assert_eq!(partial.finish().unwrap(), Judgement::Right);
        assert_eq!(fs::metadata(dir.path().join("sub/f")).unwrap().len(), 11);
    }

    #[test]
    fn a_restart_forgets_everything() {
        let dir = tempfile::tempdir().unwrap();
        let entry = entry();
        let mut partial = open(dir.path(), &entry);
        partial.write(b"rubbish!!").unwrap();
        partial.restart().unwrap();
        drop(partial);
        let mut partial = open(dir.path(), &entry);
        assert_eq!(partial.at(), 0);
        partial.write(b"hello world").unwrap();
        assert_eq!(partial.finish().unwrap(), Judgement::Right);
    }
}
