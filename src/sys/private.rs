//! Files and folders that no other user may read: conversations are private.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

/// How a private file is opened where it is made.
pub fn options() -> OpenOptions {
    let mut options = File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes a private folder, with those above it, where it is not there yet.
pub fn make_dir(dir: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

/// Flushes a folder: a new name is on the disk when its folder is. Systems that cannot do it do it on their own.
pub fn sync_dir(dir: &Path) {
    let _ = File::open(dir).and_then(|dir| dir.sync_all());
}
