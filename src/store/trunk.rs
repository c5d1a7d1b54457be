//! The trunk: everything but the routed experts and the embedding.
//!
//! Vectors are always in memory. Matrices come as row tiles. A pass asks for them in a known order, so streamed tiles
//! are read ahead of it through a few buffers, across tensors, layers and tokens; pinned ones come the same way in the
//! first pass and are then kept. A cyclic scan defeats any cache that learns, so the pinned set is fixed, and it is
//! spread evenly over the schedule: while pinned tiles are computed the disk goes on with the streamed ones between.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use super::Access;
use super::error::Error;
use super::io::{Check, Done, Job, Pool, Urgency};
use super::plan::Plan;
use super::schedule::{Form, Schedule};
use crate::checkpoint::{Checkpoint, Dtype, Extent, Manifest, Tensor};
use crate::sys::buffer::{Buffer, usize_of, window};

/// How often a wait looks whether it should stop.
pub(super) const GLANCE: Duration = Duration::from_millis(20);

/// Some rows of a matrix in bf16.
#[derive(Clone, Copy, Debug)]
pub struct RowTile<'a> {
    /// The first row of the tile.
    pub first: usize,
    /// `[rows, columns]`.
    pub weights: &'a [u16],
    /// Columns of the matrix.
    pub columns: usize,
}

/// What reading the trunk came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Bytes read.
    pub(super) bytes: u64,
    /// Tiles that were there when they were asked for.
    pub(super) in_time: u64,
    /// Tiles that were waited for.
    pub(super) late: u64,
    /// How long.
    pub(super) waited: Duration,
}

#[derive(Debug)]
pub(super) struct Trunk {
    vectors: HashMap<Tensor, Vec<f32>>,
    vector_bytes: u64,
    stream: Mutex<Stream>,
}

impl Trunk {
    /// Reads the vectors; matrices come when they are asked for.
    pub(super) fn open(
        checkpoint: &Arc<Checkpoint>,
        plan: &Plan,
        access: &Access,
        pool: Arc<Pool>,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Self, Error> {
        let parts: Vec<_> = checkpoint
            .trunk()
            .filter_map(|(tensor, dtype, shape, extent)| match Form::of(tensor, dtype, shape) {
                Form::Vector(len) => Some((tensor, dtype, len, extent)),
                Form::Matrix { .. } | Form::OnDemand => None,
            })
            .collect();
        let total = parts.iter().map(|(_, _, _, extent)| extent.len).sum();
        let mut vectors = HashMap::with_capacity(parts.len());
        let mut bytes = 0;
        for (tensor, dtype, len, extent) in parts {
            let mut buffer = Buffer::new(window(usize_of(extent.len)))?;
            let place = access.reader.read(extent, &mut buffer, 0)?;
            let stored = &buffer[place..place + usize_of(extent.len)];
            if let Some(manifest) = &access.manifest {
                manifest.check_rows(checkpoint, tensor, 0, stored)?;
            }
            vectors.insert(tensor, vector(dtype, len, stored).ok_or(Error::NoTensor { tensor })?);
            bytes += extent.len;
            if !progress(bytes, total) {
                return Err(Error::Stopped);
            }
        }
        let vector_bytes = vectors.values().map(|v: &Vec<f32>| v.len() as u64 * 4).sum();
        let mut stream = Stream::new(checkpoint, plan, pool, access.manifest.clone());
        stream.counts.bytes = bytes;
        Ok(Self { vectors, vector_bytes, stream: Mutex::new(stream) })
    }

    /// Visits the tiles of a matrix in order. A wait for the disk ends when `cancelled` says so.
    pub(super) fn rows<E: From<Error>>(
        &self,
        tensor: Tensor,
        cancelled: &dyn Fn() -> bool,
        visit: impl FnMut(RowTile<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        // A panic in `visit` leaves a tile out of the ring, and `Stream::take` begins anew where it does not fit.
        self.stream.lock().unwrap_or_else(PoisonError::into_inner).rows(tensor, cancelled, visit)
    }

    pub(super) fn vector(&self, tensor: Tensor) -> Result<&[f32], Error> {
        self.vectors.get(&tensor).map(Vec::as_slice).ok_or(Error::NoTensor { tensor })
    }

    /// Whether the pass that begins will ask for the head. What is not asked for is not read ahead.
    pub(super) fn begin_pass(&self, head: bool) {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner).head = head;
    }

    pub(super) fn counts(&self) -> Counts {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner).counts
    }

