//! All sessions of a user.

use std::fs::{self, File, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::Error;
use super::content::{Content, Damage, Session, read};
use super::journal::Journal;
use super::record::{Header, Record, frame, head};
use crate::sys::{file, private};

/// What a journal's name ends with.
const SUFFIX: &str = ".journal";
/// Letters of a name.
const LONGEST_ID: usize = 64;
/// A journal of this length would hold fifty million tokens.
const LIMIT: u64 = 1 << 30;

/// The folder in which the sessions lie.
#[derive(Clone, Debug)]
pub struct Folder {
    dir: PathBuf,
}

/// A session that is open for writing. No other program can open it as well.
#[derive(Debug)]
pub struct Opened {
    /// What it holds so far.
    pub session: Session,
    /// What of it could not be used, and lies in `ID.lost` now.
    pub damage: Option<Damage>,
    /// What more is written to.
    pub journal: Journal,
}

/// A session as a list shows it.
#[derive(Debug)]
pub struct Entry {
    /// Its name.
    pub id: String,
    /// When it was written last, in seconds since 1970.
    pub changed: u64,
    /// What it holds and what of it cannot be used; or why nothing of it can.
    pub content: Result<(Session, Option<Damage>), Error>,
}

impl Folder {
    /// The folder at this path, which need not be there yet.
    pub const fn at(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Where the sessions lie.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the journal of a session lies.
    pub fn path(&self, id: &str) -> Result<PathBuf, Error> {
        let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if id.is_empty() || id.len() > LONGEST_ID || id.starts_with('.') || !id.chars().all(letters) {
            return Err(Error::Id { id: id.to_owned() });
        }
        Ok(self.dir.join(format!("{id}{SUFFIX}")))
    }

    /// All sessions, the one that was written last first; also those that cannot be read.
    pub fn list(&self) -> Result<Vec<Entry>, Error> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::io("list", &self.dir)(error)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(Error::io("list", &self.dir))?;
            let name = entry.file_name();
            let Some(id) = name.to_str().and_then(|name| name.strip_suffix(SUFFIX)) else { continue };
            if self.path(id).is_err() {
                continue;
            }
            let changed = entry.metadata().and_then(|metadata| metadata.modified());
            let order = changed.unwrap_or(UNIX_EPOCH);
            let content = self.read(id);
            found.push((order, Entry { id: id.to_owned(), changed: unix(order), content }));
        }
        found.sort_by(|(a, one), (b, other)| b.cmp(a).then_with(|| one.id.cmp(&other.id)));
        Ok(found.into_iter().map(|(_, entry)| entry).collect())
    }

    /// Reads a session without opening it for writing: another program may be writing it.
    pub fn read(&self, id: &str) -> Result<(Session, Option<Damage>), Error> {
        let Content { session, damage, .. } = self.content(id)?;
        Ok((session, damage))
    }

    fn content(&self, id: &str) -> Result<Content, Error> {
        let path = self.path(id)?;
        let bytes = file::read_small(&path, LIMIT).map_err(|error| self.missing(id, error))?;
        read(&bytes, &path)
    }

    fn missing(&self, id: &str, error: file::Error) -> Error {
        if error.is_not_found() {
            Error::Missing { id: id.to_owned(), dir: self.dir.clone() }
        } else {
            error.into()
        }
    }

    /// Makes a session. It is on the disk, whole, when this returns.
    pub fn create(&self, id: &str, header: Header) -> Result<Opened, Error> {
        let path = self.path(id)?;
        private::make_dir(&self.dir).map_err(Error::io("make", &self.dir))?;
        if path.exists() {
            return Err(Error::Exists { id: id.to_owned() });
        }
        let mut bytes = head();
        frame(0, &Record::Header(header).body(), &mut bytes);
        // Under its own name it is never seen half written.
        let new = self.dir.join(format!(".{id}.{}.new", std::process::id()));
        let made = private::options().create_new(true).write(true).open(&new).and_then(|mut file| {
            file.write_all(&bytes)?;
            file.sync_all()
        });
        let made = made.and_then(|()| fs::rename(&new, &path));
        if let Err(error) = made {
            let _ = fs::remove_file(&new);
            return Err(Error::io("write", &path)(error));
        }
        private::sync_dir(&self.dir);
        self.open(id)
    }

    /// Opens a session for writing. What of it cannot be used is moved to `ID.lost` first.
    pub fn open(&self, id: &str) -> Result<Opened, Error> {
        let path = self.path(id)?;
        let opened = File::options().read(true).write(true).open(&path);
        let mut file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::Missing { id: id.to_owned(), dir: self.dir.clone() },
            _ => Error::io("open", &path)(error),
        })?;
        lock(&file, id, &path)?;
        // Read under the lock, so that nobody adds to it meanwhile.
        let Content { session, whole, check, damage } = self.content(id)?;
        if damage.is_some() {
            self.rescue(id, &mut file, whole)?;
            file.set_len(whole).and_then(|()| file.sync_all()).map_err(Error::io("cut", &path))?;
        }
        file.seek(SeekFrom::Start(whole)).map_err(Error::io("write", &path))?;
        let journal = Journal::append_to(file, check).map_err(Error::io("write", &path))?;
        Ok(Opened { session, damage, journal })
    }

    /// Copies what of a journal cannot be used to the end of `ID.lost`.
    fn rescue(&self, id: &str, journal: &mut File, whole: u64) -> Result<(), Error> {
        let path = self.dir.join(format!("{id}.lost"));
        let copied = journal.seek(SeekFrom::Start(whole)).and_then(|_at| {
            let mut lost = private::options().create(true).append(true).open(&path)?;
            io::copy(journal, &mut lost)?;
            lost.sync_all()
        });
        copied.map_err(Error::io("write", &path))
    }

    /// Deletes a session for good, with what was lost of it.
    pub fn delete(&self, id: &str) -> Result<(), Error> {
        let path = self.path(id)?;
        let file = File::open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::Missing { id: id.to_owned(), dir: self.dir.clone() },
            _ => Error::io("open", &path)(error),
        })?;
        lock(&file, id, &path)?;
        fs::remove_file(&path).map_err(Error::io("delete", &path))?;
        match fs::remove_file(self.dir.join(format!("{id}.lost"))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("delete", &path)(error)),
            _ => Ok(()),
        }
    }
}

