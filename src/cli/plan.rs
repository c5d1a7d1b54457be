//! `dormouse plan`: how memory would be divided and what a token would cost, before anything is loaded.

use std::fmt::Write;

use serde::Serialize;

use super::args::{Common, Plan};
use super::{Done, output, report, settings};
use crate::engine::plan::{self, before_loading};
use crate::engine::saved;
use crate::protocol::{PlanFacts, Settings, StatesOnDisk, UsedRate, UserError};
use crate::store;
use crate::units::{Bytes, Percent, Seconds};

/// Prints the plan; with `--json` an object even where none fits.
pub(super) fn plan(common: &Common, args: &Plan) -> Result<Done, UserError> {
    let settings = Settings { together: args.together, ..settings::resolve(common)?.settings()? };
    match before_loading(&settings) {
        Ok(facts) if args.json => output::print_json(&Object::from(&facts))?,
        Ok(facts) => output::print(&(text(&facts) + &states(&facts, settings.states.as_ref())))?,
        Err(error) => {
            let numbers = match &error {
                plan::Error::Store(store::Error::Budget { needed, budget, shortfall }) => {
                    Some([budget.0, needed.0, shortfall.0])
                }
                _ => None,
            };
            let error = UserError::from(error);
            if let (Some([budget, smallest, shortfall]), true) = (numbers, args.json) {
                let error = report::Failure::from(&error);
                output::print_json(&Refused { fits: false, budget, smallest, shortfall, error })?;
            }
            return Err(error);
        }
    }
    Ok(Done::Well)
}

/// What scripts read where the budget is too small.
#[derive(Serialize)]
struct Refused {
    fits: bool,
    budget: u64,
    smallest: u64,
    shortfall: u64,
    error: report::Failure,
}

/// A plan as scripts read it. Sizes are bytes, rates bytes in a second.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Object {
    fits: bool,
    budget: u64,
    /// The smallest budget that works.
    smallest: u64,
    machine: MachineObject,
    memory: Memory,
    /// Conversations that share each pass.
    together: usize,
    /// Positions of the context of each.
    context: usize,
    /// Tokens of the prompt in one pass.
    chunk: usize,
    trunk: Trunk,
    experts: Experts,
    states: States,
    token: Token,
}

/// Of the model, on the disk.
#[derive(Clone, Copy, Debug, Serialize)]
struct States {
    /// What all may take; 0 for none.
    most: u64,
    /// What one of a full context takes.
    one: u64,
}

