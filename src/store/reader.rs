//! How bytes come from the shards: three ways behind one trait.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use crate::checkpoint::Extent;
use crate::sys::buffer::{ALIGN, Buffer, usize_of};
use crate::sys::file::{self, Source};

/// Reads ranges of shards, from many threads at once.
pub trait Reader: Send + Sync + fmt::Debug {
    /// Which way it takes.
    fn kind(&self) -> ReaderKind;

    /// Reads `extent` into `buffer`, somewhere in the [`window`](crate::sys::buffer::window) of its length that begins at `at`, a multiple of
    /// [`ALIGN`]. Gives the place of its first byte, which is even.
    fn read(&self, extent: Extent, buffer: &mut Buffer, at: usize) -> Result<usize, file::Error>;
}

/// The ways to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReaderKind {
    /// Positioned reads past the page cache.
    Direct,
    /// Positioned reads through the page cache.
    Buffered,
    /// A map of the file, copied out of.
    Mmap,
}

impl ReaderKind {
    /// All of them, in the order in which they are tried.
    pub const ALL: [Self; 3] = [Self::Direct, Self::Buffered, Self::Mmap];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Buffered => "buffered",
            Self::Mmap => "mmap",
        }
    }
}

impl FromStr for ReaderKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| format!("`{text}` is not a reader; known are auto, direct, buffered and mmap"))
    }
}

/// Opens a reader on shards. `wanted` forces its kind; without it, direct reads are taken where a probe of every file
/// system that holds a shard can open *and* read that way, else buffered ones.
pub fn open(shards: &[Source], wanted: Option<ReaderKind>) -> Result<Arc<dyn Reader>, file::Error> {
    let paths = || shards.iter().map(Source::path);
    match wanted {
        Some(ReaderKind::Direct) => Ok(Arc::new(Direct::open(paths())?)),
        Some(ReaderKind::Buffered) => Ok(Arc::new(Buffered::open(paths())?)),
        Some(ReaderKind::Mmap) => Ok(Arc::new(Mapped::open(paths())?)),
        None => match Direct::open(paths()) {
            Ok(reader) => Ok(Arc::new(reader)),
            Err(_) => Ok(Arc::new(Buffered::open(paths())?)),
        },
    }
}

/// Positioned reads with `O_DIRECT`: whole pages, around what was asked for.
#[derive(Debug)]
struct Direct {
    shards: Vec<Source>,
}

impl Direct {
    /// Opens every shard and reads a page of each: some file systems only refuse the read.
    fn open<'a>(paths: impl Iterator<Item = &'a Path>) -> Result<Self, file::Error> {
        let shards = paths.map(Source::open_direct).collect::<Result<Vec<_>, _>>()?;
        if let Ok(mut page) = Buffer::new(ALIGN) {
            for shard in &shards {
                let there = usize::try_from(shard.len()).unwrap_or(ALIGN).min(ALIGN);
                shard.read_pages(&mut page, 0, ALIGN, there)?;
            }
        }
        Ok(Self { shards })
    }
}

impl Reader for Direct {
    fn kind(&self) -> ReaderKind {
        ReaderKind::Direct
    }

    fn read(&self, extent: Extent, buffer: &mut Buffer, at: usize) -> Result<usize, file::Error> {
        let shard = shard(&self.shards, extent);
        let (skip, len) = (usize_of(extent.offset % ALIGN as u64), usize_of(extent.len));
        let end = at + (skip + len).next_multiple_of(ALIGN);
        shard.read_pages(&mut buffer[at..end], extent.offset - skip as u64, ALIGN, skip + len)?;
        if skip.is_multiple_of(2) {
            return Ok(at + skip);
        }
        buffer.copy_within(at + skip..at + skip + len, at);
        Ok(at)
    }
}

/// Positioned reads through the page cache.
#[derive(Debug)]
struct Buffered {
    shards: Vec<Source>,
}

