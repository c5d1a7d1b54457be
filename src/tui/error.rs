//! What can go wrong with a terminal.

use std::io;

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
    /// Keys do not come any more.
    #[error("the keyboard cannot be read any more: {reason}")]
    Input {
        /// Why.
        reason: String,
    },
}

impl From<Error> for UserError {
    fn from(error: Error) -> Self {
        let title = "The chat cannot use this terminal";
        let code = match error {
            Error::NotATerminal { .. } | Error::Dumb { .. } | Error::Unnamed => ExitCode::Usage,
            Error::Terminal { .. } | Error::Thread { .. } | Error::Input { .. } => ExitCode::Resources,
        };
        let usage = code == ExitCode::Usage;
        let error = Self::new(code, title, error.to_string());
        if usage { error.with_hint("`dormouse run --prompt TEXT` answers without a screen") } else { error }
    }
}
