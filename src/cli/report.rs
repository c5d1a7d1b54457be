//! The one object that `run --json` prints.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter};

use crate::protocol::{Arguments, Finish, Outcome, ToolCall, UserError};

/// What scripts read. Fields that a failed run never reached are empty or zero.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) prompt_ids: Vec<u32>,
    pub(super) ids: Vec<u32>,
    pub(super) text: String,
    pub(super) thinking: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<Call>,
    /// The seed in use; what the user asked for where the turn never began.
    pub(super) seed: Option<u64>,
    pub(super) finish: &'static str,
    pub(super) timings: Timings,
    pub(super) bytes: Read,
    pub(super) experts: Experts,
    pub(super) memory: Memory,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Failure>,
}

#[derive(Clone, Debug, Default, Serialize)]
#[expect(clippy::struct_field_names, reason = "scripts read the unit in the name")]
pub(super) struct Timings {
    pub(super) load_s: f64,
    prefill_s: f64,
    decode_s: Vec<f64>,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Read {
    trunk: u64,
    experts: u64,
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

impl Report {
    /// Takes over how the turn ended.
    pub(super) fn finished(&mut self, outcome: Outcome) {
        self.finish = outcome.finish.as_str();
        self.ids = outcome.ids;
        self.seed = Some(outcome.seed);
        self.timings.prefill_s = outcome.prefill_s;
        self.timings.decode_s = outcome.decode_s;
        self.bytes = Read { trunk: outcome.trunk_bytes, experts: outcome.expert_bytes };
        let counts = outcome.experts;
        self.experts = Experts { requests: counts.requests, resident: counts.resident, reads: counts.reads };
    }

    /// Takes over a failure.
    pub(super) fn failed(&mut self, error: &UserError) {
        self.finish = Finish::Error.as_str();
        self.error = Some(Failure {
            title: error.title.clone(),
            detail: error.detail.clone(),
            hint: error.hint.clone(),
        });
    }

    /// Writes the object and a line feed.
    pub(super) fn write(&self, mut out: impl Write) -> io::Result<()> {
        let mut line = Vec::new();
        self.serialize(&mut serde_json::Serializer::with_formatter(&mut line, Escaped))?;
        line.push(b'\n');
        out.write_all(&line)?;
        out.flush()
    }
}

/// JSON with all control codes escaped: the format only demands it of the old ones (C0), terminals obey the new ones
/// (C1) as well.
struct Escaped;

impl Formatter for Escaped {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut plain = CompactFormatter;
        for piece in fragment.split_inclusive(char::is_control) {
            match piece.chars().next_back().filter(|last| last.is_control()) {
                Some(last) => {
                    plain.write_string_fragment(writer, piece.strip_suffix(last).unwrap_or(piece))?;
                    write!(writer, "\\u{:04x}", u32::from(last))?;
                }
                None => plain.write_string_fragment(writer, piece)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_codes_are_escaped_and_come_back() {
        let text = "a\u{1b}b\u{9b}c\u{7f}é\nd";
        let mut bytes = Vec::new();
        Report { text: text.to_owned(), ..Report::default() }.write(&mut bytes).unwrap();
        let line = String::from_utf8(bytes).unwrap();
        assert!(line.strip_suffix('\n').is_some_and(|line| !line.contains(char::is_control)), "{line}");
        let back: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(back["text"], text);
    }

    #[test]
    fn arguments_of_tools_keep_their_form() {
        let object = serde_json::Map::from_iter([("a".to_owned(), Value::from(1))]);
        let call = |arguments| Call::from(ToolCall { id: None, name: "f".to_owned(), arguments });
        assert_eq!(call(Arguments::Object(object.clone())).arguments, Value::Object(object));
        assert_eq!(call(Arguments::Raw("{".to_owned())).arguments, Value::from("{"));
    }
}
