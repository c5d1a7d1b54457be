//! States on the disk, so that a conversation that was read once is not read again: not after a restart, nor where
//! memory has no room for copies.
//!
//! | file | what it does |
//! | --- | --- |
//! | `file` | one state in one file |
//! | `folder` | all of them: found, dropped, cleaned up after |
//!
//! A state is written by a thread of its own, from the memory that the turn goes on with: whatever changes meanwhile is
//! copied first (see [`State`](crate::model::State)), so the next token does not wait. One is written at a time, which
//! bounds these copies.
//!
//! # The file
//!
//! `MODEL-COUNT-DIGEST.state`, where `MODEL` is the [`identity`](crate::checkpoint::identity) of the checkpoint's files and
//! `COUNT` and `DIGEST` tell the ids that the state has seen: how many, and XXH3-64 over them, each a little-endian u32.
//! All numbers are little-endian. The first page, of 4096 bytes:
//!
//! | bytes | what |
//! | --- | --- |
//! | 16 | `dormouse state` and two zeros |
//! | 4, 4 | version of the format, zeros |
//! | 8 | `MODEL` |
//! | 8, 8 | `COUNT`, `DIGEST` |
//! | 8, 8 | the same of the whole prompt of the turn in which the state was kept |
//! | 8 | how many logits there are: one for each id of the vocabulary, or none |
//! | 8 | XXH3-64 of all that follows the first page |
//! | … | zeros |
//! | 8 | XXH3-64 of the first page before it |
//!
//! Then, without gaps, the ids (u32), the logits of the last of them (f32), and the state (f32), layer by layer: of a KDA
//! layer each head's matrix `[keys, values]` and the last inputs of the convolutions of queries, keys and values, of an
//! MLA layer the latent of each position. It is written under another name and renamed when it is on the disk.
//!
//! A state is used only if all of this is as it should be and its ids are exactly those of the sequence; any other file
//! is deleted and told of, and what it held is computed again.

mod file;
mod folder;

use std::fs;
use std::io;
use std::mem::{self, Discriminant};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use xxhash_rust::xxh3::Xxh3;

use self::file::Content;
pub use self::folder::Folder;
use super::shelf::{Kept, Start};
use crate::checkpoint::ModelConfig;
use crate::protocol::StatesOnDisk;
use crate::sys::private;
use crate::units::Bytes;

/// A turn that takes long is kept in between, so that a loss of power costs no more than about a pass: after so many
/// positions...
const POSITIONS: usize = super::generate::CHUNK;
/// ...and no sooner than this.
const EVERY: Duration = Duration::from_mins(1);

/// A state cannot be written, or not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read or written.
    #[error(transparent)]
    File(#[from] crate::sys::file::Error),
    /// The system refused something.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Some byte of it is not as it was written.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
    /// It has a format that this program does not know.
    #[error("{} has version {version} of the format; this program knows version {known}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
        /// The version that is known.
        known: u32,
    },
    /// It is of another model than its name says.
    #[error("{} belongs to another model", path.display())]
    OtherModel {
        /// The file.
        path: PathBuf,
    },
    /// It has seen other tokens than its name says.
    #[error("{} belongs to another conversation", path.display())]
    OtherTokens {
        /// The file.
        path: PathBuf,
    },
    /// It is larger than all of them may be.
    #[error("it takes {bytes}, and --state-disk allows {most}")]
    TooLarge {
        /// What it takes.
        bytes: Bytes,
        /// What is allowed.
        most: Bytes,
    },
    /// The disk has no room for it.
    #[error("it takes {bytes}, and the disk of {} has only {free} free", dir.display())]
    NoRoom {
        /// What it takes.
        bytes: Bytes,
        /// What is free.
        free: Bytes,
        /// The folder.
        dir: PathBuf,
    },
}

impl Error {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

/// Which ids, as far as a name has room for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tokens {
    count: u64,
    digest: u64,
}