    /// Bytes of vectors, and of pinned tiles that have come.
    pub(super) fn resident_bytes(&self) -> u64 {
        self.vector_bytes + self.stream.lock().unwrap_or_else(PoisonError::into_inner).held_bytes
    }
}

/// Where a tile is when it is not under way.
#[derive(Debug)]
enum Home {
    /// On disk, read in every pass.
    Disk,
    /// On disk, to be kept once it has come.
    Pinned,
    /// In memory, from this place of the buffer on.
    Held(Buffer, usize),
}

/// A tile on its way.
#[derive(Debug)]
enum Entry {
    Reading,
    Ready(Buffer, usize),
    Failed(Error),
}

#[derive(Debug)]
struct Stream {
    checkpoint: Arc<Checkpoint>,
    schedule: Schedule,
    homes: Vec<Home>,
    /// Tiles under way, in the order of the schedule, with nothing left out but what is held.
    ring: VecDeque<(usize, Entry)>,
    /// The tile to ask for next.
    next: usize,
    /// Whether this pass will ask for the head.
    head: bool,
    /// Most tiles under way at once.
    depth: usize,
    free: Vec<Buffer>,
    /// Buffers that may still be made.
    unmade: usize,
    buffer_bytes: usize,
    pool: Arc<Pool>,
    manifest: Option<Arc<Manifest>>,
    /// Reads of an older generation belong to nobody.
    generation: u32,
    done: Receiver<Done>,
    sender: Sender<Done>,
    counts: Counts,
    held_bytes: u64,
}

impl Stream {
    fn new(
        checkpoint: &Arc<Checkpoint>,
        plan: &Plan,
        pool: Arc<Pool>,
        manifest: Option<Arc<Manifest>>,
    ) -> Self {
        let schedule = Schedule::new(checkpoint, plan.tile_target, manifest.is_some());
        let homes = spread(&schedule, plan.pinned.0);
        let (sender, done) = unbounded();
        let buffer_bytes = window(schedule.largest());
        Self {
            checkpoint: Arc::clone(checkpoint),
            schedule,
            homes,
            ring: VecDeque::new(),
            next: 0,
            head: true,
            depth: plan.tiles.max(1),
            free: Vec::new(),
            unmade: plan.tiles.max(1),
            buffer_bytes,
            pool,
            manifest,
            generation: 0,
            done,
            sender,
            counts: Counts::default(),
            held_bytes: 0,
        }
    }

    fn rows<E: From<Error>>(
        &mut self,
        tensor: Tensor,
        cancelled: &dyn Fn() -> bool,
        mut visit: impl FnMut(RowTile<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let tiles = self.schedule.tiles_of(tensor).ok_or(Error::NoTensor { tensor })?;
        for number in tiles {
            let tile = self.schedule.tiles[number];
            let view =
                |buffer: &'_ Buffer, place: usize, visit: &mut dyn FnMut(RowTile<'_>) -> Result<(), E>| {
                    let weights = words(&buffer[place..place + tile.bytes()]);
                    visit(RowTile { first: tile.first, weights, columns: tile.columns })
                };
            if let Home::Held(buffer, place) = &self.homes[number] {
                view(buffer, *place, &mut visit)?;
                continue;
            }
            let (buffer, place) = self.take(number, cancelled)?;
            let result = view(&buffer, place, &mut visit);
            self.put_back(number, buffer, place);
            result?;
        }
        Ok(())
    }

