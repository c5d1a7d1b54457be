//! What a model takes of a budget, before anything is read. A pure function of a checkpoint's sizes and a budget.

use super::error::Error;
use super::experts::slot_bytes;
use super::schedule::{Form, Schedule};
use crate::checkpoint::Checkpoint;
use crate::sys::buffer::{ALIGN, window};
use crate::units::Bytes;

/// What the store must know of a checkpoint to plan for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Vectors of the trunk, in memory always.
    pub vectors: u64,
    /// Matrices of the trunk, as stored: what a pass reads of them.
    pub matrices: u64,
    /// For each of [`TILES`]: the memory that all matrices take in tiles of that size, and the largest tile's.
    pub tiled: [(u64, u64); TILES.len()],
    /// One expert, as stored.
    pub expert: u64,
    /// One expert in its slot.
    pub slot: u64,
    /// Experts in all layers.
    pub experts: u64,
    /// Experts that a token wakes in all layers.
    pub woken: u64,
    /// Experts that a token wakes in one layer.
    pub top_k: u64,
    /// One row of the embedding.
    pub embedding_row: u64,
}

/// Sizes of row tiles, largest first, and how many buffers of each a plan may have.
pub(super) const TILES: [(usize, usize); 4] = [(4 << 20, 16), (4 << 20, 8), (2 << 20, 6), (1 << 20, 3)];

impl Sizes {
    /// Of the model as it was released, for those who ask what it would take before they have it. What tiles take is
    /// about that.
    pub const fn released() -> Self {
        const MATRICES: u64 = 111_107_440_640;
        const fn tiled(target: usize) -> (u64, u64) {
            (MATRICES + MATRICES / 500, target as u64 + 2 * ALIGN as u64)
        }
        let [(a, _), (b, _), (c, _), (d, _)] = TILES;
        Self {
            vectors: 62_081_408,
            matrices: MATRICES,
            tiled: [tiled(a), tiled(b), tiled(c), tiled(d)],
            expert: 17_547_264,
            slot: 17_551_360,
            experts: 82_432,
            woken: 1472,
            top_k: 16,
            embedding_row: 14_336,
        }
    }

    /// Of a checkpoint.
    pub fn of(checkpoint: &Checkpoint) -> Self {
        let config = checkpoint.config();
        let (mut vectors, mut matrices) = (0, 0);
        for (tensor, dtype, shape, extent) in checkpoint.trunk() {
            match Form::of(tensor, dtype, shape) {
                Form::Vector(len) => vectors += len as u64 * 4,
                Form::Matrix { .. } => matrices += extent.len,
                Form::OnDemand => {}
            }
        }
        let tiled = TILES.map(|(target, _)| {
            // Tiles that can be checked are the smaller ones, and take a little more memory.
            let schedule = Schedule::new(checkpoint, target, true);
            let all = schedule.tiles.iter().map(|tile| window(tile.bytes()) as u64).sum();
            (all, window(schedule.largest()) as u64)
        });
        let layers = config.layers().saturating_sub(config.dense_layers) as u64;
        Self {
            vectors,
            matrices,
            tiled,
            expert: checkpoint.expert_bytes(),
            slot: slot_bytes(checkpoint) as u64,
            experts: layers * config.moe.experts as u64,
            woken: layers * config.moe.top_k as u64,
            top_k: config.moe.top_k as u64,
            embedding_row: config.hidden as u64 * 2,
        }
    }
}

/// How memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// All of it.
    pub budget: Bytes,
    /// What the caller needs beside the weights: state, activations, the program itself.
    pub reserved: Bytes,
    /// Vectors of the trunk.
    pub vectors: Bytes,
    /// Row tiles under way at once.
    pub tiles: usize,
    /// Memory of one of them.
    pub tile: Bytes,
    /// Matrices of the trunk that stay in memory, at most.
    pub pinned: Bytes,
    /// Bytes of matrices that every pass reads from the disk.
    pub streamed: Bytes,
    /// Experts that the cache holds at once.
    pub slots: usize,
    /// Memory of one of them.
    pub slot: Bytes,
    /// Bytes of experts that a token reads if it finds none in memory.
    pub woken: Bytes,
    /// Experts in all layers.
    pub experts: u64,
    /// About how many bytes of a matrix a tile holds.
    pub tile_target: usize,
}

