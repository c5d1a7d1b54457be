//! The command line: arguments as typed, one file for each verb.
//!
//! | file | what it does |
//! | --- | --- |
//! | `args` | what was typed, not yet looked at |
//! | `settings` | what counts after the config file and the environment |
//! | `chat` | the chat, on the full screen or in lines, which is what the program does without a verb |
//! | `look` | the user's own keys and themes |
//! | `setup` | the way to the real model, on the screen or without a question |
//! | `download` | fetches the real model, or checks it |
//! | `run` | one turn for a script, on standard output |
//! | `batch` | all prompts of a folder, overnight |
//! | `input`, `output`, `progress`, `report` | the parts of `run` |
//! | `kept`, `words` | a run's turn in a session, and the text of its ids |
//! | `sessions` | the conversations that were written down: listed, shown, exported, deleted |
//! | `plan` | how memory would be divided |
//! | `verify` | checking a checkpoint, repairing it, and sealing it |
//! | `config` | settings looked at and changed |
//! | `doctor` | what this machine can do |
//! | `bench` | measuring the disk, decoding, and the arithmetic |
//! | `json` | objects for scripts |
//! | `error` | how a failure is printed |

mod args;
mod batch;
mod bench;
mod chat;
mod config;
mod doctor;
mod download;
mod error;
mod input;
mod json;
mod kept;
mod look;
mod output;
mod plan;
mod progress;
mod report;
mod run;
mod sessions;
mod settings;
mod setup;
mod verify;
mod words;

use std::ffi::OsString;
use std::io;

use clap::Parser;

use crate::protocol::{ExitCode, UserError};
use args::{Args, Bench, Verb};
use chat::Which;

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
        None => {
            let which = if args.go_on { Which::Last } else { Which::New };
            chat::chat(&args.common, which, None, args.inline)
        }
        Some(_) if args.go_on => Err(UserError::new(
            ExitCode::Usage,
            "`--continue` stands alone here",
            "before a verb it means the chat, and another verb was given",
        )
        .with_hint("`dormouse run --session ID --continue` finishes a turn.")),
        Some(Verb::Chat { session, pick, inline }) => {
            let which = match session {
                Some(id) => Which::Named(id),
                None if *pick => Which::Picked,
                None => Which::New,
            };
            chat::chat(&args.common, which, None, args.inline || *inline)
        }
        Some(Verb::Setup(setup)) => setup::setup(&args.common, setup),
        Some(Verb::Download(download)) => download::run(download),
        Some(Verb::Run(run)) => match (&run.messages_dir, &run.out) {
            (Some(dir), Some(out)) => batch::batch(&args.common, run, dir, out),
            _ => run::run(&args.common, run),
        },
        Some(Verb::Sessions { action }) => sessions::sessions(&args.common, action),
        Some(Verb::Plan(plan)) => plan::plan(&args.common, plan),
        Some(Verb::Verify(verify)) => verify::verify(&args.common, verify),
        Some(Verb::Config { action }) => config::config(&args.common, action),
        Some(Verb::Doctor(doctor)) => doctor::doctor(&args.common, doctor),
        Some(Verb::Bench(Bench::Disk(disk))) => bench::disk::disk(&args.common, disk),
        Some(Verb::Bench(Bench::Decode(decode))) => bench::decode::decode(&args.common, decode),
        Some(Verb::Bench(Bench::Context(context))) => bench::context::context(&args.common, context),
        Some(Verb::Bench(Bench::Kernels(kernels))) => bench::kernels::kernels(kernels),
    }
}

fn no_resource(what: &str, error: &io::Error) -> UserError {
    UserError::new(ExitCode::Resources, format!("The system refuses {what}"), error.to_string())
}