    /// The bytes of a tile that is not held, and their place in the buffer.
    fn take(&mut self, number: usize, cancelled: &dyn Fn() -> bool) -> Result<(Buffer, usize), Error> {
        while self.ring.front().is_some_and(|(front, _)| *front != number && self.is_left_out(*front)) {
            // The head was on its way when a pass began that does without.
            if let Some((front, Entry::Ready(buffer, place))) = self.ring.pop_front() {
                self.put_away(front, buffer, place);
            }
        }
        if self.ring.front().is_none_or(|(front, _)| *front != number) {
            // The pass before this one ended early, or this is the very first.
            self.abandon();
            self.next = number;
            self.read_ahead()?;
        }
        let mut began = None;
        loop {
            while let Ok(done) = self.done.try_recv() {
                self.arrived(done);
            }
            if self.ring.is_empty() {
                // All buffers are with reads that nobody waits for any more; the first that comes back is ours.
                self.read_ahead()?;
            }
            match self.ring.pop_front() {
                Some((_, Entry::Ready(buffer, place))) => {
                    match began {
                        None => self.counts.in_time += 1,
                        Some(began) => {
                            self.counts.late += 1;
                            self.counts.waited += Instant::elapsed(&began);
                        }
                    }
                    return Ok((buffer, place));
                }
                Some((_, Entry::Failed(error))) => {
                    self.abandon();
                    return Err(error);
                }
                Some(reading) => self.ring.push_front(reading),
                None => {}
            }
            began.get_or_insert_with(Instant::now);
            match self.done.recv_timeout(GLANCE) {
                Ok(done) => self.arrived(done),
                Err(RecvTimeoutError::Timeout) if !cancelled() => {}
                Err(_) => return Err(Error::Stopped),
            }
        }
    }

    /// Whether this pass does without a tile.
    fn is_left_out(&self, number: usize) -> bool {
        !self.head && self.schedule.tiles.get(number).is_some_and(|tile| tile.tensor == Tensor::LmHead)
    }

    /// Gives a tile back, and its buffer, where it is not kept, to the next read.
    fn put_back(&mut self, number: usize, buffer: Buffer, place: usize) {
        self.put_away(number, buffer, place);
        // Buffers that cannot be had now are asked for again with the next tile; `take` tells where there is none.
        let _ = self.read_ahead();
    }

    /// Keeps a pinned tile, and the buffer of a streamed one.
    fn put_away(&mut self, number: usize, buffer: Buffer, place: usize) {
        if matches!(self.homes[number], Home::Pinned) {
            self.held_bytes += buffer.len() as u64;
            self.homes[number] = Home::Held(buffer, place);
        } else {
            self.free.push(buffer);
        }
    }

    /// Asks for tiles in the order of the schedule, round and round, while there are buffers.
    fn read_ahead(&mut self) -> Result<(), Error> {
        let count = self.homes.len();
        // Each step either asks for a tile or passes one that is held: a whole round without a read is the end.
        for _ in 0..count {
            if self.ring.len() >= self.depth.min(count) {
                break;
            }
            let number = self.next;
            let tile = self.schedule.tiles[number];
            let buffer = match self.homes[number] {
                _ if self.is_left_out(number) => {
                    self.next = (number + 1) % count;
                    continue;
                }
                Home::Held(..) => {
                    self.next = (number + 1) % count;
                    continue;
                }
                // It is on its way, and will be held when it is asked for again.
                Home::Pinned if self.ring.iter().any(|(other, _)| *other == number) => {
                    self.next = (number + 1) % count;
                    continue;
                }
                Home::Pinned => Buffer::new(window(tile.bytes()))?,
                Home::Disk => match self.free.pop() {
                    Some(buffer) => buffer,
                    None if self.unmade > 0 => {
                        let buffer = Buffer::new(self.buffer_bytes)?;
                        self.unmade -= 1;
                        buffer
                    }
                    None => break,
                },
            };
            let check = self.manifest.as_ref().map(|manifest| -> Check {
                let (manifest, checkpoint) = (Arc::clone(manifest), Arc::clone(&self.checkpoint));
                Box::new(move |parts| {
                    let bytes = parts.first().copied().unwrap_or_default();
                    Ok(manifest.check_rows(&checkpoint, tile.tensor, tile.first, bytes)?)
                })
            });
            let job = Job {
                tag: u64::from(self.generation) << 32 | number as u64,
                parts: vec![(tile.extent, 0)],
                buffer,
                check,
                done: self.sender.clone(),
            };
            self.pool.read(job, Urgency::Ahead);
            self.ring.push_back((number, Entry::Reading));
            self.next = (number + 1) % count;
        }
        Ok(())
    }

