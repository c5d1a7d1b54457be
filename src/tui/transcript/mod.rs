//! The conversation as rows: raw text is the truth, rows are derived from it and kept until it changes.

mod cell;
mod flow;
mod markdown;
mod scroll;
mod table;
pub(crate) mod wrap;

pub(crate) use cell::{Facts, Look};
pub(crate) use scroll::Scrollback;
