//! How failures of settings and of the small model are told, and how any failure is printed.

use std::io::Write;

use super::output::clean;
use crate::protocol::{ExitCode, UserError};
use crate::setup::seal;
use crate::setup::wizard::Failure;
use crate::{config, setup};

/// Prints a failure to standard error. File names and stored text in it may hold control codes; they stay out.
pub(super) fn print(error: &UserError) {
    // Where standard error is gone there is nobody left to tell; the exit code still says it.
    let _ = writeln!(std::io::stderr(), "error: {}", clean(&error.to_string()));
}

/// Prints what is worth knowing and no failure, also to standard error.
pub(super) fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "note: {}", clean(text));
}

impl From<config::Error> for UserError {
    fn from(error: config::Error) -> Self {
        Self::from(&error)
    }
}

impl From<&config::Error> for UserError {
    fn from(error: &config::Error) -> Self {
        let hint = match error {
            config::Error::NoHome => {
                "Set HOME, or DORMOUSE_HOME to a folder for the program's files.".to_owned()
            }
            config::Error::Unreadable(_) => {
                "Nobody needs a config file: make it readable or remove it, or set DORMOUSE_HOME to another folder."
                    .to_owned()
            }
            config::Error::File { .. } => {
                let known: Vec<_> = config::Key::ALL.iter().map(|key| key.name()).collect();
                format!("The keys of the config file are {}.", known.join(", "))
            }
            config::Error::Both(_) | config::Error::Value { .. } => String::new(),
            config::Error::Key { .. } => {
                let known: Vec<_> = config::Key::ALL.iter().map(|key| key.name()).collect();
                format!("The keys are {}.", known.join(", "))
            }
            config::Error::Unwritable(_) => {
                "Make room there or make it writable; the program runs with --model and --preset as well.".to_owned()
            }
        };
        let (code, title) = match error {
            config::Error::Unwritable(_) => (ExitCode::Resources, "The setting cannot be written"),
            _ => (ExitCode::Usage, "Bad settings"),
        };
        Self::new(code, title, error.to_string()).with_hint(hint)
    }
}

impl From<&Failure> for UserError {
    fn from(failure: &Failure) -> Self {
        match failure {
            Failure::Download(error) => error.as_ref().into(),
            Failure::Files(error) => error.as_ref().into(),
            Failure::Config(error) => error.as_ref().into(),
            Failure::NoThread => Self::new(ExitCode::Resources, "The system refuses a thread", "")
                .with_hint("Close other programs, and try again."),
        }
    }
}

impl From<seal::Error> for UserError {
    fn from(error: seal::Error) -> Self {
        let detail = error.to_string();
        match error {
            seal::Error::Checkpoint(error) => error.into(),
            seal::Error::Changed => {
                Self::new(ExitCode::ModelFiles, "The model's files cannot be sealed", detail)
                    .with_hint("Wait until nothing writes to them any more, and seal them then.")
            }
            seal::Error::System(_) => {
                Self::new(ExitCode::Resources, "The model's files cannot be read", detail)
                    .with_hint("Close other programs, and try again.")
            }
            seal::Error::Stopped => Self::new(ExitCode::Stopped, "Reading was stopped", ""),
        }
    }
}

impl From<setup::Error> for UserError {
    fn from(error: setup::Error) -> Self {
        match &error {
            setup::Error::File(_) => Self::new(
                ExitCode::Resources,
                "The small model cannot be laid out",
                error.to_string(),
            )
            .with_hint(
                "It takes 10 MB. Make room there, set DORMOUSE_HOME to a folder that can be written, or name \
                     another checkpoint with --model.",
            ),
            setup::Error::Program { .. } => {
                Self::new(ExitCode::ModelFiles, "The program is damaged", error.to_string())
                    .with_hint("Install it again.")
            }
        }
    }
}
