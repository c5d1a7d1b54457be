//! A file to measure with, where there is no model to read.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::Error;
use crate::units::Bytes;

/// Written at once.
const BLOCK: usize = 4 << 20;

/// A file of random bytes that is deleted when this is dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Writes `size` bytes into a new file in `folder`, through to the disk: bytes that no disk and no file system can
    /// make smaller. `progress` is told of bytes done and in all, and stops it by returning `false`.
    pub fn create(
        folder: &Path,
        size: Bytes,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Self, Error> {
        let path = folder.join(format!(".dormouse-bench-{}.tmp", std::process::id()));
        let failed = |source: io::Error| Error::System {
            what: format!("cannot write {} to {}", size, path.display()),
            source,
        };
        let mut file = File::create_new(&path).map_err(failed)?;
        // From here on the file is ours to delete.
        let scratch = Self(path.clone());
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut block = vec![0; BLOCK];
        let mut done = 0;
        while done < size.0 {
            if !progress(done, size.0) {
                return Err(Error::Stopped);
            }
            for word in block.as_chunks_mut::<8>().0 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                *word = state.to_le_bytes();
            }
            let len = usize::try_from(size.0 - done).map_or(BLOCK, |left| left.min(BLOCK));
            file.write_all(&block[..len]).map_err(failed)?;
            done += len as u64;
        }
        file.sync_all().map_err(failed)?;
        Ok(scratch)
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Whoever could not delete it will find it by its name.
        let _ = fs::remove_file(&self.0);
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
        drop(scratch);
        assert!(matches!(Scratch::create(dir.path(), Bytes(1), &mut |_, _| false), Err(Error::Stopped)));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");
        assert!(Scratch::create(&dir.path().join("none"), Bytes(1), &mut |_, _| true).is_err());
    }
}
