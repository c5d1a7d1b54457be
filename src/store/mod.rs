//! Where bytes live: which of a checkpoint's weights are in memory, and how the others come.
//!
//! [`Plan`] divides a budget before anything is read. The trunk's matrices come as row tiles, pinned as far as the plan
//! allows and streamed beyond it; experts come when the router wakes them, into a bounded cache of slots; embedding rows
//! come one at a time. All of it is read by a few threads through one [`Reader`], and checked against a
//! [`Manifest`] where there is one. Those who compute ask for rows of a tensor or for experts, and do not know where they
//! were: a budget changes when a byte is read and never which.

mod error;
mod experts;
mod io;
mod plan;
mod policy;
pub mod reader;
mod schedule;
mod trunk;

use std::sync::Arc;

use crate::checkpoint::{Checkpoint, Manifest, Tensor};
use crate::sys::buffer::{Buffer, window};

pub use error::Error;
pub use experts::{Expert, parts as expert_parts, slot_bytes as expert_window};
pub use plan::{Plan, Sizes};
pub use reader::{Reader, ReaderKind};
pub use trunk::RowTile;

use experts::Experts;
use io::Pool;
use trunk::Trunk;

/// What was read and asked for since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes of the trunk and the embedding read from disk.
    pub trunk_bytes: u64,
    /// Bytes of experts read from disk.
    pub expert_bytes: u64,
    /// Experts that were woken: distinct ones for each layer and pass.
    pub requests: u64,
    /// Of these, in memory before their pass began.
    pub resident: u64,
    /// Experts read from disk.
    pub reads: u64,
    /// Tiles and experts that were waited for.
    pub late: u64,
    /// Tiles read ahead that were there in time.
    pub in_time: u64,
    /// Nanoseconds of these waits.
    pub waited_ns: u64,
}

impl Counters {
    /// What was added since `earlier`, divided into `of` parts: the one with number `part`, counted from zero. All of them
    /// add up to the whole.
    #[must_use]
    pub fn part_since(self, earlier: Self, part: usize, of: usize) -> Self {
        let (part, of) = (part as u64, (of as u64).max(1));
        let share = |count: fn(&Self) -> u64| {
            let added = count(&self).saturating_sub(count(&earlier));
            let up_to = |part: u64| added / of * part + added % of * part / of;
            up_to(part + 1) - up_to(part)
        };
        Self {
            trunk_bytes: share(|c| c.trunk_bytes),
            expert_bytes: share(|c| c.expert_bytes),
            requests: share(|c| c.requests),
            resident: share(|c| c.resident),
            reads: share(|c| c.reads),
            late: share(|c| c.late),
            in_time: share(|c| c.in_time),
            waited_ns: share(|c| c.waited_ns),
        }
    }
}

/// Where weights come from, beside the checkpoint itself.
#[derive(Clone, Debug)]
pub struct Access {
    /// How bytes are read.
    pub reader: Arc<dyn Reader>,
    /// What they are checked against.
    pub manifest: Option<Arc<Manifest>>,
}

/// All weights of one checkpoint.
#[derive(Debug)]
pub struct Store {
    checkpoint: Arc<Checkpoint>,
    access: Access,
    trunk: Trunk,
    experts: Experts,
    embedding_bytes: u64,
    /// Room for one row of the embedding.
    row: Buffer,
}

