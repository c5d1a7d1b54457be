//! The whole download: the list, the room, the connections, and how far it is.

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, RecvTimeoutError, unbounded};

use super::backoff::Backoff;
use super::endpoint::Hub;
use super::error::{Error, Fault};
use super::fetch::{self, Message, Shared};
use super::http::Client;
use super::journal::Header;
use super::limiter::Limiter;
use super::lock::{self, Lock};
use super::manifest::{self, Entry, Listing};
use super::pace::Typical;
use super::partial::Places;
use super::progress::{Progress, Snapshot, State, Trouble};
use super::record::{self, Listed, Record};
use super::{Options, pattern, plan};
use crate::sys::disk;

/// How often progress is told.
const TELL: Duration = Duration::from_millis(200);
/// How long connections may take to come to an end; those that hang in a read longer are left behind.
const GRACE: Duration = Duration::from_secs(2);
/// Bytes of one read.
const CHUNK: usize = 256 << 10;
/// Pages of a list, each with a thousand files or so.
const MOST_PAGES: usize = 1000;

/// What there is to tell meanwhile.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The revision is known, and every file will come from this commit.
    Resolved {
        /// Where from.
        repo: String,
        /// What was asked for.
        revision: String,
        /// What that is.
        commit: String,
        /// Where the revision has moved since this folder was begun.
        moved: Option<String>,
    },
    /// The list is known, and there is room.
    Listed {
        /// Files that are wanted.
        files: usize,
        /// Their bytes.
        bytes: u64,
        /// Of these, kept by an earlier run.
        kept: u64,
        /// Each of them, in the order in which they come.
        list: Vec<Wanted>,
    },
    /// What became of a file.
    File {
        /// Its path.
        path: String,
        /// What it is now.
        state: State,
    },
    /// Something is in the way.
    Trouble(Trouble),
    /// How far it is.
    Progress(Snapshot),
}

/// A file that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its path.
    pub path: String,
    /// Its bytes.
    pub size: u64,
    /// Of these, kept by an earlier run, as far as lengths and journals say.
    pub kept: u64,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Where the files are.
    pub folder: PathBuf,
    /// Which commit they are from.
    pub commit: String,
    /// How many there are.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that came over the network.
    pub received: u64,
    /// Those for which no digest is published.
    pub unverified: Vec<String>,
    /// How long it took.
    pub seconds: f64,
}

