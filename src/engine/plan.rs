//! How memory is divided before anything is read, and what a token will cost: a pure function of checkpoint, budget,
//! context and machine.

mod facts;

pub use facts::{before_loading, of_release};

use super::generate::CHUNK;
use crate::checkpoint::{Checkpoint, ModelConfig};
use crate::model::State;
use crate::protocol::{ExitCode, Settings, UserError};
use crate::store::{self, Sizes};
use crate::sys::memory::Machine;
use crate::units::{Bytes, Rate};

/// What the program takes whatever the model is: its code, stacks of threads, the screen, what the allocator keeps.
/// Measured, with room to spare: see `tests/memory.rs`.
const PROGRAM: u64 = 32 << 20;

/// What the index of the released checkpoint takes: eight bytes for each part of an expert, and little else.
const RELEASED_INDEX: u64 = 5 << 20;

/// What the tokenizer takes for each id, its bytes and tables.
const PER_ID: u64 = 64;

/// Contexts that are tried where nobody asks for one, largest first.
const CONTEXTS: [usize; 5] = [32_768, 16_384, 8192, 4096, 2048];

/// Copies of the state take no more than this part of the memory.
const COPIES_PART: u64 = 16;

/// And no more than so many at a full context.
const MOST_COPIES: u64 = 4;

/// How memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// All of it.
    pub budget: Bytes,
    /// The smallest budget that works, with the context that was asked for.
    pub smallest: Bytes,
    /// What the program itself takes, the index of the checkpoint and the tokenizer included.
    pub program: Bytes,
    /// Turns that may be under way at once, each with a state and a context of its own.
    pub together: usize,
    /// The part of the model's state that does not grow, for all of them.
    pub state: Bytes,
    /// Latents for a full context, for all of them.
    pub context: Bytes,
    /// Positions of that context.
    pub positions: usize,
    /// What the state takes a second time while a token is computed from it and the state before the token is still
    /// held: for a stop within the token, and for writing it to the disk. Nothing where memory is scarce.
    pub held: Bytes,
    /// Copies of the state that are kept for a turn that is retried, edited or gone on with after a stop.
    pub copies: Bytes,
    /// Activations of one pass over a chunk of the prompt.
    pub activations: Bytes,
    /// Tokens of that chunk.
    pub chunk: usize,
    /// Weights: vectors, tiles, pinned matrices, experts.
    pub store: store::Plan,
    /// What the store knows of the checkpoint.
    pub sizes: Sizes,
}

/// What is asked of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// Memory for everything; by default most of what is free.
    pub memory: Option<Bytes>,
    /// Positions of the context; by default as many as an eighth of the memory holds.
    pub context: Option<usize>,
    /// Turns that are to be under way at once; by default one.
    pub together: Option<usize>,
}

/// There is no such plan.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The budget is too small, by so and so much: [`store::Error::Budget`].
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The wish itself is none, or the model is none.
    #[error(transparent)]
    Refused(#[from] UserError),
}

impl From<Error> for UserError {
    fn from(error: Error) -> Self {
        match error {
            Error::Store(error) => error.into(),
            Error::Refused(error) => error,
        }
    }
}

impl Wish {
    /// What these settings ask for.
    pub const fn of(settings: &Settings) -> Self {
        Self { memory: settings.memory, context: settings.context, together: settings.together }
    }
}

impl Plan {
    /// Makes a plan, or says how much is missing.
    pub fn new(checkpoint: &Checkpoint, machine: &Machine, wish: Wish) -> Result<Self, Error> {
        let index = checkpoint.index_bytes() as u64;
        Self::divide(checkpoint.config(), Sizes::of(checkpoint), index, machine, wish)
    }

    /// The same for the model as it was released, which need not be there.
    pub fn of_release(machine: &Machine, wish: Wish) -> Result<Self, Error> {
        Self::divide(&ModelConfig::released(), Sizes::released(), RELEASED_INDEX, machine, wish)
    }

