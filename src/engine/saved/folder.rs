//! All states that are on the disk, of whatever model.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use xxhash_rust::xxh3::Xxh3;

use super::file::Header;
use super::{Error, Tokens};
use crate::sys::{disk, private};
use crate::units::Bytes;

/// What a state's name ends with.
const SUFFIX: &str = ".state";
/// What the name of one ends with that is being written.
const NEW: &str = ".new";

/// States of a small model are small: no folder should hold a million of them.
const MOST_FILES: usize = 200;

/// The disk is not filled for them: so much stays free, or a twentieth of a disk that is smaller than that tells.
const SPARE: u64 = 1 << 30;

/// The folder of the states.
#[derive(Clone, Debug)]
pub struct Folder {
    dir: PathBuf,
}

/// One of them, as its name tells.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    pub(super) model: u64,
    pub(super) seen: Tokens,
    bytes: u64,
    /// When it was written or used last.
    used: SystemTime,
}

impl Folder {
    /// The folder at this path, which need not be there yet.
    pub const fn at(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Where the states lie.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// How many states there are, and what they take.
    pub fn taken(&self) -> (usize, Bytes) {
        let entries = self.list();
        (entries.len(), Bytes(entries.iter().map(|entry| entry.bytes).sum()))
    }

    /// Deletes the states that were kept in turns with these prompts, each told by its count of ids and their digest. Gives
    /// how many there were.
    pub fn forget(&self, prompts: &[(u64, u64)]) -> Result<usize, Error> {
        let mut count = 0;
        for entry in self.list() {
            let of_these = |Tokens { count, digest }| prompts.contains(&(count, digest));
            if Header::read(&entry.path).is_ok_and(|header| of_these(header.prompt)) {
                fs::remove_file(&entry.path).map_err(Error::io("delete", &entry.path))?;
                count += 1;
            }
        }
        Ok(count)
    }

    /// Where the state of a model lies that has seen these tokens.
    pub(super) fn path(&self, model: u64, seen: Tokens) -> PathBuf {
        self.dir.join(format!("{model:016x}-{}-{:016x}{SUFFIX}", seen.count, seen.digest))
    }

    /// Where it is written, before it is whole.
    pub(super) fn new_path(&self, model: u64, seen: Tokens) -> PathBuf {
        let name = format!(".{model:016x}-{}-{:016x}.{}{NEW}", seen.count, seen.digest, std::process::id());
        self.dir.join(name)
    }

    /// All states. A folder that cannot be read holds none.
    pub(super) fn list(&self) -> Vec<Entry> {
        let Ok(entries) = fs::read_dir(&self.dir) else { return Vec::new() };
        entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let (model, seen) = parse(entry.file_name().to_str()?)?;
                let metadata = entry.metadata().ok()?;
                let used = metadata.modified().unwrap_or(UNIX_EPOCH);
                Some(Entry { path: entry.path(), model, seen, bytes: metadata.len(), used })
            })
            .collect()
    }

    /// Those of a model that have seen the beginning of `sequence`, the longest first.
    pub(super) fn prefixes(&self, model: u64, sequence: &[u32]) -> Vec<Entry> {
        let mut entries = self.list();
        entries.retain(|entry| entry.model == model && entry.seen.count <= sequence.len() as u64);
        entries.sort_by_key(|entry| entry.seen.count);
        // One walk along the sequence serves them all.
        let mut hash = Xxh3::new();
        let mut ids = sequence.iter();
        let mut at = 0;
        entries.retain(|entry| {
            while at < entry.seen.count {
                let Some(id) = ids.next() else { return false };
                hash.update(&id.to_le_bytes());
                at += 1;
            }
            hash.digest() == entry.seen.digest
        });
        entries.reverse();
        entries
    }

    /// Makes room for a state of `bytes`, so that all of them take no more than `most` and the disk keeps some: drops those
    /// that were used longest ago.
    pub(super) fn make_room(&self, bytes: u64, most: u64) -> Result<(), Error> {
        if bytes > most {
            return Err(Error::TooLarge { bytes: Bytes(bytes), most: Bytes(most) });
        }
        let mut entries = self.list();
        entries.sort_by(|a, b| b.used.cmp(&a.used).then_with(|| a.path.cmp(&b.path)));
        let mut taken: u64 = entries.iter().map(|entry| entry.bytes).sum();
        loop {
            let room = disk::room(&self.dir).map_err(Error::io("look at the disk of", &self.dir))?;
            let needed = bytes.saturating_add(SPARE.min(room.total / 20).max(bytes));
            if taken.saturating_add(bytes) <= most && entries.len() < MOST_FILES && room.free >= needed {
                return Ok(());
            }
            // Where not even all of them would do, none makes way.
            let oldest = entries.pop().filter(|_| room.free.saturating_add(taken) >= needed);
            let Some(oldest) = oldest else {
                return Err(Error::NoRoom {
                    bytes: Bytes(bytes),
                    free: Bytes(room.free),
                    dir: self.dir.clone(),
                });
            };
            taken -= oldest.bytes;
            // Another program may have been faster.
            let _ = fs::remove_file(&oldest.path);
        }
    }

    /// Makes the folder, and deletes what writers have left behind that died.
    pub(super) fn prepare(&self) -> Result<(), Error> {
        private::make_dir(&self.dir).map_err(Error::io("make", &self.dir))?;
        let entries = fs::read_dir(&self.dir).map_err(Error::io("list", &self.dir))?;
        for entry in entries.filter_map(Result::ok) {
            let name = entry.file_name();
            if !name.to_str().is_some_and(|name| name.starts_with('.') && name.ends_with(NEW)) {
                continue;
            }
            // Whoever still writes it holds its lock.
            if File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok()) {
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(())
    }
}

