//! The chat format (spec, section 3): rendering, parsing, transcript.
//!
//! A conversation is [rendered](render()) to [`Segment`]s, which are [encoded](encode()) one by one: only a segment that is
//! marked as special becomes a control token, so no text of a user or tool can forge one. What the model writes back is
//! read by a [`Parser`], token by token, into [`Part`](crate::protocol::Part)s. A [`Transcript`] keeps both sides, and is
//! [exported](export()) for others. A model that is caught in a loop is noticed by [`repetition()`].

mod arguments;
mod call;
mod error;
mod export;
mod json;
mod openai;
mod parse;
mod render;
mod repetition;
mod spelled;
mod tag;
mod transcript;

pub use crate::protocol::Channel;
pub use error::Error;
pub use export::{Form, export, export_all};
pub use openai::messages_from_openai;
pub use parse::Parser;
pub use render::{Segment, encode, render};
pub use repetition::{Repetition, repetition};
pub use tag::Markers;
pub use transcript::{Transcript, Turn};
