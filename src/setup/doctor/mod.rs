//! What this machine can do: a list of checks, what they found, and what to do about it.
//!
//! [`examine`] goes through them one by one and tells each as it ends, so that a screen can show them while the slower
//! ones (the disk, a checkpoint's headers) are still under way. Everything that it reads of the system lies under
//! [`Subject::root`], so that a test can describe any machine. It changes nothing: the one thing that it writes is a file
//! to measure a disk with, which is gone when it ends, however it ends.
//!
//! | file | what it looks at |
//! | --- | --- |
//! | `machine` | processors, memory, swap, pages, open files, the clock |
//! | `screen` | the terminal |
//! | `files` | a checkpoint's files, and its tokenizer |
//! | `place` | the disk of the target: room, file system, ways of reading, rates |
//! | `outlook` | what follows: the preset that fits, seconds for a token, the next command |

mod files;
mod machine;
mod outlook;
mod place;
mod screen;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;

pub use outlook::{Expected, Outlook, Planner};
pub use screen::Terminal;

use crate::checkpoint::Checkpoint;
use crate::config::Paths;
use crate::sys::memory;
use crate::units::{Bytes, Rate};

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// As it should be.
    Ok,
    /// It works, and could be better.
    Warn,
    /// What was asked for does not work like this.
    Fail,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What: `memory`, `disk`.
    pub name: &'static str,
    /// How it ended.
    pub status: Status,
    /// What was found, in one sentence without an end.
    pub finding: String,
    /// What to do about it; empty where there is nothing to do.
    pub advice: String,
}

impl Check {
    fn new(
        name: &'static str,
        status: Status,
        finding: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { name, status, finding: finding.into(), advice: advice.into() }
    }

    fn ok(name: &'static str, finding: impl Into<String>) -> Self {
        Self::new(name, Status::Ok, finding, "")
    }

    fn warn(name: &'static str, finding: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(name, Status::Warn, finding, advice)
    }

    fn fail(name: &'static str, finding: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(name, Status::Fail, finding, advice)
    }
}

/// What is examined.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The folder in which `/proc` and `/sys` lie: `/`.
    pub root: PathBuf,
    /// Where the user's files lie.
    pub paths: Paths,
    /// The instruction set that the user forces, if any: what `DORMOUSE_CPU` says.
    pub forced_tier: Option<String>,
    /// Where the screen is; nothing where there is none.
    pub terminal: Option<Terminal>,
    /// What the machine takes for now.
    pub now: SystemTime,
    /// The model, or where it is to go.
    pub target: Target,
    /// The model whose files are looked at, where that is not what [`Subject::target`] is for.
    pub model: Option<Target>,
    /// How long a disk may be measured; nothing where it is not.
    pub measure: Option<Measure>,
    /// Who knows what a token costs; without one there is no outlook.
    pub planner: Option<Planner>,
}

impl Subject {
    /// The machine that the program runs on: without a terminal, and without a disk's rate or an outlook.
    pub fn here(paths: Paths, target: Target) -> Self {
        Self {
            root: PathBuf::from("/"),
            paths,
            forced_tier: std::env::var("DORMOUSE_CPU").ok(),
            terminal: None,
            now: SystemTime::now(),
            target,
            model: None,
            measure: None,
            planner: None,
        }
    }
}

/// A folder with a model in it, or for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The folder, which need not exist yet.
    pub folder: PathBuf,
    /// Whether the user named it: what is wrong with a folder that nobody asked for is no failure.
    pub named: bool,
    /// Whether a model should be there already.
    pub holds_model: bool,
}

impl Target {
    /// A folder that nobody named: a place for the real model, or the model that is there.
    pub fn at(folder: &Path) -> Self {
        let holds_model = folder.join(Checkpoint::CONFIG_FILE).exists();
        Self { folder: folder.to_owned(), named: false, holds_model }
    }
}

/// What measuring a disk may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure {
    /// Bytes of the file that is written where there is no model to read; a quarter of what is free at most.
    pub size: Bytes,
    /// Seconds for writing it, and as many for reading.
    pub seconds: f64,
}

impl Default for Measure {
    fn default() -> Self {
        Self { size: Bytes(1 << 30), seconds: 6.0 }
    }
}

/// Everything that was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// In the order in which they were made.
    pub checks: Vec<Check>,
    /// How Kimi K3, or the model that was named, would run; nothing where it would not.
    pub outlook: Option<Outlook>,
    /// What the disk was measured at: past the page cache, and through it.
    #[serde(skip)]
    pub rates: [Option<Rate>; 2],
    /// The command to go on with.
    pub next: String,
}

impl Report {
    /// The worst of all checks.
    pub fn status(&self) -> Status {
        self.checks.iter().map(|check| check.status).max().unwrap_or(Status::Ok)
    }

    /// What follows from the checks, in words.
    pub fn conclusion(&self) -> String {
        match &self.outlook {
            Some(outlook) => format!("Kimi K3 would run here with {}.", outlook.in_words()),
            None => {
                "There is too little memory for Kimi K3. The small model that comes with the program runs."
                    .to_owned()
            }
        }
    }
}

/// Whoever watched wanted no more of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the examination was stopped")]
pub struct Stopped;

/// Examines the machine. `tell` hears of each check as it ends, on this thread; `stop` is asked often.
pub fn examine(
    subject: &Subject,
    stop: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(&Check),
) -> Result<Report, Stopped> {
    let target = &subject.target;
    let mut told = Told { stop, tell, checks: Vec::new() };
    for look in [
        machine::processor,
        machine::cores,
        machine::memory,
        machine::swap,
        machine::huge_pages,
        machine::open_files,
        machine::clock,
        screen::terminal,
    ] {
        told.take([look(subject)])?;
    }
    let files = files::files(subject, subject.model.as_ref().unwrap_or(target));
    told.take(files.checks)?;
    let shards = if subject.model.is_none() { files.shards } else { Vec::new() };
    let ground = place::Ground::look(subject, target);
    told.take([place::room_for_model(&ground, target)])?;
    let reading = place::reading(subject, &ground, &shards, stop)?;
    told.take(reading.checks)?;
    let checks = told.checks;
    let machine = memory::machine_at(&subject.root).unwrap_or_else(memory::machine);
    let outlook =
        subject.planner.as_ref().and_then(|planner| Outlook::of(planner, target, &machine, reading.rate));
    let next = outlook::next(target, &checks, files.begun, outlook.as_ref());
    Ok(Report { checks, outlook, rates: reading.rates, next })
}

/// Checks as they come in.
struct Told<'a> {
    stop: &'a dyn Fn() -> bool,
    tell: &'a mut dyn FnMut(&Check),
    checks: Vec<Check>,
}

impl Told<'_> {
    fn take(&mut self, checks: impl IntoIterator<Item = Check>) -> Result<(), Stopped> {
        for check in checks {
            if (self.stop)() {
                return Err(Stopped);
            }
            (self.tell)(&check);
            self.checks.push(check);
        }
        Ok(())
    }
}