    /// `index` is the memory that the checkpoint's index takes.
    fn divide(
        config: &ModelConfig,
        sizes: Sizes,
        index: u64,
        machine: &Machine,
        wish: Wish,
    ) -> Result<Self, Error> {
        let budget = budget(wish.memory, machine)?;
        let together = wish.together.unwrap_or(1).max(1);
        let states = |positions: usize| State::bytes(config, positions).saturating_mul(together as u64);
        let state = states(0);
        let latents = |positions: usize| states(positions) - state;
        let contexts = match wish.context {
            Some(0) => return Err(usage("a context needs at least one position".to_owned()).into()),
            Some(positions) if positions > config.context_limit => {
                let limit = config.context_limit;
                let detail = format!("asked for {positions} positions, the model was made for {limit}");
                return Err(usage(detail).into());
            }
            Some(positions) => vec![positions],
            None => {
                let [.., least] = CONTEXTS;
                let fits = |positions: &usize| *positions == least || latents(*positions) <= budget.0 / 8;
                let capped = |positions: usize| positions.min(config.context_limit);
                CONTEXTS.into_iter().filter(fits).map(capped).collect()
            }
        };
        let program = Bytes(PROGRAM + index + config.vocabulary as u64 * PER_ID);
        // Each turn has a token in every pass.
        let chunk = CHUNK.max(together);
        let activations = activations(config, chunk, together);
        let needed = |positions| [program.0, states(positions), activations].into_iter();
        let reserved = |positions| Bytes(needed(positions).fold(0, u64::saturating_add));
        let store_for = |positions| store::Plan::new(&sizes, budget, reserved(positions));
        let least = contexts.last().copied().unwrap_or(1);
        // The first that fits; where none does, what the least one falls short of.
        let positions = contexts.into_iter().find(|positions| store_for(*positions).is_ok()).unwrap_or(least);
        let copies = (budget.0 / COPIES_PART).min(MOST_COPIES * State::bytes(config, positions));
        // All but the latents, and of these the blocks that are being filled.
        let held = State::bytes(config, 1).saturating_mul(together as u64);
        let with = |more| store::Plan::new(&sizes, budget, Bytes(reserved(positions).0.saturating_add(more)));
        // Reading a prompt again is slow but right: where memory is scarce, there are no copies.
        let (store, held, copies) = if let Ok(store) = with(held.saturating_add(copies)) {
            (store, held, copies)
        } else if let Ok(store) = with(held) {
            (store, held, 0)
        } else {
            (with(0)?, 0, 0)
        };
        Ok(Self {
            budget,
            smallest: store::Plan::smallest(&sizes, reserved(least)),
            program,
            together,
            state: Bytes(state),
            context: Bytes(latents(positions)),
            positions,
            held: Bytes(held),
            copies: Bytes(copies),
            activations: Bytes(activations),
            chunk,
            store,
            sizes,
        })
    }

    /// The most tokens that one pass may take together without leaving the budget: [`CHUNK`], which is set aside for, and
    /// as many more as the plan left room for.
    pub fn most_together(&self, config: &ModelConfig) -> usize {
        let of = |tokens| activations(config, tokens, self.together);
        let each = of(self.chunk + 1) - of(self.chunk);
        let more = self.store.spare().0 / each.max(1);
        usize::try_from(more).unwrap_or(usize::MAX).saturating_add(self.chunk)
    }

    /// What one token will cost at these rates.
    pub fn estimate(&self, rates: Rates) -> Estimate {
        // The router was trained to wake all experts alike: of those it wakes, as large a share is in memory as of all.
        // With less than one token's set nothing survives from one token to the next.
        let share = if self.store.experts_only_pass() {
            0.0
        } else {
            (self.store.slots as f64 / self.sizes.experts.max(1) as f64).min(1.0)
        };
        let woken = (self.sizes.woken * self.sizes.expert) as f64;
        let experts = woken * (1.0 - share);
        let trunk = self.store.streamed.0 as f64 + self.sizes.embedding_row as f64;
        let touched = self.sizes.matrices as f64 + woken;
        let (disk_s, memory_s) = (seconds(trunk + experts, rates.disk), seconds(touched, rates.compute));
        Estimate {
            trunk: whole(trunk),
            experts: whole(experts),
            touched: whole(touched),
            // Reads and computing overlap; the slower of the two is what a token takes.
            seconds: disk_s.max(memory_s),
            bound: if disk_s > memory_s { Bound::Disk } else { Bound::Compute },
        }
    }
}

/// How fast a machine is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Bytes that the disk gives in a second.
    pub disk: Rate,
    /// Bytes of weights that the processors multiply in a second.
    pub compute: Rate,
}

