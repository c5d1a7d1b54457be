//! One download, with all that it said.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dormouse::setup::download::{self, Error, Event, Options, Patience, State, Summary};

use crate::hub::{Hub, Served};

pub(crate) const KIB: usize = 1 << 10;
pub(crate) const SHARD: &str = "model-00001-of-000002.safetensors";
pub(crate) const OTHER: &str = "model-00002-of-000002.safetensors";

/// A model in four files, two of them large.
pub(crate) fn model() -> Vec<Served> {
    vec![
        Served::large(SHARD, 300 * KIB + 17),
        Served::large(OTHER, 200 * KIB),
        Served::small("config.json", "{\"model_type\": \"kimi_k3\"}\n"),
        Served::small("empty.txt", ""),
    ]
}

/// Somewhere to put it, and what happened there.
pub(crate) struct Place {
    dir: tempfile::TempDir,
    pub(crate) folder: PathBuf,
}

pub(crate) struct Outcome {
    pub(crate) ended: Result<Summary, Error>,
    pub(crate) events: Vec<Event>,
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { folder: dir.path().join("k3"), dir }
    }

    pub(crate) fn named(name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { folder: dir.path().join(name), dir }
    }

    pub(crate) fn above(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn options(&self, hub: &Hub) -> Options {
        Options {
            endpoint: hub.url.clone(),
            block: 32 << 10,
            jobs: 2,
            patience: Patience {
                stall: Duration::from_millis(400),
                first_wait: Duration::from_millis(2),
                longest_wait: Duration::from_millis(20),
                attempts: 5,
                first_attempts: 3,
                crawl: Duration::from_millis(100),
                room: Duration::from_millis(50),
            },
            ..Options::new(self.folder.clone())
        }
    }

    pub(crate) fn fetch(&self, hub: &Hub) -> Outcome {
        self.fetch_with(hub, |_| {})
    }

    pub(crate) fn fetch_with(&self, hub: &Hub, change: impl FnOnce(&mut Options)) -> Outcome {
        self.fetch_until(hub, change, |_| false)
    }

    /// Stops once an event is as `last` wants it.
    pub(crate) fn fetch_until(
        &self,
        hub: &Hub,
        change: impl FnOnce(&mut Options),
        last: impl Fn(&Event) -> bool,
    ) -> Outcome {
        let mut options = self.options(hub);
        change(&mut options);
        let stop = AtomicBool::new(false);
        let mut events = Vec::new();
        let ended = download::run(&options, &|| stop.load(Ordering::Relaxed), &mut |event| {
            if last(&event) {
                stop.store(true, Ordering::Relaxed);
            }
            events.push(event);
        });
        Outcome { ended, events }
    }

    /// Every file is there as it is served, and nothing of the way there is left but the folder's record.
    pub(crate) fn assert_whole(&self, files: &[Served]) {
        for file in files {
            let found =
                fs::read(self.folder.join(&file.path)).unwrap_or_else(|e| panic!("{}: {e}", file.path));
            assert!(found == *file.bytes, "{} is not what was served", file.path);
        }
        let hidden: Vec<String> = self.names().into_iter().filter(|name| name.starts_with('.')).collect();
        assert_eq!(hidden, [".dormouse-download.json"]);
    }

    /// Names in the folder, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Outcome {
    pub(crate) fn summary(&self) -> &Summary {
        self.ended.as_ref().unwrap_or_else(|error| panic!("{error}; {:?}", self.troubles()))
    }

    pub(crate) fn error(&self) -> &Error {
        self.ended.as_ref().err().unwrap()
    }

    /// What was in the way.
    pub(crate) fn troubles(&self) -> Vec<String> {
        let trouble = |event: &Event| match event {
            Event::Trouble(trouble) => Some(trouble.message.clone()),
            _ => None,
        };
        self.events.iter().filter_map(trouble).collect()
    }

    pub(crate) fn assert_trouble(&self, text: &str) {
        let troubles = self.troubles();
        assert!(troubles.iter().any(|trouble| trouble.contains(text)), "{text:?} is not in {troubles:?}");
    }

    /// The states that a file went through.
    pub(crate) fn states(&self, wanted: &str) -> Vec<State> {
        let state = |event: &Event| match event {
            Event::File { path, state } if path == wanted => Some(*state),
            _ => None,
        };
        self.events.iter().filter_map(state).collect()
    }
}
