//! The one object that `run --json` prints.

use serde::Serialize;
use serde_json::Value;

use super::{error, plan};
use crate::chat::{Repetition, repetition};
use crate::protocol::{
    Arguments, Finish, ModelFacts, Outcome, Part, Reused, ReusedFrom, Sample, TokenCost, Took, ToolCall,
    UserError,
};

/// What scripts read. Fields that a failed run never reached are empty or zero.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Report {
    /// The file of the prompt, where it was one of many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<String>,
    pub(super) prompt_ids: Vec<u32>,
    pub(super) ids: Vec<u32>,
    pub(super) text: String,
    pub(super) thinking: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<Call>,
    /// The seed in use; what the user asked for where the turn never began.
    pub(super) seed: Option<u64>,
    pub(super) finish: &'static str,
    /// Which limit ended it, where one did: `tokens 7`, `think 10m`, `answer 300` or `context`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limit: Option<String>,
    /// What the chat says under an answer.
    pub(super) took: Took,
    /// What the model said over and over at the end, where it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) repetition: Option<Repeated>,
    pub(super) timings: Timings,
    pub(super) bytes: Read,
    pub(super) waits: Waits,
    pub(super) experts: Experts,
    /// How memory was divided: what `dormouse plan --json` prints.
    pub(super) plan: Option<plan::Object>,
    /// How shards were read.
    pub(super) reader: Option<&'static str>,
    /// Whether what was read was held against a manifest.
    pub(super) checked: bool,
    pub(super) memory: Memory,
    pub(super) state: State,
    /// What the user should know and that stopped nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) notes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Failure>,
}

/// A span of tokens that the answer ends with, several times over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Repeated {
    span: usize,
    times: usize,
}

#[derive(Clone, Debug, Default, Serialize)]
#[expect(clippy::struct_field_names, reason = "scripts read the unit in the name")]
pub(super) struct Timings {
    load_s: f64,
    prefill_s: f64,
    decode_s: Vec<f64>,
}

/// Bytes from the disk.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Read {
    trunk: u64,
    experts: u64,
    /// For each entry of `timings.decode_s`.
    per_token: Vec<TokenRead>,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
struct TokenRead {
    trunk: u64,
    experts: u64,
}

/// Tiles and experts that were there when they were needed, or not.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Waits {
    late: u64,
    in_time: u64,
    waited_s: f64,
    /// For each entry of `timings.decode_s`.
    per_token_s: Vec<f64>,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Experts {
    requests: u64,
    resident: u64,
    reads: u64,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Memory {
    pub(super) budget: u64,
    pub(super) peak_rss: u64,
}

/// What of the prompt was known from before, and what was kept for later.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct State {
    /// Positions that did not have to be computed.
    reused: usize,
    /// Where their state was: `memory` or `disk`.
    from: Option<&'static str>,
    /// Seconds that it took to find and to read it.
    restore_s: f64,
    /// Positions that were computed.
    computed: usize,
    /// States written to the disk, their bytes, and the seconds that writing took, beside the computing.
    saved: u64,
    saved_bytes: u64,
    save_s: f64,
    /// The longest that the turn stood still for one of them.
    pause_s: f64,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Failure {
    title: String,
    detail: String,
    hint: String,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Call {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    name: String,
    /// An object, or the text that could not be read as one.
    arguments: Value,
}

impl From<ToolCall> for Call {
    fn from(call: ToolCall) -> Self {
        let arguments = match call.arguments {
            Arguments::Object(object) => Value::Object(object),
            Arguments::Raw(text) => Value::String(text),
        };
        Self { id: call.id, name: call.name, arguments }
    }
}

impl From<&UserError> for Failure {
    fn from(error: &UserError) -> Self {
        Self { title: error.title.clone(), detail: error.detail.clone(), hint: error.hint.clone() }
    }
}

impl Report {
    /// Takes over what was loaded.
    pub(super) fn loaded(&mut self, facts: &ModelFacts) {
        self.timings.load_s = facts.load_s;
        self.plan = Some(plan::Object::from(&facts.plan));
        self.reader = Some(facts.reader);
        self.checked = facts.checked;
    }

    /// Takes over a piece of the output.
    pub(super) fn push(&mut self, part: Part) {
        match part {
            Part::Thinking(text) => self.thinking += &text,
            Part::Answer(text) => self.text += &text,
            Part::ToolCall(call) => self.tool_calls.push(call.into()),
        }
    }

    /// Takes over how the turn ended.
    pub(super) fn finished(&mut self, outcome: Outcome) {
        self.finish = outcome.finish.as_str();
        self.repetition = repetition(&outcome.ids).map(|Repetition { span, times }| Repeated { span, times });
        self.ids = outcome.ids;
        self.seed = Some(outcome.seed);
        let Reused { positions, from, took_s } = outcome.reused;
        self.state = State {
            reused: positions,
            from: from.map(ReusedFrom::as_str),
            restore_s: if from.is_some() { took_s } else { 0.0 },
            computed: outcome.computed,
            ..self.state
        };
        self.limit = outcome.reached.map(|reached| reached.to_string());
        self.took = outcome.took;
        self.timings.prefill_s = outcome.took.prefill_s;
        self.timings.decode_s = outcome.decode_s;
        let tokens = &outcome.tokens;
        self.bytes = Read {
            trunk: outcome.trunk_bytes,
            experts: outcome.expert_bytes,
            per_token: tokens
                .iter()
                .map(|&TokenCost { trunk, experts, .. }| TokenRead { trunk, experts })
                .collect(),
        };
        let waits = outcome.waits;
        self.waits = Waits {
            late: waits.late,
            in_time: waits.in_time,
            waited_s: waits.waited_s,
            per_token_s: tokens.iter().map(|token| token.waited_s).collect(),
        };
        let counts = outcome.experts;
        self.experts = Experts { requests: counts.requests, resident: counts.resident, reads: counts.reads };
    }

    /// Takes over what the engine has kept on the disk.
    pub(super) const fn saved(&mut self, sample: &Sample) {
        self.state.saved = sample.saved_states;
        self.state.saved_bytes = sample.saved_bytes;
        self.state.save_s = sample.saved_ns as f64 * 1e-9;
        self.state.pause_s = sample.saved_pause_ns as f64 * 1e-9;
    }

    /// Tells the user something, also where nobody reads the object.
    pub(super) fn note(&mut self, text: &str) {
        error::note(text);
        self.notes.push(text.to_owned());
    }

    /// Takes over a failure.
    pub(super) fn failed(&mut self, error: &UserError) {
        self.finish = Finish::Error.as_str();
        self.error = Some(error.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_noted_and_nothing_else_is() {
        let mut report = Report::default();
        let finished = |ids: Vec<u32>| Outcome { ids, ..Outcome::new(Finish::Length) };
        report.finished(finished((0..400).collect()));
        assert_eq!(report.repetition, None);
        report.finished(finished((0..400).map(|id| id % 5).collect()));
        assert_eq!(report.repetition, Some(Repeated { span: 5, times: 80 }));
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["repetition"], serde_json::json!({"span": 5, "times": 80}));
    }

    #[test]
    fn arguments_of_tools_keep_their_form() {
        let object = serde_json::Map::from_iter([("a".to_owned(), Value::from(1))]);
        let call = |arguments| Call::from(ToolCall { id: None, name: "f".to_owned(), arguments });
        assert_eq!(call(Arguments::Object(object.clone())).arguments, Value::Object(object));
        assert_eq!(call(Arguments::Raw("{".to_owned())).arguments, Value::from("{"));
    }
}
