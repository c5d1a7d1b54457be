//! One state in one file.

use std::path::Path;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::{Error, Tokens};
use crate::checkpoint::ModelConfig;
use crate::engine::shelf::{Kept, Start};
use crate::model::State;
use crate::protocol::ReusedFrom;
use crate::sys::buffer::{ALIGN, Buffer, usize_of};
use crate::sys::file::{self, Source};
use crate::sys::sink::Sink;

const MAGIC: [u8; 16] = *b"dormouse state\0\0";

/// To be raised with every change of the format, and with every one of the arithmetic that changes a bit.
const VERSION: u32 = 1;

/// Bytes that are read at once.
const AT_ONCE: usize = 4 << 20;

/// Where the checksum of the first page stands: at its end.
const CHECK_AT: usize = ALIGN - 8;

/// What the first page tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Which model the state is of.
    pub(super) model: u64,
    /// What it has seen.
    pub(super) seen: Tokens,
    /// The whole prompt of the turn in which it was kept.
    pub(super) prompt: Tokens,
    /// How many logits of its last token there are: one for each id, or none.
    logits: u64,
    /// Checksum of all after the first page.
    check: u64,
}

impl Header {
    fn page(self) -> [u8; ALIGN] {
        let mut page = [0; ALIGN];
        let Self { model, seen, prompt, logits, check } = self;
        let numbers = [model, seen.count, seen.digest, prompt.count, prompt.digest, logits, check];
        let (head, numbers_at) = page.split_at_mut(24);
        head[..16].copy_from_slice(&MAGIC);
        head[16..20].copy_from_slice(&VERSION.to_le_bytes());
        for (place, number) in numbers_at.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let sum = xxh3_64(&page[..CHECK_AT]);
        page[CHECK_AT..].copy_from_slice(&sum.to_le_bytes());
        page
    }

    fn of_page(page: &[u8], path: &Path) -> Result<Self, Error> {
        let damaged = |what| Error::Damaged { path: path.to_owned(), what };
        let word = |at: usize| -> Result<u64, Error> {
            let bytes = page.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u64::from_le_bytes).ok_or_else(|| damaged("it is too short"))
        };
        if !page.starts_with(&MAGIC) {
            return Err(damaged("it does not begin as a state does"));
        }
        #[expect(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
        let version = word(16)? as u32;
        if version != VERSION {
            return Err(Error::Version { path: path.to_owned(), version, known: VERSION });
        }
        if page.get(..CHECK_AT).map(xxh3_64) != Some(word(CHECK_AT)?) {
            return Err(damaged("its first page is not as it was written"));
        }
        Ok(Self {
            model: word(24)?,
            seen: Tokens { count: word(32)?, digest: word(40)? },
            prompt: Tokens { count: word(48)?, digest: word(56)? },
            logits: word(64)?,
            check: word(72)?,
        })
    }

    /// Reads it alone.
    pub(super) fn read(path: &Path) -> Result<Self, Error> {
        let mut page = [0; ALIGN];
        let source = Source::open(path)?;
        source.read_exact_at(&mut page, 0)?;
        Self::of_page(&page, path)
    }
}

/// What is written.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) model: u64,
    pub(super) prompt: Tokens,
    pub(super) kept: Kept,
    /// Of its last token, or none.
    pub(super) logits: Vec<f32>,
}

impl Content {
    /// Bytes of the file.
    pub(super) fn bytes(&self, config: &ModelConfig) -> u64 {
        let words = self.kept.ids.len() as u64 + self.logits.len() as u64;
        ALIGN as u64 + 4 * (words + State::floats(config, self.kept.ids.len()))
    }

    /// Writes it into a new file, through to the disk. Gives its length.
    pub(super) fn write(self, path: &Path) -> Result<u64, file::Error> {
        let Self { model, prompt, kept: Kept { ids, state }, logits } = self;
        let mut sink = Sink::create(path)?;
        sink.write(&[0; ALIGN])?;
        let mut hash = Xxh3::new();
        let mut put = |bytes: &[u8]| {
            hash.update(bytes);
            sink.write(bytes)
        };
        put(bytemuck::cast_slice(&ids))?;
        put(bytemuck::cast_slice(&logits))?;
        for piece in state.pieces() {
            put(bytemuck::cast_slice(piece))?;
        }
        let seen = Tokens::of(&ids);
        let header = Header { model, seen, prompt, logits: logits.len() as u64, check: hash.digest() };
        sink.finish(&header.page())
    }
}

