//! What the engine says, and the life of a turn. However a turn ends, the state comes back to idle.

use super::{App, Effect, Engine, Running, Step};
use crate::chat::Turn;
use crate::protocol::{
    CancelFlag, Channel, Command, Event, ExitCode, Finish, Outcome, Part, Prompt, Sampling, TurnId,
    TurnRequest, UserError,
};
use crate::session::{End, PromptDigest, Record, TurnStart};
use crate::tui::transcript::Facts;

impl App {
    pub(super) fn engine_event(&mut self, event: Event) -> Vec<Effect> {
        match event {
            Event::Ready(_) | Event::Failed(_) if self.is_stale() => {}
            Event::Ready(facts) => {
                self.engine = Engine::Ready(facts);
                self.forecast.forget();
                return self.trial_loaded();
            }
            Event::Prompt { turn, ids, .. } => {
                if self.running.as_ref().is_some_and(|running| running.turn == turn) {
                    return vec![Effect::Record(Record::Prompt(PromptDigest::of(&ids)))];
                }
            }
            Event::Token { turn, id, channel } => {
                if let Some(running) = self.running.as_mut().filter(|running| running.turn == turn) {
                    match channel {
                        Channel::Thinking => running.thinking_tokens += 1,
                        Channel::Answer => running.answer_tokens += 1,
                        Channel::Tools | Channel::Between => {}
                    }
                    return vec![Effect::Record(Record::Token { id, channel })];
                }
            }
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
            Event::Failed(error) => {
                let mut effects = self.fail_running(&error);
                effects.extend(self.trial_failed(&error));
                self.engine = Engine::Failed(error);
                return effects;
            }
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

    /// Begins a turn with what the user wrote.
    pub(super) fn begin(&mut self, text: String) -> Vec<Effect> {
        let turn = TurnId(self.next_turn);
        self.next_turn += 1;
        self.transcript.begin(turn, text.clone());
        let (sampling, start) = self.draws(turn, text);
        self.facts.push(Facts::default());
        let cancel = CancelFlag::default();
        self.running = Some(Running {
            turn,
            cancel: cancel.clone(),
            began: self.now(),
            stopping: false,
            limits: self.limits,
            thinking_began: None,
            answer_began: None,
            thinking_tokens: 0,
            answer_tokens: 0,
        });
        self.steps.clear();
        self.forecast.read_with = Some(self.thinking);
        self.impatience = 0;
        self.notice = None;
        self.pulse.stir();
        self.scrollback.go_to_end();
        let mut effects: Vec<Effect> =
            start.map(|start| Effect::Record(Record::Turn(start))).into_iter().collect();
        effects.push(Effect::Send(Command::Generate(Box::new(TurnRequest {
            turn,
            prompt: Prompt::Chat(self.transcript.conversation(self.thinking)),
            generated: Vec::new(),
            sampling,
            max_tokens: self.options.max_tokens,
            limits: self.limits,
            allowed_from: 0,
            prefill_chunk: None,
            logits: false,
            cancel,
        }))));
        effects
    }

    /// How the tokens of a turn are drawn, and what is written down of its beginning.
    fn draws(&self, turn: TurnId, user: String) -> (Sampling, Option<TurnStart>) {
        let asked = self.options.sampling;
        // Below 2^53, so that it survives a program that reads JSON numbers as doubles.
        let seed = asked.seed.unwrap_or(self.options.first_seed.wrapping_add(turn.0) & ((1 << 53) - 1));
        let sampling = Sampling { seed: Some(seed), ..asked };
        let Engine::Ready(facts) = &self.engine else { return (sampling, None) };
        let start = TurnStart {
            user,
            thinking: self.thinking,
            temperature: asked.temperature.unwrap_or(facts.temperature),
            top_p: asked.top_p.unwrap_or(facts.top_p),
            seed,
            max_tokens: self.options.max_tokens,
            limits: self.limits,
            at: 0,
        };
        (sampling, Some(start))
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

    fn delta(&mut self, turn: TurnId, part: Part) {
        let now = self.now();
        let Some(running) = self.running.as_mut().filter(|running| running.turn == turn) else { return };
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

    /// Ends the running turn, of which nothing more will come.
    fn fail_running(&mut self, error: &UserError) -> Vec<Effect> {
        let Some(turn) = self.running.as_ref().map(|running| running.turn) else { return Vec::new() };
        self.finish(turn, Outcome { error: Some(error.clone()), ..Outcome::new(Finish::Error) })
    }
}
