//! What can go wrong with a terminal.

use std::io;
use std::path::PathBuf;

use crate::protocol::{ExitCode, UserError};

/// The screen cannot be shown, or not any longer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Input or output is a file or a pipe.
    #[error("{stream} is not a terminal")]
    NotATerminal {
        /// Which of them.
        stream: &'static str,
    },
    /// The terminal says that it cannot place text.
    #[error("the terminal is of the type `{term}`, which cannot show a full screen")]
    Dumb {
        /// The value of `TERM`.
        term: String,
    },
    /// Nobody says what terminal it is.
    #[error("the variable TERM, which names the type of the terminal, is not set")]
    Unnamed,
    /// The terminal refused something.
    #[error("the terminal failed while {doing}: {source}")]
    Terminal {
        /// What was being done.
        doing: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// A thread could not be started.
    #[error("the thread `{name}` could not be started: {source}")]
    Thread {
        /// Its name.
        name: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A file of keys or of a theme is not what it should be.
    #[error("{}, line {line}: {problem}", path.display())]
    Written {
        /// The file.
        path: PathBuf,
        /// The line, counted from one.
        line: usize,
        /// What is wrong there.
        problem: String,
    },
    /// Keys do not come any more.
    #[error("the keyboard cannot be read any more: {reason}")]
    Input {
        /// Why.
        reason: String,
    },
}

impl From<Error> for UserError {
    fn from(error: Error) -> Self {
        if let Error::Written { .. } = error {
            return Self::new(ExitCode::Usage, "Bad settings", error.to_string())
                .with_hint("Mend that line, or take it out: what no line says stays as it is.");
        }
        let title = "The chat cannot use this terminal";
        let code = match error {
            Error::NotATerminal { .. } | Error::Dumb { .. } | Error::Unnamed | Error::Written { .. } => {
                ExitCode::Usage
            }
            Error::Terminal { .. } | Error::Thread { .. } | Error::Input { .. } => ExitCode::Resources,
        };
        let usage = code == ExitCode::Usage;
        let error = Self::new(code, title, error.to_string());
        if usage { error.with_hint("`dormouse run --prompt TEXT` answers without a screen") } else { error }
    }
}