/// What one token costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Bytes of the trunk that it reads from the disk.
    pub trunk: Bytes,
    /// Bytes of experts that it reads from the disk.
    pub experts: Bytes,
    /// Bytes of weights that it multiplies.
    pub touched: Bytes,
    /// Seconds that it takes.
    pub seconds: f64,
    /// What bounds it.
    pub bound: Bound,
}

/// What a token waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The disk.
    Disk,
    /// Processors and memory.
    Compute,
}

impl Bound {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Compute => "compute",
        }
    }
}

fn seconds(bytes: f64, rate: Rate) -> f64 {
    if rate.0 > 0.0 { bytes / rate.0 } else { f64::INFINITY }
}

fn whole(bytes: f64) -> Bytes {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sizes, never negative")]
    Bytes(bytes.round() as u64)
}

fn usage(detail: String) -> UserError {
    UserError::new(ExitCode::Usage, "Bad settings", detail)
}

/// Memory for everything: what the user gives, or what is free but for a share that others may come to need.
fn budget(asked: Option<Bytes>, machine: &Machine) -> Result<Bytes, UserError> {
    let too_little =
        |detail: String| UserError::new(ExitCode::Resources, "There is not enough memory", detail);
    match asked {
        Some(budget) if machine.total > 0 && budget.0 > machine.total => {
            let place = machine
                .limited_by
                .as_ref()
                .map_or_else(String::new, |file| format!(" (the limit in {file})"));
            let detail = format!("asked for {budget}, the machine has {}{place}", Bytes(machine.total));
            Err(too_little(detail).with_hint("Ask for less with --memory, or leave it to the program."))
        }
        Some(budget) => Ok(budget),
        None if machine.available == 0 => {
            let detail = "the system does not tell how much is free".to_owned();
            Err(too_little(detail).with_hint("Say how much to use with --memory, like --memory 8GiB."))
        }
        None => Ok(Bytes(machine.budget())),
    }
}

/// Bytes of activations of a pass over `tokens`: the residual stream with its snapshots, the widest moment of mixer and
/// feed-forward, and the logits of `together` of them.
fn activations(config: &ModelConfig, tokens: usize, together: usize) -> u64 {
    let (kda, mla, moe) = (&config.kda, &config.mla, &config.moe);
    // Sum, snapshots, what a branch reads, its norm, and what it gives.
    let stream = config.hidden * (config.layers().div_ceil(config.residual_block.max(1)) + 5);
    // Inputs and outputs of three convolutions, decays, gate, the heads' outputs twice.
    let kda = kda.width() * 9;
    let mla = mla.heads * (2 * (mla.nope + mla.rope) + 3 * mla.value) + mla.latent_width();
    // Every projection is computed by rows and then turned.
    let dense = config.dense_width * 4;
    let shared = moe.shared * moe.width * 4;
    let routed = moe.latent * (moe.top_k + 5) + moe.width * 4 + moe.experts * 2;
    let widest = kda.max(mla).max(dense).max(shared + routed);
    ((stream + widest) * tokens + config.vocabulary * 3 * together) as u64 * 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_above_the_machine_is_refused_with_the_numbers() {
        let machine = Machine { total: 8 << 30, available: 5 << 30, limited_by: None };
        let error = budget(Some(Bytes(9 << 30)), &machine).unwrap_err();
        assert_eq!(error.code, ExitCode::Resources);
        assert!(error.detail.contains("9.00 GiB") && error.detail.contains("8.00 GiB"), "{error}");
        assert_eq!(budget(Some(Bytes(5)), &machine), Ok(Bytes(5)));
        assert_eq!(budget(None, &machine), Ok(Bytes(4 << 30)));
        // With little free, a sixteenth of the whole is left alone.
        let busy = Machine { available: 1 << 30, ..machine.clone() };
        assert_eq!(budget(None, &busy), Ok(Bytes(1 << 29)));
        let contained = Machine { limited_by: Some("/sys/fs/cgroup/memory.max".to_owned()), ..machine };
        let error = budget(Some(Bytes(9 << 30)), &contained).unwrap_err();
        assert!(error.detail.contains("(the limit in /sys/fs/cgroup/memory.max)"), "{error}");
        assert!(budget(None, &Machine::default()).unwrap_err().hint.contains("--memory"));
    }
}
