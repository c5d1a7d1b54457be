//! The engine in this process, on the small model: what a turn gives, what it keeps, and how it fails.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "what fails here fails a test")]

#[path = "engine/driver.rs"]
mod driver;
#[path = "engine/failures.rs"]
mod failures;
#[path = "engine/limits.rs"]
mod limits;
#[path = "support/nano.rs"]
mod nano;
#[path = "engine/reuse.rs"]
mod reuse;
#[path = "engine/states.rs"]
mod states;
#[path = "engine/together.rs"]
mod together;
#[path = "engine/turns.rs"]
mod turns;
