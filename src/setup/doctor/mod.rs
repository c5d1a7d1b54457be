//! What this machine can do: a list of checks, what they found, and what to do about it.
//!
//! [`examine`] goes through them one by one and tells each as it ends, so that a screen can show them while the slower
//! ones are still under way. Everything that it reads of the system lies under
//! [`Subject::root`], so that a test can describe any machine. It changes nothing.
//!
//! | file | what it looks at |
//! | --- | --- |
//! | `machine` | processors, memory, swap, pages, open files, the clock |
//! | `screen` | the terminal |

mod machine;
mod screen;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::SystemTime;

use serde::Serialize;

pub use screen::Terminal;

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
    /// The instruction set that the user forces, if any: what `DORMOUSE_CPU` says.
    pub forced_tier: Option<String>,
    /// Where the screen is; nothing where there is none.
    pub terminal: Option<Terminal>,
    /// What the machine takes for now.
    pub now: SystemTime,
}

impl Subject {
    /// The machine that the program runs on, without a terminal.
    pub fn here() -> Self {
        Self {
            root: PathBuf::from("/"),
            forced_tier: std::env::var("DORMOUSE_CPU").ok(),
            terminal: None,
            now: SystemTime::now(),
        }
    }
}

/// Everything that was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// In the order in which they were made.
    pub checks: Vec<Check>,
}

impl Report {
    /// The worst of all checks.
    pub fn status(&self) -> Status {
        self.checks.iter().map(|check| check.status).max().unwrap_or(Status::Ok)
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
    let mut report = Report::default();
    let quick = [
        machine::processor(subject),
        machine::cores(subject),
        machine::memory(subject),
        machine::swap(subject),
        machine::huge_pages(subject),
        machine::open_files(subject),
        machine::clock(subject),
        screen::terminal(subject),
    ];
    for check in quick {
        if stop() {
            return Err(Stopped);
        }
        tell(&check);
        report.checks.push(check);
    }
    Ok(report)
}