impl Tokens {
    fn of(ids: &[u32]) -> Self {
        let mut hash = Xxh3::new();
        for id in ids {
            hash.update(&id.to_le_bytes());
        }
        Self { count: ids.len() as u64, digest: hash.digest() }
    }
}

/// What writing states has come to so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Written {
    pub(super) states: u64,
    pub(super) bytes: u64,
    /// Beside the computing.
    pub(super) took: Duration,
    /// The longest that a turn stood still for it.
    pub(super) pause: Duration,
}

/// The states of one model on the disk, and the one that is being written.
#[derive(Debug)]
pub(super) struct Saved {
    folder: Folder,
    most: u64,
    model: u64,
    config: ModelConfig,
    /// Where the turn began, or what was handed over last of it, and when.
    last: (Tokens, Instant),
    /// The prompt of the turn that runs.
    prompt: Tokens,
    /// A state of the middle of this turn, which the next one of it takes the place of.
    between: Option<PathBuf>,
    writing: Option<JoinHandle<Result<Written, Error>>>,
    written: Written,
    notes: Vec<String>,
    /// What was told of writing, which may fail again with every state.
    told: Option<Discriminant<Error>>,
}

/// Where in a turn a state is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Where a conversation may be gone back to: at the end of its prompt, or of the turn.
    End,
    /// Anywhere else.
    Between,
}

impl Saved {
    /// The states of the model with this identity, none where none are wanted.
    pub(super) fn open(wanted: Option<&StatesOnDisk>, model: u64, config: &ModelConfig) -> Option<Self> {
        let StatesOnDisk { folder, most } = wanted.filter(|wanted| wanted.most.0 > 0)?;
        let mut saved = Self {
            folder: Folder::at(folder.clone()),
            most: most.0,
            model,
            config: config.clone(),
            last: (Tokens::default(), Instant::now()),
            prompt: Tokens::default(),
            between: None,
            writing: None,
            written: Written::default(),
            notes: Vec::new(),
            told: None,
        };
        if let Err(error) = saved.folder.prepare() {
            saved.tell_once(&error);
        }
        Some(saved)
    }

    /// A turn with this prompt begins.
    pub(super) fn begin(&mut self, prompt: &[u32]) {
        self.settle();
        self.prompt = Tokens::of(prompt);
        self.between = None;
    }

    /// The turn goes on from the state that has seen these tokens.
    pub(super) fn begin_with(&mut self, ids: &[u32]) {
        self.last = (Tokens::of(ids), Instant::now());
    }

    /// Whether there seems to be a state that has seen more than `seen` tokens of `sequence`, and nothing else.
    pub(super) fn has_more(&self, sequence: &[u32], seen: usize) -> bool {
        let longest = self.folder.prefixes(self.model, sequence).into_iter().next();
        longest.is_some_and(|entry| entry.seen.count > seen as u64)
    }

    /// The state that has seen the most of `sequence`, and more than `seen` tokens of it. Reads it, and deletes those
    /// that turn out not to be what their names say.
    pub(super) fn take(&mut self, sequence: &[u32], seen: usize) -> Option<Start> {
        for entry in self.folder.prefixes(self.model, sequence) {
            let ids = usize::try_from(entry.seen.count).ok().and_then(|count| sequence.get(..count))?;
            if ids.len() <= seen {
                return None;
            }
            match file::read(&entry.path, self.model, ids, &self.config) {
                // All was read, and what it leads to is not known.
                Ok(start) if ids.len() == sequence.len() && start.logits.is_none() => {}
                Ok(start) => {
                    // Now it is the last that would make way.
                    let touched = fs::File::options().write(true).open(&entry.path);
                    let _ = touched.and_then(|file| file.set_modified(SystemTime::now()));
                    return Some(start);
                }
                Err(error) => {
                    self.notes.push(format!("A saved state of the conversation cannot be used: {error}."));
                    let _ = fs::remove_file(&entry.path);
                }
            }
        }
        None
    }