/// Reads the state that has seen exactly `ids`. Every byte of the file is checked, and what it says it is.
pub(super) fn read(path: &Path, model: u64, ids: &[u32], config: &ModelConfig) -> Result<Start, Error> {
    let damaged = |what| Error::Damaged { path: path.to_owned(), what };
    let mut reader = Reader::open(path)?;
    let header = Header::of_page(reader.first(ALIGN)?, path)?;
    if header.model != model {
        return Err(Error::OtherModel { path: path.to_owned() });
    }
    if header.seen != Tokens::of(ids) {
        return Err(Error::OtherTokens { path: path.to_owned() });
    }
    if header.logits != 0 && header.logits != config.vocabulary as u64 {
        return Err(damaged("it has logits of another vocabulary"));
    }
    let words = ids.len() as u64 + header.logits + State::floats(config, ids.len());
    if reader.source.len() != ALIGN as u64 + 4 * words {
        return Err(damaged("its length does not fit its model"));
    }
    let mut found = vec![0_u32; ids.len()];
    reader.fill(bytemuck::cast_slice_mut(&mut found))?;
    if found != ids {
        return Err(Error::OtherTokens { path: path.to_owned() });
    }
    let mut logits = vec![0.0_f32; usize_of(header.logits)];
    reader.fill(bytemuck::cast_slice_mut(&mut logits))?;
    let state = State::from_pieces(config, ids.len(), |piece| reader.fill(bytemuck::cast_slice_mut(piece)))?;
    if reader.hash.digest() != header.check {
        return Err(damaged("its content is not as it was written"));
    }
    let logits = (!logits.is_empty()).then_some(logits);
    Ok(Start { kept: Kept { ids: found, state }, logits, from: Some(ReusedFrom::Disk) })
}

/// Reads a file from front to back, past the page cache where the file system allows it.
struct Reader {
    source: Source,
    buffer: Buffer,
    /// Where in the file the buffer begins, what of it was read, and what of that was given out.
    at: u64,
    filled: usize,
    given: usize,
    /// Of all that [`Reader::fill`] gave.
    hash: Xxh3,
}

impl Reader {
    fn open(path: &Path) -> Result<Self, file::Error> {
        let buffer = Buffer::new(AT_ONCE).map_err(|source| file::Error::Io {
            action: "make a buffer for",
            path: path.to_owned(),
            source,
        })?;
        let new = |source, buffer| Self { source, buffer, at: 0, filled: 0, given: 0, hash: Xxh3::new() };
        if let Ok(source) = Source::open_direct(path) {
            let mut reader = new(source, buffer);
            // Some file systems refuse only the read.
            if reader.next().is_ok() {
                return Ok(reader);
            }
            return Ok(new(Source::open(path)?, reader.buffer));
        }
        Ok(new(Source::open(path)?, buffer))
    }

    /// Reads the next bytes, all before which were given out.
    fn next(&mut self) -> Result<(), file::Error> {
        self.at += self.filled as u64;
        (self.filled, self.given) = (0, 0);
        let left = usize_of(self.source.len().saturating_sub(self.at)).min(self.buffer.len());
        // Even of nothing: a file that is too short says so itself.
        let wanted = left.max(1);
        let pages = wanted.next_multiple_of(ALIGN);
        self.source.read_pages(&mut self.buffer[..pages], self.at, ALIGN, wanted)?;
        self.filled = wanted;
        Ok(())
    }

    /// The first `len` bytes, which count for no checksum here.
    fn first(&mut self, len: usize) -> Result<&[u8], file::Error> {
        if self.filled == 0 {
            self.next()?;
        }
        self.given = len.min(self.filled);
        Ok(&self.buffer[..self.given])
    }

    fn fill(&mut self, out: &mut [u8]) -> Result<(), file::Error> {
        let mut done = 0;
        while done < out.len() {
            if self.given == self.filled {
                self.next()?;
            }
            let now = (out.len() - done).min(self.filled - self.given);
            out[done..done + now].copy_from_slice(&self.buffer[self.given..self.given + now]);
            self.given += now;
            done += now;
        }
        self.hash.update(out);
        Ok(())
    }
}
