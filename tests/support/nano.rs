//! The small model as it lies in the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// Its folder.
pub(crate) fn nano() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/nano")
}

/// A copy that a test may damage.
pub(crate) fn copy_of_nano() -> tempfile::TempDir {
    copy_of(&nano())
}

/// A copy of the files in a folder.
pub(crate) fn copy_of(folder: &Path) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
        }
    }
    dir
}
