//! The engine thread: it owns the model and its state, takes [`Command`]s and answers with [`Event`]s.
//!
//! | file | what it does |
//! | --- | --- |
//! | `worker` | the loop: one command after another, and what happens when one panics |
//! | `load` | from [`Settings`](crate::protocol::Settings) to a model that is ready |
//! | [`plan`] | how memory is divided, and what a token will cost |
//! | `generate` | one turn, from a prompt to its last token |
//! | `together` | turns that share their passes |
//! | `keep` | where a turn begins, and what is kept of it |
//! | `shelf` | states that are kept in memory for the turns to come |
//! | [`saved`] | states that are kept on the disk |
//! | `count` | counting tokens for those who hold no tokenizer |
//! | `allowance` | what is left of a turn's limits |
//! | [`sampler`] | drawing the next token |
//! | [`context`] | what a token takes after many others, measured |
//! | `telemetry`, `watch`, `metered` | numbers for whoever watches: of the machine and the store, of a pass, of reads |
//! | `error` | what went wrong elsewhere, as a person is told |
//!
//! A failure is an event and never a dead thread. A panic ends the turn as failed and drops the model, and the thread
//! waits for the next [`Command::Load`].

mod allowance;
pub mod context;
mod count;
mod error;
mod generate;
mod keep;
mod load;
mod metered;
pub mod plan;
pub mod sampler;
pub mod saved;
mod shelf;
mod telemetry;
mod together;
mod watch;
mod worker;

use std::io;
use std::sync::Arc;
use std::thread;

use crossbeam_channel::bounded;

use crate::model::{Observer, Unwatched};
use crate::protocol::{COMMANDS, EVENTS, EngineLink, Telemetry};

#[cfg(doc)]
use crate::protocol::{Command, Event};

/// Starts the engine on a thread of its own. It leaves on [`Command::Shutdown`], when all command senders are gone,
/// or when it finds nobody left to listen to its events.
pub fn spawn() -> io::Result<EngineLink> {
    spawn_observed(Arc::new(Unwatched))
}

/// The same with an observer that sees every forward pass, beside the engine's own.
pub fn spawn_observed(observer: Arc<dyn Observer + Send + Sync>) -> io::Result<EngineLink> {
    let (commands, inbox) = bounded(COMMANDS);
    let (outbox, events) = bounded(EVENTS);
    let telemetry = Arc::new(Telemetry::default());
    // The monitor leaves when this end is dropped, which the engine thread does on its way out.
    let (alive, ended) = bounded(0);
    let numbers = Arc::clone(&telemetry);
    thread::Builder::new().name("monitor".to_owned()).spawn(move || telemetry::monitor(&numbers, &ended))?;
    let worker = worker::Worker::new(inbox, outbox, Arc::clone(&telemetry), observer);
    thread::Builder::new().name("engine".to_owned()).spawn(move || worker.run(alive))?;
    Ok(EngineLink { commands, events, telemetry })
}
