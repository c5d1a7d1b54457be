//! Conversations on disk: one append-only journal for each session, so that a crash costs nothing that was written.
//!
//! | file | what it does |
//! | --- | --- |
//! | `folder` | all sessions of a user: listed, made, opened, deleted |
//! | `record` | what a journal holds, and its bytes |
//! | `branches` | which of a session's turns follow each other |
//! | `content` | a session as its records tell it, and reading a journal that may be damaged |
//! | `journal` | the thread that writes, and what happens when the disk is full |
//! | `date` | times as a person reads them |
//!
//! # The file
//!
//! `ID.journal` begins with 12 bytes: the letters `dormouse`, then the version of the format as a little-endian u32,
//! which is 1. Then one record follows another:
//!
//! | bytes | what |
//! | --- | --- |
//! | 4 | length of the body, little-endian u32 |
//! | 8 | checksum, little-endian u64: XXH3-64 over the four bytes of the length and the body, seeded with the checksum of the record before (the first with 0) |
//! | … | body: one letter, and what it means |
//!
//! The seed chains the records: one that is missing, doubled, moved, or of another file does not fit, as a damaged one
//! does not. Reading ends at the first record that does not fit; all before it count. Bodies are, by their letter:
//!
//! | letter | after it |
//! | --- | --- |
//! | `H` | JSON: the model's digest, folder and name, when the session was made; the first record, and only that |
//! | `U` | JSON: a turn begins after the last one: the user's message, effort, temperature, top-p, seed, limits, time |
//! | `B` | JSON: a turn begins elsewhere: the number of the turn that it follows, how many of the oldest turns are not shown to the model from now on, and what `U` has |
//! | `G` | JSON: the number of the turn after which the conversation goes on |
//! | `P` | u32 and u64: how many ids the rendered prompt has, and XXH3-64 over them (each a little-endian u32) |
//! | `T` | a byte for the channel (0 thinking, 1 answer, 2 tools, 3 between) and a u32, the generated id |
//! | `E` | JSON: the turn ended: why, when, what failed, which limit it reached, what it took (tokens and seconds) |
//! | `R` | JSON: the turn was taken up again, when |
//! | `N` | JSON: a note |
//! | `L` | JSON: a new title |
//! | `S` | JSON: the system message from the next turn on, or null |
//!
//! Ids are the truth: the text of an answer is not stored, it is what its ids decode to. A turn without `E` was cut, by
//! a crash or a loss of power, and goes on from its last `T` with the same random numbers.
//!
//! Nothing is overwritten: a message that is edited and an answer that is asked for again begin another turn beside the
//! old one (`B`), and both are kept. Turns are numbered from 1 in the order in which they began; 0 stands for the
//! beginning. The branch that is gone on with ends at the turn that began last or was gone to last.
//!
//! # What is promised
//!
//! A record is handed to the system within moments, so that nothing is lost when the program dies, and flushed to the
//! disk within a second and at the end of a turn, so that no more than a second is lost when the machine does. A full
//! disk holds up the journal and loses nothing: see [`Trouble`]. Opening a damaged journal for writing moves what did not
//! fit to `ID.lost` before it is cut off.

mod branches;
mod content;
mod date;
mod error;
mod folder;
mod journal;
mod record;

pub use content::{Damage, Session, Turn};
pub use date::{stamp, text as date, unix_now};
pub use error::Error;
pub use folder::{Entry, Folder, Opened};
pub use journal::{Journal, Trouble};
pub use record::{Branch, End, Header, PromptDigest, Record, TurnStart};
