//! What reaches the screen, and what it wants done: all that passes between [`App`](super::App) and the world.

use std::path::PathBuf;

use crossterm::event::KeyEvent;

use super::picker::Told;
use crate::config::{Key, Remembered};
use crate::protocol::{CancelFlag, Command, Event, LayerCost, PauseFlag, Sample, UserError};
use crate::session::Record;
use crate::setup::wizard::{News, Order};
use crate::tui::counter::{Ask, Counted};
use crate::tui::draft::Chip;
use crate::tui::library::Wish;
use crate::tui::models::Model;
use crate::units::Bytes;

/// Something that happened.
#[derive(Clone, Debug)]
pub(crate) enum Msg {
    /// Time went by; the numbers are these.
    Clock(Box<Sample>),
    /// A key was pressed.
    Key(KeyEvent),
    /// Text came in one piece.
    Paste(String),
    /// The wheel was turned by so many notches; negative is up.
    Wheel(isize),
    /// A button of the mouse was pressed.
    Click,
    /// Files that a word may become.
    Listed {
        /// The word, with its `@`.
        word: String,
        /// What it may become, folders with a slash at their end.
        files: Vec<String>,
    },
    /// A file was read, or the reason why not.
    Attached {
        /// The word that names it, with its `@`.
        word: String,
        file: Result<Chip, String>,
    },
    /// The editor was left: the new draft, or what went wrong.
    Edited(Result<String, String>),
    /// Something that was asked for was done, or not.
    Told(String),
    /// Something has come of setting up.
    Setup(News),
    /// The terminal has got the keyboard, or lost it.
    Focus(bool),
    /// What each layer cost in the last pass.
    Layers(Vec<LayerCost>),
    /// The terminal tells the colour behind the text: red, green and blue from 0 to 1.
    Background([f32; 3]),
    /// A model was looked for.
    Model(Result<Model, UserError>),
    /// The conversation was written to a file, or was not: what to tell of it.
    Written(String),
    /// The engine has something to say.
    Engine(Event),
    /// The engine's end of the channels is closed.
    EngineGone,
    /// Tokens were counted.
    Counted(Counted),
    /// So many bytes of the conversation wait for room on the disk, or none any more.
    Disk(Option<Bytes>),
    /// What came of something that was asked of the sessions.
    Sessions(Told),
    /// A command could not be handed to the engine, which has not taken the ones before it.
    EngineBusy,
}

/// Something that is to be done.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// Hand this to the engine.
    Send(Command),
    /// Stop a turn.
    Cancel(CancelFlag),
    /// Count these tokens.
    Count(Ask),
    /// Hold a turn up, or let it go on.
    Pause(PauseFlag, bool),
    /// Ask this of the sessions.
    Sessions(Wish),
    /// Write this down; its time is not known here.
    Record(Record),
    /// Carry this out, of setting up.
    Setup(Order),
    /// What comes next is another conversation.
    CloseSession,
    /// Remember this message for the next start.
    Remember(String),
    /// Put this into the clipboard.
    Copy(String),
    /// Say which files this word may become.
    List(String),
    /// Read the file that this word names.
    Attach(String),
    /// Let the user write this in his editor.
    Edit(String),
    /// From here on it is with the model of this folder and name.
    Model(PathBuf, String),
    /// Say this to somebody who looks elsewhere.
    Announce(String),
    /// Keep what was switched for the next start.
    Switched(Remembered),
    /// Write this value for this key into the config file.
    Configure(Key, String),
    /// Write a table to a file, and say where it is.
    WriteTable {
        /// What it is of.
        name: &'static str,
        /// All of it.
        text: String,
    },
    /// Look for a model.
    FindModel(String),
    /// Write a text to a file; one that is there is only replaced where `over` says so.
    Write {
        /// As the user named it.
        path: PathBuf,
        /// All of it.
        text: String,
        /// Whether a file may be replaced.
        over: bool,
    },
    /// Ask the terminal what colour stands behind the text.
    AskBackground,
    /// Take the mouse, or give it back to the terminal.
    Mouse(bool),
    /// Go back to the shell until it lets us continue.
    Suspend,
    /// Draw every cell anew.
    Repaint,
    /// Leave the program.
    Leave,
}
