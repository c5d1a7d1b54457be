//! What is told to somebody who looks elsewhere: the title of the terminal, and a word when a turn has ended.

use super::{App, Effect, Engine};
use crate::protocol::{Finish, Outcome, Phase};
use crate::tui::numbers;
use crate::tui::width;
use crate::units::Percent;

impl App {
    /// The title of the terminal: what is going on, and how far it is.
    pub(crate) fn title(&self) -> String {
        let now = self.pulse.now();
        let doing = match (&self.running, &self.engine) {
            (Some(running), _) if running.stopping => "stopping".to_owned(),
            (Some(running), _) if now.turn == running.turn.0 && now.phase == Phase::Prefill => {
                format!("reading {}", Percent(self.pulse.prefill_share()))
            }
            (Some(_), _) => {
                let turn = self.transcript.turns().last();
                let answers = turn.is_some_and(|turn| !turn.answer.is_empty() || !turn.tool_calls.is_empty());
                let what = if answers { "answering" } else { "thinking" };
                format!("{what}, {}", numbers::counted(now.tokens, "token"))
            }
            (None, Engine::Loading) if now.load_total > 0 => {
                format!("loading {}", Percent::of(now.load_done, now.load_total))
            }
            (None, Engine::Loading) => "loading".to_owned(),
            (None, Engine::Failed(_) | Engine::Gone) => "engine down".to_owned(),
            (None, Engine::Ready(_)) => width::clean_line(&self.options.model_label),
        };
        format!("dormouse: {doing}")
    }

    /// The terminal has got or lost the keyboard.
    pub(super) fn focus(&mut self, focused: bool) {
        self.focused = focused;
    }

    /// What is announced of a turn that has ended, where nobody sees it end and somebody wants to know. One that the user
    /// has stopped is no news.
    pub(super) fn announce(&self, outcome: &Outcome) -> Option<Effect> {
        if self.focused || !self.remembered.notify || outcome.finish == Finish::Cancelled {
            return None;
        }
        let how = match outcome.finish {
            Finish::Stop => "the answer is there",
            Finish::Length => "a limit was reached",
            Finish::Cancelled | Finish::Error => "the turn failed",
        };
        let took = numbers::rough(outcome.took.total_s);
        let written = numbers::counted(outcome.ids.len() as u64, "token");
        Some(Effect::Announce(format!("dormouse: {how}, {written} in {took}")))
    }

    /// Says whether the end of a turn is announced, or switches it.
    pub(crate) fn set_notify(&mut self, wish: &str) -> Vec<Effect> {
        match wish {
            "on" | "off" => {
                self.remembered.notify = wish == "on";
                self.notify(if self.remembered.notify {
                    "The end of a turn is announced when the terminal is not in front."
                } else {
                    "The end of a turn is not announced any more."
                });
                return vec![Effect::Switched(self.remembered)];
            }
            _ => {
                let now = if self.remembered.notify { "on" } else { "off" };
                self.notify(format!("Announcing the end of a turn is {now}; /notify on or off changes it."));
            }
        }
        Vec::new()
    }
}
