//! Fetching a model from a hub, so that it can be left at any moment and goes on where it was.
//!
//! The revision is resolved to a commit once, and a folder stays with its commit. Every file has a length and a digest
//! in the hub's list. It comes under a name of its own (`.NAME.part`), in blocks that are written through to the disk
//! and then noted in a journal beside it, and it gets its final name only when its digest is right. So a kill costs at
//! most one block for each connection, and a file under its final name is one that can be used.
//!
//! | file | what it does |
//! | --- | --- |
//! | `run` | draws up the connections, and tells how far it is |
//! | `fetch` | one file, over as many attempts as it takes |
//! | `partial`, `journal`, `hash` | bytes on the disk, and what is known about them |
//! | `http`, `headers`, `endpoint` | requests, redirects, who may see the token |
//! | `manifest`, `pattern`, `record` | what there is to fetch, what of it is wanted, from which commit |
//! | `plan`, `backoff`, `limiter`, `pace`, `progress` | decisions and sums, without a network or a disk |
//! | `table` | the same as rows, for a screen |
//! | `lock` | one download for one folder |

mod backoff;
mod endpoint;
mod error;
mod fetch;
mod hash;
mod headers;
mod http;
mod journal;
mod limiter;
mod lock;
mod manifest;
mod pace;
mod partial;
mod pattern;
mod plan;
mod progress;
mod record;
mod run;
mod table;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use error::{Access, Error};
pub use http::Token;
pub use manifest::{Digest, Entry, Error as ManifestError};
pub use progress::{Connection, Snapshot, State, Trouble};
pub use record::Published;
pub use run::{Event, Summary, Wanted, run};
pub use table::{Row, Table};

pub(super) use hash::Judgement;
pub(super) use partial::judge;

/// Where the real model is published.
pub const REPO: &str = "moonshotai/Kimi-K3";
/// The hub that has it.
pub const ENDPOINT: &str = "https://huggingface.co";
/// About how many bytes it has, for whoever has not asked the hub yet: its 96 shards, and a little for the other files.
pub const ABOUT: u64 = 1_560_950_000_000;
/// Bytes that are made safe at once.
pub const BLOCK: u64 = 64 << 20;
/// Files that are fetched at once.
pub const JOBS: usize = 4;

/// What to fetch, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// `owner/name`.
    pub repo: String,
    /// The hub.
    pub endpoint: String,
    /// A branch, a tag or a commit; without it, that of the folder, and of an empty folder the main branch.
    pub revision: Option<String>,
    /// For the hub, and for nobody else.
    pub token: Option<Token>,
    /// Where the files go.
    pub folder: PathBuf,
    /// Files at once.
    pub jobs: usize,
    /// Bytes in a second, at most.
    pub limit: Option<u64>,
    /// Patterns of the files that are wanted; all, if there are none.
    pub only: Vec<String>,
    /// Bytes of a block.
    pub block: u64,
    /// How long to wait for what.
    pub patience: Patience,
}

impl Options {
    /// The real model, into `folder`.
    pub fn new(folder: PathBuf) -> Self {
        Self {
            repo: REPO.to_owned(),
            endpoint: ENDPOINT.to_owned(),
            revision: None,
            token: None,
            folder,
            jobs: JOBS,
            limit: None,
            only: Vec::new(),
            block: BLOCK,
            patience: Patience::default(),
        }
    }
}

/// Whether a folder is a download in which every file was right when it was last looked at; nothing if it is no download.
pub fn is_complete(folder: &Path) -> Option<bool> {
    record::Record::read(folder).map(|record| record.complete)
}

/// How long to wait for what.
#[derive(Clone, Debug)]
pub struct Patience {
    /// For a byte, before the connection is dropped.
    pub stall: Duration,
    /// After the first failure; each further one in a row doubles it.
    pub first_wait: Duration,
    /// The longest of these waits.
    pub longest_wait: Duration,
    /// Attempts in a row that bring nothing, before a file is given up.
    pub attempts: u32,
    /// The same before anything has begun, with someone waiting for the first word.
    pub first_attempts: u32,
    /// Over which a connection's rate is taken before it is held against the others'.
    pub crawl: Duration,
    /// Between two looks for room on a full disk.
    pub room: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            stall: Duration::from_secs(30),
            first_wait: Duration::from_secs(1),
            longest_wait: Duration::from_mins(5),
            // About half an hour without the network.
            attempts: 14,
            first_attempts: 4,
            crawl: Duration::from_secs(20),
            room: Duration::from_secs(1),
        }
    }
}
