//! How memory was divided, and what a token is thought to cost, for those who show it.

use crate::units::{Bytes, Day, Rate};

/// A rate that was measured on this machine, in bytes a second, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Bytes in a second.
    pub bytes_per_s: u64,
    /// The day.
    pub day: Day,
}

/// What is known of a machine's speed. Nothing of it changes what is computed, or what is held in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownRates {
    /// What the disk of the model's folder gives.
    pub disk: Option<Measured>,
    /// How fast weights are multiplied.
    pub compute: Option<Measured>,
}

/// A rate that an estimate was made with.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UsedRate {
    /// The rate.
    pub rate: Rate,
    /// When it was measured; nothing where it is only assumed.
    pub measured: Option<Day>,
}

/// A plan of memory, with what follows from it. All of it is known before a weight is read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanFacts {
    /// All memory that may be used.
    pub budget: Bytes,
    /// The smallest budget that works for this model; with the context that was asked for, if any was.
    pub smallest: Bytes,
    /// What the machine has, or its container's limit.
    pub machine: Bytes,
    /// What of it was free.
    pub available: Bytes,
    /// The file with the limit, where there is one.
    pub limited_by: Option<String>,
    /// The program itself, with the index of the checkpoint and the tokenizer.
    pub program: Bytes,
    /// Turns that may be under way at once, each with a state and a context of its own.
    pub together: usize,
    /// The part of the model's state that does not grow, for all of them.
    pub state: Bytes,
    /// Latents for a full context, for all of them.
    pub context: Bytes,
    /// Positions of that context.
    pub positions: usize,
    /// What of the state is there twice while a token is computed: before and after it.
    pub held: Bytes,
    /// Copies of the state, for a turn that is retried, edited or gone on with after a stop.
    pub copies: Bytes,
    /// Bytes of the disk that states may take; nothing where none are kept there.
    pub state_disk: Bytes,
    /// Activations of one pass over a chunk of the prompt.
    pub activations: Bytes,
    /// Tokens of that chunk.
    pub chunk: usize,
    /// Vectors of the trunk, always in memory.
    pub vectors: Bytes,
    /// Row tiles of the trunk under way at once.
    pub tiles: usize,
    /// Memory of one of them.
    pub tile: Bytes,
    /// Memory for matrices of the trunk that stay, at most.
    pub pinned: Bytes,
    /// Matrices of the trunk, as stored.
    pub matrices: Bytes,
    /// Experts that the cache holds at once.
    pub slots: usize,
    /// Memory of one of them.
    pub slot: Bytes,
    /// Experts in all layers.
    pub experts: u64,
    /// Experts that a token wakes in all layers.
    pub woken: u64,
    /// Whether the cache holds less than one token's experts, so that nothing survives in it from one to the next.
    pub only_buffer: bool,
    /// Bytes of the trunk that a token reads from the disk.
    pub token_trunk: Bytes,
    /// Bytes of experts that a token reads from the disk.
    pub token_experts: Bytes,
    /// Bytes of weights that a token multiplies, wherever they come from.
    pub token_touched: Bytes,
    /// Seconds of a token, as an estimate.
    pub token_s: f64,
    /// What a token waits for: `disk` or `compute`.
    pub bound: &'static str,
    /// What the disk is thought to give.
    pub disk: UsedRate,
    /// How fast weights are thought to be multiplied.
    pub compute: UsedRate,
}

impl PlanFacts {
    /// Whether this machine has as much as the budget. One that does not tell how much it has is trusted to.
    pub const fn is_within_machine(&self) -> bool {
        self.machine.0 == 0 || self.budget.0 <= self.machine.0
    }

    /// Seconds of a pass that reads so many tokens of a prompt together, as an estimate: the trunk is read once, and each
    /// expert once that any of them wakes; the router was trained to wake all alike. Every token multiplies all of its
    /// weights, as if it were alone.
    pub fn pass_s(&self, tokens: usize) -> f64 {
        let (all, woken) = (self.experts.max(1) as f64, self.woken as f64);
        let tokens = tokens as f64;
        let distinct = all * (1.0 - (1.0 - (woken / all).min(1.0)).powf(tokens));
        let experts = self.token_experts.0 as f64 * if woken > 0.0 { distinct / woken } else { 0.0 };
        let seconds = |bytes: f64, rate: Rate| if rate.0 > 0.0 { bytes / rate.0 } else { 0.0 };
        let disk_s = seconds(self.token_trunk.0 as f64 + experts, self.disk.rate);
        disk_s.max(seconds(self.token_touched.0 as f64 * tokens, self.compute.rate))
    }

    /// Memory that is spoken for: never above the budget.
    pub const fn planned(&self) -> Bytes {
        let (tiles, slots) = (self.tiles as u64 * self.tile.0, self.slots as u64 * self.slot.0);
        let state = self.state.0 + self.context.0 + self.held.0 + self.copies.0;
        let fixed = self.program.0 + state + self.activations.0 + self.vectors.0;
        Bytes(fixed + tiles + self.pinned.0 + slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_over_many_tokens_costs_less_than_each_alone() {
        let rate = |rate| UsedRate { rate: Rate(rate), measured: None };
        let plan = PlanFacts {
            experts: 1000,
            woken: 100,
            token_trunk: Bytes(500),
            token_experts: Bytes(200),
            token_touched: Bytes(700),
            disk: rate(100.0),
            compute: rate(1e9),
            ..PlanFacts::default()
        };
        // One token: the whole trunk, and all experts that it wakes.
        assert!((plan.pass_s(1) - 7.0).abs() < 1e-9);
        // Two wake 190 of 1000, since some are woken by both.
        assert!((plan.pass_s(2) - (500.0 + 200.0 * 1.9) / 100.0).abs() < 1e-9);
        // However many there are, no expert is read twice.
        assert!(plan.pass_s(10_000) < 25.0 + 1e-9);
        let slow = PlanFacts { compute: rate(10.0), ..plan };
        assert!((slow.pass_s(3) - 210.0).abs() < 1e-9);
        assert!(PlanFacts::default().pass_s(64).abs() < 1e-9, "nothing is known");
    }
}
