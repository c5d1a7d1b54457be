//! Numbers that the engine writes and the screen samples: relaxed atomics, no locks, no events.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use super::layers::{LayerCost, Layers};
use crate::units::{Bytes, Percent, Rate};

/// What the engine is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Nothing is loaded.
    #[default]
    Empty,
    /// Reading the checkpoint.
    Loading,
    /// Waiting for a turn.
    Idle,
    /// Reading the prompt.
    Prefill,
    /// Writing tokens.
    Decode,
}

impl Phase {
    const ALL: [Self; 5] = [Self::Empty, Self::Loading, Self::Idle, Self::Prefill, Self::Decode];
}

/// What the engine waits for while nothing can be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Wait {
    /// Rows of a matrix of the trunk.
    Trunk = 1,
    /// Experts that the router has woken.
    Experts = 2,
}

/// Seconds for which a wait that was told counts: it is told far more often.
const WAIT_HOLDS_S: f64 = 1.0;

/// What the experts' cache did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpertCounts {
    /// Experts that the router woke: distinct ones for each layer and pass.
    pub requests: u64,
    /// Of these, in memory before the pass began (not "read a moment ago").
    pub resident: u64,
    /// Reads from disk.
    pub reads: u64,
    /// Bytes of these reads.
    pub bytes: u64,
}

impl ExpertCounts {
    /// What was added since `earlier`.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(earlier.requests),
            resident: self.resident.saturating_sub(earlier.resident),
            reads: self.reads.saturating_sub(earlier.reads),
            bytes: self.bytes.saturating_sub(earlier.bytes),
        }
    }

    /// Share of the requests that found their expert in memory.
    pub fn hit_rate(self) -> Percent {
        Percent::of(self.resident, self.requests)
    }
}

macro_rules! telemetry {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The engine's counters. Each field has a single writer, but for the pieces and the bytes that land; a reader may see one field a moment older than
        /// another.
        #[derive(Debug)]
        pub struct Telemetry {
            epoch: Instant,
            phase: AtomicU8,
            costs: Layers,
            $($(#[$doc])* pub $name: AtomicU64,)*
        }

        /// [`Telemetry`] at one moment.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct Sample {
            /// Seconds since the program began to count.
            pub at: f64,
            /// What the engine is doing.
            pub phase: Phase,
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Default for Telemetry {
            fn default() -> Self {
                Self { epoch: Instant::now(), phase: AtomicU8::new(0), costs: Layers::default(), $($name: AtomicU64::new(0),)* }
            }
        }

        impl Telemetry {
            /// All numbers as they are now.
            pub fn sample(&self) -> Sample {
                Sample { at: self.now(), phase: self.phase(), $($name: self.$name.load(Relaxed),)* }
            }
        }

        impl Default for Sample {
            fn default() -> Self {
                Self { at: 0.0, phase: Phase::Empty, $($name: 0,)* }
            }
        }
    };
}

telemetry! {
    /// The turn that runs, or ran last; of several that run together, the first.
    turn,
    /// Bytes that loading has read.
    load_done,
    /// Bytes that loading will read.
    load_total,
    /// Prompt tokens that this turn, and those that run with it, have to read.
    prompt_total,
    /// Of these, read so far.
    prompt_done,
    /// The pass over the prompt that is computed, counted from one; of several turns that run together, the sum.
    chunk,
    /// Passes that the prompt takes; of several, the sum.
    chunks,
    /// Tokens that this turn, and those that run with it, have generated.
    tokens,
    /// The layer that is computed, counted from zero.
    layer,
    /// Layers of the model.
    layers,
    /// When the running pass began, in nanoseconds since the epoch of the counters.
    pass_began_ns,
    /// What had landed when it began, of `landed_bytes`.
    pass_landed,
    /// Tiles and experts that were computed since the start.
    pieces,
    /// What was waited for last, as a number of [`Wait`]; 0 where nothing ever was.
    waiting_for,
    /// When that was told, in nanoseconds since the epoch of the counters.
    waiting_ns,
    /// Bytes that have landed from the disk since the start, whoever needs them: the one number that also moves within
    /// a layer.
    landed_bytes,
    /// Nanoseconds that the last decoded token took.
    last_token_ns,
    /// Nanoseconds from the command to the first token of this turn; 0 before it.
    first_token_ns,
    /// Bytes of the trunk read from disk since the start.
    trunk_bytes,
    /// Bytes of experts read from disk since the start.
    expert_bytes,
    /// Experts woken since the start: see [`ExpertCounts`].
    expert_requests,
    /// Of these, resident before their pass.
    expert_resident,
    /// Reads of experts since the start.
    expert_reads,
    /// Experts woken by the last decoded token.
    token_requests,
    /// Of these, resident before it.
    token_resident,
    /// Tiles and experts that were waited for since the start.
    late,
    /// Tiles read ahead that were there in time since the start.
    in_time,
    /// Nanoseconds of waits for the disk since the start.
    waited_ns,
    /// Bytes of the trunk in memory now.
    trunk_resident,
    /// Bytes of the trunk that every token reads from the disk.
    trunk_streamed,
    /// Experts in memory.
    slots_used,
    /// Experts that fit.
    slots_total,
    /// Positions that the state holds; of several, the largest.
    context_used,
    /// Positions that it may hold.
    context_limit,
    /// Bytes of the model's state.
    state_bytes,
    /// States that were written to the disk since the model was loaded.
    saved_states,
    /// Bytes of these.
    saved_bytes,
    /// Nanoseconds that writing them took, beside the computing.
    saved_ns,
    /// Nanoseconds that a turn stood still for one of them, at most.
    saved_pause_ns,
    /// Bytes that the process has in memory, sampled once a second.
    rss,
    /// Most of it so far.
    peak_rss,
    /// Bytes that the engine may use.
    budget,
    /// Bytes of the machine's memory, or of its container's limit.
    machine_memory,
    /// Processor time that this process takes, in thousandths of one core; sampled once a second.
    cpu_permille,
    /// Share of the last ten seconds in which somebody waited for the disk, in hundredths of a percent, plus one; 0 where
    /// the system does not tell.
    pressure_io,
    /// The same for memory.
    pressure_memory,
    /// The same for processors.
    pressure_cpu,
    /// Temperature of the hottest processor in thousandths of a degree Celsius; 0 where the system does not tell.
    temperature,
}

impl Telemetry {
    /// Seconds since the epoch of the counters.
    pub fn now(&self) -> f64 {
        self.epoch.elapsed().as_secs_f64()
    }

    /// Nanoseconds since the epoch of the counters.
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// What the engine is doing.
    pub fn phase(&self) -> Phase {
        Phase::ALL.get(usize::from(self.phase.load(Relaxed))).copied().unwrap_or_default()
    }

    /// Writes down what a layer cost.
    pub fn set_layer(&self, layer: usize, cost: &LayerCost) {
        self.costs.set(layer, cost);
    }

    /// What each layer cost in the last pass through it, as far as the model has layers.
    pub fn layer_costs(&self) -> Vec<LayerCost> {
        self.costs.get(usize::try_from(self.layers.load(Relaxed)).unwrap_or(usize::MAX))
    }

    /// Says that nothing can be computed before this has come.
    pub fn set_waiting(&self, what: Wait) {
        self.waiting_for.store(what as u64, Relaxed);
        self.waiting_ns.store(self.now_ns(), Relaxed);
    }

    /// Says what the engine is doing from now on.
    pub fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Relaxed);
    }
}

