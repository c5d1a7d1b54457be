//! What can be wrong with sessions.

use std::io;
use std::path::{Path, PathBuf};

use crate::protocol::{ExitCode, UserError};
use crate::sys::file;

/// A session cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not a name that a session can have.
    #[error("`{}` is no name for a session: letters, digits, `.`, `-` and `_`, at most 64, no dot first", id.escape_debug())]
    Id {
        /// What was given.
        id: String,
    },
    /// There is none of that name.
    #[error("there is no session `{id}` in {}", dir.display())]
    Missing {
        /// Its name.
        id: String,
        /// Where it was looked for.
        dir: PathBuf,
    },
    /// There is one of that name already.
    #[error("there is already a session `{id}`")]
    Exists {
        /// Its name.
        id: String,
    },
    /// Another program writes it.
    #[error("the session `{id}` is in use by another dormouse")]
    InUse {
        /// Its name.
        id: String,
    },
    /// Not a journal at all.
    #[error("{} is not a journal of dormouse: {problem}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A journal of a version that this program does not know.
    #[error("{} has version {version} of the format; this program knows version {known}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
        /// The version that is known.
        known: u32,
    },
    /// A file could not be read.
    #[error(transparent)]
    Read(#[from] file::Error),
    /// The system refused something.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl Error {
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

impl From<Error> for UserError {
    fn from(error: Error) -> Self {
        let (code, hint) = match &error {
            Error::Missing { .. } => (ExitCode::Usage, "`dormouse sessions list` shows all."),
            Error::InUse { .. } => (
                ExitCode::Usage,
                "Leave the other one first, or take another session; `dormouse sessions show` reads this one meanwhile.",
            ),
            Error::Id { .. } | Error::Exists { .. } => (ExitCode::Usage, ""),
            Error::Foreign { .. } => (ExitCode::Usage, "Delete the file, or name another session."),
            Error::Version { .. } => (ExitCode::Usage, "Open it with the version that wrote it."),
            Error::Read(_) | Error::Io { .. } => {
                (ExitCode::Resources, "Sessions lie in the user's data folder; DORMOUSE_HOME names another.")
            }
        };
        Self::new(code, "The session cannot be used", error.to_string()).with_hint(hint)
    }
}
