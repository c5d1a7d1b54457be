//! One file, from whatever is there of it to its final name.

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;

use super::backoff::Backoff;
use super::error::{Error, Fault};
use super::hash::Judgement;
use super::http::{Client, Reply};
use super::journal::Header;
use super::limiter::Limiter;
use super::manifest::{Digest, Entry};
use super::pace::{Typical, Window};
use super::partial::{self, Partial, Places};
use super::progress::State;
use super::{Patience, plan};
use crate::sys::disk;
use crate::units::{Bytes, Seconds};

/// How often someone who waits looks whether to go on.
const LOOK: Duration = Duration::from_millis(50);

/// How often to try a file whose digest came out wrong.
const TRIES: u32 = 2;

/// What a connection tells the one who drew it up.
#[derive(Debug)]
pub(super) enum Message {
    State(usize, State),
    /// Something is in the way.
    Trouble(usize, String),
    /// This file will not come.
    GivenUp(usize, State, String),
    /// Nothing will come any more.
    Fatal(Error),
}

/// What all connections have in common.
pub(super) struct Shared {
    pub(super) client: Client,
    pub(super) entries: Vec<Entry>,
    pub(super) commit: String,
    pub(super) folder: PathBuf,
    pub(super) block: u64,
    pub(super) patience: Patience,
    pub(super) limiter: Limiter,
    pub(super) typical: Mutex<Typical>,
    /// Everyone should come to an end.
    pub(super) stop: AtomicBool,
    /// Nobody waits for us any more, and the folder may be another's.
    pub(super) abandoned: AtomicBool,
    /// Bytes of each file that are safe on the disk.
    pub(super) safe: Vec<AtomicU64>,
    /// Bytes of each file that is there under its name and is being looked at.
    pub(super) looked_at: Vec<AtomicU64>,
    /// Bytes of each file that came over the network.
    pub(super) received: Vec<AtomicU64>,
    pub(super) messages: Sender<Message>,
}

impl Shared {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn tell(&self, message: Message) {
        // Whoever listened has left: then the end is near, and `stop` says so.
        let _ = self.messages.send(message);
    }

    fn note(&self, index: usize, safe: u64) {
        if let Some(counter) = self.safe.get(index) {
            counter.store(safe, Ordering::Relaxed);
        }
    }

    /// Bytes that all files together still lack.
    fn lacking(&self) -> u64 {
        let lacking =
            |(entry, safe): (&Entry, &AtomicU64)| entry.size.saturating_sub(safe.load(Ordering::Relaxed));
        self.entries.iter().zip(&self.safe).map(lacking).sum()
    }

    /// Waits, unless everyone should stop.
    fn wait(&self, time: Duration) -> Result<(), Error> {
        let began = Instant::now();
        loop {
            if self.stopped() {
                return Err(Error::Stopped);
            }
            let left = time.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(LOOK));
        }
    }
}

/// Takes a file to its end, and tells how it went.
pub(super) fn file(shared: &Shared, index: usize) {
    let Some(entry) = shared.entries.get(index) else { return };
    let job = Job { shared, index, entry, places: Places::of(&shared.folder, entry) };
    match job.run() {
        Ok(state) => shared.tell(Message::State(index, state)),
        Err(Fault::Again(why) | Fault::Busy(_, why)) => {
            shared.tell(Message::GivenUp(index, State::Failed, why));
        }
        Err(Fault::Wrong(why)) => shared.tell(Message::GivenUp(index, State::Mismatch, why)),
        Err(Fault::Fatal(Error::Stopped)) => {}
        Err(Fault::Fatal(error)) => shared.tell(Message::Fatal(error)),
    }
}

struct Job<'a> {
    shared: &'a Shared,
    index: usize,
    entry: &'a Entry,
    places: Places,
}

