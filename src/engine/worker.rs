//! The engine's loop: one command after another, and what happens when one panics.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, SendError, Sender, TrySendError};

use super::error;
use super::generate::{self, End};
use super::load::{self, Loaded};
use super::saved::Written;
use super::telemetry::{publish, sample_memory};
use crate::model::Observer;
use crate::protocol::{
    Command, Event, ExitCode, ExpertCounts, Finish, Outcome, Phase, Settings, Telemetry, TurnId, TurnRequest,
    UserError, Waits,
};
use crate::store::Counters;

/// How often loading says how far it is.
const LOADING_EVERY: Duration = Duration::from_millis(50);

/// Nobody listens any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gone;

impl From<SendError<Event>> for Gone {
    fn from(_unsent: SendError<Event>) -> Self {
        Self
    }
}

/// The turn that is under way, outside of all that may panic.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) turn: TurnId,
    pub(super) began: Instant,
    pub(super) outcome: Outcome,
    before: Counters,
}

/// All that the engine thread owns.
pub(super) struct Worker {
    inbox: Receiver<Command>,
    /// Commands that came while loading looked for a reason to stop.
    waiting: VecDeque<Command>,
    events: Sender<Event>,
    telemetry: Arc<Telemetry>,
    observer: Arc<dyn Observer + Send + Sync>,
    loaded: Option<Loaded>,
    record: Option<Record>,
}

impl Worker {
    pub(super) fn new(
        inbox: Receiver<Command>,
        events: Sender<Event>,
        telemetry: Arc<Telemetry>,
        observer: Arc<dyn Observer + Send + Sync>,
    ) -> Self {
        Self { inbox, waiting: VecDeque::new(), events, telemetry, observer, loaded: None, record: None }
    }

    /// Works until told to leave, or until nobody is there. `alive` is dropped on the way out.
    pub(super) fn run(mut self, alive: Sender<()>) {
        while let Some(command) = self.next_command() {
            if matches!(command, Command::Shutdown) {
                // Memory and disk first, so that whoever hears of it can count on them.
                let _ = self.settle();
                self.unload();
                let _ = self.events.send(Event::Stopped);
                break;
            }
            let handled = match catch_unwind(AssertUnwindSafe(|| self.handle(command))) {
                Ok(handled) => handled,
                Err(payload) => self.broke(&error::of_panic(&*payload)),
            };
            if handled == Err(Gone) {
                break;
            }
        }
        drop(alive);
    }

    fn next_command(&mut self) -> Option<Command> {
        self.waiting.pop_front().or_else(|| self.inbox.recv().ok())
    }

    fn handle(&mut self, command: Command) -> Result<(), Gone> {
        match command {
            Command::Load(settings) => self.load(&settings),
            Command::Generate(request) => self.generate(&request),
            Command::Reset => {
                self.settle()?;
                if let Some(loaded) = &mut self.loaded {
                    loaded.shelf.clear();
                }
                self.telemetry.context_used.store(0, Relaxed);
                self.telemetry.state_bytes.store(0, Relaxed);
                Ok(())
            }
            // The loop has looked.
            Command::Shutdown => Ok(()),
        }
    }

    fn load(&mut self, settings: &Settings) -> Result<(), Gone> {
        // Two models would not fit.
        self.settle()?;
        self.unload();
        self.telemetry.set_phase(Phase::Loading);
        let mut told: Option<Instant> = None;
        let (telemetry, events, inbox, waiting) =
            (&self.telemetry, &self.events, &self.inbox, &mut self.waiting);
        let result = load::load(settings, telemetry, &mut |done, total| {
            telemetry.load_done.store(done, Relaxed);
            telemetry.load_total.store(total, Relaxed);
            waiting.extend(inbox.try_iter());
            if waiting.iter().any(|command| matches!(command, Command::Shutdown)) {
                return false;
            }
            if done < total && told.is_some_and(|told| told.elapsed() < LOADING_EVERY) {
                return true;
            }
            told = Some(Instant::now());
            // A screen that is behind does not need this event: the numbers are in the telemetry.
            !matches!(events.try_send(Event::Loading { done, total }), Err(TrySendError::Disconnected(_)))
        });
        match result {
            Ok(loaded) => {
                let facts = loaded.facts.clone();
                let telemetry = &self.telemetry;
                telemetry.budget.store(loaded.plan.budget.0, Relaxed);
                telemetry.trunk_streamed.store(facts.streamed.0, Relaxed);
                telemetry.layers.store(facts.layers as u64, Relaxed);
                telemetry.context_limit.store(facts.context_limit as u64, Relaxed);
                publish(telemetry, loaded.model.store());
                sample_memory(telemetry);
                telemetry.set_phase(Phase::Idle);
                self.loaded = Some(loaded);
                Ok(self.events.send(Event::Ready(Box::new(facts)))?)
            }
            Err(error) => {
                self.telemetry.set_phase(Phase::Empty);
                Ok(self.events.send(Event::Failed(error))?)
            }
        }
    }