/// Model and tokens of a state of this name.
fn parse(name: &str) -> Option<(u64, Tokens)> {
    let mut parts = name.strip_suffix(SUFFIX)?.split('-');
    let (model, count, digest) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || model.len() != 16 || digest.len() != 16 {
        return None;
    }
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    Some((hex(model)?, Tokens { count: count.parse().ok()?, digest: hex(digest)? }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn put(folder: &Folder, ids: &[u32], bytes: u64, age: u64) -> PathBuf {
        let path = folder.path(7, Tokens::of(ids));
        let file = File::create(&path).unwrap();
        file.set_len(bytes).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        path
    }

    #[test]
    fn names_tell_model_and_tokens() {
        let folder = Folder::at(PathBuf::from("/states"));
        let seen = Tokens { count: 12, digest: 0xab };
        let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        assert_eq!(parse(&name(folder.path(7, seen))), Some((7, seen)));
        assert_eq!(parse(&name(folder.new_path(7, seen))), None);
        for other in ["", ".state", "7-1-2.state", "0000000000000007-x-0000000000000007.state"] {
            assert_eq!(parse(other), None, "{other}");
        }
        assert!(folder.list().is_empty());
    }

    #[test]
    fn prefixes_come_longest_first_and_of_this_model_alone() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::at(dir.path().to_owned());
        for ids in [&[1, 2][..], &[1, 2, 3], &[1, 3], &[1], &[1, 2, 3, 4, 5]] {
            put(&folder, ids, 1, 0);
        }
        let found = |model, sequence: &[u32]| -> Vec<u64> {
            folder.prefixes(model, sequence).iter().map(|entry| entry.seen.count).collect()
        };
        assert_eq!(found(7, &[1, 2, 3, 4]), [3, 2, 1]);
        assert_eq!(found(7, &[1, 2]), [2, 1]);
        assert_eq!(found(7, &[2, 1]), [0; 0]);
        assert_eq!(found(8, &[1, 2, 3, 4]), [0; 0]);
    }

    #[test]
    fn the_oldest_makes_way_and_nothing_more_than_must() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::at(dir.path().to_owned());
        let [new, old, oldest] = [(1, 10), (2, 50), (3, 90)].map(|(id, age)| put(&folder, &[id], 100, age));
        folder.make_room(100, 400).unwrap();
        assert!(oldest.exists());
        folder.make_room(100, 399).unwrap();
        assert!(!oldest.exists() && old.exists() && new.exists());
        assert_eq!(folder.taken(), (2, Bytes(200)));
        assert!(matches!(folder.make_room(500, 499), Err(Error::TooLarge { .. })));
        assert!(old.exists(), "what is too large drives nothing out");
        // More than any disk has free.
        assert!(matches!(folder.make_room(1 << 60, 1 << 61), Err(Error::NoRoom { .. })));
        assert!(old.exists() && new.exists());
    }

    #[test]
    fn what_a_dead_writer_left_is_cleaned_up_and_what_a_living_one_writes_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::at(dir.path().join("states"));
        folder.prepare().unwrap();
        let (dead, living) = (Tokens::of(&[1]), Tokens::of(&[2]));
        fs::write(folder.new_path(7, dead), "half").unwrap();
        let sink = crate::sys::sink::Sink::create(&folder.new_path(7, living)).unwrap();
        let whole = put(&folder, &[3], 1, 0);
        folder.prepare().unwrap();
        assert!(!folder.new_path(7, dead).exists() && folder.new_path(7, living).exists() && whole.exists());
        drop(sink);
    }
}
