//! File systems: how much room there is.

use std::io;
use std::path::{Path, PathBuf};

/// Room on the file system where a path lies or will lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// The path itself, or the nearest folder above it that exists.
    pub place: PathBuf,
    /// Bytes that this user may still write.
    pub free: u64,
    /// Bytes in all.
    pub total: u64,
}

/// The room for `path`, which need not exist yet.
pub fn room(path: &Path) -> io::Result<Room> {
    let mut place = std::path::absolute(path)?;
    // A dangling link counts as missing here: what lies above it is where it stands, not where it leads.
    while !place.exists() && place.pop() {}
    let found = rustix::fs::statvfs(&place)?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Ok(Room { free: bytes(found.f_bavail), total: bytes(found.f_blocks), place })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d24_a_folder_that_is_missing_lies_where_the_one_above_it_does() {
        let dir = tempfile::tempdir().unwrap();
        let room = room(&dir.path().join("not/yet/there")).unwrap();
        assert_eq!(room.place, dir.path());
        assert!(room.total > 0 && room.free <= room.total);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn d24_other_file_systems_are_told_apart() {
        let (proc, dir) = (room(Path::new("/proc/none")).unwrap(), tempfile::tempdir().unwrap());
        assert_eq!((proc.place.as_path(), proc.free), (Path::new("/proc"), 0));
        assert_ne!(room(dir.path()).unwrap().total, proc.total);
    }
}
