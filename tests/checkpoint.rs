//! The checkpoint room against files: whole ones, damaged ones, and headers of full size.

#[path = "checkpoint/whole.rs"]
mod whole;