/// Fetches what is missing and looks at what is there. `stop` is asked often; `tell` hears what happens, on this thread.
pub fn run(
    options: &Options,
    stop: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(Event),
) -> Result<Summary, Error> {
    let began = Instant::now();
    let client = client(options)?;
    let record = Record::read(&options.folder).filter(|record| record.repo == options.repo);
    let asker = Asker { client: &client, options, stop };

    let revision = record::revision(options.revision.as_deref(), record.as_ref());
    let what = format!("revision {revision} of {}", options.repo);
    let (json, _) = asker.text(&client.hub.revision(&revision), &what, tell)?;
    let choice = record::choose(revision, manifest::commit(&json)?, record.as_ref());
    tell(Event::Resolved {
        repo: options.repo.clone(),
        revision: choice.revision.clone(),
        commit: choice.commit.clone(),
        moved: choice.moved,
    });

    let mut entries = asker.list(&choice.commit, tell)?;
    let listed: Vec<_> = entries.iter().map(Listed::from).collect();
    entries.retain(|entry| {
        options.only.is_empty() || options.only.iter().any(|only| pattern::matches(only, &entry.path))
    });
    if entries.is_empty() {
        return Err(Error::NothingWanted { files: listed.len(), patterns: options.only.join(" or ") });
    }
    let here: Vec<u64> = entries.iter().map(|entry| kept(options, &choice.commit, entry)).collect();
    let (entries, here) = plan::order(entries, here);

    let bytes = entries.iter().map(|entry| entry.size).fold(0, u64::saturating_add);
    let kept = here.iter().copied().fold(0, u64::saturating_add);
    look_for_room(options, bytes.saturating_sub(kept))?;
    fs::create_dir_all(&options.folder).map_err(Error::io("create", &options.folder))?;
    let lock = Lock::take(&options.folder)?;
    // Files that are not wanted now stay as complete as they were.
    let others_are = record.is_some_and(|record| record.complete && record.commit == choice.commit);
    let mut record = Record {
        repo: options.repo.clone(),
        revision: choice.revision,
        commit: choice.commit.clone(),
        complete: false,
        files: listed,
    };
    record.write(&options.folder)?;
    let listed_file =
        |(entry, kept): (&Entry, &u64)| Wanted { path: entry.path.clone(), size: entry.size, kept: *kept };
    let list = entries.iter().zip(&here).map(listed_file).collect();
    tell(Event::Listed { files: entries.len(), bytes, kept, list });

    let (messages, inbox) = unbounded();
    let count = entries.len();
    let shared = Arc::new(Shared {
        client,
        commit: choice.commit,
        folder: options.folder.clone(),
        block: options.block,
        patience: options.patience.clone(),
        limiter: Limiter::new(options.limit, CHUNK),
        typical: Mutex::new(Typical::default()),
        stop: AtomicBool::new(false),
        abandoned: AtomicBool::new(false),
        safe: entries.iter().map(|_| AtomicU64::new(0)).collect(),
        looked_at: entries.iter().map(|_| AtomicU64::new(0)).collect(),
        received: entries.iter().map(|_| AtomicU64::new(0)).collect(),
        messages,
        entries,
    });
    let workers = Workers::begin(&shared, options.jobs)?;
    let mut watch = Watch {
        shared: &shared,
        progress: Progress::new(shared.entries.iter().map(|e| (e.path.clone(), e.size))),
        states: vec![State::Waiting; count],
        given_up: Vec::new(),
        tell,
        began,
        lock: &lock,
    };
    let ended = watch.until_the_end(&inbox, &workers, stop);
    workers.end(&shared);
    watch.hear_the_rest(&inbox);
    ended?;

    let (states, given_up) = (watch.states, watch.given_up);
    if !given_up.is_empty() {
        return Err(Error::Incomplete { files: count, missing: given_up });
    }
    record.complete = others_are || record.files.len() == count;
    record.write(&options.folder)?;
    let unverified = shared.entries.iter().zip(&states).filter(|(_, state)| **state == State::Unverified);
    Ok(Summary {
        folder: options.folder.clone(),
        commit: shared.commit.clone(),
        files: count,
        bytes,
        received: shared.received.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum(),
        unverified: unverified.map(|(entry, _)| entry.path.clone()).collect(),
        seconds: began.elapsed().as_secs_f64(),
    })
}

fn client(options: &Options) -> Result<Client, Error> {
    let Some(hub) = Hub::new(&options.endpoint, &options.repo) else {
        return Err(Error::Setting {
            what: "the hub",
            found: format!("{} with {}", options.endpoint, options.repo),
            problem: "must be an address like https://huggingface.co, without a password, and owner/name",
        });
    };
    if options.token.is_some() && !hub.origin().is_encrypted() && !hub.origin().is_loopback() {
        return Err(Error::Setting {
            what: "the hub",
            found: hub.origin().to_string(),
            problem: "has no encryption, so a token cannot be sent there",
        });
    }
    Ok(Client::new(hub, options.token.clone(), options.patience.stall))
}

/// Bytes of a file that need not be fetched, as far as lengths and journals say.
fn kept(options: &Options, commit: &str, entry: &Entry) -> u64 {
    let places = Places::of(&options.folder, entry);
    let whole = fs::metadata(&places.whole).is_ok_and(|m| m.is_file() && m.len() == entry.size);
    let header = Header::new(commit, entry.size, entry.digest.label());
    if whole { entry.size } else { places.kept(&header) }
}

