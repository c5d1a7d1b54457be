//! What can be said of a folder before a terabyte is put there.

use std::path::{Path, PathBuf};

use crate::checkpoint::Checkpoint;
use crate::setup::download;
use crate::sys::disk;

/// What a folder holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Nothing that matters, or there is no such folder yet.
    Nothing,
    /// A download that was begun.
    Begun,
    /// A download whose every file was right when it was last looked at.
    Complete,
    /// A model that came some other way: its files are all there, by their lengths.
    Model,
    /// It is no folder at all.
    NoFolder,
    /// It cannot be looked at or written to.
    Closed,
}

/// A look at a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// What is in it.
    pub holds: Holds,
    /// Bytes free on the file system where it lies or will lie; nothing where that cannot be told.
    pub free: Option<u64>,
    /// The nearest folder that exists.
    pub nearest: PathBuf,
}

impl Look {
    /// Looks at `folder`. Writes nothing.
    pub(super) fn at(folder: &Path) -> Self {
        let room = disk::room(folder).ok();
        let nearest = room.as_ref().map_or_else(|| folder.to_owned(), |room| room.place.clone());
        let holds = if folder.exists() && !folder.is_dir() || !nearest.is_dir() {
            Holds::NoFolder
        } else if folder.is_dir() && std::fs::read_dir(folder).is_err() || !may_write(&nearest) {
            // A model on a disk that is only read is as good as any.
            if Checkpoint::open(folder).is_ok() { Holds::Model } else { Holds::Closed }
        } else {
            match download::is_complete(folder) {
                Some(true) => Holds::Complete,
                Some(false) => Holds::Begun,
                None if Checkpoint::open(folder).is_ok() => Holds::Model,
                None => Holds::Nothing,
            }
        };
        Self { holds, free: room.map(|room| room.free), nearest }
    }
}

/// Whether this user may write there, as far as the system tells without trying.
fn may_write(folder: &Path) -> bool {
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok()
}

/// What was typed as a path: a leading `~` is the user's home. Nothing where it names no folder, or one that depends on
/// where the program was started.
pub(super) fn folder(typed: &str, home: Option<&Path>) -> Option<PathBuf> {
    let typed = typed.trim();
    let path = match (typed.strip_prefix('~'), home) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
            home.join(rest.trim_start_matches('/'))
        }
        _ => PathBuf::from(typed),
    };
    path.is_absolute().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_typed_becomes_a_path() {
        let home = Some(Path::new("/home/mouse"));
        let path = |typed| folder(typed, home).map(|path| path.display().to_string());
        assert_eq!(path(" /data/k3 ").as_deref(), Some("/data/k3"));
        assert_eq!(path("~/my models/k3 è").as_deref(), Some("/home/mouse/my models/k3 è"));
        assert_eq!(path("~").as_deref(), Some("/home/mouse/"));
        assert_eq!(path("~other/k3"), None);
        assert_eq!(path("k3"), None, "where would that be?");
        assert_eq!(path("  "), None);
    }

    #[test]
    fn a_look_tells_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let look = Look::at(&dir.path().join("not/yet"));
        assert_eq!((look.holds, look.nearest.as_path()), (Holds::Nothing, dir.path()));
        assert!(look.free.unwrap() > 0);
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert_eq!(Look::at(&dir.path().join("file")).holds, Holds::NoFolder);
        assert_eq!(Look::at(&dir.path().join("file/below")).holds, Holds::NoFolder);
        assert_eq!(Look::at(dir.path()).holds, Holds::Nothing);
        let nano = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/nano");
        assert_eq!(Look::at(&nano).holds, Holds::Model);
        let record = |complete| {
            let text = format!(r#"{{"repo":"o/n","revision":"main","commit":"c","complete":{complete}}}"#);
            std::fs::write(dir.path().join(".dormouse-download.json"), text).unwrap();
        };
        record(false);
        assert_eq!(Look::at(dir.path()).holds, Holds::Begun);
        record(true);
        assert_eq!(Look::at(dir.path()).holds, Holds::Complete);
    }
}
