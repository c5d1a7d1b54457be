//! Files whose errors always name the path: whole small files, read and replaced, and positioned reads that loop over
//! short ones.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// One read never asks for more: some systems refuse 2 GiB and above.
const MAX_READ: usize = 1 << 30;

/// A file could not be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file ended early.
    #[error("{} ends early: wanted {wanted} bytes at offset {offset}, got {got}", path.display())]
    Short {
        /// The file.
        path: PathBuf,
        /// Where the read began.
        offset: u64,
        /// Bytes asked for.
        wanted: usize,
        /// Bytes there.
        got: usize,
    },
    /// The file is larger than anything it should hold.
    #[error("{} is {found} bytes long, more than the {limit} that such a file may have", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its length.
        found: u64,
        /// The most.
        limit: u64,
    },
}

impl Error {
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// Whether a file stands where the folder of this one should.
    pub fn is_in_no_folder(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotADirectory)
    }

    /// Whether the disk is full, or what of it this user may have.
    pub fn is_disk_full(&self) -> bool {
        let full = |kind| matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        matches!(self, Self::Io { source, .. } if full(source.kind()))
    }

    /// Whether the file is not there at all.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// A file open for positioned reads, from any thread.
#[derive(Debug)]
pub struct Source {
    file: File,
    path: PathBuf,
    len: u64,
}

impl Source {
    /// Opens `path`, which must be a regular file.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::open_with(path, None)
    }

    /// Opens `path` for reads that pass the page cache by. Where the system knows no such thing it refuses; where only
    /// the file system does not, it may refuse here or at the first read.
    #[cfg(target_os = "linux")]
    pub fn open_direct(path: &Path) -> Result<Self, Error> {
        Self::open_with(path, Some(rustix::fs::OFlags::DIRECT))
    }

    /// Opens `path` for reads that pass the page cache by: this system has none.
    #[cfg(not(target_os = "linux"))]
    pub fn open_direct(path: &Path) -> Result<Self, Error> {
        Err(Error::io("open", path)(io::ErrorKind::Unsupported.into()))
    }

    fn open_with(path: &Path, more: Option<rustix::fs::OFlags>) -> Result<Self, Error> {
        let mut options = File::options();
        options.read(true);
        // A named pipe that nobody writes to would keep the program here for ever; a file knows no waiting.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(
            &mut options,
            (rustix::fs::OFlags::NONBLOCK | more.unwrap_or(rustix::fs::OFlags::empty())).bits().cast_signed(),
        );
        let file = options.open(path).map_err(Error::io("open", path))?;
        let metadata = file.metadata().map_err(Error::io("look at", path))?;
        if !metadata.is_file() {
            return Err(Error::io("read", path)(io::Error::other("it is not a file")));
        }
        Ok(Self { file, path: path.to_owned(), len: metadata.len() })
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length in bytes when it was opened.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether it was empty when it was opened.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fills `buffer` from `offset`, over as many reads as it takes.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        self.read_pages(buffer, offset, 1, buffer.len())
    }

    /// Reads `buffer` from `offset`, but no less than `wanted` bytes: the rest may lie behind the end of the file. Every
    /// read begins at a multiple of `align` from `offset`, as direct reads must.
    pub fn read_pages(
        &self,
        buffer: &mut [u8],
        offset: u64,
        align: usize,
        wanted: usize,
    ) -> Result<(), Error> {
        let mut got = 0;
        while got < wanted {
            let begin = got / align * align;
            let end = buffer.len().min(begin + MAX_READ);
            match read_at(&self.file, &mut buffer[begin..end], offset + begin as u64) {
                Ok(n) if begin + n > got => got = begin + n,
                Ok(_) => return Err(Error::Short { path: self.path.clone(), offset, wanted, got }),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io("read", &self.path)(e)),
            }
        }
        Ok(())
    }

    /// Asks the system to drop what its cache holds of the file, and to read nothing from now on but what is asked for. A
    /// wish only: where the system knows no such thing nothing happens.
    pub fn forget(&self) {
        #[cfg(target_os = "linux")]
        for advice in [rustix::fs::Advice::DontNeed, rustix::fs::Advice::Random] {
            let _ = rustix::fs::fadvise(&self.file, 0, None, advice);
        }
    }

    /// Maps `buffer.len()` bytes from `offset` and copies them out. The map lives no longer than the copy, so that what
    /// it holds does not count as this process's memory for long.
    #[expect(unsafe_code, reason = "a file map may change under its reader")]
    pub fn copy_mapped(&self, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        let wanted = buffer.len();
        let now = self.file.metadata().map_err(Error::io("look at", &self.path))?.len();
        if offset.checked_add(wanted as u64).is_none_or(|end| end > now) {
            let got = usize::try_from(now.saturating_sub(offset)).unwrap_or(wanted).min(wanted);
            return Err(Error::Short { path: self.path.clone(), offset, wanted, got });
        }
        if wanted == 0 {
            return Ok(());
        }
        // SAFETY: the map is only copied out of, into memory of our own, so bytes that change meanwhile are at worst
        // wrong bytes. A file that shrinks would end the process at the touch of a page behind its end, which is why its
        // length was looked at just now.
        let map = unsafe { memmap2::MmapOptions::new().offset(offset).len(wanted).map(&self.file) }
            .map_err(Error::io("map", &self.path))?;
        // A page that cannot be read is an error here, where it would end the process at the touch below. Systems that do
        // not know this advice call it bad, and have the touch.
        #[cfg(target_os = "linux")]
        if let Err(error) = map.advise(memmap2::Advice::PopulateRead)
            && error.kind() != io::ErrorKind::InvalidInput
        {
            return Err(Error::io("read", &self.path)(error));
        }
        buffer.copy_from_slice(&map);
        Ok(())
    }
}