fn look_for_room(options: &Options, remaining: u64) -> Result<(), Error> {
    let room = disk::room(&options.folder).map_err(Error::io("look at the disk of", &options.folder))?;
    match plan::missing(remaining, room.free) {
        0 => Ok(()),
        missing => Err(Error::NoSpace {
            place: room.place,
            remaining,
            spare: plan::spare(remaining),
            free: room.free,
            missing,
        }),
    }
}

/// Questions to the hub before anything is fetched.
struct Asker<'a> {
    client: &'a Client,
    options: &'a Options,
    stop: &'a dyn Fn() -> bool,
}

impl Asker<'_> {
    /// All files of a commit.
    fn list(&self, commit: &str, tell: &mut dyn FnMut(Event)) -> Result<Vec<Entry>, Error> {
        let mut listing = Listing::default();
        let mut next = Some(self.client.hub.tree(commit));
        for _ in 0..MOST_PAGES {
            let Some(url) = next else { return Ok(listing.finish()) };
            let json;
            (json, next) = self.text(&url, &format!("commit {commit}"), tell)?;
            listing.add(&json)?;
        }
        Err(Error::Protocol("the hub's list does not end".to_owned()))
    }

    fn text(
        &self,
        url: &str,
        what: &str,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(String, Option<String>), Error> {
        let patience = &self.options.patience;
        let seed = u64::from(std::process::id());
        let mut backoff = Backoff::new(patience.first_wait, patience.longest_wait, seed);
        loop {
            let (wait, why) = match self.client.text(url, what) {
                Ok(text) => return Ok(text),
                Err(Fault::Fatal(error)) => return Err(error),
                Err(Fault::Wrong(why)) => return Err(Error::Protocol(why)),
                Err(Fault::Again(last)) if backoff.failures() + 1 >= patience.first_attempts => {
                    return Err(Error::GaveUp { attempts: backoff.failures() + 1, last });
                }
                Err(Fault::Again(why)) => (backoff.fail(), why),
                Err(Fault::Busy(None, why)) => (backoff.busy(), why),
                Err(Fault::Busy(Some(wait), why)) => (backoff.told(wait), why),
            };
            let message = format!("{why}; again in {}", crate::units::Seconds(wait.as_secs_f64()));
            tell(Event::Trouble(Trouble { at: SystemTime::now(), path: String::new(), message }));
            let until = Instant::now() + wait;
            while Instant::now() < until {
                if (self.stop)() {
                    return Err(Error::Stopped);
                }
                thread::sleep(Duration::from_millis(20).min(wait));
            }
        }
    }
}

/// Threads that fetch, each one file after another.
struct Workers(Vec<JoinHandle<()>>);

impl Workers {
    fn begin(shared: &Arc<Shared>, jobs: usize) -> Result<Self, Error> {
        let queue: VecDeque<usize> = (0..shared.entries.len()).collect();
        let jobs = jobs.clamp(1, queue.len().max(1));
        let queue = Arc::new(Mutex::new(queue));
        let mut workers = Self(Vec::with_capacity(jobs));
        for number in 0..jobs {
            let (own, queue) = (Arc::clone(shared), Arc::clone(&queue));
            let next = move || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let spawned = thread::Builder::new().name(format!("fetch-{number}")).spawn(move || {
                while !own.stop.load(Ordering::Relaxed) {
                    let Some(index) = next() else { return };
                    fetch::file(&own, index);
                }
            });
            match spawned {
                Ok(worker) => workers.0.push(worker),
                Err(source) => {
                    workers.end(shared);
                    return Err(Error::Io {
                        action: "start a thread for",
                        path: shared.folder.clone(),
                        source,
                    });
                }
            }
        }
        Ok(workers)
    }

    fn are_done(&self) -> bool {
        self.0.iter().all(JoinHandle::is_finished)
    }

