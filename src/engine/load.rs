//! From settings to a model that is ready.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::count::Words;
use super::metered::Metered;
use super::plan::{Plan, Wish};
use super::sampler;
use super::saved::Saved;
use super::shelf::Shelf;
use crate::chat::Markers;
use crate::checkpoint::{Checkpoint, Manifest, identity};
use crate::kernels::Kernels;
use crate::model::Model;
use crate::protocol::{
    Counter, ExitCode, ModelFacts, PlanFacts, Settings, StatesOnDisk, Telemetry, UserError,
};
use crate::store::{Access, ReaderKind, Store, reader};
use crate::sys::{cpu, memory};
use crate::tokenizer::Tokenizer;
use crate::units::Bytes;

/// A model, and all that a turn needs beside it.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) model: Model,
    pub(super) tokenizer: Arc<Tokenizer>,
    pub(super) markers: Markers,
    /// Ids that end a turn.
    pub(super) stop_ids: Vec<u32>,
    /// The most tokens that one pass may take together.
    pub(super) most_together: usize,
    /// How memory is divided.
    pub(super) plan: Plan,
    pub(super) facts: ModelFacts,
    /// States of earlier turns, in memory...
    pub(super) shelf: Shelf,
    /// ...and on the disk.
    pub(super) saved: Option<Saved>,
}

/// A model of which all is known and nothing is in memory yet: what can be refused has been looked at.
#[derive(Debug)]
pub(super) struct Prepared {
    began: Instant,
    kernels: &'static Kernels,
    checkpoint: Arc<Checkpoint>,
    tokenizer: Arc<Tokenizer>,
    markers: Markers,
    plan: Plan,
    facts: PlanFacts,
    access: Access,
    pool: rayon::ThreadPool,
    threads: usize,
    states: Option<StatesOnDisk>,
}

/// Opens the checkpoint and holds the budget against it. `ours` are bytes of memory that this process will have given
/// back before the model is read.
pub(super) fn prepare(
    settings: &Settings,
    ours: u64,
    telemetry: &Arc<Telemetry>,
) -> Result<Prepared, UserError> {
    let began = Instant::now();
    let kernels = Kernels::detect()?;
    let checkpoint = Arc::new(Checkpoint::open(&settings.model)?);
    let tokenizer = Arc::new(Tokenizer::load(checkpoint.dir(), checkpoint.config().vocabulary)?);
    let markers = Markers::of(&tokenizer)?;
    let mut machine = memory::machine();
    machine.available = machine.available.saturating_add(ours).min(machine.total);
    let plan = Plan::new(&checkpoint, &machine, Wish::of(settings))?;
    let Access { reader, manifest } = access(&checkpoint, settings)?;
    let access =
        Access { reader: Arc::new(Metered { inner: reader, telemetry: Arc::clone(telemetry) }), manifest };
    let threads = threads(settings);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|index| format!("cpu-{index}"))
        .build()
        .map_err(|error| {
            UserError::new(ExitCode::Resources, format!("{threads} threads cannot be had"), error.to_string())
                .with_hint("Ask for fewer with --threads.")
        })?;
    let facts = plan.facts(&machine, settings, threads);
    let states = settings.states.clone();
    Ok(Prepared {
        began,
        kernels,
        checkpoint,
        tokenizer,
        markers,
        plan,
        facts,
        access,
        pool,
        threads,
        states,
    })
}

impl Prepared {
    /// Reads what belongs in memory. `progress` is told of bytes done and in all, and stops the loading by returning
    /// `false`.
    pub(super) fn read(self, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<Loaded, UserError> {
        let Self { began, kernels, checkpoint, tokenizer, markers, plan, access, pool, threads, .. } = self;
        let config = checkpoint.config();
        let stop_ids = stop_ids(&checkpoint, &tokenizer);
        let (temperature, top_p) =
            sampler::defaults(checkpoint.generation().temperature, checkpoint.generation().top_p);
        let most_together = plan.most_together(config);
        let store = Store::open(Arc::clone(&checkpoint), &plan.store, access, progress)?;
        let facts = ModelFacts {
            name: folder_name(checkpoint.dir()),
            digest: checkpoint.headers_digest(),
            layers: config.layers(),
            experts: config.moe.experts,
            top_k: config.moe.top_k,
            vocabulary: config.vocabulary,
            parameters: checkpoint.parameters(),
            bytes: Bytes(checkpoint.tensor_bytes()),
            context_limit: plan.positions,
            resident: Bytes(plan.store.vectors.0 + plan.store.pinned.0),
            streamed: plan.store.streamed,
            plan: self.facts,
            reader: store.reader().as_str(),
            checked: store.is_checked(),
            slots: store.slots(),
            expert_bytes: Bytes(checkpoint.expert_bytes()),
            load_s: 0.0,
            threads,
            tier: kernels.tier().as_str(),
            temperature,
            top_p,
            counter: Counter::new(Words(Arc::clone(&tokenizer))),
        };
        let model = Model::new(store, kernels, pool)?;
        let facts = ModelFacts { load_s: began.elapsed().as_secs_f64(), ..facts };
        let shelf = Shelf::new(plan.copies.0);
        let saved = Saved::open(self.states.as_ref(), identity(&checkpoint)?, model.config());
        Ok(Loaded { model, tokenizer, markers, stop_ids, most_together, plan, facts, shelf, saved })
    }
}

/// Threads that compute.
pub(super) fn threads(settings: &Settings) -> usize {
    settings.threads.unwrap_or_else(cpu::physical_cores)
}

/// The way to the weights: a reader, and the manifest where there is one.
fn access(checkpoint: &Checkpoint, settings: &Settings) -> Result<Access, UserError> {
    let bad = |problem| UserError::new(ExitCode::Usage, "Bad settings", problem);
    let kind = settings.reader.as_deref().map(str::parse::<ReaderKind>).transpose().map_err(bad)?;
    let reader = reader::open(checkpoint.shards(), kind).map_err(|error| {
        UserError::new(ExitCode::ModelFiles, "The model's files cannot be read that way", error.to_string())
            .with_hint("Leave --reader out, and the program finds a way that works.")
    })?;
    let manifest = Manifest::read(checkpoint)?.map(Arc::new);
    Ok(Access { reader, manifest })
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

/// The folder's own name, also where it was given as `.`.
fn folder_name(dir: &Path) -> String {
    let full = dir.canonicalize().unwrap_or_else(|_unreadable| dir.to_owned());
    full.file_name().map_or_else(|| full.to_string_lossy(), |name| name.to_string_lossy()).into_owned()
}
