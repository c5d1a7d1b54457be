//! From nothing to the real model, step by step: a state machine without a terminal, a thread or a clock.
//!
//! Whoever shows it hands in what the user does ([`Act`]) and what has come of earlier orders ([`News`]), and carries out
//! the [`Order`]s that come back: those of [`Hands`] are carried out by [`Hands`], the others are the shower's own. So the
//! screen, a script and the tests go through the same steps.
//!
//! | file | what it does |
//! | --- | --- |
//! | `machine` | the steps, and how one leads to the next |
//! | `fetching` | the download, which goes on whatever step is shown |
//! | `place` | what can be said of a folder before anything is put there |
//! | `kept` | the little file by which the next start goes on from here |
//! | `hands` | carries orders out on threads of its own |
//!
//! A step can be left at any moment and comes back as it was: what was found out and what was typed stays, and the download
//! does not care which step is looked at.

mod fetching;
mod hands;
mod kept;
mod machine;
mod place;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

pub use fetching::{Fetching, Stage};
pub use hands::Hands;
pub use kept::Kept;
pub use machine::{Test, Verdict, Wizard};
pub use place::{Holds, Look};
use serde::{Deserialize, Serialize};

use super::{doctor, download};
use crate::checkpoint;
use crate::config::Preset;

/// What is shown, in the order of the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// A greeting, and the short way out: the small model.
    Welcome,
    /// What this machine can do.
    Machine,
    /// The small model or the real one.
    Model,
    /// Where the real one goes.
    Place,
    /// It is fetched.
    Download,
    /// Whether its files are what they should be.
    Verify,
    /// How much memory it gets, and a token to try it.
    Memory,
    /// It can be talked to.
    Ready,
}

impl Step {
    /// All of them, in order.
    pub const ALL: [Self; 8] = [
        Self::Welcome,
        Self::Machine,
        Self::Model,
        Self::Place,
        Self::Download,
        Self::Verify,
        Self::Memory,
        Self::Ready,
    ];

    /// The step before this one.
    fn before(self) -> Option<Self> {
        Self::ALL.into_iter().rev().find(|step| *step < self)
    }
}

/// Which model one chats with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Model {
    /// That of the program.
    Small,
    /// That of the hub.
    Real,
}

/// What the user does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// On to the next step, or whatever this one is there for.
    Next,
    /// To the step before.
    Back,
    /// The choice above.
    Up,
    /// The choice below.
    Down,
    /// Stop what runs for now, or go on with it; where a test runs or would run, do without.
    Pause,
    /// The folder is called so now.
    Place(String),
    /// Show this step.
    Show(Step),
    /// Look at the machine anew.
    Examine,
    /// To the chat. What runs goes on.
    Leave,
}

/// What is to be done outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// Look at this machine, and at the disk where the folder lies or will lie.
    Examine(PathBuf),
    /// Look at a folder.
    Look(PathBuf),
    /// Fetch the real model into the folder.
    Fetch(PathBuf),
    /// Stop fetching. What came is kept.
    Pause,
    /// Hold the files in the folder against the config.
    Verify(PathBuf),
    /// Write down how far this is.
    Keep(Kept),
    /// Write this model and this budget into the config file.
    Configure(PathBuf, Preset),
    /// Load the model with this budget, and compute one token. Not one of [`Hands`].
    Try(PathBuf, Preset),
    /// Give that up. Not one of [`Hands`].
    EndTrial,
    /// Show the chat, with the model that it had. Not one of [`Hands`].
    Close,
    /// Show the chat, with this model. Not one of [`Hands`].
    Chat(Model),
}

/// What has come of an order.
#[derive(Clone, Debug)]
pub enum News {
    /// A check of the machine is done.
    Check(doctor::Check),
    /// All are.
    Examined(Box<doctor::Report>),
    /// A folder was looked at.
    Looked(PathBuf, Look),
    /// The download has something to say.
    Fetch(download::Event),
    /// It is over.
    Fetched(Result<download::Summary, Failure>),
    /// The files in this folder were looked at.
    Verified(PathBuf, Result<Files, Failure>),
    /// The model is loaded, and its first token is being computed.
    Loaded,
    /// A token was computed, in so many seconds; or why not, as it was told elsewhere.
    Tried(Result<f64, Told>),
    /// The config file is written, at this place.
    Configured(Result<PathBuf, Failure>),
}

/// A failure that is told in words already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// What went wrong, in a few words.
    pub title: String,
    /// Where, and what was found.
    pub detail: String,
    /// The way out.
    pub hint: String,
}

/// Why an order could not be carried out. Shared, since the screen's messages are copied.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The download ended without being complete.
    Download(Arc<download::Error>),
    /// The files are not what they should be.
    Files(Arc<checkpoint::Error>),
    /// The config file cannot be written.
    Config(Arc<crate::config::Error>),
    /// The system gives no thread.
    NoThread,
}

/// What a look at all files found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Files {
    /// How many shards.
    pub shards: usize,
    /// How many tensors are in them.
    pub tensors: u64,
    /// The bytes of these.
    pub bytes: u64,
}

/// With what it begins.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// How far an earlier run was, if there was one.
    pub kept: Option<Kept>,
    /// The folder that is proposed for the real model.
    pub place: PathBuf,
    /// What a leading `~` stands for.
    pub home: Option<PathBuf>,
    /// Bytes of memory that this machine has, within its limits; zero where that is not known.
    pub memory: u64,
    /// Whether to show it from the beginning, also where an earlier run was left for the chat.
    pub open: bool,
    /// The step to show first, where there is no earlier run.
    pub step: Option<Step>,
}
