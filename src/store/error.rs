//! What can go wrong between the shards and those who compute.

use crate::checkpoint::{self, Tensor};
use crate::units::Bytes;

/// Weights could not be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A shard could not be read.
    #[error(transparent)]
    Checkpoint(#[from] checkpoint::Error),
    /// An expert could not be read.
    #[error("layer {layer}, expert {expert}: {source}")]
    Expert {
        /// Its layer, counted from zero.
        layer: usize,
        /// Its number in the layer.
        expert: usize,
        /// Why not.
        source: Box<checkpoint::Error>,
    },
    /// This model has no such tensor, or not in this form.
    #[error("the model has no tensor {tensor:?} of the form that was asked for")]
    NoTensor {
        /// What was asked for.
        tensor: Tensor,
    },
    /// This model has no such expert.
    #[error("layer {layer} has no expert {expert}")]
    NoExpert {
        /// The layer, counted from zero.
        layer: usize,
        /// What was asked for.
        expert: usize,
    },
    /// The embedding has no such row.
    #[error("token id {id} lies outside the vocabulary")]
    OutOfRange {
        /// The token.
        id: u32,
    },
    /// The budget is too small for this model.
    #[error("the model needs at least {needed} of memory, and the budget is {budget}: {shortfall} short")]
    Budget {
        /// The smallest budget that works.
        needed: Bytes,
        /// What was given.
        budget: Bytes,
        /// The difference.
        shortfall: Bytes,
    },
    /// The reading was stopped.
    #[error("loading was stopped")]
    Stopped,
}
