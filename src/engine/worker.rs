//! The engine's loop: one command after another, and what happens when one panics.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, SendError, Sender, TrySendError};

use super::error;
use super::generate::{End, Listeners, Turn};
use super::load::{self, Loaded};
use super::saved::Written;
use super::telemetry::{publish, sample_memory};
use super::together;
use crate::model::Observer;
use crate::protocol::{Command, Event, ExitCode, Finish, Phase, Settings, Telemetry, UserError};
use crate::sys::memory;

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

/// All that the engine thread owns.
pub(super) struct Worker {
    inbox: Receiver<Command>,
    /// Commands that came while loading looked for a reason to stop, or turns were under way.
    waiting: VecDeque<Command>,
    events: Sender<Event>,
    telemetry: Arc<Telemetry>,
    observer: Arc<dyn Observer + Send + Sync>,
    loaded: Option<Loaded>,
    /// The turns that are under way, outside of all that may panic.
    turns: Vec<Turn>,
}

impl Worker {
    pub(super) fn new(
        inbox: Receiver<Command>,
        events: Sender<Event>,
        telemetry: Arc<Telemetry>,
        observer: Arc<dyn Observer + Send + Sync>,
    ) -> Self {
        Self { inbox, waiting: VecDeque::new(), events, telemetry, observer, loaded: None, turns: Vec::new() }
    }

    /// Works until told to leave, or until nobody is there. `alive` is dropped on the way out.
    pub(super) fn run(mut self, alive: Sender<()>) {
        loop {
            let next = self.next_command();
            if next.is_none() && self.turns.is_empty() {
                break;
            }
            if matches!(next, Some(Command::Shutdown)) {
                // Memory and disk first, so that whoever hears of it can count on them.
                let _ = self.settle();
                self.unload();
                let _ = self.events.send(Event::Stopped);
                break;
            }
            let handled = match catch_unwind(AssertUnwindSafe(|| match next {
                Some(command) => self.handle(command),
                None => self.step(),
            })) {
                Ok(handled) => handled,
                Err(payload) => self.broke(&error::of_panic(&*payload)),
            };
            if handled == Err(Gone) {
                break;
            }
        }
        drop(alive);
    }

    /// What to do next. With turns under way only another turn is taken, where there is a place for it: nothing, without a
    /// wait, lets them go on. Without any, nothing means that nobody is there.
    fn next_command(&mut self) -> Option<Command> {
        if self.turns.is_empty() {
            return self.waiting.pop_front().or_else(|| self.inbox.recv().ok());
        }
        if self.turns.len() >= self.loaded.as_ref().map_or(1, |loaded| loaded.plan.together) {
            return None;
        }
        if self.waiting.is_empty() {
            self.waiting.extend(self.inbox.try_recv());
        }
        self.waiting.pop_front_if(|command| matches!(command, Command::Generate(_)))
    }

    fn handle(&mut self, command: Command) -> Result<(), Gone> {
        match command {
            Command::Load(settings) => self.load(&settings),
            Command::Generate(request) => {
                self.turns.push(Turn::new(*request));
                Ok(())
            }
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
        // What can be found wrong while the old model is there leaves it as it is.
        let another = self.loaded.is_some();
        if !another {
            self.telemetry.set_phase(Phase::Loading);
        }
        let ours = if another { memory::process().rss } else { 0 };
        let prepared = match load::prepare(settings, ours, &self.telemetry) {
            Ok(prepared) => prepared,
            Err(error) if another => return Ok(self.events.send(Event::Refused(error))?),
            Err(error) => {
                self.telemetry.set_phase(Phase::Empty);
                return Ok(self.events.send(Event::Failed(error))?);
            }
        };
        // Two models would not fit.
        self.settle()?;
        self.unload();
        self.telemetry.set_phase(Phase::Loading);
        let mut told: Option<Instant> = None;
        let (telemetry, events, inbox, waiting) =
            (&self.telemetry, &self.events, &self.inbox, &mut self.waiting);
        let result = prepared.read(&mut |done, total| {
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

    /// Takes the turns that are under way a step further.
    fn step(&mut self) -> Result<(), Gone> {
        let to = Listeners { events: &self.events, telemetry: &self.telemetry };
        match &mut self.loaded {
            Some(loaded) => together::step(&mut self.turns, loaded, to, &*self.observer),
            None => {
                for turn in &mut self.turns {
                    let error = UserError::new(ExitCode::Usage, "No model is loaded", "");
                    turn.end = Some(Err(End::Failed(error)));
                }
            }
        }
        for turn in self.turns.extract_if(.., |turn| turn.end.is_some()).collect::<Vec<_>>() {
            self.finish(turn)?;
            // Whoever waits for the answer does not wait for this.
            if let Some(loaded) = &mut self.loaded {
                loaded.keep_end();
            }
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

    /// Tells how a turn ended that is no longer under way.
    fn finish(&mut self, turn: Turn) -> Result<(), Gone> {
        let Turn { request, mut outcome, end, began, .. } = turn;
        (outcome.finish, outcome.error) = match end {
            Some(Ok(finish)) => (finish, None),
            Some(Err(End::Cancelled)) => (Finish::Cancelled, None),
            Some(Err(End::Failed(error))) => (Finish::Error, Some(error)),
            Some(Err(End::Gone(gone))) => return Err(gone),
            None => (Finish::Error, None),
        };
        outcome.took.written = outcome.ids.len();
        outcome.took.decoded(&outcome.decode_s);
        outcome.took.total_s = began.elapsed().as_secs_f64();
        if let Some(loaded) = &self.loaded
            && self.turns.is_empty()
        {
            publish(&self.telemetry, loaded.model.store());
            let (used, bytes) = loaded.shelf.size(loaded.model.config());
            self.telemetry.context_used.store(used, Relaxed);
            self.telemetry.state_bytes.store(bytes, Relaxed);
            self.telemetry.set_phase(Phase::Idle);
        }
        sample_memory(&self.telemetry);
        self.tell_of_saved()?;
        Ok(self.events.send(Event::Finished { turn: request.turn, outcome: Box::new(outcome) })?)
    }

    /// A command panicked: whatever it was doing is lost, and nothing that it touched is trusted again.
    fn broke(&mut self, error: &UserError) -> Result<(), Gone> {
        let mut finished = Ok(());
        for mut turn in std::mem::take(&mut self.turns) {
            turn.end.get_or_insert(Err(End::Failed(error.clone())));
            finished = finished.and(self.finish(turn));
        }
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