    /// Whether a state from the middle of a turn should be kept: it is long since the last one was, and much was computed.
    pub(super) fn is_due(&self, positions: usize) -> bool {
        let (last, at) = self.last;
        (positions as u64).saturating_sub(last.count) >= POSITIONS as u64 && at.elapsed() >= EVERY
    }

    /// Keeps a state, with the logits of its last token where they are known. Waits if another one is still being written,
    /// and not for this one.
    pub(super) fn save(&mut self, kept: &Kept, logits: Option<&[f32]>, place: Place) {
        let seen = Tokens::of(&kept.ids);
        if self.last.0 == seen {
            return;
        }
        self.settle();
        self.last = (seen, Instant::now());
        let path = self.folder.path(self.model, seen);
        let replaced = self.between.take().filter(|old| *old != path);
        // One that was there before stays.
        if place == Place::Between && !path.exists() {
            self.between = Some(path.clone());
        }
        let logits = logits.map(<[f32]>::to_vec).unwrap_or_default();
        let content = Content { model: self.model, prompt: self.prompt, kept: kept.clone(), logits };
        let job = Job { bytes: content.bytes(&self.config), content, path, replaced };
        let (folder, most, new) = (self.folder.clone(), self.most, self.folder.new_path(self.model, seen));
        let spawned =
            thread::Builder::new().name("state".to_owned()).spawn(move || job.run(&folder, most, &new));
        match spawned {
            Ok(thread) => self.writing = Some(thread),
            Err(error) => self.tell_once(&Error::io("start a thread for", self.folder.dir())(error)),
        }
    }

