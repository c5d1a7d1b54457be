//! A new file, written from front to back and past the page cache where the file system allows it: what is written once
//! and seldom read should push nothing out of memory.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::buffer::{ALIGN, Buffer};
use super::file::Error;
use super::private;

/// Bytes that are written at once: direct writes of one mebibyte were a third slower.
const AT_ONCE: usize = 4 << 20;

/// A file that is being written. It is locked for as long, so that one whose writer has died can be told from it.
#[derive(Debug)]
pub struct Sink {
    file: File,
    path: PathBuf,
    buffer: Buffer,
    filled: usize,
    /// Bytes before those in the buffer.
    at: u64,
    direct: bool,
}

impl Sink {
    /// A new file that no other user may read. One that is there already is an error.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let buffer = Buffer::new(AT_ONCE).map_err(Error::io("make a buffer for", path))?;
        let file =
            private::options().create_new(true).write(true).open(path).map_err(Error::io("make", path))?;
        // Where there are no locks nothing is taken for left behind either.
        let _ = file.try_lock();
        let direct = set_direct(&file, true);
        Ok(Self { file, path: path.to_owned(), buffer, filled: 0, at: 0, direct })
    }

    /// Adds bytes at the end.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut bytes = bytes;
        while !bytes.is_empty() {
            let room = self.buffer.len() - self.filled;
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.buffer[self.filled..self.filled + now.len()].copy_from_slice(now);
            self.filled += now.len();
            if self.filled == self.buffer.len() {
                self.drain()?;
            }
            bytes = later;
        }
        Ok(())
    }

    /// Puts `first` in place of the first page, and ends the file: when this returns, all of it is on the disk. Gives its
    /// length.
    pub fn finish(mut self, first: &[u8; ALIGN]) -> Result<u64, Error> {
        self.drain()?;
        let len = self.at;
        self.at = 0;
        self.write(first)?;
        self.drain()?;
        self.file.set_len(len).and_then(|()| self.file.sync_all()).map_err(Error::io("write", &self.path))?;
        if !self.direct {
            forget(&self.file);
        }
        Ok(len)
    }

    /// Writes what the buffer holds: whole pages, of which the last may hold more than belongs to the file.
    fn drain(&mut self) -> Result<(), Error> {
        let pages = self.filled.next_multiple_of(ALIGN);
        self.buffer[self.filled..pages].fill(0);
        let mut written = write_all_at(&self.file, &self.buffer[..pages], self.at);
        if self.direct && written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput) {
            // Some file systems refuse only the write.
            self.direct = false;
            set_direct(&self.file, false);
            written = write_all_at(&self.file, &self.buffer[..pages], self.at);
        }
        written.map_err(Error::io("write", &self.path))?;
        self.at += self.filled as u64;
        self.filled = 0;
        Ok(())
    }
}

/// Whether writes pass the page cache by from now on, as was asked.
#[cfg(target_os = "linux")]
fn set_direct(file: &File, direct: bool) -> bool {
    use rustix::fs::{OFlags, fcntl_setfl};
    let flags = if direct { OFlags::DIRECT } else { OFlags::empty() };
    fcntl_setfl(file, flags).is_ok() && direct
}

#[cfg(not(target_os = "linux"))]
fn set_direct(_file: &File, _direct: bool) -> bool {
    false
}

/// Asks the system to drop what its cache holds of a file that is on the disk. A wish only.
fn forget(file: &File) {
    #[cfg(target_os = "linux")]
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
    #[cfg(not(target_os = "linux"))]
    let _ = file;
}

#[cfg(unix)]
fn write_all_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(windows)]
fn write_all_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        done += std::os::windows::fs::FileExt::seek_write(file, &bytes[done..], at + done as u64)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_bytes_and_its_length_wherever_it_lies() {
        // One of the two folders may refuse to pass the page cache by.
        for dir in [tempfile::tempdir().unwrap(), tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap()] {
            for len in [0, 1, 4096, AT_ONCE - ALIGN, AT_ONCE, 2 * AT_ONCE + 5000] {
                let path = dir.path().join(format!("file-{len}"));
                let mut sink = Sink::create(&path).unwrap();
                assert!(Sink::create(&path).is_err(), "it is there already");
                #[expect(clippy::cast_possible_truncation, reason = "a pattern")]
                let bytes: Vec<u8> = (0..len).map(|i| (i * 31 + i / 251) as u8).collect();
                sink.write(&[0; ALIGN]).unwrap();
                for piece in bytes.chunks(70_001) {
                    sink.write(piece).unwrap();
                }
                assert_eq!(sink.finish(&[7; ALIGN]).unwrap(), (ALIGN + len) as u64);
                let found = std::fs::read(&path).unwrap();
                assert!(found[..ALIGN] == [7; ALIGN] && found[ALIGN..] == bytes, "{len} bytes");
            }
        }
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_may_read_it_and_it_is_locked_while_it_is_written() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let sink = Sink::create(&path).unwrap();
        let other = File::open(&path).unwrap();
        assert_eq!(other.metadata().unwrap().mode() & 0o777, 0o600);
        assert!(other.try_lock().is_err());
        drop(sink);
        assert!(other.try_lock().is_ok());
    }
}