#[cfg(unix)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, offset)
}

/// The whole of a small file; one over `limit` bytes is refused before it is read.
pub fn read_small(path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    let source = Source::open(path)?;
    let len = source.len();
    if len > limit {
        return Err(Error::TooLarge { path: path.to_owned(), found: len, limit });
    }
    let too_large = |_| Error::TooLarge { path: path.to_owned(), found: len, limit };
    let len = usize::try_from(len).map_err(too_large)?;
    let mut bytes = vec![0; len];
    source.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Writes `path`, whole or not at all, and makes the folders above it where there are none: the content is written beside
/// it, through to the disk, and renamed there.
pub fn replace(path: &Path, content: &[u8]) -> Result<(), Error> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
    }
    // The process id keeps two programs apart, the counter two threads.
    let suffix = format!("{}-{}.tmp", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let temporary = path.with_added_extension(suffix);
    let written = write_whole(&temporary, content)
        .and_then(|()| fs::rename(&temporary, path).map_err(Error::io("replace", path)));
    if written.is_err() {
        // Nothing can be done about a second failure, and the first one is reported.
        let _ = fs::remove_file(&temporary);
    }
    // The name is on the disk when its folder is. Systems that cannot flush a folder do it on their own.
    let _ = path.parent().map(|folder| File::open(folder).and_then(|folder| folder.sync_all()));
    written
}

fn write_whole(path: &Path, content: &[u8]) -> Result<(), Error> {
    let mut file = File::create(path).map_err(Error::io("create", path))?;
    file.write_all(content).map_err(Error::io("write", path))?;
    // Else a power loss after the rename could leave an empty file under the right name.
    file.sync_all().map_err(Error::io("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/folder/f");
        for content in [&b"one"[..], b"", b"three"] {
            replace(&path, content).unwrap();
            assert_eq!(fs::read(&path).unwrap(), content);
        }
        // A folder in its place: fails for root too, which permissions do not.
        fs::create_dir(dir.path().join("folder")).unwrap();
        fs::write(dir.path().join("folder/x"), b"").unwrap();
        let error = replace(&dir.path().join("folder"), b"").unwrap_err().to_string();
        assert!(error.starts_with("cannot replace"), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing is left behind");
    }

    #[test]
    fn a_short_file_says_what_was_wanted_and_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("shard");
        fs::write(&path, [7; 10]).unwrap();
        let source = Source::open(&path).unwrap();
        let mut buffer = [0; 8];
        source.read_exact_at(&mut buffer, 2).unwrap();
        assert_eq!(buffer, [7; 8]);
        let error = source.read_exact_at(&mut buffer, 6).unwrap_err().to_string();
        assert!(error.contains("shard ends early: wanted 8 bytes at offset 6, got 4"), "{error}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_pipe_that_nobody_writes_to_is_refused_at_once() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let (send, opened) = std::sync::mpsc::channel();
        let open = move || send.send(Source::open(&path).map_err(|error| error.to_string()));
        std::thread::Builder::new().name("open".to_owned()).spawn(open).unwrap();
        let opened = opened.recv_timeout(std::time::Duration::from_secs(10)).unwrap();
        assert!(opened.unwrap_err().ends_with("config.json: it is not a file"));
    }

    #[test]
    fn small_files_have_a_limit_and_folders_are_no_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        fs::write(&path, b"{}").unwrap();
        assert_eq!(read_small(&path, 2).unwrap(), b"{}");
        assert!(matches!(read_small(&path, 1), Err(Error::TooLarge { found: 2, limit: 1, .. })));
        assert!(read_small(dir.path(), 1).unwrap_err().to_string().contains("not a file"));
        assert!(read_small(&dir.path().join("none"), 1).unwrap_err().is_not_found());
    }
}
