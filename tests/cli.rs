//! The program itself, as a script runs it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what fails here fails a test")]

#[path = "cli/batch.rs"]
mod batch;
#[path = "cli/bench.rs"]
mod bench;
#[path = "cli/config.rs"]
mod config;
#[path = "cli/container.rs"]
mod container;
#[path = "cli/contract.rs"]
mod contract;
#[path = "cli/disk_full.rs"]
mod disk_full;
#[path = "cli/doctor.rs"]
mod doctor;
#[path = "support/nano.rs"]
mod nano;
#[path = "cli/plan.rs"]
mod plan;
#[path = "cli/refusals.rs"]
mod refusals;
#[path = "cli/sessions.rs"]
mod sessions;
#[path = "cli/states.rs"]
mod states;
#[path = "cli/stopping.rs"]
mod stopping;
#[path = "cli/support.rs"]
mod support;
#[path = "cli/verify.rs"]
mod verify;
