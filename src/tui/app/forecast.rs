//! What a message will cost before it is sent: tokens that it adds, how long the model reads, how long an answer takes.

use crate::chat::Transcript;
use crate::protocol::{ModelFacts, Outcome, Thinking};
use crate::tui::counter::{Ask, Counted, Place, What};
use crate::tui::draft::Draft;

/// Tokens of the answer that the composer names a time for.
pub(crate) const ANSWER: usize = 200;

/// A count that was asked for.
#[derive(Clone, Debug, Default)]
struct Slot {
    number: u64,
    tokens: Option<usize>,
    answered: bool,
}

impl Slot {
    fn take(&mut self, counted: &Counted) {
        if self.number == counted.number {
            (self.tokens, self.answered) = (Some(counted.tokens), true);
        }
    }
}

/// Counts of the draft and of the conversation before it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forecast {
    numbers: u64,
    text: Draft,
    draft: Slot,
    /// Which conversation was asked about: turns, of these finished, effort.
    conversation: Option<(usize, usize, Thinking)>,
    history: Slot,
    /// The effort that the state of the engine was computed with.
    pub(super) read_with: Option<Thinking>,
}

/// What is told of a draft.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cost {
    /// Tokens that it adds; nothing while they are counted.
    pub(crate) tokens: Option<usize>,
    /// Tokens that the model would read: these, and what it does not remember of the conversation before.
    pub(crate) unread: usize,
    /// Seconds for that.
    pub(crate) read_s: Option<f64>,
    /// Seconds for [`ANSWER`] tokens.
    pub(crate) answer_s: Option<f64>,
    /// Whether both follow from measured turns, and not from the plan alone.
    pub(crate) measured: bool,
}

impl Forecast {
    /// Questions that the draft and the conversation give reason to.
    pub(super) fn ask(
        &mut self,
        facts: &ModelFacts,
        draft: &Draft,
        transcript: &Transcript,
        thinking: Thinking,
    ) -> Vec<Ask> {
        let mut asks = Vec::new();
        let mut ask = |place, slot: &mut Slot, what| {
            self.numbers += 1;
            (slot.number, slot.answered) = (self.numbers, false);
            asks.push(Ask { place, number: slot.number, counter: facts.counter.clone(), what });
        };
        if self.text != *draft {
            self.text = draft.clone();
            if draft.is_blank() {
                self.draft = Slot::default();
            } else {
                ask(Place::Draft, &mut self.draft, What::Message(self.text.clone()));
            }
        }
        let finished = transcript.turns().iter().filter(|turn| !turn.is_running()).count();
        let conversation = (transcript.turns().len(), finished, thinking);
        // Not before somebody writes, and not while an answer makes it longer.
        if !self.text.is_blank() && conversation.0 == finished && self.conversation != Some(conversation) {
            self.conversation = Some(conversation);
            let prompt = transcript.conversation(thinking);
            ask(Place::History, &mut self.history, What::Prompt(Box::new(prompt)));
        }
        asks
    }

    /// Takes an answer in; one to an old question is late.
    pub(super) fn counted(&mut self, counted: &Counted) {
        self.text.learn(&counted.draft);
        match counted.place {
            Place::Draft => self.draft.take(counted),
            Place::History => self.history.take(counted),
        }
    }

    /// Another model counts otherwise, and another conversation is another one.
    pub(super) fn forget(&mut self) {
        *self = Self { numbers: self.numbers, ..Self::default() };
    }

    /// What the draft will cost; nothing where there is none. `remembered` is what the engine's state holds.
    pub(crate) fn cost(
        &self,
        facts: &ModelFacts,
        transcript: &Transcript,
        thinking: Thinking,
        remembered: usize,
    ) -> Option<Cost> {
        if self.text.is_blank() {
            return None;
        }
        let tokens = self.draft.tokens.filter(|_| self.draft.answered);
        let remembered = if self.read_with == Some(thinking) { remembered } else { 0 };
        let before = self.history.tokens.filter(|_| self.history.answered).unwrap_or(remembered);
        let unread = tokens.unwrap_or(0) + before.saturating_sub(remembered);
        let outcomes = || transcript.turns().iter().rev().filter_map(|turn| turn.outcome.as_ref());
        let token = outcomes().find_map(|outcome| outcome.took.token_s);
        let slower = outcomes().find_map(|outcome| slower_than_planned(facts, outcome));
        let planned = (facts.plan.token_s > 0.0).then_some(facts.plan.token_s);
        let read_s = tokens.and_then(|_| match slower {
            Some(slower) => Some(read_seconds(facts, unread) * slower),
            None => planned.map(|_| read_seconds(facts, unread)),
        });
        Some(Cost {
            tokens,
            unread,
            read_s,
            answer_s: token.or(planned).map(|seconds| seconds * ANSWER as f64),
            measured: token.is_some() && slower.is_some(),
        })
    }
}

/// How much longer the prompt of a turn was read than the plan says.
fn slower_than_planned(facts: &ModelFacts, outcome: &Outcome) -> Option<f64> {
    let (planned, took_s) = (read_seconds(facts, outcome.took.read), outcome.took.prefill_s);
    (took_s > 0.0 && planned > 0.0).then(|| took_s / planned)
}

/// Seconds in which so many tokens are read, as the plan says; for a plan without rates a second each, which a measured
/// turn sets right.
fn read_seconds(facts: &ModelFacts, tokens: usize) -> f64 {
    let plan = &facts.plan;
    if plan.token_s <= 0.0 {
        return tokens as f64;
    }
    let chunk = plan.chunk.max(1);
    let (whole, rest) = (tokens / chunk, tokens % chunk);
    let rest = if rest > 0 { plan.pass_s(rest) } else { 0.0 };
    whole as f64 * plan.pass_s(chunk) + rest
}
