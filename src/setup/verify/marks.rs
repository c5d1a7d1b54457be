//! Which files of a folder were found right, and in which state: one line of JSON for each, in a file beside the user's
//! data, since a model's folder may be one that cannot be written to.
//!
//! The first line names the folder. A line counts once its line feed is there, so a torn one at the end is no harm. A
//! check is a run: it reads a file again that an earlier run had found right, but not one that it found right itself
//! before it was stopped.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::nanoseconds;
use crate::config::Paths;
use crate::setup::download::Entry;
use crate::sys::file;
use crate::units::Day;

/// More files than any checkpoint has.
const LIMIT: u64 = 64 << 20;

/// A state of a file: if it is the same later, so are its bytes, unless the disk is failing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    size: u64,
    /// Time of its last change, in nanoseconds since 1970.
    modified: Option<i64>,
}

impl Stamp {
    /// That of the file; an empty one where it cannot be looked at.
    pub(super) fn of(path: &Path) -> Self {
        let Ok(metadata) = fs::metadata(path) else { return Self::default() };
        Self { size: metadata.len(), modified: metadata.modified().ok().and_then(nanoseconds) }
    }

    pub(super) fn is_no_later_than(&self, time: SystemTime) -> bool {
        self.modified.zip(nanoseconds(time)).is_some_and(|(modified, time)| modified <= time)
    }
}

/// A file that was found right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    run: u64,
    path: String,
    #[serde(flatten)]
    stamp: Stamp,
    /// What it was held against.
    digest: String,
    unix_s: u64,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Folder(PathBuf),
    Mark(Mark),
    /// This run has looked at every file.
    Ended(u64),
    /// The user was told that the model was never verified.
    Said,
}

/// All marks of one folder.
#[derive(Debug)]
pub struct Marks {
    path: PathBuf,
    folder: PathBuf,
    /// The latest of each file.
    latest: BTreeMap<String, Mark>,
    run: u64,
    ended: bool,
    said: bool,
    /// Open while a run is under way; nothing where it cannot be written, which only costs the way back to this point.
    out: Option<File>,
}

impl Marks {
    /// Those of `folder`. A file that is missing or damaged is one without marks from there on.
    pub fn read(paths: &Paths, folder: &Path) -> Self {
        let folder = fs::canonicalize(folder).unwrap_or_else(|_missing| folder.to_owned());
        let name = format!("{:016x}.jsonl", xxh3_64(folder.as_os_str().as_encoded_bytes()));
        let mut marks = Self {
            path: paths.verified().join(name),
            latest: BTreeMap::new(),
            run: 0,
            ended: true,
            said: false,
            out: None,
            folder,
        };
        let text = file::read_small(&marks.path, LIMIT).unwrap_or_default();
        let lines = text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
        let mut lines = lines.map_while(|line| serde_json::from_slice::<Line>(line).ok());
        // Two folders may share a name, if luck will have it.
        if lines.next() == Some(Line::Folder(marks.folder.clone())) {
            lines.for_each(|line| marks.take(line));
        }
        marks
    }

    fn take(&mut self, line: Line) {
        match line {
            Line::Folder(_) => {}
            Line::Said => self.said = true,
            Line::Mark(mark) => {
                if mark.run >= self.run {
                    (self.run, self.ended) = (mark.run, false);
                }
                self.latest.insert(mark.path.clone(), mark);
            }
            Line::Ended(run) => {
                if run >= self.run {
                    (self.run, self.ended) = (run, true);
                }
            }
        }
    }

    /// Begins a run, or goes on with the one that was stopped.
    pub fn begin(&mut self) {
        if self.ended {
            (self.run, self.ended) = (self.run.saturating_add(1), false);
        }
        self.out = self.rewrite().ok();
    }

    /// How many files the run that was stopped had found right.
    pub fn kept(&self) -> usize {
        if self.ended { 0 } else { self.latest.values().filter(|mark| mark.run == self.run).count() }
    }

    /// Writes what is known anew, without what later lines have replaced, and opens the file for more.
    fn rewrite(&self) -> io::Result<File> {
        let mut lines = vec![Line::Folder(self.folder.clone())];
        lines.extend(self.said.then_some(Line::Said));
        lines.extend(self.latest.values().cloned().map(Line::Mark));
        if self.ended {
            lines.push(Line::Ended(self.run));
        }
        let mut text = Vec::new();
        for line in &lines {
            write(&mut text, line)?;
        }
        file::replace(&self.path, &text).map_err(io::Error::other)?;
        File::options().append(true).open(&self.path)
    }

    fn append(&mut self, line: &Line) {
        let mut text = Vec::new();
        let written = write(&mut text, line).and_then(|()| match &mut self.out {
            // In one piece, so that two programs do not mix theirs.
            Some(out) => out.write_all(&text).and_then(|()| out.sync_data()),
            None => Ok(()),
        });
        if written.is_err() {
            self.out = None;
        }
    }

    pub(super) fn mark(&mut self, entry: &Entry, stamp: &Stamp) {
        let mark = Mark {
            run: self.run,
            path: entry.path.clone(),
            stamp: stamp.clone(),
            digest: entry.digest.label(),
            unix_s: Day::today().0,
        };
        self.append(&Line::Mark(mark.clone()));
        self.latest.insert(mark.path.clone(), mark);
    }

    /// The run has looked at every file: the next one begins anew.
    pub fn end(&mut self) {
        self.ended = true;
        self.append(&Line::Ended(self.run));
        self.out = None;
    }

    /// Whether the file was found right in this state.
    pub(super) fn has(&self, entry: &Entry, stamp: &Stamp) -> bool {
        let same = |mark: &Mark| mark.stamp == *stamp && mark.digest == entry.digest.label();
        stamp.modified.is_some() && self.latest.get(&entry.path).is_some_and(same)
    }

    /// Whether the run that is under way found it right.
    pub(super) fn has_in_run(&self, entry: &Entry, stamp: &Stamp) -> bool {
        self.has(entry, stamp) && self.latest.get(&entry.path).is_some_and(|mark| mark.run == self.run)
    }

    /// The day on which the last file was found right, if any was.
    pub fn day(&self) -> Option<Day> {
        self.latest.values().map(|mark| Day(mark.unix_s)).max()
    }

    /// Whether this is the first time that it is asked; remembers that it was. Where that cannot be remembered it is said
    /// again, which is better than never.
    pub(super) fn say_once(&mut self) -> bool {
        let first = !self.said;
        if first {
            self.said = true;
            let _ = self.rewrite();
        }
        first
    }
}

fn write(out: &mut Vec<u8>, line: &Line) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.push(b'\n');
    Ok(())
}