    /// Whether a state is being written.
    pub(super) fn is_writing(&self) -> bool {
        self.writing.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Waits for the state that is being written.
    pub(super) fn settle(&mut self) {
        let Some(thread) = self.writing.take() else { return };
        match thread.join() {
            Ok(Ok(Written { states, bytes, took, pause: _ })) => {
                self.written.states += states;
                self.written.bytes += bytes;
                self.written.took += took;
            }
            Ok(Err(error)) => self.tell_once(&error),
            Err(_panic) => {
                self.notes.push("The thread that saves the conversation's state broke.".to_owned());
            }
        }
    }

    /// A turn stood still for so long.
    pub(super) fn paused(&mut self, pause: Duration) {
        self.written.pause = self.written.pause.max(pause);
    }

    /// What was written since the model was loaded.
    pub(super) const fn written(&self) -> Written {
        self.written
    }

    /// What the user is to be told, once.
    pub(super) fn take_notes(&mut self) -> Vec<String> {
        mem::take(&mut self.notes)
    }

    fn tell_once(&mut self, error: &Error) {
        let kind = Some(mem::discriminant(error));
        if self.told != kind {
            self.told = kind;
            self.notes.push(format!("The state of the conversation is not saved: {error}."));
        }
    }
}

/// One state that is to be written.
struct Job {
    content: Content,
    bytes: u64,
    path: PathBuf,
    /// Deleted once the new one is there.
    replaced: Option<PathBuf>,
}

impl Job {
    fn run(self, folder: &Folder, most: u64, new: &Path) -> Result<Written, Error> {
        let began = Instant::now();
        let Self { content, bytes, path, replaced } = self;
        let written = if let Ok(file) = fs::File::options().write(true).open(&path) {
            // It was kept before, and is as good as new.
            let _ = file.set_modified(SystemTime::now());
            Written::default()
        } else {
            folder.prepare()?;
            folder.make_room(bytes, most)?;
            let written = content.write(new).map_err(Error::from).and_then(|bytes| {
                fs::rename(new, &path).map_err(Error::io("write", &path))?;
                private::sync_dir(folder.dir());
                Ok(bytes)
            });
            let bytes = written.inspect_err(|_error| {
                let _ = fs::remove_file(new);
            })?;
            Written { states: 1, bytes, took: began.elapsed(), pause: Duration::ZERO }
        };
        if let Some(replaced) = replaced {
            let _ = fs::remove_file(replaced);
        }
        Ok(written)
    }
}

impl Drop for Saved {
    fn drop(&mut self) {
        // What is nearly on the disk is not given up.
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::Checkpoint;
    use crate::model::State;

    fn saved(dir: &Path) -> Saved {
        let nano = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/nano");
        let config = Checkpoint::open(&nano).unwrap().config().clone();
        let wanted = |most| StatesOnDisk { folder: dir.join("states"), most: Bytes(most) };
        assert!(Saved::open(None, 7, &config).is_none());
        assert!(Saved::open(Some(&wanted(0)), 7, &config).is_none());
        Saved::open(Some(&wanted(1 << 30)), 7, &config).unwrap()
    }

    /// A state with numbers of its own.
    fn kept(saved: &Saved, ids: &[u32]) -> Kept {
        let mut next = ids.len() as f32;
        let fill = |piece: &mut [f32]| {
            for value in piece {
                next += 1.0;
                *value = next;
            }
            Ok::<(), ()>(())
        };
        Kept { ids: ids.to_vec(), state: State::from_pieces(&saved.config, ids.len(), fill).unwrap() }
    }

    #[test]
    fn a_state_of_the_middle_makes_way_for_the_next_of_its_turn() {
        let dir = tempfile::tempdir().unwrap();
        let mut saved = saved(dir.path());
        let counts = |saved: &mut Saved| {
            saved.settle();
            let mut counts: Vec<u64> = saved.folder.list().iter().map(|entry| entry.seen.count).collect();
            counts.sort_unstable();
            counts
        };
        saved.begin(&[1, 2, 3, 4]);
        saved.begin_with(&[]);
        for (ids, place, there) in [
            (&[1, 2][..], Place::Between, &[2][..]),
            (&[1, 2, 3], Place::Between, &[3]),
            (&[1, 2, 3, 4], Place::End, &[4]),
            (&[1, 2, 3, 4, 5], Place::Between, &[4, 5]),
            (&[1, 2, 3, 4, 5, 6], Place::End, &[4, 6]),
        ] {
            let state = kept(&saved, ids);
            saved.save(&state, None, place);
            assert_eq!(counts(&mut saved), there);
        }
        assert_eq!(saved.written().states, 5);
        // The same again is not written again.
        let state = kept(&saved, &[1, 2, 3, 4]);
        saved.save(&state, None, Place::End);
        assert_eq!((counts(&mut saved), saved.written().states), (vec![4, 6], 5));
        // One that is left from a turn that did not come to its end stays.
        saved.begin(&[9, 8, 7]);
        let state = kept(&saved, &[9]);
        saved.save(&state, None, Place::Between);
        saved.begin(&[9, 8, 7]);
        let start = saved.take(&[9, 8, 7], 0).unwrap();
        assert!(start.kept.state.pieces().eq(state.state.pieces()));
        let state = kept(&saved, &[9, 8, 7]);
        saved.save(&state, Some(&vec![0.5; saved.config.vocabulary]), Place::End);
        assert_eq!(counts(&mut saved), [1, 3, 4, 6]);
        // All was read before: with its logits, a state is enough.
        assert!(saved.take(&[9, 8, 7], 0).unwrap().logits.is_some_and(|logits| logits.contains(&0.5)));
        assert_eq!(saved.take(&[1, 2, 3, 4, 5, 6], 0).unwrap().kept.ids, [1, 2, 3, 4]);
        assert!(saved.take(&[1, 2, 3, 4, 5, 6], 4).is_none());
        assert!(saved.take_notes().is_empty());
    }

    #[test]
    fn a_long_turn_is_kept_in_between_but_not_often() {
        let dir = tempfile::tempdir().unwrap();
        let mut saved = saved(dir.path());
        saved.begin_with(&[1; 100]);
        assert!(!saved.is_due(10_000), "it has only begun");
        saved.last.1 = Instant::now().checked_sub(EVERY).unwrap();
        assert!(!saved.is_due(100 + POSITIONS - 1));
        assert!(saved.is_due(100 + POSITIONS));
    }
}
