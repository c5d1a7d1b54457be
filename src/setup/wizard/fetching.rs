//! The download as the wizard sees it: running, resting, over, and all that is known of its files.

use super::Failure;
use crate::setup::download::{Error, Event, Summary, Table};

/// How it stands with it.
#[derive(Clone, Debug)]
pub enum Stage {
    /// It was not begun.
    Idle,
    /// It runs.
    Runs,
    /// It was asked to stop and has not yet; when it has, it goes on at once where that was asked for meanwhile.
    Stops {
        /// Whether to go on at once.
        again: bool,
    },
    /// The user has it stopped for now.
    Paused,
    /// Something ended it.
    Failed(Failure),
    /// Every file is there, and its digest was right.
    Done {
        /// Files for which no digest is published.
        unverified: usize,
        /// Bytes that came over the network in this run.
        received: u64,
        /// How long it took.
        seconds: f64,
    },
}

/// The download.
#[derive(Clone, Debug)]
pub struct Fetching {
    /// How it stands.
    pub stage: Stage,
    /// Its files.
    pub table: Table,
}

impl Default for Fetching {
    fn default() -> Self {
        Self { stage: Stage::Idle, table: Table::default() }
    }
}

impl Fetching {
    /// Whether its thread lives.
    pub const fn is_alive(&self) -> bool {
        matches!(self.stage, Stage::Runs | Stage::Stops { .. })
    }

    /// Whether it is complete.
    pub const fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done { .. })
    }

    /// Whether it should run: the next start goes on with it.
    pub(super) const fn is_wanted(&self) -> bool {
        matches!(self.stage, Stage::Runs | Stage::Stops { again: true } | Stage::Failed(_))
    }

    /// What was ordered is to begin or to go on; true if it must be ordered from the hands.
    pub(super) fn begin(&mut self) -> bool {
        match &mut self.stage {
            Stage::Runs => false,
            Stage::Stops { again } => {
                *again = true;
                false
            }
            Stage::Idle | Stage::Paused | Stage::Failed(_) | Stage::Done { .. } => {
                self.stage = Stage::Runs;
                true
            }
        }
    }

    /// It is to stop; true if the hands must be told.
    pub(super) fn pause(&mut self) -> bool {
        match &mut self.stage {
            Stage::Runs => {
                self.stage = Stage::Stops { again: false };
                true
            }
            Stage::Stops { again } => {
                *again = false;
                false
            }
            Stage::Failed(_) => {
                self.stage = Stage::Paused;
                false
            }
            Stage::Idle | Stage::Paused | Stage::Done { .. } => false,
        }
    }

    pub(super) fn event(&mut self, event: &Event) {
        self.table.event(event);
    }

    /// It has ended; true if it must be ordered again.
    pub(super) fn ended(&mut self, how: Result<Summary, Failure>) -> bool {
        self.table.rest();
        let again = matches!(self.stage, Stage::Stops { again: true });
        self.stage = match how {
            Ok(summary) => Stage::Done {
                unverified: summary.unverified.len(),
                received: summary.received,
                seconds: summary.seconds,
            },
            Err(Failure::Download(error)) if matches!(*error, Error::Stopped) => {
                if again {
                    self.stage = Stage::Runs;
                    return true;
                }
                Stage::Paused
            }
            Err(failure) => Stage::Failed(failure),
        };
        false
    }
}
