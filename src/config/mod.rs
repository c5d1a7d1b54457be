//! Settings and paths: defaults, then the config file, then the environment, then flags.
//!
//! A setting is kept as the text that the user wrote, together with where it was written, until someone asks for its
//! value. So there is one parser for each setting whatever it came from, and every complaint names the place:
//! `memory = "lots" (from DORMOUSE_MEMORY)`.

mod edit;
mod file;
mod nearest;
mod paths;
mod preset;
mod remembered;
mod resolve;

use std::path::PathBuf;

pub use edit::{set, unset, write};
pub use nearest::nearest;
pub use paths::Paths;
pub use preset::Preset;
pub use remembered::Remembered;
pub use resolve::{Key, Layer, Setting, Settings, Source};

/// Settings could not be read, or a value is not what its key wants.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system does not say where the user's files go.
    #[error("the system names no home directory")]
    NoHome,
    /// The config file exists and cannot be read.
    #[error(transparent)]
    Unreadable(#[from] crate::sys::file::Error),
    /// The config file cannot be written.
    #[error(transparent)]
    Unwritable(crate::sys::file::Error),
    /// There is no such setting.
    #[error("there is no setting `{}`{}", found.escape_debug(), meant(*nearest))]
    Key {
        /// What was written.
        found: String,
        /// What may have been meant.
        nearest: Option<&'static str>,
    },
    /// The config file is not what it should be.
    #[error("{}, line {line}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The line, counted from one.
        line: usize,
        /// What is wrong there.
        problem: String,
    },
    /// Two settings in one place say the same thing in different words.
    #[error("{} ({}) and {} ({}) say the same thing: use one of them", .0[0].key.name(), .0[0].source, .0[1].key.name(), .0[1].source)]
    Both(Box<[Setting; 2]>),
    /// A value is not one that its key can have.
    #[error("{key} = \"{value}\" ({source_of}): {problem}", key = key.name(), value = value.escape_debug())]
    Value {
        /// The setting.
        key: Key,
        /// What was written.
        value: String,
        /// Where it was written.
        source_of: Source,
        /// What is wrong with it.
        problem: String,
    },
}

/// What may have been meant by an unknown name.
fn meant(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}
