//! What ends a download, or one attempt of it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::manifest;
use crate::units::Bytes;

/// Why the hub does not let us in. There are two kinds of leave: a token says who one is, and some repositories want
/// their terms to be accepted by that person first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It wants a token, and there is none.
    NoToken,
    /// There is a token, and it is not good.
    BadToken,
    /// The token is good, and its owner has not accepted the terms or may not read this.
    Terms,
}

/// The download ended without being complete. What was fetched is kept, and the same command goes on from there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The hub's address, the repository or another setting cannot be used.
    #[error("{what} `{}` {problem}", found.escape_debug())]
    Setting {
        /// Which setting.
        what: &'static str,
        /// What it is.
        found: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file could not be read.
    #[error(transparent)]
    File(#[from] crate::sys::file::Error),
    /// Another download has this folder.
    #[error("{} is being written by {holder}", folder.display())]
    Locked {
        /// The folder.
        folder: PathBuf,
        /// Who has it.
        holder: String,
    },
    /// There is not enough room.
    #[error(
        "{} are still to come, and with {} to spare {} has room for {}: {missing} bytes ({}) are missing",
        Bytes(*remaining), Bytes(*spare), place.display(), Bytes(*free), Bytes(*missing)
    )]
    NoSpace {
        /// Where the files will lie, as far as it exists.
        place: PathBuf,
        /// Bytes still to be fetched.
        remaining: u64,
        /// Bytes that should be left over.
        spare: u64,
        /// Bytes free.
        free: u64,
        /// Bytes missing.
        missing: u64,
    },
    /// The hub does not let us in.
    #[error("{}", access_text(*access, page))]
    Access {
        /// Why.
        access: Access,
        /// The page of the repository.
        page: String,
    },
    /// The hub has no such thing.
    #[error("the hub knows no {0}")]
    NotFound(String),
    /// The hub's list cannot be used.
    #[error(transparent)]
    Manifest(#[from] manifest::Error),
    /// Attempts were made, and none worked.
    #[error("gave up after {attempts} attempts: {last}")]
    GaveUp {
        /// How many.
        attempts: u32,
        /// What the last one met.
        last: String,
    },
    /// Who answers cannot prove to be the hub.
    #[error("{0}")]
    Certificate(String),
    /// The hub's answer makes no sense.
    #[error("{0}")]
    Protocol(String),
    /// No file of the list is wanted.
    #[error("none of the {files} files is named like {patterns}")]
    NothingWanted {
        /// Files in the list.
        files: usize,
        /// What was asked for.
        patterns: String,
    },
    /// Some files could not be had; the others are complete.
    #[error("{} of {files} files are not complete:{}", missing.len(), list(missing))]
    Incomplete {
        /// Files in all.
        files: usize,
        /// Path and reason of each that is missing.
        missing: Vec<(String, String)>,
    },
    /// The user stopped it.
    #[error("stopped")]
    Stopped,
}

fn access_text(access: Access, page: &str) -> String {
    match access {
        Access::NoToken => format!("the hub wants to know who asks for {page} (or has no such repository)"),
        Access::BadToken => format!("the hub does not accept the token for {page}"),
        Access::Terms => {
            format!(
                "the hub knows the token, but its owner may not read this yet: accept the terms at {page}"
            )
        }
    }
}

/// The first few; the screen is small.
fn list(missing: &[(String, String)]) -> String {
    const SHOWN: usize = 8;
    let shown = missing.iter().take(SHOWN).map(|(path, why)| format!("\n  {path}: {why}"));
    let more = missing.len().checked_sub(SHOWN + 1).map(|more| format!("\n  and {} more", more + 1));
    shown.chain(more).collect()
}

impl Error {
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// Whether the disk is full (or the user's share of it).
    pub(super) fn is_full(&self) -> bool {
        let full = |kind| matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        matches!(self, Self::Io { source, .. } if full(source.kind()))
    }
}

/// What one attempt can end in.
#[derive(Debug)]
pub(super) enum Fault {
    /// Something that may be better next time.
    Again(String),
    /// The server wants to be left alone, for as long as it says.
    Busy(Option<Duration>, String),
    /// This file is not what the list says. No attempt will change that.
    Wrong(String),
    /// Everything ends.
    Fatal(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Fatal(error)
    }
}