impl Sample {
    /// What the experts' cache did since the start.
    pub const fn experts(&self) -> ExpertCounts {
        ExpertCounts {
            requests: self.expert_requests,
            resident: self.expert_resident,
            reads: self.expert_reads,
            bytes: self.expert_bytes,
        }
    }

    /// What the engine waits for at this moment, if it waits.
    pub fn waiting(&self) -> Option<Wait> {
        let what = match self.waiting_for {
            1 => Wait::Trunk,
            2 => Wait::Experts,
            _ => return None,
        };
        (self.at - self.waiting_ns as f64 * 1e-9 < WAIT_HOLDS_S).then_some(what)
    }

    /// Bytes that have landed since the running pass began.
    pub const fn pass_bytes(&self) -> Bytes {
        Bytes(self.landed_bytes.saturating_sub(self.pass_landed))
    }

    /// Seconds that the running pass has taken so far.
    pub fn pass_seconds(&self) -> f64 {
        (self.at - self.pass_began_ns as f64 * 1e-9).max(0.0)
    }
}

/// Rates between two samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Bytes read from disk in a second.
    pub disk: Rate,
    /// Bytes read from disk between the two.
    pub read: Bytes,
    /// Share of the time that went by in waits for the disk.
    pub waited: Percent,
    /// Tokens in a second between the two; 0 across turns.
    pub tokens_per_second: f64,
}

impl Rates {
    /// What happened from `earlier` to `later`.
    pub fn between(earlier: &Sample, later: &Sample) -> Self {
        let seconds = later.at - earlier.at;
        let read = Bytes(later.landed_bytes.saturating_sub(earlier.landed_bytes));
        let waited_s = later.waited_ns.saturating_sub(earlier.waited_ns) as f64 * 1e-9;
        let tokens = if earlier.turn == later.turn { later.tokens.saturating_sub(earlier.tokens) } else { 0 };
        Self {
            disk: Rate::of(read, seconds),
            read,
            waited: Percent(if seconds > 0.0 { (waited_s / seconds).min(1.0) } else { 0.0 }),
            tokens_per_second: if seconds > 0.0 { tokens as f64 / seconds } else { 0.0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_survive_the_atomic() {
        let telemetry = Telemetry::default();
        for phase in Phase::ALL {
            telemetry.set_phase(phase);
            assert_eq!(telemetry.sample().phase, phase);
        }
    }

    #[test]
    fn a_wait_is_over_when_it_is_not_told_any_more() {
        let telemetry = Telemetry::default();
        assert_eq!(telemetry.sample().waiting(), None);
        telemetry.set_waiting(Wait::Experts);
        let sample = telemetry.sample();
        assert_eq!(sample.waiting(), Some(Wait::Experts));
        assert_eq!(Sample { at: sample.at + 2.0, ..sample }.waiting(), None);
    }

    #[test]
    fn rates_are_differences_over_time() {
        let earlier = Sample { at: 1.0, turn: 1, tokens: 4, landed_bytes: 100, ..Sample::default() };
        let later = Sample {
            at: 3.0,
            turn: 1,
            tokens: 5,
            landed_bytes: 1100,
            waited_ns: 500_000_000,
            ..Sample::default()
        };
        let rates = Rates::between(&earlier, &later);
        assert_eq!(rates.read, Bytes(1000));
        assert_eq!(rates.disk, Rate(500.0));
        assert_eq!(rates.waited, Percent(0.25));
        assert!((rates.tokens_per_second - 0.5).abs() < 1e-12);
        let next_turn = Sample { turn: 2, tokens: 9, ..later };
        assert_eq!(
            Rates::between(&later, &next_turn),
            Rates { disk: Rate(0.0), read: Bytes(0), waited: Percent(0.0), tokens_per_second: 0.0 }
        );
    }
}
