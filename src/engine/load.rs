//! From settings to a model that is ready.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::generate::CHUNK;
use super::sampler;
use crate::chat::Markers;
use crate::checkpoint::{Checkpoint, ModelConfig};
use crate::kernels::Kernels;
use crate::model::{Model, State};
use crate::protocol::{ExitCode, ModelFacts, Settings, UserError};
use crate::store::{Plan, Store};
use crate::sys::{cpu, memory};
use crate::tokenizer::Tokenizer;
use crate::units::Bytes;

/// A model, and all that a turn needs beside it.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) model: Model,
    pub(super) tokenizer: Tokenizer,
    pub(super) markers: Markers,
    /// Ids that end a turn.
    pub(super) stop_ids: Vec<u32>,
    /// The most tokens that one pass may take together.
    pub(super) most_together: usize,
    /// Memory that everything may take together.
    pub(super) budget: Bytes,
    pub(super) facts: ModelFacts,
    /// The state of the last turn, if it came to an end in good order.
    pub(super) kept: Option<Kept>,
}

/// A state, and exactly the tokens that it has seen.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) ids: Vec<u32>,
    pub(super) state: State,
}

impl Kept {
    pub(super) fn new(config: &ModelConfig) -> Self {
        Self { ids: Vec::new(), state: State::new(config) }
    }
}

/// Opens the checkpoint, holds the budget against it, and reads what belongs in memory. `progress` is told of bytes
/// done and in all, and stops the loading by returning `false`.
pub(super) fn load(
    settings: &Settings,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Loaded, UserError> {
    let began = Instant::now();
    let kernels = Kernels::detect()?;
    let checkpoint = Arc::new(Checkpoint::open(&settings.model)?);
    let config = checkpoint.config();
    let tokenizer = Tokenizer::load(checkpoint.dir(), config.vocabulary)?;
    let markers = Markers::of(&tokenizer)?;
    let stop_ids = stop_ids(&checkpoint, &tokenizer);
    let (temperature, top_p) =
        sampler::defaults(checkpoint.generation().temperature, checkpoint.generation().top_p);

    let budget = budget(settings.memory)?;
    let plan = Plan::new(&checkpoint, budget, reserve(config))?;
    let most_together = most_together(config, &plan);
    let threads = settings.threads.unwrap_or_else(cpu::physical_cores);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|index| format!("cpu-{index}"))
        .build()
        .map_err(|error| {
            UserError::new(ExitCode::Resources, format!("{threads} threads cannot be had"), error.to_string())
                .with_hint("Ask for fewer with --threads.")
        })?;
    let store = Store::open(Arc::clone(&checkpoint), &plan, progress)?;

    let facts = ModelFacts {
        name: folder_name(checkpoint.dir()),
        layers: config.layers(),
        experts: config.moe.experts,
        top_k: config.moe.top_k,
        vocabulary: config.vocabulary,
        parameters: checkpoint.parameters(),
        bytes: Bytes(checkpoint.tensor_bytes()),
        context_limit: config.context_limit,
        resident: Bytes(store.resident_bytes()),
        slots: store.slots(),
        expert_bytes: Bytes(checkpoint.expert_bytes()),
        load_s: 0.0,
        threads,
        tier: kernels.tier().as_str(),
        temperature,
        top_p,
    };
    let model = Model::new(store, kernels, pool)?;
    let facts = ModelFacts { load_s: began.elapsed().as_secs_f64(), ..facts };
    Ok(Loaded { model, tokenizer, markers, stop_ids, most_together, budget, facts, kept: None })
}

/// Both configs are honoured, and `[EOS]`, which the model may write where a document would end.
fn stop_ids(checkpoint: &Checkpoint, tokenizer: &Tokenizer) -> Vec<u32> {
    let mut ids = vec![checkpoint.config().eos_id];
    ids.extend(&checkpoint.generation().eos_ids);
    ids.extend(tokenizer.special("[EOS]"));
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Memory for everything: what the user gives, or four fifths of what is free.
fn budget(asked: Option<Bytes>) -> Result<Bytes, UserError> {
    let machine = memory::machine();
    let too_little =
        |detail: String| UserError::new(ExitCode::Resources, "There is not enough memory", detail);
    match asked {
        Some(budget) if machine.total > 0 && budget.0 > machine.total => {
            let detail = format!("asked for {budget}, the machine has {}", Bytes(machine.total));
            Err(too_little(detail).with_hint("Ask for less with --memory, or leave it to the program."))
        }
        Some(budget) => Ok(budget),
        None if machine.available == 0 => {
            let detail = "the system does not tell how much is free".to_owned();
            Err(too_little(detail).with_hint("Say how much to use with --memory, like --memory 8GiB."))
        }
        // The rest is for other programs, and for the cache that the system keeps of files.
        None => Ok(Bytes(machine.available / 5 * 4)),
    }
}

/// Positions for which the context's memory is set aside. Longer contexts take more, which the screen shows.
const RESERVED_POSITIONS: usize = 8192;

/// What is needed beside the weights: the program as it is now, the state, and the activations of one pass.
fn reserve(config: &ModelConfig) -> Bytes {
    let state = State::bytes(config, RESERVED_POSITIONS.min(config.context_limit));
    // What grows with the context grows by doubling.
    let growth = state - State::bytes(config, 0);
    let logits = config.vocabulary as u64 * 4 * 3;
    Bytes(memory::process().rss + state + growth + logits + activations(config) * CHUNK as u64)
}

/// Bytes that a pass takes for each of its tokens, generously: snapshots of the residual stream, and the widest
/// moments of mixer and feed-forward, with the copies that are made of them for the kernels.
fn activations(config: &ModelConfig) -> u64 {
    let mla = &config.mla;
    let snapshots = config.hidden * (config.layers() / config.residual_block.max(1) + 8);
    let mixer = (config.kda.width() * 8).max(mla.heads * (mla.nope + mla.rope + mla.kv_rank + mla.value) * 2);
    let ffn = config.dense_width.max(config.moe.shared * config.moe.width) * 3;
    (snapshots + mixer + ffn) as u64 * 2 * 4
}

/// The most tokens that one pass may take together without leaving the budget: [`CHUNK`], which is set aside for, and
/// as many more as the plan left room for.
fn most_together(config: &ModelConfig, plan: &Plan) -> usize {
    let planned = plan.trunk.0 + plan.reserved.0 + plan.slots as u64 * plan.expert.0;
    let more = plan.budget.0.saturating_sub(planned) / activations(config).max(1);
    usize::try_from(more).unwrap_or(usize::MAX).saturating_add(CHUNK)
}

/// The folder's own name, also where it was given as `.`.
fn folder_name(dir: &Path) -> String {
    let full = dir.canonicalize().unwrap_or_else(|_unreadable| dir.to_owned());
    full.file_name().map_or_else(|| full.to_string_lossy(), |name| name.to_string_lossy()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_above_the_machine_is_refused_with_the_numbers() {
        let error = budget(Some(Bytes(u64::MAX))).unwrap_err();
        assert_eq!(error.code, ExitCode::Resources);
        assert!(error.detail.contains(&Bytes(memory::machine().total).to_string()), "{error}");
        assert_eq!(budget(Some(Bytes(5))), Ok(Bytes(5)));
        assert!(budget(None).is_ok_and(|budget| budget.0 < memory::machine().total));
    }
}
