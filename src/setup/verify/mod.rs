//! Holding a model's files against what its publisher says of them.
//!
//! A download keeps the hub's list in the folder ([`Published`]). [`deep`] reads every byte of the files in it, several at
//! once, and says of each whether its digest is the published one. What was found right is taken down as it goes, beside
//! the user's data ([`Marks`]), so that a check that was stopped goes on where it was, and a chat can tell whether the model
//! was ever looked at ([`standing`]).

mod marks;

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use crossbeam_channel::{RecvTimeoutError, unbounded};

pub use marks::Marks;
use marks::Stamp;

use super::download::{self, Digest, Entry, Judgement, Published};
use crate::config::Paths;
use crate::units::Bytes;

/// Files that are read at once: more than there are processors, since each thread reads and hashes by turns.
const MOST_THREADS: usize = 16;
/// How often progress is told.
const TICK: Duration = Duration::from_millis(100);

/// Files were not held against their digests, or not all of them.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system gives no threads.
    #[error("the system gives no threads for reading: {0}")]
    System(#[from] io::Error),
    /// Whoever watched wanted no more of it. What was found is kept.
    #[error("the check was stopped")]
    Stopped,
}

/// What a file turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its digest is the published one.
    Right,
    /// It was found right by an earlier check that was stopped, and has not changed since.
    RightBefore,
    /// None is published, so nobody can say.
    Unpublished,
    /// It is not there, and the program does not need it.
    NotNeeded,
    /// It is not there.
    Missing,
    /// It has another length: this one. A file of no bytes at all is a common one.
    Length(u64),
    /// It has the right length and another digest: this one.
    Wrong(String),
    /// It could not be read.
    Unreadable(String),
}

impl Verdict {
    /// Whether the file must be fetched again.
    pub const fn is_bad(&self) -> bool {
        matches!(self, Self::Missing | Self::Length(_) | Self::Wrong(_) | Self::Unreadable(_))
    }
}

/// A file of the list, and what it turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// As it is published.
    pub entry: Entry,
    /// What it is.
    pub verdict: Verdict,
}

impl Finding {
    /// What is wrong with it, in one sentence that names the file; nothing where nothing is.
    pub fn problem(&self) -> Option<String> {
        let Entry { path, size, digest } = &self.entry;
        Some(match &self.verdict {
            Verdict::Missing => format!("{path} is missing ({})", Bytes(*size)),
            Verdict::Length(0) => format!("{path} is empty, and should be {size} bytes long"),
            Verdict::Length(found) => format!("{path} is {found} bytes long, and should be {size}"),
            Verdict::Wrong(found) => {
                let (Digest::Sha256(expected) | Digest::GitBlob(expected)) = digest else { return None };
                format!("{path}: bytes 0 to {size} have the digest {found}, published is {expected}")
            }
            Verdict::Unreadable(why) => format!("{path} cannot be read: {why}"),
            Verdict::Right | Verdict::RightBefore | Verdict::Unpublished | Verdict::NotNeeded => return None,
        })
    }
}

/// Whether the program reads this file of a checkpoint.
fn is_needed(path: &str) -> bool {
    let shard = Path::new(path).extension().is_some_and(|extension| extension == "safetensors");
    let others = ["config.json", "generation_config.json", "tokenizer_config.json", "tiktoken.model"];
    !path.contains('/') && (shard || others.contains(&path))
}

/// Presence and lengths alone: no byte of content is read. Files of the right length have no finding.
pub fn quick(folder: &Path, files: &[Entry]) -> Vec<Finding> {
    let look = |entry: &Entry| {
        let verdict = shape(folder, entry)?;
        Some(Finding { entry: entry.clone(), verdict })
    };
    files.iter().filter_map(look).collect()
}