impl<'a> Job<'a> {
    fn run(&self) -> Result<State, Fault> {
        let shared = self.shared;
        self.state(State::Checking);
        let mut on_bytes = |seen| {
            // These bytes prove good or bad only with the last of them.
            if let Some(counter) = shared.looked_at.get(self.index) {
                counter.store(seen, Ordering::Relaxed);
            }
            !shared.stopped()
        };
        match partial::judge(&shared.folder, self.entry, &mut on_bytes)? {
            Some(Judgement::Right) => {
                shared.note(self.index, self.entry.size);
                return Ok(State::Complete);
            }
            Some(Judgement::Unknown) => {
                shared.note(self.index, self.entry.size);
                return Ok(State::Unverified);
            }
            Some(Judgement::Wrong(_)) => {
                self.trouble("the file that is there is damaged or another one; it is fetched again".into());
            }
            None => {}
        }
        let mut wrong = 0;
        loop {
            let judged = self.fetch().and_then(|partial| {
                self.state(State::Verifying);
                Ok(partial.finish()?)
            });
            match judged {
                Ok(Judgement::Right) => {
                    shared.note(self.index, self.entry.size);
                    return Ok(State::Complete);
                }
                Ok(Judgement::Unknown) => {
                    shared.note(self.index, self.entry.size);
                    return Ok(State::Unverified);
                }
                Ok(Judgement::Wrong(found)) => {
                    shared.note(self.index, 0);
                    wrong += 1;
                    let why = format!("its digest is {found}, published is {}", self.entry.digest.label());
                    if wrong >= TRIES {
                        return Err(Fault::Wrong(format!("{why}; it was fetched {wrong} times")));
                    }
                    self.trouble(format!("{why}; it is fetched again"));
                }
                Err(Fault::Fatal(error)) if error.is_full() => self.wait_for_room()?,
                Err(fault) => return Err(fault),
            }
        }
    }

    fn state(&self, state: State) {
        self.shared.tell(Message::State(self.index, state));
    }

    fn trouble(&self, message: String) {
        self.shared.tell(Message::Trouble(self.index, message));
    }

