//! The command line: arguments as typed, one file for each verb.
//!
//! | file | what it does |
//! | --- | --- |
//! | `args` | what was typed, not yet looked at |
//! | `settings` | what counts after the config file and the environment |
//! | `chat` | the full-screen chat, which is what the program does without a verb |
//! | `download` | fetches the real model, or checks it |
//! | `run` | one turn for a script, on standard output |
//! | `input`, `output`, `progress`, `report` | the parts of `run` |
//! | `error` | how a failure is printed |

mod args;
mod chat;
mod download;
mod error;
mod input;
mod output;
mod progress;
mod report;
mod run;
mod settings;

use std::ffi::OsString;
use std::io;

use clap::Parser;

use crate::protocol::{ExitCode, UserError};
use args::{Args, Verb};

/// How a verb ended, if it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    /// As it should.
    Well,
    /// The user stopped it.
    Stopped,
    /// A signal did.
    Signal(i32),
}

/// The whole program: `arguments` as the system hands them over, the exit code as it takes it back.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let args = match Args::try_parse_from(arguments) {
        Ok(args) => args,
        Err(error) => {
            // Help and version come this way too, and go to standard output. If nobody reads them, so be it.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::Usage as u8 } else { 0 };
        }
    };
    match dispatch(&args) {
        Ok(Done::Well) => 0,
        Ok(Done::Stopped) => ExitCode::Stopped as u8,
        // As a shell says it. Numbers of signals are small.
        Ok(Done::Signal(signal)) => u8::try_from(signal).map_or(u8::MAX, |signal| signal.saturating_add(128)),
        Err(error) => {
            error::print(&error);
            error.code as u8
        }
    }
}

fn dispatch(args: &Args) -> Result<Done, UserError> {
    match &args.verb {
        None => chat::chat(&args.common),
        Some(Verb::Download(download)) => download::run(download),
        Some(Verb::Run(run)) => run::run(&args.common, run),
    }
}

fn no_resource(what: &str, error: &io::Error) -> UserError {
    UserError::new(ExitCode::Resources, format!("The system refuses {what}"), error.to_string())
}