impl Plan {
    /// Divides `budget`. Needed by all: `reserved`, the vectors, a few tiles, one expert. Then come the experts of one
    /// layer, so that their reads overlap; then the trunk, since each byte of it that is pinned saves one for every
    /// token; and experts take what is left once the trunk is whole, since a cache of less than one token's set only
    /// buffers.
    pub fn new(sizes: &Sizes, budget: Bytes, reserved: Bytes) -> Result<Self, Error> {
        let fixed = sizes.vectors.saturating_add(reserved.0);
        let buffers = |choice: usize| {
            let ((_, count), (_, largest)) = (TILES[choice], sizes.tiled[choice]);
            count as u64 * largest
        };
        let left_with = |choice: usize, slots: u64| {
            let needed =
                fixed.saturating_add(buffers(choice)).saturating_add(slots.saturating_mul(sizes.slot));
            budget.0.checked_sub(needed)
        };
        let last = TILES.len() - 1;
        let layer = sizes.top_k.clamp(1, sizes.experts.max(1));
        // The largest tiles that leave room for a layer's experts, and the smallest where none do.
        let choice = (0..=last).find(|choice| left_with(*choice, 2 * layer).is_some()).unwrap_or(last);
        if left_with(last, 1).is_none() {
            let needed = fixed.saturating_add(buffers(last)).saturating_add(sizes.slot);
            let shortfall = Bytes(needed.saturating_sub(budget.0));
            return Err(Error::Budget { needed: Bytes(needed), budget, shortfall });
        }
        let most_slots = |room: u64| room / sizes.slot.max(1);
        let first_slots = (1..=layer).rev().find(|slots| left_with(choice, *slots).is_some()).unwrap_or(1);
        let left = left_with(choice, first_slots).unwrap_or(0);
        let (whole, tile) = sizes.tiled[choice];
        // With the whole trunk pinned no tile is ever streamed, and its buffers are free again after the first pass;
        // they stay reserved, so that the budget holds during that pass too.
        let pinned = left.min(whole);
        let slots = (first_slots + most_slots(left - pinned)).min(sizes.experts.max(1));
        let streamed = if pinned == whole {
            0
        } else {
            // Pinned memory is windows of tiles: a little more than their bytes.
            sizes.matrices
                - u64::try_from(u128::from(sizes.matrices) * u128::from(pinned) / u128::from(whole))
                    .unwrap_or(0)
        };
        Ok(Self {
            budget,
            reserved,
            vectors: Bytes(sizes.vectors),
            tiles: TILES[choice].1,
            tile: Bytes(tile),
            pinned: Bytes(pinned),
            streamed: Bytes(streamed),
            slots: usize::try_from(slots).unwrap_or(usize::MAX),
            slot: Bytes(sizes.slot),
            woken: Bytes(sizes.woken * sizes.expert),
            experts: sizes.experts,
            tile_target: TILES[choice].0,
        })
    }

    /// The smallest budget that works.
    pub fn smallest(sizes: &Sizes, reserved: Bytes) -> Bytes {
        match Self::new(sizes, Bytes(0), reserved) {
            Err(Error::Budget { needed, .. }) => needed,
            _ => Bytes(0),
        }
    }

    /// What nothing was found for.
    pub fn spare(&self) -> Bytes {
        let slots = (self.slots as u64).saturating_mul(self.slot.0);
        let tiles = self.tiles as u64 * self.tile.0;
        let planned = [self.reserved.0, self.vectors.0, tiles, self.pinned.0, slots];
        Bytes(planned.into_iter().fold(self.budget.0, u64::saturating_sub))
    }

    /// Whether the cache holds less than one token's experts, and so is only a buffer.
    pub fn experts_only_pass(&self) -> bool {
        (self.slots as u64).saturating_mul(self.slot.0) < self.woken.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn no_plan_spends_more_than_its_budget() {
        let sizes = Sizes::released();
        let reserved = Bytes(700 << 20);
        let smallest = Plan::smallest(&sizes, reserved);
        for extra in [0, 1, 1 << 20, 100 << 20, GIB, 8 * GIB, 32 * GIB, 120 * GIB, 2000 * GIB] {
            let budget = Bytes(smallest.0 + extra);
            let plan = Plan::new(&sizes, budget, reserved).unwrap();
            let parts = [plan.reserved.0, plan.vectors.0, plan.tiles as u64 * plan.tile.0, plan.pinned.0];
            let spent = parts.iter().sum::<u64>() + plan.slots as u64 * plan.slot.0;
            assert_eq!(spent + plan.spare().0, budget.0, "{plan:?}");
        }
        let error = Plan::new(&sizes, Bytes(smallest.0 - 1), reserved).unwrap_err();
        assert!(matches!(error, Error::Budget { shortfall: Bytes(1), .. }), "{error}");
    }

    #[test]
    fn the_trunk_comes_before_a_cache_of_experts() {
        let sizes = Sizes::released();
        let plan = |gib| Plan::new(&sizes, Bytes(gib * GIB), Bytes(700 << 20)).unwrap();
        for gib in [3, 8, 32, 96] {
            assert_eq!(plan(gib).slots, 16, "{gib} GiB");
            assert!(plan(gib).streamed.0 > 0 && plan(gib).experts_only_pass(), "{gib} GiB");
        }
        let large = plan(224);
        assert!(large.streamed.0 == 0 && large.slots > 1472 && !large.experts_only_pass());
        let all = plan(2000);
        assert_eq!(all.slots as u64, sizes.experts);
    }

    #[test]
    fn every_byte_more_streams_no_byte_more() {
        let sizes = Sizes::released();
        let streamed = |gib| Plan::new(&sizes, Bytes(gib * GIB), Bytes(700 << 20)).unwrap().streamed;
        assert!((3..130).all(|gib| streamed(gib + 1) <= streamed(gib)));
    }
}
