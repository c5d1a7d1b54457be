//! A file to measure with, where there is no model to read.
//!
//! On Linux it loses its name as soon as it is open: then it is gone when the program is, however that ends.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::Error;
use crate::units::Bytes;

/// Written at once.
const BLOCK: usize = 4 << 20;

/// So much is written before it is made sure that it has come to the disk: else all of it would wait for the end.
const SAFE: u64 = 64 << 20;

/// A file of random bytes that is deleted when this is dropped.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// Keeps a file that has no name.
    held: File,
}

/// Whether more of a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Yes.
    Write,
    /// No: what is there will do.
    Enough,
    /// No: nobody wants it any more.
    Stop,
}

impl Scratch {
    /// Writes `size` bytes into a new file in `folder`, through to the disk: bytes that no disk and no file system can
    /// make smaller. `progress` is told of bytes done and in all, and stops it by returning `false`.
    pub fn create(
        folder: &Path,
        size: Bytes,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Self, Error> {
        let mut next = |done| if progress(done, size.0) { Next::Write } else { Next::Stop };
        Self::create_within(folder, size, &mut next)
    }

    /// The same with less than `size` bytes, if `next` says so of the bytes that are done: it is asked often.
    pub fn create_within(
        folder: &Path,
        size: Bytes,
        next: &mut dyn FnMut(u64) -> Next,
    ) -> Result<Self, Error> {
        let path = folder.join(format!(".dormouse-bench-{}.tmp", std::process::id()));
        let failed = |source: io::Error| Error::System {
            what: format!("cannot write {} to {}", size, folder.display()),
            source,
        };
        let file = File::options().read(true).write(true).create_new(true).open(&path).map_err(failed)?;
        // From here on the file is ours to delete.
        let mut scratch = Self { path, held: file };
        scratch.lose_name();
        scratch.fill(size, next, &failed)?;
        Ok(scratch)
    }

    /// Takes the name away where the file can be opened without it.
    #[cfg(target_os = "linux")]
    fn lose_name(&mut self) {
        let number = std::os::fd::AsRawFd::as_raw_fd(&self.held);
        let other = PathBuf::from(format!("/proc/self/fd/{number}"));
        if other.exists() && fs::remove_file(&self.path).is_ok() {
            self.path = other;
        }
    }

    /// Other systems open files by their names alone.
    #[cfg(not(target_os = "linux"))]
    fn lose_name(&mut self) {}

    fn fill(
        &mut self,
        size: Bytes,
        next: &mut dyn FnMut(u64) -> Next,
        failed: &dyn Fn(io::Error) -> Error,
    ) -> Result<(), Error> {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut block = vec![0; BLOCK];
        let (mut done, mut safe) = (0, 0);
        while done < size.0 {
            match next(done) {
                Next::Write => {}
                Next::Enough => break,
                Next::Stop => return Err(Error::Stopped),
            }
            for word in block.as_chunks_mut::<8>().0 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                *word = state.to_le_bytes();
            }
            let len = usize::try_from(size.0 - done).map_or(BLOCK, |left| left.min(BLOCK));
            self.held.write_all(&block[..len]).map_err(failed)?;
            done += len as u64;
            if done - safe >= SAFE {
                self.held.sync_data().map_err(failed)?;
                safe = done;
            }
        }
        self.held.sync_all().map_err(failed)
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Without a name there is nothing to delete, and the system says so. Whoever could not delete one will find it.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_there_as_long_as_it_is_held() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = Scratch::create(dir.path(), Bytes(5_000_001), &mut |_, _| true).unwrap();
        let bytes = fs::read(scratch.path()).unwrap();
        assert_eq!(bytes.len(), 5_000_001);
        assert!(bytes.chunks_exact(64).all(|chunk| chunk.iter().any(|byte| *byte != 0)));
        #[cfg(target_os = "linux")]
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "a kill would leave nothing behind");
        drop(scratch);
        let mut asked = 0;
        let part = Scratch::create_within(dir.path(), Bytes(1 << 40), &mut |done| {
            asked += 1;
            if done < 9_000_000 { Next::Write } else { Next::Enough }
        });
        assert_eq!(fs::metadata(part.unwrap().path()).unwrap().len(), 3 * BLOCK as u64);
        assert!(matches!(Scratch::create(dir.path(), Bytes(1), &mut |_, _| false), Err(Error::Stopped)));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");
        assert!(Scratch::create(&dir.path().join("none"), Bytes(1), &mut |_, _| true).is_err());
    }
}
