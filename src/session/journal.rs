//! The thread that writes: neither the engine nor the screen waits for the disk.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};

use super::record::{Record, frame};
use crate::units::Bytes;

/// How long a record may wait to be flushed to the disk.
const FLUSH_EVERY: Duration = Duration::from_millis(500);
/// How often a full disk is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(200);

/// What keeps a journal from being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The disk is full. What is to be written waits in memory and is tried again until there is room.
    Full {
        /// Bytes that wait.
        missing: Bytes,
    },
    /// The system refuses for another reason. What was written before is kept; nothing more will be.
    Failed {
        /// The reason.
        reason: String,
    },
}

/// A journal that is open for writing. Dropping it writes what is left, unless the disk is full.
#[derive(Debug)]
pub struct Journal {
    jobs: Option<Sender<Job>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Job {
    Write(Vec<u8>),
    Flush(Sender<()>),
}

#[derive(Debug, Default)]
struct Shared {
    trouble: Mutex<Option<Trouble>>,
    /// Bytes of bodies that were handed over and not yet written.
    waiting: AtomicU64,
    /// Nobody is left to make room.
    leaving: AtomicBool,
}

impl Shared {
    fn set(&self, trouble: Option<Trouble>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    fn get(&self) -> Option<Trouble> {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match trouble {
            // More may have come to wait since.
            Some(Trouble::Full { .. }) => Some(Trouble::Full { missing: Bytes(self.waiting.load(SeqCst)) }),
            other => other,
        }
    }
}

/// Where the bytes go.
trait Sink: Send {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    fn flush_to_disk(&mut self) -> io::Result<()>;
}

impl Sink for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(self, bytes)
    }

    fn flush_to_disk(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

impl Journal {
    /// A journal that goes on at the end of `file`, after a record with the checksum `check`.
    pub(super) fn append_to(file: File, check: u64) -> io::Result<Self> {
        Self::on(Box::new(file), check, TRY_AGAIN)
    }

    fn on(sink: Box<dyn Sink>, check: u64, try_again: Duration) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (jobs, inbox) = unbounded();
        let mut writer = Writer { sink, check, shared: Arc::clone(&shared), unflushed: None, try_again };
        let thread = thread::Builder::new().name("journal".to_owned()).spawn(move || writer.work(&inbox))?;
        Ok(Self { jobs: Some(jobs), shared, thread: Some(thread) })
    }

    /// Hands a record over. Never waits.
    pub fn append(&self, record: &Record) {
        let body = record.body();
        self.shared.waiting.fetch_add(body.len() as u64, SeqCst);
        if let Some(jobs) = &self.jobs {
            // The thread lives as long as this end does.
            let _ = jobs.send(Job::Write(body));
        }
    }

    /// What keeps the journal from being written, if anything does.
    pub fn trouble(&self) -> Option<Trouble> {
        self.shared.get()
    }

    /// Waits until all that was handed over is on the disk. While it cannot be, `go_on` is asked now and then whether to
    /// wait longer. Gives the trouble that it gave up on.
    pub fn flush(&self, mut go_on: impl FnMut(&Trouble) -> bool) -> Result<(), Trouble> {
        let lost = || Trouble::Failed { reason: "the thread that writes is gone".to_owned() };
        let (reply, done) = bounded(1);
        let jobs = self.jobs.as_ref().ok_or_else(lost)?;
        jobs.send(Job::Flush(reply)).map_err(|_gone| lost())?;
        loop {
            match done.recv_timeout(Duration::from_millis(50)) {
                Ok(()) => return self.trouble().map_or(Ok(()), Err),
                Err(RecvTimeoutError::Disconnected) => return Err(self.trouble().unwrap_or_else(lost)),
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(trouble) = self.trouble()
                        && !go_on(&trouble)
                    {
                        return Err(trouble);
                    }
                }
            }
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.shared.leaving.store(true, SeqCst);
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // If it panicked there is nothing left to do about it.
            let _ = thread.join();
        }
    }
}

/// No more can be written.
struct Over;

struct Writer {
    sink: Box<dyn Sink>,
    check: u64,
    shared: Arc<Shared>,
    /// Since when something waits to be flushed.
    unflushed: Option<Instant>,
    try_again: Duration,
}

impl Writer {
    fn work(&mut self, inbox: &Receiver<Job>) {
        // After a failure jobs are only taken from the channel: a gap in the journal would hide all that follows it.
        let mut over = false;
        loop {
            let job = match self.unflushed {
                None => inbox.recv().map_err(|_gone| RecvTimeoutError::Disconnected),
                Some(since) => inbox.recv_deadline(since + FLUSH_EVERY),
            };
            let leaves = matches!(job, Err(RecvTimeoutError::Disconnected));
            if !over {
                over = self.job(job.as_ref().ok()).is_err();
            }
            if let Ok(Job::Flush(reply)) = job {
                let _ = reply.send(());
            }
            if leaves {
                return;
            }
        }
    }

