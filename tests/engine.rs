//! The engine in this process, on the small model: what a turn gives, what it keeps, and how it fails.

#[path = "engine/driver.rs"]
mod driver;
#[path = "engine/failures.rs"]
mod failures;
#[path = "engine/turns.rs"]
mod turns;