fn lock(file: &File, id: &str, path: &Path) -> Result<(), Error> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(Error::InUse { id: id.to_owned() }),
        // Some file systems know no locks; then the user is trusted.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        Err(TryLockError::Error(error)) => Err(Error::io("lock", path)(error)),
    }
}

fn unix(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Channel, Limits, Thinking};
    use crate::session::{TurnStart, unix_now};

    fn header() -> Header {
        Header { model: 7, folder: "/m".to_owned(), name: "m".to_owned(), created: unix_now() }
    }

    fn turn(user: &str) -> Record {
        Record::Turn(TurnStart {
            user: user.to_owned(),
            thinking: Thinking::Low,
            temperature: 0.0,
            top_p: 1.0,
            seed: 1,
            max_tokens: None,
            limits: Limits::default(),
            at: 1,
        })
    }

    #[test]
    fn what_is_written_is_read_and_gone_on_with() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::at(dir.path().join("a/sessions"));
        assert!(folder.list().unwrap().is_empty());
        assert!(matches!(folder.open("one"), Err(Error::Missing { .. })));
        let opened = folder.create("one", header()).unwrap();
        opened.journal.append(&turn("Hi"));
        opened.journal.append(&Record::Token { id: 5, channel: Channel::Thinking });
        assert!(matches!(folder.open("one"), Err(Error::InUse { .. })));
        assert!(matches!(folder.delete("one"), Err(Error::InUse { .. })));
        drop(opened);
        assert!(matches!(folder.create("one", header()), Err(Error::Exists { .. })));
        let opened = folder.open("one").unwrap();
        assert_eq!((opened.session.turns[0].ids.as_slice(), opened.damage), (&[5][..], None));
        opened.journal.append(&Record::Token { id: 6, channel: Channel::Answer });
        drop(opened);
        let (session, damage) = folder.read("one").unwrap();
        assert_eq!((session.turns[0].ids.as_slice(), damage), (&[5, 6][..], None));
        folder.delete("one").unwrap();
        assert_eq!(fs::read_dir(folder.dir()).unwrap().count(), 0);
    }

    #[test]
    fn a_torn_tail_is_moved_aside_and_cut() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::at(dir.path().to_owned());
        let opened = folder.create("one", header()).unwrap();
        opened.journal.append(&turn("Hi"));
        opened.journal.append(&Record::Note("long".repeat(9)));
        drop(opened);
        let path = folder.path("one").unwrap();
        let whole = fs::metadata(&path).unwrap().len();
        File::options().write(true).open(&path).unwrap().set_len(whole - 3).unwrap();
        let opened = folder.open("one").unwrap();
        let damage = opened.damage.unwrap();
        assert_eq!((opened.session.turns.len(), opened.session.notes.len()), (1, 0));
        assert_eq!(damage.offset + damage.bytes, whole - 3);
        assert!(damage.to_string().contains("cut within a record"), "{damage}");
        assert_eq!(fs::read(dir.path().join("one.lost")).unwrap().len() as u64, damage.bytes);
        opened.journal.append(&Record::Note("after".to_owned()));
        drop(opened);
        let (session, damage) = folder.read("one").unwrap();
        assert_eq!((session.notes, damage), (vec!["after".to_owned()], None));
        folder.delete("one").unwrap();
        assert!(!dir.path().join("one.lost").exists());
    }

    #[test]
    fn the_list_is_newest_first_and_shows_what_cannot_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::at(dir.path().to_owned());
        for (id, age) in [("old", 50), ("new", 10)] {
            drop(folder.create(id, header()).unwrap());
            let file = File::options().write(true).open(folder.path(id).unwrap()).unwrap();
            file.set_modified(SystemTime::now() - std::time::Duration::from_secs(age)).unwrap();
        }
        fs::write(dir.path().join("broken.journal"), "not a journal").unwrap();
        fs::write(dir.path().join("notes.txt"), "not a journal").unwrap();
        let list = folder.list().unwrap();
        let ids: Vec<&str> = list.iter().map(|entry| entry.id.as_str()).collect();
        assert_eq!(ids, ["broken", "new", "old"]);
        assert!(matches!(list[0].content, Err(Error::Foreign { .. })));
        assert!(list[1].content.is_ok() && list[1].changed > list[2].changed);
    }

    #[test]
    fn names_are_names_and_no_paths() {
        let folder = Folder::at(PathBuf::from("/s"));
        assert_eq!(folder.path("a.B-9_").unwrap(), Path::new("/s/a.B-9_.journal"));
        for id in ["", ".", "..", ".a", "a/b", "a\\b", "a b", "ä", "a\n", &"a".repeat(65)] {
            assert!(matches!(folder.path(id), Err(Error::Id { .. })), "{id:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn conversations_are_private() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::at(dir.path().join("sessions"));
        drop(folder.create("one", header()).unwrap());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(folder.dir()), 0o700);
        assert_eq!(mode(&folder.path("one").unwrap()), 0o600);
    }
}