    fn generate(&mut self, request: &TurnRequest) -> Result<(), Gone> {
        let before = self.loaded.as_ref().map(|loaded| loaded.model.store().counters()).unwrap_or_default();
        let record = self.record.insert(Record::new(request.turn, before));
        let end = match &mut self.loaded {
            None => Err(End::Failed(UserError::new(ExitCode::Usage, "No model is loaded", ""))),
            Some(loaded) => {
                generate::run(loaded, request, record, &self.events, &self.telemetry, &*self.observer)
            }
        };
        match end {
            Ok(finish) => self.finish(finish, None),
            Err(End::Cancelled) => self.finish(Finish::Cancelled, None),
            Err(End::Failed(error)) => self.finish(Finish::Error, Some(error)),
            Err(End::Gone(gone)) => Err(gone),
        }?;
        // Whoever waits for the answer does not wait for this.
        if let Some(loaded) = &mut self.loaded {
            loaded.keep_end();
        }
        Ok(())
    }

    /// Waits for what is being written, and tells what went wrong with it.
    fn settle(&mut self) -> Result<(), Gone> {
        if let Some(saved) = self.loaded.as_mut().and_then(|loaded| loaded.saved.as_mut()) {
            saved.settle();
        }
        self.tell_of_saved()
    }

    /// Says what has come of the states on the disk since this was said last.
    fn tell_of_saved(&mut self) -> Result<(), Gone> {
        let Some(saved) = self.loaded.as_mut().and_then(|loaded| loaded.saved.as_mut()) else {
            return Ok(());
        };
        let Written { states, bytes, took, pause } = saved.written();
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.telemetry.saved_states.store(states, Relaxed);
        self.telemetry.saved_bytes.store(bytes, Relaxed);
        self.telemetry.saved_ns.store(nanos(took), Relaxed);
        self.telemetry.saved_pause_ns.store(nanos(pause), Relaxed);
        for note in saved.take_notes() {
            self.events.send(Event::Note(note))?;
        }
        Ok(())
    }

    /// Ends the turn that is under way, if there is one.
    fn finish(&mut self, finish: Finish, error: Option<UserError>) -> Result<(), Gone> {
        let Some(Record { turn, began, mut outcome, before }) = self.record.take() else { return Ok(()) };
        outcome.finish = finish;
        outcome.error = error;
        outcome.took.written = outcome.ids.len();
        outcome.took.decoded(&outcome.decode_s);
        outcome.took.total_s = began.elapsed().as_secs_f64();
        if let Some(loaded) = &self.loaded {
            let after = loaded.model.store().counters();
            outcome.trunk_bytes = after.trunk_bytes.saturating_sub(before.trunk_bytes);
            outcome.expert_bytes = after.expert_bytes.saturating_sub(before.expert_bytes);
            outcome.experts = counts(after).since(counts(before));
            outcome.waits = Waits {
                late: after.late.saturating_sub(before.late),
                in_time: after.in_time.saturating_sub(before.in_time),
                waited_s: after.waited_ns.saturating_sub(before.waited_ns) as f64 * 1e-9,
            };
            publish(&self.telemetry, loaded.model.store());
            let (used, bytes) = loaded.shelf.size(loaded.model.config());
            self.telemetry.context_used.store(used, Relaxed);
            self.telemetry.state_bytes.store(bytes, Relaxed);
            self.telemetry.set_phase(Phase::Idle);
        }
        sample_memory(&self.telemetry);
        self.tell_of_saved()?;
        Ok(self.events.send(Event::Finished { turn, outcome: Box::new(outcome) })?)
    }

    /// A command panicked: whatever it was doing is lost, and nothing that it touched is trusted again.
    fn broke(&mut self, error: &UserError) -> Result<(), Gone> {
        let finished = self.finish(Finish::Error, Some(error.clone()));
        self.unload();
        finished?;
        Ok(self.events.send(Event::Failed(error.clone()))?)
    }

    fn unload(&mut self) {
        self.loaded = None;
        self.telemetry.set_phase(Phase::Empty);
        self.telemetry.context_used.store(0, Relaxed);
        self.telemetry.state_bytes.store(0, Relaxed);
    }
}

impl Record {
    fn new(turn: TurnId, before: Counters) -> Self {
        Self { turn, began: Instant::now(), outcome: Outcome::new(Finish::Error), before }
    }
}

const fn counts(counters: Counters) -> ExpertCounts {
    ExpertCounts {
        requests: counters.requests,
        resident: counters.resident,
        reads: counters.reads,
        bytes: counters.expert_bytes,
    }
}
