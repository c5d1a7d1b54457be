//! The checkpoint room against files: whole ones, damaged ones, and headers of full size.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

#[path = "checkpoint/damaged.rs"]
mod damaged;
#[path = "checkpoint/fields.rs"]
mod fields;
#[path = "checkpoint/fullsize.rs"]
mod fullsize;
#[path = "checkpoint/support.rs"]
mod support;
#[path = "checkpoint/whole.rs"]
mod whole;
