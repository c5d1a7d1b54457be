//! The small model as it lies in the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// Its folder.
pub(crate) fn nano() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/nano")
}

/// A copy that a test may damage.
pub(crate) fn copy_of_nano() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(nano()).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
    }
    dir
}
