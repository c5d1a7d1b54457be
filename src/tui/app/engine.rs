//! What the engine says, and the life of a turn. However a turn ends, the state comes back to idle.

use super::{App, Effect, Engine, Running, Step};
use crate::chat::{Turn, repetition};
use crate::protocol::{
    CancelFlag, Channel, Command, Event, ExitCode, Finish, Outcome, Part, PauseFlag, Prompt, Sampling,
    TurnId, TurnRequest, UserError,
};
use crate::session::{Branch, End, PromptDigest, Record, TurnStart};
use crate::tui::transcript::{Asked, Facts};

impl App {
    pub(super) fn engine_event(&mut self, event: Event) -> Vec<Effect> {
        match event {
            Event::Ready(_) | Event::Refused(_) | Event::Failed(_) if self.is_stale() => {}
            Event::Ready(facts) => {
                let mut effects = self.loaded(facts);
                effects.extend(self.trial_loaded());
                return effects;
            }
            Event::Refused(error) => return self.refused(error),
            Event::Prompt { turn, ids, .. } => return self.prompt(turn, &ids),
            Event::Token { turn, id, channel } => return self.token(turn, id, channel),
            Event::Step { turn, seconds, cost } => {
                if self.running.as_ref().is_some_and(|running| running.turn == turn) {
                    self.steps.push(Step { seconds, cost });
                }
            }
            Event::Delta { turn, part } => self.delta(turn, part),
            Event::Finished { turn, outcome } => {
                return match self.trial_finished(turn, &outcome) {
                    Some(effects) => effects,
                    None => self.finish(turn, *outcome),
                };
            }
            Event::Failed(error) => return self.load_failed(error),
            Event::Note(text) => self.notify(text),
            Event::Stopped => return self.engine_gone(),
            // The numbers say it already; nobody here asked for logits.
            Event::Loading { .. } | Event::Logits { .. } => {}
        }
        Vec::new()
    }

    pub(super) fn engine_gone(&mut self) -> Vec<Effect> {
        let error =
            UserError::new(ExitCode::Invalid, "The engine has left", "its thread ended without an answer");
        let mut effects = self.fail_running(&error);
        effects.extend(self.trial_failed(&error));
        // A failure that it told before it left says more.
        if !matches!(self.engine, Engine::Failed(_)) {
            self.engine = Engine::Gone;
        }
        effects
    }

    pub(super) fn engine_busy(&mut self) -> Vec<Effect> {
        self.fail_running(
            &UserError::new(
                ExitCode::Invalid,
                "The engine does not answer",
                "it has not taken the commands before this",
            )
            .with_hint("wait a little and send the message again"),
        )
    }

    /// Begins a turn with what the user wrote, with a seed of its own or the one that holds.
    pub(super) fn begin(&mut self, text: String, seed: Option<u64>) -> Vec<Effect> {
        let seed = seed.or(self.options.sampling.seed).unwrap_or_else(|| self.fresh_seed());
        let turn = TurnId(self.next_turn);
        self.next_turn += 1;
        let follows = self.transcript.turns().last().map(|turn| turn.id);
        let before = self.facts.last().and_then(|facts| facts.asked).map_or(0, |asked| asked.dropped);
        let dropped = self.transcript.dropped.min(self.transcript.turns().len());
        self.transcript.dropped = dropped;
        self.transcript.begin(turn, text.clone());
        let sampling = Sampling { seed: Some(seed), ..self.options.sampling };
        let (asked, start) = self.asked(text, sampling, dropped);
        self.facts.push(Facts { asked: Some(asked), ..Facts::default() });
        self.mark_branches();
        self.notice = None;
        let request = self.request(turn, Vec::new(), asked, 0);
        let mut effects = Vec::with_capacity(4);
        if let Some(turn) = start {
            if self.kept_system != self.transcript.system {
                self.kept_system.clone_from(&self.transcript.system);
                effects.push(Effect::Record(Record::System(self.kept_system.clone())));
            }
            let goes_on = self.branches.head == follows && before == dropped;
            let follows = follows.map_or(0, |turn| self.number(turn));
            effects.push(Effect::Record(if goes_on {
                Record::Turn(turn)
            } else {
                Record::Branch(Branch { follows, dropped, turn })
            }));
        }
        self.branches.head = Some(turn);
        effects.push(Effect::Send(Command::Generate(Box::new(request))));
        effects
    }

    /// A seed that no turn of this run of the program has had. Below 2^53, so that it survives a program that reads JSON
    /// numbers as doubles.
    pub(super) const fn fresh_seed(&self) -> u64 {
        self.options.first_seed.wrapping_add(self.next_turn) & ((1 << 53) - 1)
    }

    /// What a turn depends on beside the messages, and what is written down of its beginning.
    fn asked(&self, user: String, sampling: Sampling, dropped: usize) -> (Asked, Option<TurnStart>) {
        let (thinking, limits, max_tokens) = (self.thinking, self.limits, self.options.max_tokens);
        let asked = Asked { thinking, sampling, max_tokens, limits, dropped };
        let Engine::Ready(facts) = &self.engine else { return (asked, None) };
        let start = TurnStart {
            user,
            thinking,
            temperature: sampling.temperature.unwrap_or(facts.temperature),
            top_p: sampling.top_p.unwrap_or(facts.top_p),
            seed: sampling.seed.unwrap_or_default(),
            max_tokens,
            limits,
            at: 0,
        };
        (Asked { sampling: start.sampling(), ..asked }, Some(start))
    }

