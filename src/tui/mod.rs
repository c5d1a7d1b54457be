//! The chat: on the whole screen, or in lines where there is none.
//!
//! [`run()`] owns the terminal until the user leaves. It talks to the engine through [`EngineLink`] alone: commands go
//! down, events come up, numbers are sampled; nothing here waits for the engine, so the screen answers whatever the
//! engine does.
//!
//! | file | what |
//! | --- | --- |
//! | `app/` | the state, and how each message changes it: pure |
//! | `view/` | the screen as a function of the state, one file for each region |
//! | `transcript/` | the conversation as rows: markdown, wrapping, scrolling |
//! | `run.rs` | the loop: input, engine, signals, the next frame |
//! | `lines.rs` | the same chat in lines, where there is no screen |
//! | `outside.rs` | what both have outside: the engine, the session, the models |
//! | `terminal.rs` | the modes of the terminal, set and unset in one place |
//! | `backend.rs` | how cells reach the terminal |
//! | `input/`, `signals.rs` | the two threads that only listen |
//! | `csv.rs` | tables for other programs |
//! | `counter.rs` | counts the tokens of what is being written |
//! | `keeper.rs`, `files.rs` | writes the conversation down; writes it out to a file |
//! | `library.rs`, `opening.rs` | the thread that reads other sessions, and one as the screen takes it in |
//! | `models.rs` | which models there are, as the screen asks |
//! | `clerk.rs`, `past.rs` | files beside it: what was sent before, what was copied, what is put into a message |
//! | `clipboard.rs`, `editor.rs` | the terminal's clipboard, the user's editor |
//! | `composer.rs`, `draft.rs` | the editor, and what is written in it: text and chips |
//! | `commands/`, `keymap/` | the tables of commands and of keys |
//! | `written.rs` | the user's own files of keys and themes, with their lines |
//! | `theme/`, `width.rs`, `numbers.rs` | styles by meaning, what text may show and how wide it is, numbers |
//!
//! # The mouse
//!
//! The wheel can only be told from the arrow keys if the program takes the mouse, and then the terminal's own
//! selection needs Shift. The screen takes button events alone (no movement), says so when a button is pressed, and
//! gives the mouse back with F3.

mod app;
mod backend;
mod clerk;
mod clipboard;
mod commands;
mod composer;
mod counter;
mod csv;
mod draft;
mod editor;
mod error;
mod files;
mod input;
mod keeper;
mod keymap;
mod library;
mod lines;
mod models;
mod numbers;
mod opening;
mod outside;
mod past;
mod run;
mod signals;
mod terminal;
#[cfg(test)]
mod tests;
mod theme;
mod transcript;
mod view;
mod width;
mod written;

pub use app::SetUp;
pub use clerk::Files;
pub use error::Error;
pub use files::expand;
pub use keeper::Keeper;
pub use keymap::Keymap;
pub use library::{Words, open};
pub use lines::{Ended, run_lines};
pub use models::{Model, Models, SMALL};
pub use opening::Opening;
pub use run::run;
pub use terminal::check as check_terminal;
pub use theme::Themes;

use std::path::PathBuf;

use crate::config::Remembered;
#[cfg(doc)]
use crate::protocol::EngineLink;
use crate::protocol::{Limits, Sampling, Settings, Thinking};

/// What the screen is started with.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What the engine is to load.
    pub settings: Settings,
    /// How much is thought to begin with.
    pub thinking: Thinking,
    /// How the model is called on the screen.
    pub model_label: String,
    /// Whether it is the small model of the program: the screen says that it is a demonstration.
    pub demo: bool,
    /// How tokens are drawn.
    pub sampling: Sampling,
    /// The most tokens of an answer; `None` is up to the context limit.
    pub max_tokens: Option<usize>,
    /// How long a turn may think and answer.
    pub limits: Limits,
    /// What was switched on the screen before.
    pub remembered: Remembered,
    /// The file where what is switched is remembered, if it is.
    pub remember_at: Option<PathBuf>,
    /// The config file, where a theme that is chosen is written, if it is.
    pub config: Option<PathBuf>,
    /// Messages that a newcomer could begin with.
    pub suggestions: Vec<String>,
    /// What was sent before, oldest first; those of [`Options::files`] are read where there are none.
    pub earlier: Vec<String>,
    /// Where the screen keeps files of its own; without them nothing outlives it.
    pub files: Option<Files>,
    /// How the real model can be set up; nothing where it cannot be.
    pub setup: Option<SetUp>,
    /// The session that is opened again, if one is.
    pub opening: Option<Opening>,
    /// Whether the user is shown all sessions first, to choose one.
    pub pick: bool,
    /// What the user is told first, if anything.
    pub notice: Option<String>,
    /// Which key does what.
    pub keymap: Keymap,
    /// How the screen looks.
    pub themes: Themes,
    /// Where seeds are counted from if the user asks for none: they are written down before the engine could tell its own.
    pub first_seed: u64,
}

/// How the screen was left. The engine was told to stop its turn and to shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By the user.
    Quit,
    /// By this signal; a shell expects 128 plus its number as the exit code.
    Signal(i32),
}
