//! The chat format: rendering, parsing, transcript.

mod transcript;

pub use transcript::{Transcript, Turn};
