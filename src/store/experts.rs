//! Routed experts: read when they are woken, into a bounded cache of slots.

use std::collections::HashMap;

use super::Counters;
use super::error::Error;
use super::policy::Lru;
use crate::checkpoint::{Checkpoint, ExpertPart, Extent};

/// The weights of one expert. Packed nibbles and scales, as in the shard: see [`ExpertPart`] for shapes.
#[derive(Clone, Copy, Debug)]
pub struct Expert<'a> {
    bytes: &'a [u8],
    bounds: &'a [usize; 7],
}

impl<'a> Expert<'a> {
    /// The bytes of one of its six tensors.
    pub fn part(&self, part: ExpertPart) -> &'a [u8] {
        let i = part as usize;
        self.bytes.get(self.bounds[i]..self.bounds[i + 1]).unwrap_or_default()
    }
}

#[derive(Debug)]
struct Slot {
    /// Layer and expert, once the bytes are whole.
    key: Option<(u32, u32)>,
    /// The pass in which it was read.
    pass: u64,
    bytes: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Experts {
    /// Where each part begins and ends in a slot.
    bounds: [usize; 7],
    capacity: usize,
    slots: Vec<Slot>,
    by_key: HashMap<(u32, u32), usize>,
    lru: Lru,
    pass: u64,
    counters: Counters,
}

impl Experts {
    pub(super) fn new(checkpoint: &Checkpoint, capacity: usize) -> Self {
        let mut bounds = [0; 7];
        for (i, part) in ExpertPart::ALL.into_iter().enumerate() {
            let (rows, columns) = part.shape(checkpoint.config());
            bounds[i + 1] = bounds[i] + rows * columns;
        }
        Self {
            bounds,
            // With no slot at all nothing could be computed: an expert in use needs a place.
            capacity: capacity.max(1),
            slots: Vec::new(),
            by_key: HashMap::new(),
            lru: Lru::new(),
            pass: 0,
            counters: Counters::default(),
        }
    }

    pub(super) const fn begin_pass(&mut self) {
        self.pass += 1;
    }

    pub(super) fn fetch(
        &mut self,
        checkpoint: &Checkpoint,
        layer: usize,
        expert: usize,
    ) -> Result<Expert<'_>, Error> {
        let no_expert = Error::NoExpert { layer, expert };
        let (Ok(l), Ok(e)) = (u32::try_from(layer), u32::try_from(expert)) else { return Err(no_expert) };
        let key = (l, e);
        let slot = if let Some(&slot) = self.by_key.get(&key) {
            if self.slots[slot].pass < self.pass {
                self.counters.resident += 1;
            }
            slot
        } else {
            let extents = checkpoint.expert(layer, expert).ok_or(no_expert)?;
            let slot = self.free_slot();
            self.fill(checkpoint, slot, &extents).map_err(|source| Error::Expert {
                layer,
                expert,
                source: Box::new(source),
            })?;
            self.slots[slot].key = Some(key);
            self.slots[slot].pass = self.pass;
            self.by_key.insert(key, slot);
            slot
        };
        self.counters.requests += 1;
        self.lru.touch(slot);
        Ok(Expert { bytes: &self.slots[slot].bytes, bounds: &self.bounds })
    }

    /// A slot that holds nothing: a new one while there is room, else the one that was not used for the longest time.
    fn free_slot(&mut self) -> usize {
        match self.lru.oldest() {
            Some(oldest) if self.slots.len() == self.capacity => {
                if let Some(key) = self.slots[oldest].key.take() {
                    self.by_key.remove(&key);
                }
                oldest
            }
            _ => {
                self.slots.push(Slot { key: None, pass: 0, bytes: vec![0; self.bounds[6]] });
                self.lru.add();
                self.slots.len() - 1
            }
        }
    }

    /// Reads an expert: in one piece where its tensors follow each other in the shard, else one by one.
    fn fill(
        &mut self,
        checkpoint: &Checkpoint,
        slot: usize,
        extents: &[Extent; 6],
    ) -> Result<(), crate::checkpoint::Error> {
        let bytes = &mut self.slots[slot].bytes;
        let follows = |pair: &[Extent]| match pair {
            [a, b] => a.shard == b.shard && a.offset + a.len == b.offset,
            _ => false,
        };
        if extents.windows(2).all(follows) {
            let [first, ..] = *extents;
            checkpoint.read(Extent { len: bytes.len() as u64, ..first }, bytes)?;
        } else {
            for (extent, bounds) in extents.iter().zip(self.bounds.windows(2)) {
                checkpoint.read(*extent, &mut bytes[bounds[0]..bounds[1]])?;
            }
        }
        self.counters.reads += 1;
        self.counters.expert_bytes += self.bounds[6] as u64;
        Ok(())
    }

    pub(super) const fn counters(&self) -> Counters {
        self.counters
    }

    pub(super) fn used(&self) -> usize {
        self.by_key.len()
    }

    pub(super) const fn slots(&self) -> usize {
        self.capacity
    }
}
