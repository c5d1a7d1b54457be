//! The conversation as rows: raw text is the truth, rows are derived from it and kept until it changes.

mod cell;
mod fence;
mod find;
mod flow;
mod highlight;
mod hits;
mod languages;
mod layout;
mod markdown;
mod passage;
mod scroll;
mod table;
pub(crate) mod wrap;

pub(crate) use cell::{Asked, Facts, Look, summary};
pub(crate) use find::Needle;
pub(crate) use passage::{Chosen, Passage, passages, text_of};
pub(crate) use scroll::{Row, Scrollback, Step};