    /// Has them make safe what they have, and come to an end.
    fn end(self, shared: &Shared) {
        shared.stop.store(true, Ordering::Relaxed);
        let until = Instant::now() + GRACE;
        while !self.are_done() && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
        // Those that still hang in a read write nothing when they come back.
        shared.abandoned.store(true, Ordering::Relaxed);
    }
}

/// Listens to the connections.
struct Watch<'a> {
    shared: &'a Shared,
    progress: Progress,
    states: Vec<State>,
    given_up: Vec<(String, String)>,
    tell: &'a mut dyn FnMut(Event),
    began: Instant,
    lock: &'a Lock,
}

impl Watch<'_> {
    fn until_the_end(
        &mut self,
        inbox: &Receiver<Message>,
        workers: &Workers,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), Error> {
        let (mut told, mut touched) = (Instant::now(), Instant::now());
        loop {
            match inbox.recv_timeout(Duration::from_millis(20)) {
                Ok(message) => self.hear(message)?,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                // Looked at after the inbox was found empty, so what they said last has been heard.
                Err(RecvTimeoutError::Timeout) if workers.are_done() && inbox.is_empty() => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if stop() {
                return Err(Error::Stopped);
            }
            if told.elapsed() >= TELL {
                told = Instant::now();
                self.look();
            }
            if touched.elapsed() >= lock::TOUCH {
                touched = Instant::now();
                self.lock.touch();
            }
        }
        let done = |state: &State| state.is_there() || matches!(state, State::Mismatch | State::Failed);
        if self.states.iter().all(done) {
            Ok(())
        } else {
            // A thread that came to its end without a word must have panicked.
            Err(Error::Protocol("a connection broke down".to_owned()))
        }
    }

    fn hear(&mut self, message: Message) -> Result<(), Error> {
        match message {
            Message::State(index, state) => self.state(index, state),
            Message::Trouble(index, message) => {
                let trouble = Trouble { at: SystemTime::now(), path: self.path(index), message };
                self.progress.trouble(index, trouble.clone());
                (self.tell)(Event::Trouble(trouble));
            }
            Message::GivenUp(index, state, why) => {
                self.state(index, state);
                let path = self.path(index);
                let trouble = Trouble { at: SystemTime::now(), path: path.clone(), message: why.clone() };
                (self.tell)(Event::Trouble(trouble));
                self.given_up.push((path, why));
            }
            Message::Fatal(error) => return Err(error),
        }
        Ok(())
    }

    fn state(&mut self, index: usize, state: State) {
        // So that the sums never lag behind what is said about a file.
        self.take_sums();
        self.progress.state(index, state);
        if let Some(known) = self.states.get_mut(index)
            && *known != state
        {
            *known = state;
            let path = self.path(index);
            (self.tell)(Event::File { path, state });
        }
    }

    fn path(&self, index: usize) -> String {
        self.shared.entries.get(index).map(|entry| entry.path.clone()).unwrap_or_default()
    }

    fn take_sums(&mut self) {
        for (index, safe) in self.shared.safe.iter().enumerate() {
            self.progress.safe(index, safe.load(Ordering::Relaxed));
        }
        for (index, looked_at) in self.shared.looked_at.iter().enumerate() {
            self.progress.looked_at(index, looked_at.load(Ordering::Relaxed));
        }
        let received = self.shared.received.iter().map(|bytes| bytes.load(Ordering::Relaxed));
        self.progress.received(received, self.began.elapsed());
    }

    fn look(&mut self) {
        self.take_sums();
        (self.tell)(Event::Progress(self.progress.snapshot()));
    }

    /// After the end: what was said in the meantime, and one last look.
    fn hear_the_rest(&mut self, inbox: &Receiver<Message>) {
        while let Ok(message) = inbox.try_recv() {
            // The first reason to end is the one to tell.
            let _ = self.hear(message);
        }
        self.look();
    }
}
