//! Routed experts: read when the router wakes them, into a bounded cache of slots.
//!
//! [`Experts::wake`] is told all experts that a layer needs and starts a read for each that is missing, as far as there
//! are slots; [`Experts::next`] hands them out as they land. A slot that is needed cannot be given up before it was
//! handed out and the next one asked for. A read that an earlier pass left under way is waited for, never repeated.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use super::error::Error;
use super::io::{Check, Done, Job, Pool, Urgency};
use super::policy::Lru;
use super::trunk::GLANCE;
use crate::checkpoint::{Checkpoint, ExpertPart, Extent, Manifest};
use crate::sys::buffer::{Buffer, window};

/// The weights of one expert. Packed nibbles and scales, as in the shard: see [`ExpertPart`] for shapes.
#[derive(Clone, Copy, Debug)]
pub struct Expert<'a> {
    /// Its number in the layer.
    pub number: usize,
    bytes: &'a [u8],
    places: &'a [usize; 6],
    lengths: &'a [usize; 6],
}

impl<'a> Expert<'a> {
    /// The bytes of one of its six tensors.
    pub fn part(&self, part: ExpertPart) -> &'a [u8] {
        let (place, len) = (self.places[part as usize], self.lengths[part as usize]);
        self.bytes.get(place..place + len).unwrap_or_default()
    }
}

/// What the cache did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) bytes: u64,
    pub(super) requests: u64,
    pub(super) resident: u64,
    pub(super) reads: u64,
    pub(super) late: u64,
    pub(super) waited: Duration,
}

type Key = (u32, u32);

#[derive(Debug)]
struct Slot {
    /// Layer and expert that it holds, or will hold once it is read.
    key: Option<Key>,
    /// Not there while it is being read.
    buffer: Option<Buffer>,
    places: [usize; 6],
    /// The pass in which it was read.
    pass: u64,
    /// Woken, and not yet handed out and done with.
    needed: bool,
}

#[derive(Debug)]
pub(super) struct Experts {
    checkpoint: Arc<Checkpoint>,
    manifest: Option<Arc<Manifest>>,
    pool: Arc<Pool>,
    lengths: [usize; 6],
    slot_bytes: usize,
    capacity: usize,
    slots: Vec<Slot>,
    by_key: HashMap<Key, usize>,
    lru: Lru,
    pass: u64,
    counts: Counts,
    sender: Sender<Done>,
    done: Receiver<Done>,
    /// Slots that are needed, or were in this call of [`Self::wake`].
    needed: Vec<usize>,
    /// Woken experts that wait for a slot.
    unasked: VecDeque<Key>,
    /// Needed slots that have landed.
    landed: VecDeque<usize>,
    /// Woken experts that were not yet handed out.
    missing: usize,
    /// The slot that was handed out last.
    current: Option<usize>,
}

impl Experts {
    pub(super) fn new(
        checkpoint: &Arc<Checkpoint>,
        capacity: usize,
        pool: Arc<Pool>,
        manifest: Option<Arc<Manifest>>,
    ) -> Self {
        let (sender, done) = unbounded();
        Self {
            checkpoint: Arc::clone(checkpoint),
            manifest,
            pool,
            lengths: lengths(checkpoint),
            slot_bytes: slot_bytes(checkpoint),
            // An expert in use needs a place, whatever was planned.
            capacity: capacity.max(1),
            slots: Vec::new(),
            by_key: HashMap::new(),
            lru: Lru::new(),
            pass: 0,
            counts: Counts::default(),
            sender,
            done,
            needed: Vec::new(),
            unasked: VecDeque::new(),
            landed: VecDeque::new(),
            missing: 0,
            current: None,
        }
    }

    pub(super) const fn begin_pass(&mut self) {
        self.pass += 1;
    }

