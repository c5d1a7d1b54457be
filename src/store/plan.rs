//! What a model takes of a budget, before anything is read. A pure function of checkpoint and budget.

use super::error::Error;
use super::trunk::Form;
use crate::checkpoint::Checkpoint;
use crate::units::Bytes;

/// How memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// All of it.
    pub budget: Bytes,
    /// The trunk, in memory.
    pub trunk: Bytes,
    /// What the caller needs beside the weights: state, activations, the program itself.
    pub reserved: Bytes,
    /// Experts that the cache holds at once.
    pub slots: usize,
    /// Bytes of one expert.
    pub expert: Bytes,
}

impl Plan {
    /// Divides `budget`: `reserved` and the trunk come first, and experts take the rest, at least one and at most all.
    pub fn new(checkpoint: &Checkpoint, budget: Bytes, reserved: Bytes) -> Result<Self, Error> {
        let trunk = Bytes(
            checkpoint.trunk().map(|(tensor, dtype, shape, _)| Form::of(tensor, dtype, shape).bytes()).sum(),
        );
        let expert = Bytes(checkpoint.expert_bytes());
        let config = checkpoint.config();
        let all = config.moe.experts.saturating_mul(config.layers().saturating_sub(config.dense_layers));
        let fixed = trunk.0.saturating_add(reserved.0);
        let needed = fixed.saturating_add(expert.0);
        if needed > budget.0 {
            let shortfall = Bytes(needed - budget.0);
            return Err(Error::Budget { needed: Bytes(needed), budget, shortfall });
        }
        let room = (budget.0 - fixed) / expert.0.max(1);
        let slots = usize::try_from(room).unwrap_or(usize::MAX).min(all).max(1);
        Ok(Self { budget, trunk, reserved, slots, expert })
    }
}