impl Store {
    /// Reads the trunk's vectors and makes ready for the rest. `progress` is told of bytes done and in all, and stops the
    /// reading by returning `false`.
    pub fn open(
        checkpoint: Arc<Checkpoint>,
        plan: &Plan,
        access: Access,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Self, Error> {
        let pool = Arc::new(Pool::start(&access.reader)?);
        let trunk = Trunk::open(&checkpoint, plan, &access, Arc::clone(&pool), progress)?;
        let experts = Experts::new(&checkpoint, plan.slots, pool, access.manifest.clone());
        let row = Buffer::new(window(checkpoint.config().hidden * 2))?;
        Ok(Self { checkpoint, access, trunk, experts, embedding_bytes: 0, row })
    }

    /// The checkpoint that the weights are of.
    pub const fn checkpoint(&self) -> &Arc<Checkpoint> {
        &self.checkpoint
    }

    /// Visits the rows of a bf16 matrix of the trunk in order, tile by tile. All rows of a head of
    /// [`crate::checkpoint::LayerTensor::MlaKvB`] lie in one tile. A wait for the disk ends with [`Error::Stopped`] when
    /// `cancelled` says so.
    pub fn rows<E: From<Error>>(
        &self,
        tensor: Tensor,
        cancelled: &dyn Fn() -> bool,
        visit: impl FnMut(RowTile<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.trunk.rows(tensor, cancelled, visit)
    }

    /// A vector of the trunk (norms, biases, convolutions, projections to one number), widened to f32.
    pub fn vector(&self, tensor: Tensor) -> Result<&[f32], Error> {
        self.trunk.vector(tensor)
    }

    /// Reads the embedding of one token, `[hidden]`, from the disk.
    pub fn embedding(&mut self, id: u32, out: &mut [f32]) -> Result<(), Error> {
        let tensor = Tensor::Embedding;
        let matrix = self.checkpoint.locate(tensor).ok_or(Error::NoTensor { tensor })?;
        let row_bytes = out.len() * 2;
        let row = trunk::row_extent(matrix, u64::from(id), row_bytes).ok_or(Error::OutOfRange { id })?;
        let place = self.access.reader.read(row, &mut self.row, 0)?;
        let bytes = &self.row[place..place + row_bytes];
        if let Some(manifest) = &self.access.manifest {
            manifest.check_rows(&self.checkpoint, tensor, id as usize, bytes)?;
        }
        self.embedding_bytes += row.len;
        trunk::widen(bytes, out);
        Ok(())
    }

    /// Begins a pass over the layers: experts that are in memory now count as resident. Without `head` the pass ends
    /// before [`Tensor::LmHead`], which then is not read.
    pub fn begin_pass(&mut self, head: bool) {
        self.trunk.begin_pass(head);
        self.experts.begin_pass();
    }

    /// Starts to read those of these experts that are not in memory. Each is named once.
    pub fn wake(&mut self, layer: usize, experts: &[usize]) -> Result<(), Error> {
        self.experts.wake(layer, experts)
    }

    /// Some of the woken experts, in the order in which they land; none once all were handed out. A wait for the disk
    /// ends with [`Error::Stopped`] when `cancelled` says so.
    pub fn next_experts(&mut self, cancelled: &dyn Fn() -> bool) -> Result<Vec<Expert<'_>>, Error> {
        self.experts.next(cancelled)
    }

    /// What was read and asked for so far.
    pub fn counters(&self) -> Counters {
        let (trunk, experts) = (self.trunk.counts(), self.experts.counts());
        let waited = trunk.waited + experts.waited;
        Counters {
            trunk_bytes: trunk.bytes + self.embedding_bytes,
            expert_bytes: experts.bytes,
            requests: experts.requests,
            resident: experts.resident,
            reads: experts.reads,
            late: trunk.late + experts.late,
            in_time: trunk.in_time,
            waited_ns: u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX),
        }
    }

    /// Experts in memory.
    pub fn slots_used(&self) -> usize {
        self.experts.used()
    }

    /// Experts that fit.
    pub const fn slots(&self) -> usize {
        self.experts.slots()
    }

    /// Bytes of the trunk in memory now.
    pub fn resident_bytes(&self) -> u64 {
        self.trunk.resident_bytes()
    }

    /// How bytes are read.
    pub fn reader(&self) -> ReaderKind {
        self.access.reader.kind()
    }

    /// Whether what is read is checked.
    pub const fn is_checked(&self) -> bool {
        self.access.manifest.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_count_add_up_to_it() {
        let earlier = Counters { reads: 5, ..Counters::default() };
        let later = Counters { reads: 15, trunk_bytes: 3, waited_ns: u64::MAX, ..Counters::default() };
        let parts: Vec<Counters> = (0..4).map(|part| later.part_since(earlier, part, 4)).collect();
        assert_eq!(parts.iter().map(|part| part.reads).collect::<Vec<_>>(), [2, 3, 2, 3]);
        assert_eq!(parts.iter().map(|part| part.trunk_bytes).sum::<u64>(), 3);
        assert_eq!(parts.iter().map(|part| part.waited_ns).sum::<u64>(), u64::MAX);
        assert_eq!(later.part_since(earlier, 0, 1).reads, 10);
    }
}