    /// Does a job; without one, flushes.
    fn job(&mut self, job: Option<&Job>) -> Result<(), Over> {
        match job {
            Some(Job::Write(body)) => {
                let mut bytes = Vec::new();
                self.check = frame(self.check, body, &mut bytes);
                self.write(&bytes)?;
                self.shared.waiting.fetch_sub(body.len() as u64, SeqCst);
                // Records that come without a pause must not put the flush off.
                if self.unflushed.get_or_insert_with(Instant::now).elapsed() >= FLUSH_EVERY {
                    self.flush()?;
                }
                Ok(())
            }
            Some(Job::Flush(_)) | None => self.flush(),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Over> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let written = self.insist(|sink| match sink.write(rest)? {
                0 => Err(ErrorKind::WriteZero.into()),
                count => Ok(count),
            })?;
            rest = rest.get(written..).unwrap_or_default();
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Over> {
        if self.unflushed.is_some() {
            self.insist(|sink| sink.flush_to_disk())?;
            self.unflushed = None;
        }
        Ok(())
    }

    /// Tries until there is room; any other failure is final.
    fn insist<T>(&mut self, mut what: impl FnMut(&mut dyn Sink) -> io::Result<T>) -> Result<T, Over> {
        loop {
            match what(&mut *self.sink) {
                Ok(done) => {
                    self.shared.set(None);
                    return Ok(done);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
                    self.shared.set(Some(Trouble::Full { missing: Bytes(0) }));
                    if self.shared.leaving.load(SeqCst) {
                        return Err(Over);
                    }
                    thread::sleep(self.try_again);
                }
                Err(error) => {
                    self.shared.set(Some(Trouble::Failed { reason: error.to_string() }));
                    return Err(Over);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::content::read;
    use super::super::record::{Header, head};
    use super::*;
    use crate::protocol::Channel;

    /// A disk of which the test decides how much is free, and what fails.
    #[derive(Clone, Default)]
    struct Disk {
        bytes: Arc<Mutex<Vec<u8>>>,
        free: Arc<AtomicU64>,
        broken: Arc<AtomicBool>,
        flushes: Arc<AtomicU64>,
    }

    impl Sink for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.broken.load(SeqCst) {
                return Err(io::Error::other("the disk fell out"));
            }
            let free = usize::try_from(self.free.load(SeqCst)).unwrap().min(bytes.len());
            if free == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            self.bytes.lock().unwrap().extend_from_slice(&bytes[..free]);
            self.free.fetch_sub(free as u64, SeqCst);
            Ok(free)
        }

        fn flush_to_disk(&mut self) -> io::Result<()> {
            self.flushes.fetch_add(1, SeqCst);
            Ok(())
        }
    }

    fn begun(free: u64) -> (Disk, Journal) {
        let disk = Disk::default();
        let mut bytes = head();
        let header = Header { model: 1, folder: String::new(), name: String::new(), created: 0 };
        let check = frame(0, &Record::Header(header).body(), &mut bytes);
        *disk.bytes.lock().unwrap() = bytes;
        disk.free.store(free, SeqCst);
        let journal = Journal::on(Box::new(disk.clone()), check, Duration::from_millis(1)).unwrap();
        (disk, journal)
    }

    fn notes(disk: &Disk) -> Vec<String> {
        let content = read(&disk.bytes.lock().unwrap(), Path::new("j")).unwrap();
        assert_eq!(content.damage, None);
        content.session.notes
    }

    fn note(text: &str) -> Record {
        Record::Note(text.to_owned())
    }

    #[test]
    fn a_full_disk_holds_up_and_loses_nothing() {
        // Room for one record and a half.
        let (disk, journal) = begun(30);
        journal.append(&note("one"));
        journal.append(&note("two"));
        journal.append(&note("three"));
        let mut asked = 0;
        let gave_up = journal.flush(|_| {
            asked += 1;
            asked < 3
        });
        // Two and three wait: a letter and five or seven letters of JSON.
        assert_eq!(gave_up, Err(Trouble::Full { missing: Bytes(6 + 8) }));
        assert_eq!(journal.trouble(), gave_up.err());
        disk.free.store(1 << 20, SeqCst);
        assert_eq!(journal.flush(|_| true), Ok(()));
        assert_eq!(journal.trouble(), None);
        assert_eq!(notes(&disk), ["one", "two", "three"]);
    }

    #[test]
    fn a_program_that_leaves_a_full_disk_does_not_hang() {
        let (disk, journal) = begun(20);
        journal.append(&note("one"));
        journal.append(&note("two"));
        drop(journal);
        let content = read(&disk.bytes.lock().unwrap(), Path::new("j")).unwrap();
        assert_eq!(content.session.notes, ["one"]);
        assert!(content.damage.is_some(), "the half of the next");
    }

    #[test]
    fn another_failure_is_told_and_ends_the_journal_without_a_gap() {
        let (disk, journal) = begun(1 << 20);
        journal.append(&note("one"));
        journal.flush(|_| false).unwrap();
        disk.broken.store(true, SeqCst);
        journal.append(&note("two"));
        let failed = Trouble::Failed { reason: "the disk fell out".to_owned() };
        assert_eq!(journal.flush(|_| true), Err(failed.clone()));
        disk.broken.store(false, SeqCst);
        journal.append(&note("three"));
        assert_eq!(journal.flush(|_| true), Err(failed));
        drop(journal);
        assert_eq!(notes(&disk), ["one"]);
    }

    #[test]
    fn records_are_written_at_once_and_flushed_within_a_second() {
        let (disk, journal) = begun(1 << 20);
        let began = Instant::now();
        let mut count = 0_usize;
        while disk.flushes.load(SeqCst) == 0 {
            journal.append(&Record::Note(String::new()));
            count += 1;
            thread::sleep(Duration::from_millis(10));
            assert!(began.elapsed() < Duration::from_secs(1), "records without a pause put the flush off");
        }
        let (before, began) = (disk.flushes.load(SeqCst), Instant::now());
        journal.append(&Record::Token { id: 1, channel: Channel::Answer });
        while disk.flushes.load(SeqCst) == before {
            thread::sleep(Duration::from_millis(5));
            assert!(began.elapsed() < Duration::from_secs(1), "nobody asked for the flush");
        }
        let before = disk.flushes.load(SeqCst);
        journal.flush(|_| false).unwrap();
        assert_eq!(disk.flushes.load(SeqCst), before, "nothing was left to flush");
        let length = disk.bytes.lock().unwrap().len();
        assert!(length > count * 15, "{length} bytes of {count} records");
    }
}