impl Buffered {
    fn open<'a>(paths: impl Iterator<Item = &'a Path>) -> Result<Self, file::Error> {
        Ok(Self { shards: paths.map(Source::open).collect::<Result<_, _>>()? })
    }
}

impl Reader for Buffered {
    fn kind(&self) -> ReaderKind {
        ReaderKind::Buffered
    }

    fn read(&self, extent: Extent, buffer: &mut Buffer, at: usize) -> Result<usize, file::Error> {
        let len = usize_of(extent.len);
        shard(&self.shards, extent).read_exact_at(&mut buffer[at..at + len], extent.offset)?;
        Ok(at)
    }
}

/// A map of what is asked for, copied out of.
#[derive(Debug)]
struct Mapped {
    shards: Vec<Source>,
}

impl Mapped {
    fn open<'a>(paths: impl Iterator<Item = &'a Path>) -> Result<Self, file::Error> {
        Ok(Self { shards: paths.map(Source::open).collect::<Result<_, _>>()? })
    }
}

impl Reader for Mapped {
    fn kind(&self) -> ReaderKind {
        ReaderKind::Mmap
    }

    fn read(&self, extent: Extent, buffer: &mut Buffer, at: usize) -> Result<usize, file::Error> {
        let len = usize_of(extent.len);
        shard(&self.shards, extent).copy_mapped(&mut buffer[at..at + len], extent.offset)?;
        Ok(at)
    }
}

/// The file of an extent. Extents come of the index, which has no other shards.
fn shard(shards: &[Source], extent: Extent) -> &Source {
    &shards[usize::from(extent.shard)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::buffer::window;

    /// A file of bytes that tell their place, and one reader of each kind that opens here.
    fn readers(dir: &Path, len: usize) -> (Vec<u8>, Vec<Arc<dyn Reader>>) {
        let path = dir.join("shard");
        #[expect(clippy::cast_possible_truncation, reason = "a pattern")]
        let bytes: Vec<u8> = (0..len).map(|i| (i * 31 + i / 251) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let shards = [Source::open(&path).unwrap()];
        let readers = ReaderKind::ALL.into_iter().filter_map(|kind| open(&shards, Some(kind)).ok()).collect();
        (bytes, readers)
    }

    #[test]
    fn every_way_gives_the_same_bytes_from_any_offset() {
        // Not every file system of a temporary folder allows direct reads; the target folder's does more often.
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let (bytes, readers) = readers(dir.path(), 20_000);
        assert!(readers.len() >= 2);
        for reader in readers {
            for (offset, len) in
                [(0, 1), (1, 4096), (4095, 2), (4096, 8192), (8191, 9000), (19_999, 1), (0, 20_000)]
            {
                let mut buffer = Buffer::new(ALIGN + window(len)).unwrap();
                let extent = Extent { shard: 0, offset: offset as u64, len: len as u64 };
                let place = reader.read(extent, &mut buffer, ALIGN).unwrap();
                assert!(place.is_multiple_of(2) && place >= ALIGN, "{:?}", reader.kind());
                assert_eq!(
                    buffer[place..place + len],
                    bytes[offset..offset + len],
                    "{:?} {offset}",
                    reader.kind()
                );
            }
        }
    }

    #[test]
    fn a_file_that_shrinks_is_an_error_of_every_way() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let (_, readers) = readers(dir.path(), 50_000);
        std::fs::File::options().write(true).open(dir.path().join("shard")).unwrap().set_len(10_000).unwrap();
        for reader in readers {
            let mut buffer = Buffer::new(window(20_000)).unwrap();
            let inside = Extent { shard: 0, offset: 3, len: 9_000 };
            assert!(reader.read(inside, &mut buffer, 0).is_ok(), "{:?}", reader.kind());
            let across = Extent { shard: 0, offset: 3, len: 20_000 };
            let error = reader.read(across, &mut buffer, 0).unwrap_err().to_string();
            assert!(error.contains("ends early"), "{:?}: {error}", reader.kind());
        }
    }
}
