//! Threads that fill buffers. Experts that the router has woken come before tiles that are read ahead.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::{fmt, io};

use crossbeam_channel::{Receiver, Sender, select_biased, unbounded};

use super::error::Error;
use super::reader::Reader;
use crate::checkpoint::Extent;
use crate::sys::buffer::Buffer;

/// Threads that read. Each has one read under way, so this is also the depth that the disk sees.
const THREADS: usize = 16;

/// Looks at what was read, all parts of it, before anyone uses it.
pub(super) type Check = Box<dyn Fn(&[&[u8]]) -> Result<(), Error> + Send>;

/// A buffer to fill.
pub(super) struct Job {
    /// Given back with the result.
    pub(super) tag: u64,
    /// What to read, and where in the buffer its window begins.
    pub(super) parts: Vec<(Extent, usize)>,
    /// Where to.
    pub(super) buffer: Buffer,
    /// What it must be.
    pub(super) check: Option<Check>,
    /// Where the result goes.
    pub(super) done: Sender<Done>,
}

/// A buffer that was filled, or not.
pub(super) struct Done {
    /// Of the job.
    pub(super) tag: u64,
    /// Of the job.
    pub(super) buffer: Buffer,
    /// The place of each part in the buffer.
    pub(super) result: Result<Vec<usize>, Error>,
}

/// Whether a job is waited for now, or will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    Now,
    Ahead,
}

/// The threads and their two queues.
pub(super) struct Pool {
    now: Sender<Job>,
    ahead: Sender<Job>,
    threads: Vec<JoinHandle<()>>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

impl Pool {
    pub(super) fn start(reader: &Arc<dyn Reader>) -> io::Result<Self> {
        let (now, urgent) = unbounded();
        let (ahead, patient) = unbounded();
        let start = |i| {
            let (reader, urgent, patient) = (Arc::clone(reader), urgent.clone(), patient.clone());
            let work = move || serve(reader.as_ref(), &urgent, &patient);
            // They keep nothing on their stacks: what they fill was given to them.
            std::thread::Builder::new().name(format!("io-{i}")).stack_size(128 << 10).spawn(work)
        };
        let threads = (0..THREADS).map(start).collect::<io::Result<_>>()?;
        Ok(Self { now, ahead, threads })
    }

    /// Queues a job. Its result comes to [`Job::done`], unless nobody is left to receive it.
    pub(super) fn read(&self, job: Job, urgency: Urgency) {
        let queue = match urgency {
            Urgency::Now => &self.now,
            Urgency::Ahead => &self.ahead,
        };
        // The threads live as long as the queues; a job that cannot be queued has nobody waiting for it.
        let _ = queue.send(job);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        (self.now, self.ahead) = (unbounded().0, unbounded().0);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn serve(reader: &dyn Reader, urgent: &Receiver<Job>, patient: &Receiver<Job>) {
    loop {
        let job = select_biased! {
            recv(urgent) -> job => job,
            recv(patient) -> job => job,
        };
        // Both queues close together, when the pool is dropped.
        let Ok(mut job) = job else { return };
        let result = fill(reader, &mut job);
        let _ = job.done.send(Done { tag: job.tag, buffer: job.buffer, result });
    }
}

fn fill(reader: &dyn Reader, job: &mut Job) -> Result<Vec<usize>, Error> {
    let mut places = Vec::with_capacity(job.parts.len());
    for (extent, at) in &job.parts {
        places.push(reader.read(*extent, &mut job.buffer, *at)?);
    }
    if let Some(check) = &job.check {
        let part = |((extent, _), place): (&(Extent, usize), &usize)| {
            let len = usize::try_from(extent.len).unwrap_or(usize::MAX);
            job.buffer.get(*place..place.saturating_add(len)).unwrap_or_default()
        };
        check(&job.parts.iter().zip(&places).map(part).collect::<Vec<_>>())?;
    }
    Ok(places)
}
