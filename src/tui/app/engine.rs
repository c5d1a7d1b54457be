//! What the engine says, and the life of a turn. However a turn ends, the state comes back to idle.

use super::{App, Effect, Engine, Running};
use crate::protocol::{
    CancelFlag, Command, Event, ExitCode, ExpertCounts, Finish, Outcome, Part, Prompt, TurnId, TurnRequest,
    UserError,
};
use crate::tui::transcript::Facts;

impl App {
    pub(super) fn engine_event(&mut self, event: Event) -> Vec<Effect> {
        match event {
            Event::Ready(facts) => {
                self.engine = Engine::Ready(facts);
            }
            Event::Prompt { turn, ids, reused } => {
                if let Some(facts) = self.facts_of(turn) {
                    facts.prompt = Some((ids.len(), reused));
                }
            }
            Event::Delta { turn, part } => self.delta(turn, part),
            Event::Finished { turn, outcome } => self.finish(turn, *outcome),
            Event::Failed(error) => {
                self.fail_running(&error);
                self.engine = Engine::Failed(error);
            }
            Event::Stopped => self.engine_gone(),
            // The numbers say it already; nobody here asked for logits.
            Event::Loading { .. } | Event::Logits { .. } | Event::Token { .. } => {}
        }
        Vec::new()
    }

    pub(super) fn engine_gone(&mut self) {
        self.fail_running(&UserError::new(
            ExitCode::Invalid,
            "The engine has left",
            "its thread ended without an answer",
        ));
        // A failure that it told before it left says more.
        if !matches!(self.engine, Engine::Failed(_)) {
            self.engine = Engine::Gone;
        }
    }

    pub(super) fn engine_busy(&mut self) {
        self.fail_running(
            &UserError::new(
                ExitCode::Invalid,
                "The engine does not answer",
                "it has not taken the commands before this",
            )
            .with_hint("wait a little and send the message again"),
        );
    }

    /// Begins a turn with what the user wrote.
    pub(super) fn begin(&mut self, text: String) -> Vec<Effect> {
        let turn = TurnId(self.next_turn);
        self.next_turn += 1;
        self.history.keep(&text);
        self.transcript.begin(turn, text);
        self.facts.push(Facts { max_tokens: self.options.max_tokens, ..Facts::default() });
        let cancel = CancelFlag::default();
        self.running = Some(Running {
            turn,
            cancel: cancel.clone(),
            began: self.now(),
            stopping: false,
            thinking_began: None,
        });
        self.impatience = 0;
        self.notice = None;
        self.pulse.stir();
        self.scrollback.go_to_end();
        vec![Effect::Send(Command::Generate(Box::new(TurnRequest {
            turn,
            prompt: Prompt::Chat(self.transcript.conversation(self.thinking)),
            generated: Vec::new(),
            sampling: self.options.sampling,
            max_tokens: self.options.max_tokens,
            prefill_chunk: None,
            logits: false,
            cancel,
        })))]
    }

    /// Asks the running turn to stop.
    pub(super) fn stop(&mut self) -> Vec<Effect> {
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
            (Part::Answer(_) | Part::ToolCall(_), Some(began)) => {
                if let Some(facts) = self.facts.last_mut() {
                    facts.thinking_s.get_or_insert(now - began);
                }
            }
            _ => {}
        }
        self.transcript.push(turn, part);
    }

    fn finish(&mut self, turn: TurnId, outcome: Outcome) {
        let now = self.now();
        let Some(running) = self.running.take_if(|running| running.turn == turn) else { return };
        if let Some(facts) = self.facts.last_mut() {
            facts.total_s = Some(now - running.began);
            if let Some(began) = running.thinking_began {
                facts.thinking_s.get_or_insert(now - began);
            }
        }
        self.transcript.finish(turn, outcome);
    }

    /// Ends the running turn, of which nothing more will come.
    fn fail_running(&mut self, error: &UserError) {
        let Some(turn) = self.running.as_ref().map(|running| running.turn) else { return };
        self.finish(
            turn,
            Outcome {
                finish: Finish::Error,
                error: Some(error.clone()),
                ids: Vec::new(),
                seed: 0,
                prefill_s: 0.0,
                decode_s: Vec::new(),
                first_token_s: None,
                trunk_bytes: 0,
                expert_bytes: 0,
                experts: ExpertCounts::default(),
            },
        );
    }

    fn facts_of(&mut self, turn: TurnId) -> Option<&mut Facts> {
        let running = self.running.as_ref().is_some_and(|running| running.turn == turn);
        if running { self.facts.last_mut() } else { None }
    }
}