#[derive(Clone, Debug, Serialize)]
struct MachineObject {
    total: u64,
    available: u64,
    limited_by: Option<String>,
    /// Whether the budget is no more than that: a run would refuse it else.
    has_budget: bool,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Memory {
    program: u64,
    state: u64,
    context: u64,
    held: u64,
    copies: u64,
    activations: u64,
    vectors: u64,
    tiles: u64,
    pinned: u64,
    experts: u64,
    /// All of the above.
    planned: u64,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Trunk {
    /// Matrices, as stored.
    bytes: u64,
    pinned: u64,
    tiles: usize,
    tile_bytes: u64,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Experts {
    slots: usize,
    slot_bytes: u64,
    /// In all layers.
    total: u64,
    /// By one token, in all layers.
    woken: u64,
    /// Slots for each expert that one token wakes.
    share_of_token: f64,
    /// Nothing survives from one token to the next.
    only_buffer: bool,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Token {
    /// From the disk, by source.
    bytes: TokenBytes,
    /// From memory: all weights that it multiplies.
    touched: u64,
    seconds: f64,
    bound: &'static str,
    disk: RateObject,
    compute: RateObject,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct TokenBytes {
    trunk: u64,
    experts: u64,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct RateObject {
    bytes_per_s: f64,
    measured: bool,
    measured_unix_s: Option<u64>,
}

impl From<UsedRate> for RateObject {
    fn from(used: UsedRate) -> Self {
        Self {
            bytes_per_s: used.rate.0,
            measured: used.measured.is_some(),
            measured_unix_s: used.measured.map(|day| day.0),
        }
    }
}

impl From<&PlanFacts> for Object {
    fn from(facts: &PlanFacts) -> Self {
        Self {
            fits: true,
            budget: facts.budget.0,
            smallest: facts.smallest.0,
            machine: MachineObject {
                total: facts.machine.0,
                available: facts.available.0,
                limited_by: facts.limited_by.clone(),
                has_budget: facts.is_within_machine(),
            },
            memory: Memory {
                program: facts.program.0,
                state: facts.state.0,
                context: facts.context.0,
                held: facts.held.0,
                copies: facts.copies.0,
                activations: facts.activations.0,
                vectors: facts.vectors.0,
                tiles: tiles(facts).0,
                pinned: facts.pinned.0,
                experts: slots(facts).0,
                planned: facts.planned().0,
            },
            together: facts.together,
            context: facts.positions,
            chunk: facts.chunk,
            trunk: Trunk {
                bytes: facts.matrices.0,
                pinned: facts.pinned.0,
                tiles: facts.tiles,
                tile_bytes: facts.tile.0,
            },
            experts: Experts {
                slots: facts.slots,
                slot_bytes: facts.slot.0,
                total: facts.experts,
                woken: facts.woken,
                share_of_token: facts.slots as f64 / facts.woken.max(1) as f64,
                only_buffer: facts.only_buffer,
            },
            states: States { most: facts.state_disk.0, one: state_file(facts).0 },
            token: Token {
                bytes: TokenBytes { trunk: facts.token_trunk.0, experts: facts.token_experts.0 },
                touched: facts.token_touched.0,
                seconds: facts.token_s,
                bound: facts.bound,
                disk: facts.disk.into(),
                compute: facts.compute.into(),
            },
        }
    }
}

const fn tiles(facts: &PlanFacts) -> Bytes {
    Bytes(facts.tiles as u64 * facts.tile.0)
}

const fn slots(facts: &PlanFacts) -> Bytes {
    Bytes(facts.slots as u64 * facts.slot.0)
}

/// The plan as a person reads it.
fn text(facts: &PlanFacts) -> String {
    let mut out = String::new();
    let limit = facts.limited_by.as_ref().map_or_else(String::new, |file| format!(", the limit in {file}"));
    let mut line = |name: &str, value: &str, note: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{}", format!("{name:<18}{value:>11}   {note}").trim_end());
    };
    let (matrices, woken) = (facts.matrices.0, facts.woken);
    let resident = facts.pinned.0.min(matrices);
    line("Machine", &facts.machine.to_string(), &format!("{} free{limit}", facts.available));
    let beyond =
        if facts.is_within_machine() { "" } else { "; this machine has less, and a run would refuse it" };
    line(
        "Budget",
        &facts.budget.to_string(),
        &format!("the smallest that works is {}{beyond}", facts.smallest),
    );
    line("", "", "");
    line("Memory", "", "");
    line("  program", &facts.program.to_string(), "code, stacks, tokenizer, index of the checkpoint");
    let (whose, each) = match facts.together {
        0 | 1 => ("the conversation, whatever its length".to_owned(), ""),
        count => (format!("{count} conversations that share each pass, whatever their length"), " for each"),
    };
    line("  state", &facts.state.to_string(), &format!("of {whose}"));
    line("  context", &facts.context.to_string(), &format!("{} positions{each}", facts.positions));
    line(
        "  state held",
        &facts.held.to_string(),
        "as it was before the token: for a stop within it, and for the disk",
    );
    line("  copies", &facts.copies.to_string(), "of state and context, to retry or edit a message");
    line(
        "  activations",
        &facts.activations.to_string(),
        &format!("of {} tokens of the prompt at once", facts.chunk),
    );
    line("  vectors", &facts.vectors.to_string(), "norms, biases, convolutions");
    line("  tile buffers", &tiles(facts).to_string(), &format!("{} of {}", facts.tiles, facts.tile));
    line(
        "  pinned trunk",
        &facts.pinned.to_string(),
        &format!("{} of the {} that every token needs", Percent::of(resident, matrices), facts.matrices),
    );
    let share = Percent::of(facts.slots as u64, woken);
    let use_of_cache = if facts.only_buffer { "; the cache is only a buffer" } else { "" };
    line(
        "  expert slots",
        &slots(facts).to_string(),
        &format!(
            "{} of {}: {share} of the {woken} that one token wakes{use_of_cache}",
            facts.slots, facts.slot
        ),
    );
    line("  in all", &facts.planned().to_string(), "");
    line("", "", "");
    let read = Bytes(facts.token_trunk.0 + facts.token_experts.0);
    line("A token", &Seconds(facts.token_s).to_string(), &format!("an estimate; bound by {}", facts.bound));
    line("  from the disk", &read.to_string(), &origin(facts.disk, "dormouse bench disk"));
    line("    trunk", &facts.token_trunk.to_string(), "");
    line("    experts", &facts.token_experts.to_string(), "");
    line("  multiplied", &facts.token_touched.to_string(), &origin(facts.compute, "dormouse bench decode"));
    out
}

/// What the disk holds for the conversations to come.
fn states(facts: &PlanFacts, states: Option<&StatesOnDisk>) -> String {
    let Some(StatesOnDisk { folder, most }) = states.filter(|states| states.most.0 > 0) else {
        return String::new();
    };
    let (count, taken) = saved::Folder::at(folder.clone()).taken();
    let line =
        |name: &str, value: Bytes, note: String| format!("{name:<18}{:>11}   {note}\n", value.to_string());
    line("States on disk", *most, format!("at most, in {}", folder.display()))
        + &line("  taken", taken, format!("by {count} of all models"))
        + &line("  one", state_file(facts), "of a full context".to_owned())
}

/// Bytes of a state of a full context on the disk.
const fn state_file(facts: &PlanFacts) -> Bytes {
    Bytes(facts.state.0 + facts.context.0)
}

fn origin(UsedRate { rate, measured }: UsedRate, verb: &str) -> String {
    match measured {
        Some(day) => format!("at {rate}, measured on {day}; `{verb}` does it again"),
        None => format!("at {rate}, which is assumed: `{verb}` measures it"),
    }
}
