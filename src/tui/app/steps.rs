//! Token by token: what each pass of the running turn took, how long one takes as a rule, and what that makes of the rest.

use super::{App, Engine};
use crate::protocol::{Limit, Phase, TokenCost, median};

/// Tokens whose median is the rule.
const RULE: usize = 32;

/// One pass that decoded a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    /// Seconds that it took.
    pub(crate) seconds: f64,
    /// What it read and waited for.
    pub(crate) cost: TokenCost,
}

impl App {
    /// Seconds that a token takes as a rule: by the last ones of this turn, else by the newest one of all, else by the turn
    /// before, else by the plan.
    pub(crate) fn usual_token_s(&self) -> Option<f64> {
        let last: Vec<f64> = self.steps.iter().rev().take(RULE).map(|step| step.seconds).collect();
        let newest = || {
            let ns = self.pulse.now().last_token_ns;
            (ns > 0).then_some(ns as f64 * 1e-9)
        };
        let before = || {
            let mut outcomes = self.transcript.turns().iter().rev().filter_map(|turn| turn.outcome.as_ref());
            outcomes.find_map(|outcome| outcome.took.token_s)
        };
        let planned = || match &self.engine {
            Engine::Ready(facts) => Some(facts.plan.token_s).filter(|seconds| *seconds > 0.0),
            Engine::Loading | Engine::Failed(_) | Engine::Gone => None,
        };
        median(&last).or_else(newest).or_else(before).or_else(planned)
    }

    /// Seconds that the running turn may still take before a limit ends what it is at; nothing where none does.
    pub(crate) fn left_s(&self) -> Option<f64> {
        let turn = self.transcript.turns().last().filter(|turn| turn.is_running())?;
        if self.pulse.now().phase != Phase::Decode {
            return None;
        }
        let running = self.running.as_ref()?;
        let (limit, tokens, since) = if turn.answer.is_empty() {
            (running.limits.think?, running.thinking_tokens, running.thinking_began)
        } else {
            (running.limits.answer?, running.answer_tokens, running.answer_began)
        };
        match limit {
            Limit::Tokens(most) => {
                self.usual_token_s().map(|seconds| most.saturating_sub(tokens) as f64 * seconds)
            }
            Limit::Seconds(most) => since.map(|began| (most as f64 - (self.now() - began)).max(0.0)),
        }
    }
}