    /// A read has ended.
    fn arrived(&mut self, done: Done) {
        let number = usize_of(done.tag & u64::from(u32::MAX));
        let current = done.tag >> 32 == u64::from(self.generation);
        if done.result.is_ok() {
            self.counts.bytes += self.schedule.tiles[number].extent.len;
        }
        // A tile may be in the ring twice where few are streamed: once for this pass and once for the next.
        let entry = self
            .ring
            .iter_mut()
            .find(|(other, entry)| current && *other == number && matches!(entry, Entry::Reading));
        match (done.result, entry) {
            (Ok(places), Some((_, entry))) => {
                *entry = Entry::Ready(done.buffer, places.first().copied().unwrap_or(0));
            }
            (result, entry) => {
                if let (Err(error), Some((_, entry))) = (result, entry) {
                    *entry = Entry::Failed(error);
                }
                self.recycle(number, done.buffer);
            }
        }
    }

    /// Forgets the tiles under way: what is still read comes back to nobody.
    fn abandon(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        while let Some((number, entry)) = self.ring.pop_front() {
            if let Entry::Ready(buffer, _) = entry {
                self.recycle(number, buffer);
            }
        }
    }

    fn recycle(&mut self, number: usize, buffer: Buffer) {
        if matches!(self.homes[number], Home::Disk) {
            self.free.push(buffer);
        }
    }
}

/// Chooses tiles of together at most `budget` bytes to pin, evenly over the schedule.
fn spread(schedule: &Schedule, budget: u64) -> Vec<Home> {
    let bytes = |tile: &super::schedule::Tile| window(tile.bytes()) as u64;
    let total: u64 = schedule.tiles.iter().map(bytes).sum();
    let (mut passed, mut pinned) = (0u64, 0u64);
    let home = |tile| {
        let bytes = bytes(tile);
        passed += bytes;
        let due = u128::from(passed) * u128::from(budget.min(total)) / u128::from(total.max(1));
        if u128::from(pinned + bytes) <= due {
            pinned += bytes;
            Home::Pinned
        } else {
            Home::Disk
        }
    };
    schedule.tiles.iter().map(home).collect()
}

/// Stored elements as f32, the first `len` of them.
fn vector(dtype: Dtype, len: usize, bytes: &[u8]) -> Option<Vec<f32>> {
    let mut values = vec![0.0; len];
    match dtype {
        Dtype::F32 => {
            for (value, bytes) in values.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *value = f32::from_le_bytes(*bytes);
            }
        }
        Dtype::Bf16 => widen(bytes, &mut values),
        Dtype::U8 => return None,
    }
    Some(values)
}

/// Widens little-endian bf16.
pub(super) fn widen(bytes: &[u8], out: &mut [f32]) {
    for (value, bytes) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
        *value = f32::from_bits(u32::from(u16::from_le_bytes(*bytes)) << 16);
    }
}

/// Little-endian words. Readers give even places in page-aligned buffers, so nothing is copied.
fn words(bytes: &[u8]) -> &[u16] {
    const { assert!(cfg!(target_endian = "little"), "weights are used as they lie on disk") };
    bytemuck::cast_slice(bytes)
}

/// Where row `row` of a matrix lies whose rows have `row_bytes` bytes.
pub(super) fn row_extent(matrix: Extent, row: u64, row_bytes: usize) -> Option<Extent> {
    let row_bytes = row_bytes as u64;
    let begin = row.checked_mul(row_bytes)?;
    let end = begin.checked_add(row_bytes)?;
    (end <= matrix.len).then_some(Extent {
        shard: matrix.shard,
        offset: matrix.offset + begin,
        len: row_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_outside_the_matrix_have_no_place() {
        let matrix = Extent { shard: 3, offset: 1000, len: 40 };
        assert_eq!(row_extent(matrix, 3, 10), Some(Extent { shard: 3, offset: 1030, len: 10 }));
        assert_eq!(row_extent(matrix, 4, 10), None);
        assert_eq!(row_extent(matrix, u64::MAX, 10), None);
    }
}
