//! Where bytes live: which of a checkpoint's tensors are in memory, and how the others come.
//!
//! The trunk (everything but the routed experts) is read into memory once, by [`Trunk`]. Experts are read when the
//! router wakes them, into a bounded cache of slots, by [`Experts`]. Embedding rows are read one at a time and never
//! kept. [`Plan`] says what that takes before anything is read. Those who compute ask for rows of a tensor or for an
//! expert, and do not know where it was.

mod error;
mod experts;
mod plan;
mod policy;
mod trunk;

use std::sync::Arc;

use crate::checkpoint::{Checkpoint, Tensor};

pub use error::Error;
pub use experts::Expert;
pub use plan::Plan;
pub use trunk::RowTile;

use experts::Experts;
use trunk::Trunk;

/// What was read and asked for since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes of the trunk read from disk.
    pub trunk_bytes: u64,
    /// Bytes of experts read from disk.
    pub expert_bytes: u64,
    /// Experts that were woken: distinct ones for each layer and pass.
    pub requests: u64,
    /// Of these, in memory before their pass began.
    pub resident: u64,
    /// Experts read from disk.
    pub reads: u64,
}

/// All weights of one checkpoint.
#[derive(Debug)]
pub struct Store {
    checkpoint: Arc<Checkpoint>,
    trunk: Trunk,
    experts: Experts,
    embedding_bytes: u64,
    row: Vec<u8>,
}

impl Store {
    /// Reads the trunk into memory and makes room for as many experts as `plan` says. `progress` is told of bytes done
    /// and in all, and stops the reading by returning `false`.
    pub fn open(
        checkpoint: Arc<Checkpoint>,
        plan: &Plan,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Self, Error> {
        let trunk = Trunk::read(&checkpoint, progress)?;
        let experts = Experts::new(&checkpoint, plan.slots);
        let row = vec![0; checkpoint.config().hidden * 2];
        Ok(Self { checkpoint, trunk, experts, embedding_bytes: 0, row })
    }

    /// The checkpoint that the weights are of.
    pub const fn checkpoint(&self) -> &Arc<Checkpoint> {
        &self.checkpoint
    }

    /// Visits the rows of a bf16 matrix of the trunk in order, tile by tile.
    pub fn rows<E: From<Error>>(
        &self,
        tensor: Tensor,
        visit: impl FnMut(RowTile<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.trunk.rows(tensor, visit)
    }

    /// A bf16 matrix of the trunk, whole, row-major. For the one that is needed in two halves at different moments:
    /// [`crate::checkpoint::LayerTensor::MlaKvB`].
    pub fn matrix(&self, tensor: Tensor) -> Result<&[u16], Error> {
        self.trunk.matrix(tensor)
    }

    /// A vector of the trunk (norms, biases, convolutions, projections to one number), widened to f32.
    pub fn vector(&self, tensor: Tensor) -> Result<&[f32], Error> {
        self.trunk.vector(tensor)
    }

    /// Reads the embedding of one token, `[hidden]`, from the disk.
    pub fn embedding(&mut self, id: u32, out: &mut [f32]) -> Result<(), Error> {
        let extent =
            self.checkpoint.locate(Tensor::Embedding).ok_or(Error::NoTensor { tensor: Tensor::Embedding })?;
        let row = trunk::row_extent(extent, u64::from(id), self.row.len()).ok_or(Error::OutOfRange { id })?;
        self.checkpoint.read(row, &mut self.row)?;
        self.embedding_bytes += row.len;
        trunk::widen(&self.row, out);
        Ok(())
    }

    /// Begins a pass over the layers: experts that are in memory now count as resident.
    pub fn begin_pass(&mut self) {
        self.experts.begin_pass();
    }

    /// The weights of one expert, read from the disk unless they are in a slot. Ask once for each expert, layer and
    /// pass.
    pub fn expert(&mut self, layer: usize, expert: usize) -> Result<Expert<'_>, Error> {
        self.experts.fetch(&self.checkpoint, layer, expert)
    }

    /// What was read and asked for so far.
    pub const fn counters(&self) -> Counters {
        let mut counters = self.experts.counters();
        counters.trunk_bytes = self.trunk.bytes_read() + self.embedding_bytes;
        counters
    }

    /// Experts in memory.
    pub fn slots_used(&self) -> usize {
        self.experts.used()
    }

    /// Experts that fit.
    pub const fn slots(&self) -> usize {
        self.experts.slots()
    }

    /// Bytes that the trunk takes in memory.
    pub const fn resident_bytes(&self) -> u64 {
        self.trunk.resident_bytes()
    }
}