    /// Sets the last turn going: what the engine is asked for, and that it runs.
    pub(super) fn request(
        &mut self,
        turn: TurnId,
        generated: Vec<u32>,
        asked: Asked,
        allowed_from: usize,
    ) -> TurnRequest {
        let (cancel, pause) = (CancelFlag::default(), PauseFlag::default());
        // Nothing runs yet that could be disturbed by it.
        pause.set(self.disk_full.is_some());
        self.running = Some(Running {
            turn,
            cancel: cancel.clone(),
            pause: pause.clone(),
            began: self.now(),
            stopping: false,
            limits: asked.limits,
            thinking_began: None,
            answer_began: None,
            thinking_tokens: 0,
            answer_tokens: 0,
            foreign: false,
            repeats: None,
        });
        self.steps.clear();
        self.forecast.read_with = Some(asked.thinking);
        self.impatience = 0;
        self.alert = None;
        self.pulse.stir();
        self.scrollback.go_to_end();
        TurnRequest {
            turn,
            prompt: Prompt::Chat(self.transcript.question(asked.thinking)),
            generated,
            sampling: asked.sampling,
            max_tokens: asked.max_tokens,
            limits: asked.limits,
            allowed_from,
            prefill_chunk: None,
            logits: false,
            cancel,
            pause,
        }
    }

    /// Asks the running turn to stop.
    pub(crate) fn stop(&mut self) -> Vec<Effect> {
        match &mut self.running {
            Some(running) if !running.stopping => {
                running.stopping = true;
                vec![Effect::Cancel(running.cancel.clone())]
            }
            _ => Vec::new(),
        }
    }

    /// The prompt was rendered. A turn that is taken up must read what it read before, or it would be another answer.
    fn prompt(&mut self, turn: TurnId, ids: &[u32]) -> Vec<Effect> {
        let found = PromptDigest::of(ids);
        let running = self.running.as_ref().is_some_and(|running| running.turn == turn);
        let Some(facts) = self.facts.last_mut().filter(|_| running) else { return Vec::new() };
        match facts.digest.replace(found) {
            None => {
                self.transcript.retell(turn);
                vec![Effect::Record(Record::Prompt(found))]
            }
            Some(before) if before == found => {
                self.transcript.retell(turn);
                Vec::new()
            }
            Some(before) => {
                facts.digest = Some(before);
                if let Some(running) = &mut self.running {
                    running.foreign = true;
                }
                self.notify("The model would read something else than before, so this answer ends here; /retry asks again.");
                self.stop()
            }
        }
    }

    fn token(&mut self, turn: TurnId, id: u32, channel: Channel) -> Vec<Effect> {
        let Some(running) = self.running.as_mut().filter(|running| running.turn == turn && !running.foreign)
        else {
            return Vec::new();
        };
        match channel {
            Channel::Thinking => running.thinking_tokens += 1,
            Channel::Answer => running.answer_tokens += 1,
            Channel::Tools | Channel::Between => {}
        }
        self.transcript.token(turn, id);
        running.repeats = self.transcript.turns().last().and_then(|turn| repetition(&turn.ids));
        vec![Effect::Record(Record::Token { id, channel })]
    }

    fn delta(&mut self, turn: TurnId, part: Part) {
        let now = self.now();
        let Some(running) = self.running.as_mut().filter(|running| running.turn == turn && !running.foreign)
        else {
            return;
        };
        match (&part, running.thinking_began) {
            (Part::Thinking(_), None) => running.thinking_began = Some(now),
            (Part::Answer(_) | Part::ToolCall(_), began) => {
                running.answer_began.get_or_insert(now);
                if let (Some(began), Some(facts)) = (began, self.facts.last_mut()) {
                    facts.thinking_s.get_or_insert(now - began);
                }
            }
            (Part::Thinking(_), Some(_)) => {}
        }
        self.transcript.push(turn, part);
    }

    fn finish(&mut self, turn: TurnId, outcome: Outcome) -> Vec<Effect> {
        let now = self.now();
        let Some(running) = self.running.take_if(|running| running.turn == turn) else { return Vec::new() };
        if let (Some(facts), Some(began)) = (self.facts.last_mut(), running.thinking_began) {
            facts.thinking_s.get_or_insert(now - began);
        }
        let outcome = if running.foreign { self.unforeign(outcome) } else { outcome };
        let end = End::of(&outcome);
        let announced = self.announce(&outcome);
        self.transcript.finish(turn, outcome);
        // Not put into the draft by itself: whoever types on at once would add to it unseen.
        if self.transcript.turns().last().is_some_and(Turn::is_lost) {
            self.notify("The message is not part of the conversation; Up brings it back.");
        }
        let finish = end.finish;
        let mut effects = vec![Effect::Record(Record::End(end))];
        effects.extend(announced);
        effects.extend(self.after_turn(finish));
        effects
    }

    /// How a turn ended that was not taken up after all: as it had been stopped before.
    fn unforeign(&self, outcome: Outcome) -> Outcome {
        let ids = self.transcript.turns().last().map(|turn| turn.ids.clone()).unwrap_or_default();
        Outcome { finish: Finish::Cancelled, ids, ..outcome }
    }

    /// Ends the running turn, of which nothing more will come.
    pub(super) fn fail_running(&mut self, error: &UserError) -> Vec<Effect> {
        let Some(turn) = self.running.as_ref().map(|running| running.turn) else { return Vec::new() };
        self.finish(turn, Outcome { error: Some(error.clone()), ..Outcome::new(Finish::Error) })
    }
}