/// What is wrong with a file before it is read; nothing if it is there and has its length.
fn shape(folder: &Path, entry: &Entry) -> Option<Verdict> {
    match fs::metadata(folder.join(&entry.path)) {
        Ok(metadata) if metadata.is_file() && metadata.len() == entry.size => None,
        Ok(metadata) if metadata.is_file() => Some(Verdict::Length(metadata.len())),
        Ok(_) => Some(Verdict::Unreadable("it is not a file".to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Some(if is_needed(&entry.path) { Verdict::Missing } else { Verdict::NotNeeded })
        }
        Err(error) => Some(Verdict::Unreadable(error.to_string())),
    }
}

/// Reads every byte of `files` below `folder` and holds it against the published digests: on several threads, file by
/// file. What `marks` has of a run that was stopped is not read again; what is found right is marked. `progress` is told of
/// bytes done and in all, and stops it by returning `false`.
pub fn deep(
    folder: &Path,
    files: &[Entry],
    marks: &mut Marks,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Vec<Finding>, Error> {
    marks.begin();
    let mut findings: Vec<Option<Verdict>> = files.iter().map(|entry| shape(folder, entry)).collect();
    for (entry, verdict) in files.iter().zip(&mut findings) {
        if verdict.is_none() && marks.has_in_run(entry, &Stamp::of(&folder.join(&entry.path))) {
            *verdict = Some(Verdict::RightBefore);
        }
    }
    let todo: Vec<usize> =
        (0..files.len()).filter(|i| findings.get(*i).is_some_and(Option::is_none)).collect();
    let size = |verdict: &Option<Verdict>, entry: &Entry| match verdict {
        None | Some(Verdict::RightBefore) => entry.size,
        Some(_) => 0,
    };
    let total = files.iter().zip(&findings).map(|(entry, verdict)| size(verdict, entry)).sum::<u64>();
    let left = todo.iter().filter_map(|i| files.get(*i)).map(|entry| entry.size).sum::<u64>();
    let (next, stop, read) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicU64::new(0));
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = (processors * 2).min(MOST_THREADS).min(todo.len());
    let (sender, results) = unbounded();
    std::thread::scope(|scope| {
        let stopper = Stopper(&stop);
        for i in 0..threads {
            let (sender, todo, next, stop, read) = (sender.clone(), &todo, &next, &stop, &read);
            let work = move || {
                while let Some(&index) = todo.get(next.fetch_add(1, Relaxed)) {
                    let Some(entry) = files.get(index) else { return };
                    let judged = one(folder, entry, stop, read);
                    let told = judged.map(|(verdict, stamp)| sender.send((index, verdict, stamp)));
                    if !matches!(told, Some(Ok(()))) {
                        return;
                    }
                }
            };
            std::thread::Builder::new().name(format!("verify-{i}")).spawn_scoped(scope, work)?;
        }
        drop(sender);
        loop {
            match results.recv_timeout(TICK) {
                Ok((index, verdict, stamp)) => {
                    let (Some(entry), Some(place)) = (files.get::<usize>(index), findings.get_mut(index))
                    else {
                        continue;
                    };
                    if verdict == Verdict::Right {
                        marks.mark(entry, &stamp);
                    }
                    *place = Some(verdict);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if !progress((total - left) + read.load(Relaxed).min(left), total) {
                return Err(Error::Stopped);
            }
        }
        drop(stopper);
        Ok(())
    })?;
    // As long as something is wrong the run goes on: what was right is not read again after a repair.
    if !findings.iter().flatten().any(Verdict::is_bad) {
        marks.end();
    }
    let finding = |(entry, verdict): (&Entry, Option<Verdict>)| Finding {
        entry: entry.clone(),
        // A thread that came to its end without a word must have panicked.
        verdict: verdict.unwrap_or_else(|| Verdict::Unreadable("the check broke down".to_owned())),
    };
    Ok(files.iter().zip(findings).map(finding).collect())
}

/// Judges one file, and says which state of it that was; nothing if it was stopped.
fn one(folder: &Path, entry: &Entry, stop: &AtomicBool, read: &AtomicU64) -> Option<(Verdict, Stamp)> {
    let path = folder.join(&entry.path);
    let before = Stamp::of(&path);
    let mut seen = 0;
    let mut on_bytes = |now: u64| {
        read.fetch_add(now.saturating_sub(seen), Relaxed);
        seen = seen.max(now);
        !stop.load(Relaxed)
    };
    let verdict = match download::judge(folder, entry, &mut on_bytes) {
        Ok(Some(Judgement::Right)) => Verdict::Right,
        Ok(Some(Judgement::Unknown)) => Verdict::Unpublished,
        Ok(Some(Judgement::Wrong(found))) => Verdict::Wrong(found),
        Ok(None) => shape(folder, entry).unwrap_or_else(changing),
        Err(download::Error::Stopped) => return None,
        Err(error) => Verdict::Unreadable(error.to_string()),
    };
    read.fetch_add(entry.size.saturating_sub(seen), Relaxed);
    if Stamp::of(&path) == before { Some((verdict, before)) } else { Some((changing(), before)) }
}

fn changing() -> Verdict {
    Verdict::Unreadable("it changed while it was read".to_owned())
}

/// Says stop when it is dropped.
struct Stopper<'a>(&'a AtomicBool);

impl Drop for Stopper<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// What is known of a folder's files without reading them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Every file had the published digest once, and none has changed since.
    Verified,
    /// Some were never held against their digests, have changed since, or are missing.
    Unverified {
        /// How many.
        files: usize,
        /// Of so many that are needed.
        of: usize,
    },
    /// Nobody knows what was published: the files did not come by a download of this program.
    Unpublished,
}

/// How it stands with the files of `folder`.
pub fn standing(paths: &Paths, folder: &Path) -> Standing {
    let Some(published) = Published::of(folder) else { return Standing::Unpublished };
    let marks = Marks::read(paths, folder);
    let needed: Vec<&Entry> = published.files.iter().filter(|entry| is_needed(&entry.path)).collect();
    let is_right = |entry: &&&Entry| {
        if shape(folder, entry).is_some() {
            return false;
        }
        let stamp = Stamp::of(&folder.join(&entry.path));
        // The download says so once it has looked at every file, so one that is older has not changed since.
        let by_download = published.complete.is_some_and(|complete| stamp.is_no_later_than(complete));
        by_download || marks.has(entry, &stamp)
    };
    let right = needed.iter().filter(is_right).count();
    if right == needed.len() && right > 0 {
        Standing::Verified
    } else {
        Standing::Unverified { files: needed.len() - right, of: needed.len() }
    }
}

/// What a chat on a model says that was never verified: once for each folder, and then no more. It is one line, since a
/// screen may have no more for it.
pub fn first_warning(paths: &Paths, folder: &Path) -> Option<String> {
    let depth = match standing(paths, folder) {
        Standing::Verified => return None,
        Standing::Unverified { .. } => "--deep",
        // There is nothing here to hold it against; a repair asks the hub for that.
        Standing::Unpublished => "--repair",
    };
    let told =
        || format!("This model was never verified: dormouse verify {depth} --model {}", folder.display());
    Marks::read(paths, folder).say_once().then(told)
}

/// A time as a number, for comparing: nanoseconds since 1970.
fn nanoseconds(time: SystemTime) -> Option<i64> {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).ok(),
        Err(before) => i64::try_from(before.duration().as_nanos()).ok().map(|nanoseconds| -nanoseconds),
    }
}

#[cfg(test)]
mod tests;