    /// Needs these experts of `layer`, each named once. Forgets what an earlier call still needed.
    pub(super) fn wake(&mut self, layer: usize, numbers: &[usize]) -> Result<(), Error> {
        // Few are needed at once, and there may be many slots.
        for slot in std::mem::take(&mut self.needed) {
            self.slots[slot].needed = false;
        }
        self.unasked.clear();
        self.landed.clear();
        self.current = None;
        self.missing = numbers.len();
        self.counts.requests += numbers.len() as u64;
        for &number in numbers {
            let key = key(layer, number)?;
            let Some(&slot) = self.by_key.get(&key) else {
                self.unasked.push_back(key);
                continue;
            };
            self.lru.touch(slot);
            self.needed.push(slot);
            let held = &mut self.slots[slot];
            held.needed = true;
            if held.buffer.is_some() {
                self.landed.push_back(slot);
                self.counts.resident += u64::from(held.pass < self.pass);
            }
        }
        self.ask()
    }

    /// The next woken expert that has landed, or nothing once all were handed out. A wait for the disk ends when
    /// `cancelled` says so.
    pub(super) fn next(&mut self, cancelled: &dyn Fn() -> bool) -> Result<Option<Expert<'_>>, Error> {
        if let Some(slot) = self.current.take() {
            self.slots[slot].needed = false;
        }
        if self.missing == 0 {
            return Ok(None);
        }
        let slot = self.land(cancelled)?;
        self.missing -= 1;
        self.current = Some(slot);
        Ok(self.slots.get(slot).and_then(|slot| {
            let (number, bytes) = (slot.key?.1 as usize, slot.buffer.as_deref()?);
            Some(Expert { number, bytes, places: &slot.places, lengths: &self.lengths })
        }))
    }

    /// The slot of a needed expert that has landed and was not handed out.
    fn land(&mut self, cancelled: &dyn Fn() -> bool) -> Result<usize, Error> {
        self.ask()?;
        while let Ok(done) = self.done.try_recv() {
            self.arrived(done)?;
        }
        let began = Instant::now();
        let mut waited = false;
        loop {
            if let Some(slot) = self.landed.pop_front() {
                if waited {
                    self.counts.late += 1;
                    self.counts.waited += began.elapsed();
                }
                return Ok(slot);
            }
            waited = true;
            match self.done.recv_timeout(GLANCE) {
                Ok(done) => self.arrived(done)?,
                Err(RecvTimeoutError::Timeout) if !cancelled() => {}
                Err(_) => return Err(Error::Stopped),
            }
            self.ask()?;
        }
    }

    /// Starts reads for woken experts while there are slots for them.
    fn ask(&mut self) -> Result<(), Error> {
        while let Some(&key) = self.unasked.front() {
            let Some(slot) = self.free_slot()? else { break };
            self.unasked.pop_front();
            let (layer, number) = (key.0 as usize, key.1 as usize);
            let extents =
                self.checkpoint.expert(layer, number).ok_or(Error::NoExpert { layer, expert: number })?;
            let held = &mut self.slots[slot];
            let Some(buffer) = held.buffer.take() else { break };
            held.key = Some(key);
            held.needed = true;
            self.needed.push(slot);
            self.by_key.insert(key, slot);
            self.lru.touch(slot);
            let check = self.manifest.as_ref().map(|manifest| -> Check {
                let (manifest, checkpoint) = (Arc::clone(manifest), Arc::clone(&self.checkpoint));
                Box::new(move |parts| Ok(manifest.check_expert(&checkpoint, layer, number, parts)?))
            });
            let job =
                Job { tag: slot as u64, parts: parts(&extents), buffer, check, done: self.sender.clone() };
            self.pool.read(job, Urgency::Now);
        }
        Ok(())
    }

    /// A slot that nobody needs, with nothing in it: a new one while there is room, else the one that was not used for
    /// the longest time. Nothing while all are needed or being read.
    fn free_slot(&mut self) -> Result<Option<usize>, Error> {
        if self.slots.len() < self.capacity {
            let buffer = Some(Buffer::new(self.slot_bytes)?);
            self.slots.push(Slot { key: None, buffer, places: [0; 6], pass: 0, needed: false });
            self.lru.add();
            return Ok(Some(self.slots.len() - 1));
        }
        let idle = |slot: &usize| !self.slots[*slot].needed && self.slots[*slot].buffer.is_some();
        let Some(slot) = self.lru.oldest_first().find(idle) else { return Ok(None) };
        if let Some(key) = self.slots[slot].key.take() {
            self.by_key.remove(&key);
        }
        Ok(Some(slot))
    }

    /// A read has ended. Its failure is an error only where the expert is needed now.
    fn arrived(&mut self, done: Done) -> Result<(), Error> {
        let Some((number, slot)) =
            usize::try_from(done.tag).ok().and_then(|n| Some((n, self.slots.get_mut(n)?)))
        else {
            return Ok(());
        };
        slot.buffer = Some(done.buffer);
        match done.result {
            Ok(places) => {
                slot.places = places_of_parts(&places, &self.lengths);
                slot.pass = self.pass;
                self.counts.reads += 1;
                self.counts.bytes += self.lengths.iter().sum::<usize>() as u64;
                if slot.needed {
                    self.landed.push_back(number);
                }
                Ok(())
            }
            Err(error) => {
                let needed = std::mem::take(&mut slot.needed);
                let Some(key) = slot.key.take() else { return Ok(()) };
                self.by_key.remove(&key);
                let source = Box::new(error);
                if needed {
                    Err(Error::Expert { layer: key.0 as usize, expert: key.1 as usize, source })
                } else {
                    Ok(())
                }
            }
        }
    }

    pub(super) const fn counts(&self) -> Counts {
        self.counts
    }

    pub(super) fn used(&self) -> usize {
        self.by_key.len()
    }

    pub(super) const fn slots(&self) -> usize {
        self.capacity
    }
}