    /// Fetches what is missing, over as many connections as it takes.
    fn fetch(&self) -> Result<Partial<'a>, Fault> {
        let shared = self.shared;
        let header = Header::new(&shared.commit, self.entry.size, self.entry.digest.label());
        let mut on_bytes = |seen| {
            shared.note(self.index, seen);
            !shared.stopped()
        };
        let mut partial =
            Partial::open(self.entry, header, self.places.clone(), shared.block, &mut on_bytes)?;
        shared.note(self.index, partial.safe());
        let patience = &shared.patience;
        let mut backoff = Backoff::new(patience.first_wait, patience.longest_wait, self.seed());
        let mut crawl = Crawl { window: patience.crawl, allowed_at: None };
        let mut furthest = partial.at();
        while partial.remaining() > 0 {
            self.state(State::Fetching);
            let ended = self.attempt(&mut partial, &mut crawl);
            if partial.at() > furthest {
                furthest = partial.at();
                backoff.reset();
            }
            let (wait, why) = match ended {
                Ok(()) => continue,
                Err(Fault::Fatal(Error::Stopped)) => {
                    // What came so far need not come again. Not so if the folder may be another's by now.
                    if !shared.abandoned.load(Ordering::Relaxed) {
                        partial.seal()?;
                    }
                    return Err(Error::Stopped.into());
                }
                Err(Fault::Again(why)) if backoff.failures() + 1 >= patience.attempts => {
                    return Err(Fault::Again(format!("{why} (attempt {})", backoff.failures() + 1)));
                }
                Err(Fault::Again(why)) => (backoff.fail(), why),
                // It is not the file's fault, so it does not count against it.
                Err(Fault::Busy(Some(wait), why)) => (backoff.told(wait), why),
                Err(Fault::Busy(None, why)) => (backoff.busy(), why),
                Err(fault) => return Err(fault),
            };
            self.trouble(format!("{why}; again in {}", Seconds(wait.as_secs_f64())));
            if let Err(stopped) = shared.wait(wait) {
                partial.seal()?;
                return Err(stopped.into());
            }
        }
        Ok(partial)
    }

    /// One connection: asks for the rest, holds the answer against what was asked, and writes what comes.
    fn attempt(&self, partial: &mut Partial<'_>, crawl: &mut Crawl) -> Result<(), Fault> {
        let shared = self.shared;
        let from = partial.at();
        let url = shared.client.hub.file(&shared.commit, &self.entry.path);
        let reply = shared.client.get(&url, (from > 0).then_some(from), &self.entry.path)?;
        self.hold_against_list(&reply)?;
        match plan::answer(from, self.entry.size, reply.status, reply.content_range(), reply.content_length())
        {
            plan::Answer::Whole if from > 0 => {
                partial.restart()?;
                shared.note(self.index, 0);
                self.trouble("the server ignores ranges and sends the whole file; it begins anew".into());
            }
            plan::Answer::Rest | plan::Answer::Whole => {}
            plan::Answer::BeginAnew(why) => {
                partial.restart()?;
                shared.note(self.index, 0);
                return Err(Fault::Again(why));
            }
            plan::Answer::Again(why) => return Err(Fault::Again(why)),
            plan::Answer::Wrong(why) => return Err(Fault::Wrong(why)),
        }
        self.receive(&url, partial, reply, crawl)
    }

    /// What the headers say must not contradict the list.
    fn hold_against_list(&self, reply: &Reply) -> Result<(), Fault> {
        if let Some(encoding) = reply.encoding() {
            let encoding = encoding.escape_debug();
            return Err(Fault::Again(format!(
                "the server sends the file as {encoding}, which nobody asked for"
            )));
        }
        let size = self.entry.size;
        if let Some(linked) = reply.linked_size.filter(|linked| *linked != size) {
            return Err(Fault::Wrong(format!("listed with {size} bytes, and the hub now says {linked}")));
        }
        match (&self.entry.digest, &reply.linked_digest) {
            // A tag that is no SHA-256 says nothing.
            (Digest::Sha256(listed), Some(linked)) if linked.len() == listed.len() && linked != listed => {
                let linked = linked.escape_debug();
                Err(Fault::Wrong(format!("listed with the digest {listed}, and the hub now says {linked}")))
            }
            _ => Ok(()),
        }
    }

    fn receive(
        &self,
        url: &str,
        partial: &mut Partial<'_>,
        reply: Reply,
        crawl: &mut Crawl,
    ) -> Result<(), Fault> {
        let shared = self.shared;
        let began_at = partial.at();
        let mut window = Window::new(crawl.window);
        let mut reader = reply.into_reader();
        let mut buffer = vec![0; shared.limiter.chunk()];
        while partial.remaining() > 0 {
            let want = usize::try_from(partial.remaining()).unwrap_or(usize::MAX).min(buffer.len());
            let asked = Instant::now();
            let got = reader.read(&mut buffer[..want]);
            if shared.stopped() {
                return Err(Error::Stopped.into());
            }
            let got = match got {
                Ok(0) if partial.at() == began_at => {
                    return Err(Fault::Again("the server sent an empty answer".into()));
                }
                Ok(0) => return Err(self.ended_early(partial)),
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(self.ended_early(partial));
                }
                Err(error) => return Err(Fault::Again(shared.client.trouble(url, &error))),
            };
            if let Some(received) = shared.received.get(self.index) {
                received.fetch_add(got as u64, Ordering::Relaxed);
            }
            partial.write(&buffer[..got])?;
            shared.note(self.index, partial.safe());
            if let Some((bytes, time)) = window.add(got, asked.elapsed()) {
                let mut typical = shared.typical.lock().unwrap_or_else(PoisonError::into_inner);
                if typical.crawls(bytes, time) && crawl.may_restart() {
                    return Err(Fault::Again(
                        "this connection is far slower than others were; it is made anew".into(),
                    ));
                }
            }
            let pause = shared.limiter.took(got);
            if !pause.is_zero() {
                shared.wait(pause)?;
            }
        }
        Ok(())
    }

    fn ended_early(&self, partial: &Partial<'_>) -> Fault {
        let (at, size) = (partial.at(), self.entry.size);
        Fault::Again(format!("the connection ended at byte {at} of {size}"))
    }

    /// The disk is full. Someone may make room, so this waits, and says how much is missing.
    fn wait_for_room(&self) -> Result<(), Fault> {
        let shared = self.shared;
        self.state(State::Paused);
        let mut said = None;
        loop {
            let room = disk::room(&self.places.part).map_err(Error::io("look at", &self.places.part))?;
            let lacking = shared.lacking();
            let missing = lacking.saturating_sub(room.free);
            // As soon as there is room for a few blocks it goes on; with none at all it would only stumble.
            if room.free > lacking.min(shared.block.saturating_mul(4)) {
                return Ok(());
            }
            if said != Some(missing) {
                said = Some(missing);
                self.trouble(format!(
                    "the disk is full: {missing} bytes ({}) are missing; it goes on when there is room",
                    Bytes(missing)
                ));
            }
            shared.wait(shared.patience.room)?;
        }
    }

    /// Different for each file and process, so that not all come back at once.
    fn seed(&self) -> u64 {
        xxhash_rust::xxh3::xxh3_64_with_seed(self.entry.path.as_bytes(), u64::from(std::process::id()))
    }
}

/// When a slow connection may be given up: not over and over.
struct Crawl {
    window: Duration,
    allowed_at: Option<Instant>,
}

impl Crawl {
    fn may_restart(&mut self) -> bool {
        let now = Instant::now();
        let may = self.allowed_at.is_none_or(|at| now >= at);
        if may {
            self.allowed_at = now.checked_add(self.window * 5);
        }
        may
    }
}
