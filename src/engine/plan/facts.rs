//! A plan as it is shown, with what a token will cost at the rates that are known or assumed.

use super::{Error, Estimate, Plan, Rates, Wish};
use crate::checkpoint::Checkpoint;
use crate::engine::load::threads;
use crate::protocol::{Measured, PlanFacts, Settings, UsedRate, UserError};
use crate::sys::memory::{self, Machine};
use crate::units::{Bytes, Rate};

/// What the disk of a laptop gives, where nothing was measured.
const ASSUMED_DISK: Rate = Rate(3e9);
/// What one thread multiplies of weights that come from memory, where nothing was measured...
const ASSUMED_THREAD: f64 = 5e9;
/// ...and what the memory of an ordinary machine gives to all of them.
const ASSUMED_MEMORY: f64 = 40e9;

/// The plan that loading with these settings would make now. Opens the checkpoint and reads no weight. A budget may be
/// asked for that this machine does not have: what another one would do is a fair question.
pub fn before_loading(settings: &Settings) -> Result<PlanFacts, Error> {
    let checkpoint = Checkpoint::open(&settings.model).map_err(UserError::from)?;
    let machine = memory::machine();
    let any = Machine { total: 0, ..machine.clone() };
    let plan =
        Plan::new(&checkpoint, if settings.memory.is_some() { &any } else { &machine }, Wish::of(settings))?;
    Ok(plan.facts(&machine, settings, threads(settings)))
}

/// The same for the model as it was released, wherever the settings say that one lies: it need not be there.
pub fn of_release(settings: &Settings) -> Result<PlanFacts, Error> {
    let plan = Plan::of_release(&Machine::default(), Wish::of(settings))?;
    Ok(plan.facts(&memory::machine(), settings, threads(settings)))
}

impl Plan {
    /// This plan for those who show it, on this machine and with these settings.
    pub fn facts(&self, machine: &Machine, settings: &Settings, threads: usize) -> PlanFacts {
        let known = settings.rates;
        let disk = used(known.disk, ASSUMED_DISK);
        let compute = used(known.compute, Rate((threads as f64 * ASSUMED_THREAD).min(ASSUMED_MEMORY)));
        let Estimate { trunk, experts, touched, seconds, bound } =
            self.estimate(Rates { disk: disk.rate, compute: compute.rate });
        PlanFacts {
            budget: self.budget,
            smallest: self.smallest,
            machine: Bytes(machine.total),
            available: Bytes(machine.available),
            limited_by: machine.limited_by.clone(),
            program: self.program,
            together: self.together,
            state: self.state,
            context: self.context,
            positions: self.positions,
            held: self.held,
            copies: self.copies,
            state_disk: settings.states.as_ref().map(|states| states.most).unwrap_or_default(),
            activations: self.activations,
            chunk: self.chunk,
            vectors: self.store.vectors,
            tiles: self.store.tiles,
            tile: self.store.tile,
            pinned: self.store.pinned,
            matrices: Bytes(self.sizes.matrices),
            slots: self.store.slots,
            slot: self.store.slot,
            experts: self.sizes.experts,
            woken: self.sizes.woken,
            only_buffer: self.store.experts_only_pass(),
            token_trunk: trunk,
            token_experts: experts,
            token_touched: touched,
            token_s: seconds,
            bound: bound.as_str(),
            disk,
            compute,
        }
    }
}

fn used(known: Option<Measured>, assumed: Rate) -> UsedRate {
    known.map_or(UsedRate { rate: assumed, measured: None }, |known| UsedRate {
        rate: Rate(known.bytes_per_s as f64),
        measured: Some(known.day),
    })
}