fn key(layer: usize, expert: usize) -> Result<Key, Error> {
    match (u32::try_from(layer), u32::try_from(expert)) {
        (Ok(layer), Ok(expert)) => Ok((layer, expert)),
        _ => Err(Error::NoExpert { layer, expert }),
    }
}

/// Bytes of the six tensors.
fn lengths(checkpoint: &Checkpoint) -> [usize; 6] {
    ExpertPart::ALL.map(|part| {
        let (rows, columns) = part.shape(checkpoint.config());
        rows * columns
    })
}

/// Bytes of a slot: one window where the six tensors of every expert follow each other in their shard, six otherwise.
pub fn slot_bytes(checkpoint: &Checkpoint) -> usize {
    let config = checkpoint.config();
    let mut all = (config.dense_layers..config.layers())
        .flat_map(|layer| (0..config.moe.experts).filter_map(move |expert| checkpoint.expert(layer, expert)));
    let lengths = lengths(checkpoint);
    if all.all(|extents| in_one_run(&extents)) {
        window(lengths.iter().sum())
    } else {
        lengths.iter().map(|len| window(*len)).sum()
    }
}

fn in_one_run(extents: &[Extent; 6]) -> bool {
    extents.array_windows().all(|[a, b]| a.shard == b.shard && a.offset + a.len == b.offset)
}

/// What to read for an expert, and where in its slot each read's window begins: all at once where its tensors follow each
/// other, else one by one.
pub fn parts(extents: &[Extent; 6]) -> Vec<(Extent, usize)> {
    if in_one_run(extents) {
        let len = extents.iter().map(|extent| extent.len).sum();
        return vec![(Extent { len, ..extents[0] }, 0)];
    }
    let mut at = 0;
    let part = |extent: &Extent| {
        let begin = at;
        at += window(usize::try_from(extent.len).unwrap_or(usize::MAX));
        (*extent, begin)
    };
    extents.iter().map(part).collect()
}

/// Where each tensor begins, after one read or after six.
fn places_of_parts(read: &[usize], lengths: &[usize; 6]) -> [usize; 6] {
    if let Ok(places) = <[usize; 6]>::try_from(read) {
        return places;
    }
    let mut place = read.first().copied().unwrap_or(0);
    lengths.map(|len| {
        let begin = place;
        place += len;
        begin
    })
}
