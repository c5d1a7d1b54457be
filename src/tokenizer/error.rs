//! What can be wrong with a tokenizer's files.

use std::path::PathBuf;

use crate::sys::file;

/// A tokenizer could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file is not there, not readable or too large.
    #[error(transparent)]
    File(#[from] file::Error),
    /// The model's config gives a size that no tokenizer of this kind can have.
    #[error(
        "config.json: `vocab_size` must be at least 512 (256 single bytes and 256 reserved ids), found {found}"
    )]
    Vocabulary {
        /// The size given.
        found: usize,
    },
    /// A line of `tiktoken.model` is not what it should be.
    #[error("{}, line {line}: expected {expected}, found {found}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from one.
        line: usize,
        /// What belongs there.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// Not all ranks are there.
    #[error("{}: expected {expected} ranks (`vocab_size` less 256), found {found}; rank {missing} is missing", path.display())]
    Gap {
        /// The file.
        path: PathBuf,
        /// Ranks that belong there.
        expected: u32,
        /// Ranks there.
        found: u32,
        /// The lowest that is not.
        missing: u32,
    },
    /// A token that text cannot do without is not there.
    #[error("{}: expected a token for each of the 256 bytes, found none for 0x{byte:02x}", path.display())]
    MissingByte {
        /// The file.
        path: PathBuf,
        /// The byte.
        byte: u8,
    },
    /// Two ranks have the same bytes.
    #[error("{}: expected each token once, found {token:?} as rank {first} and as rank {second}", path.display())]
    SameToken {
        /// The file.
        path: PathBuf,
        /// The token, as far as it is text.
        token: String,
        /// The lower rank.
        first: u32,
        /// The higher rank.
        second: u32,
    },
    /// A file is not the JSON it should be.
    #[error("{}: expected JSON with an object `added_tokens_decoder` of tokens that have a `content` each: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        source: serde_json::Error,
    },
    /// An entry of `added_tokens_decoder` is not what it should be.
    #[error("{}: `added_tokens_decoder`, key {key:?}: expected {expected}, found {found}", path.display())]
    Reserved {
        /// The file.
        path: PathBuf,
        /// The entry.
        key: String,
        /// What belongs there.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// A marker without which there is no chat is not named.
    #[error("{}: `added_tokens_decoder`: expected an entry with the content {marker:?}, found none", path.display())]
    MissingMarker {
        /// The file.
        path: PathBuf,
        /// The marker.
        marker: &'static str,
    },
    /// The search for pieces or markers could not be set up.
    #[error("cannot compile a pattern of the tokenizer: {0}")]
    Pattern(#[source] Box<fancy_regex::Error>),
}

impl From<fancy_regex::Error> for Error {
    fn from(error: fancy_regex::Error) -> Self {
        Self::Pattern(Box::new(error))
    }
}

/// The beginning of something from a damaged file, fit to be printed: quoted and escaped.
pub(super) fn excerpt(bytes: &[u8]) -> String {
    const MOST: usize = 40;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MOST)]);
    let more = if bytes.len() > MOST { "..." } else { "" };
    format!("{text:?}{more}")
}
