//! A conversation as the segments of a prompt (spec, sections 3.1 to 3.4).

use serde_json::Value;

use super::arguments;
use super::error::Error;
use super::json;
use super::tag::{Marker, Name, escape};
use crate::protocol::{Arguments, Conversation, Message, ResponseFormat, Thinking, ToolCall, ToolChoice};
use crate::tokenizer::{Tokenizer, is_python_space};

/// A stretch of a prompt that is encoded on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its text, never empty.
    pub text: String,
    /// Whether it is a control token. If not, it is ordinary text, whatever it spells.
    pub special: bool,
}

/// The prompt after which the model answers a conversation.
///
/// With thinking on, the whole history shows its thinking and the prompt ends inside a new thinking channel; with
/// thinking off there is none in it, and the prompt ends inside the answer.
///
/// # Errors
/// Tools that are no list, and a tool's message that has no name and answers no call.
pub fn render(conversation: &Conversation) -> Result<Vec<Segment>, Error> {
    let effort = (conversation.thinking != Thinking::Off).then(|| conversation.thinking.as_str());
    render_with(conversation, effort)
}

/// [`render`], with the effort that is announced, if one is.
fn render_with(conversation: &Conversation, effort: Option<&str>) -> Result<Vec<Segment>, Error> {
    let mut prompt = Prompt { segments: Vec::new(), thinking: conversation.thinking != Thinking::Off };
    if let Some(tools) = declarations(conversation.tools.as_ref())? {
        prompt.system(
            "tool-declare",
            &format!("# Tools\nHere are the available tools, described in JSONSchema.\n\n{}", fenced(tools)),
        );
    }
    if let Some(effort) = effort {
        prompt.system(
            "thinking-effort",
            &format!(
                "`thinking_effort` guides on how much to think in your thinking channel (not including the response \
                 channel), supported values include `low`, `medium`, `high`, and `max`.\n\
                 Now the system is invoked with `thinking_effort={effort}`."
            ),
        );
    }
    prompt.messages(&conversation.messages)?;
    match conversation.tool_choice {
        ToolChoice::Auto => {}
        ToolChoice::Required => prompt.system(
            "tool-choice",
            "The system is invoked with `tool_choice=required`.\nYou MUST call tools in the next message.",
        ),
        ToolChoice::None => prompt.system(
            "tool-choice",
            "The system is invoked with `tool_choice=none`.\nYou MUST NOT call any tools in the next message.",
        ),
    }
    let raw = "Your response must be raw JSON data without markdown code blocks (```json) or any additional formatting.";
    match &conversation.response_format {
        ResponseFormat::Text => {}
        ResponseFormat::JsonObject => prompt.system(
            "response-format",
            &format!("The system is invoked with `response_format=json_object`.\n{raw}"),
        ),
        ResponseFormat::JsonSchema(schema) => prompt.system(
            "response-format",
            &format!(
                "The system is invoked with `response_format=json_schema`.\n{raw}\n\
                 The JSON data must match the following schema:\n{}",
                fenced(schema)
            ),
        ),
    }
    prompt.open(Name::Message, &[("role", "assistant")]);
    prompt.open(if prompt.thinking { Name::Think } else { Name::Response }, &[]);
    Ok(prompt.segments)
}

/// The ids of a prompt: special segments by name, all others as ordinary text, each on its own.
pub fn encode(tokenizer: &Tokenizer, segments: &[Segment]) -> Vec<u32> {
    let mut ids = Vec::new();
    for segment in segments {
        match tokenizer.special(&segment.text).filter(|_| segment.special) {
            Some(id) => ids.push(id),
            None => ids.extend(tokenizer.encode(&segment.text)),
        }
    }
    ids
}

/// The tools to declare; an empty list and `null` are none.
fn declarations(tools: Option<&Value>) -> Result<Option<&Value>, Error> {
    match tools {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(list)) if list.is_empty() => Ok(None),
        Some(list @ Value::Array(_)) => Ok(Some(list)),
        Some(other) => Err(Error::Tools { found: json::kind(other) }),
    }
}

fn fenced(value: &Value) -> String {
    format!("```json\n{}\n```", json::sorted_compact(value))
}

/// A prompt as far as it is written.
struct Prompt {
    segments: Vec<Segment>,
    thinking: bool,
}

impl Prompt {
    fn marker(&mut self, marker: Marker) {
        self.segments.push(Segment { text: marker.spelling().to_owned(), special: true });
    }

    fn text(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.segments.push(Segment { text, special: false });
        }
    }

    fn open(&mut self, name: Name, attributes: &[(&str, &str)]) {
        self.marker(Marker::Open);
        self.text(name.as_str());
        for (key, value) in attributes {
            self.text(format!(" {key}"));
            self.text("=\"");
            self.text(escape(value));
            self.text("\"");
        }
        self.marker(Marker::Sep);
    }

    fn close(&mut self, name: Name) {
        self.marker(Marker::Close);
        self.text(name.as_str());
        self.marker(Marker::Sep);
    }

    fn end_message(&mut self) {
        self.close(Name::Message);
        self.marker(Marker::EndOfMessage);
    }

    /// A message of the system itself.
    fn system(&mut self, kind: &str, body: &str) {
        self.message(&[("role", "system"), ("type", kind)], &[body]);
    }

    /// A message with a body of text, each part a segment.
    fn message(&mut self, attributes: &[(&str, &str)], body: &[impl AsRef<str>]) {
        self.open(Name::Message, attributes);
        for part in body {
            self.text(part.as_ref());
        }
        self.end_message();
    }

    fn messages(&mut self, messages: &[Message]) -> Result<(), Error> {
        // The calls of the last answer, and how many tools have spoken since.
        let mut calls: &[ToolCall] = &[];
        let mut answered = 0;
        let mut index = 0;
        while let Some(message) = messages.get(index) {
            let run = messages[index..]
                .iter()
                .take_while(|message| matches!(message, Message::Tool { .. }))
                .count();
            match message {
                Message::System { name, content, tools } => match declarations(tools.as_ref())? {
                    Some(tools) => self.system(
                        "tool-declare",
                        &format!(
                            "## New Tools Available\nThe system dynamically extends the toolset via lazy-loading.\n\
                             You have access to all existing and extended tools.\n\
                             Here are the specs for the extended tools.\n\n{}",
                            fenced(tools)
                        ),
                    ),
                    None => self.message(&said_by("system", name.as_deref()), content),
                },
                Message::User { name, content } => self.message(&said_by("user", name.as_deref()), content),
                Message::Assistant { name, thinking, content, tool_calls } => {
                    self.assistant(name.as_deref(), thinking, content, tool_calls);
                    calls = tool_calls;
                    answered = 0;
                }
                Message::Tool { .. } => {
                    self.tools(&messages[index..index + run], index, calls, answered)?;
                    answered += run;
                }
            }
            index += run.max(1);
        }
        Ok(())
    }

    fn assistant(&mut self, name: Option<&str>, thinking: &str, content: &[String], calls: &[ToolCall]) {
        self.open(Name::Message, &said_by("assistant", name));
        if self.thinking {
            self.open(Name::Think, &[]);
            if !thinking.chars().all(is_python_space) {
                self.text(thinking);
            }
            self.close(Name::Think);
        }
        self.open(Name::Response, &[]);
        for part in content {
            self.text(part.as_str());
        }
        self.close(Name::Response);
        if !calls.is_empty() {
            self.open(Name::Tools, &[]);
            for (index, call) in (1..).zip(calls) {
                self.call(call, index);
            }
            self.close(Name::Tools);
        }
        self.end_message();
    }

    fn call(&mut self, call: &ToolCall, index: usize) {
        self.open(Name::Call, &[("tool", &call.name), ("index", &index.to_string())]);
        // What the model wrote must never keep a history from being rendered: text that is no object stays as it is.
        let read = match &call.arguments {
            Arguments::Raw(text) => arguments::from_text(text).ok(),
            Arguments::Object(_) => None,
        };
        match read.as_ref().unwrap_or(&call.arguments) {
            Arguments::Object(map) => {
                for (key, value) in map {
                    self.open(Name::Argument, &[("key", key), ("type", json::kind(value))]);
                    match value {
                        Value::String(text) => self.text(text.as_str()),
                        other => self.text(json::spaced(other)),
                    }
                    self.close(Name::Argument);
                }
            }
            Arguments::Raw(text) => {
                self.open(Name::Json, &[("type", "object")]);
                self.text(text.as_str());
                self.close(Name::Json);
            }
        }
        self.close(Name::Call);
    }

    /// A run of tool messages, the first of which is the message `first` of the conversation (counted from zero).
    /// `answered` tools have spoken since the answer that made `calls`.
    fn tools(
        &mut self,
        run: &[Message],
        first: usize,
        calls: &[ToolCall],
        answered: usize,
    ) -> Result<(), Error> {
        let called = |message: &Message| match message {
            Message::Tool { call_id: Some(id), .. } => {
                calls.iter().position(|call| call.id.as_ref() == Some(id))
            }
            _ => None,
        };
        // Where each message stands, and which call it answers. Only if every one says so are they put in the order of
        // the calls, and named after them.
        let mut order: Vec<(usize, Option<usize>)> = run.iter().map(called).enumerate().collect();
        let matched = order.iter().all(|(_, call)| call.is_some());
        if matched {
            order.sort_by_key(|&(_, call)| call);
        }
        for (index, (place, call)) in (answered..).zip(order) {
            let Message::Tool { name, content, .. } = &run[place] else { continue };
            let name_of = |call: usize| calls.get(call).map(|call| call.name.as_str());
            let tool = call
                .filter(|_| matched)
                .and_then(name_of)
                .or(name.as_deref())
                .or_else(|| name_of(index))
                .ok_or(Error::NamelessTool { index: first + place + 1, call: index + 1 })?;
            self.message(&[("role", "tool"), ("tool", tool), ("index", &(index + 1).to_string())], content);
        }
        Ok(())
    }
}

/// The attributes of a message; an empty name is none.
fn said_by<'a>(role: &'static str, name: Option<&'a str>) -> Vec<(&'static str, &'a str)> {
    let name = name.filter(|name| !name.is_empty()).map(|name| ("name", name));
    [("role", role)].into_iter().chain(name).collect()
}

#[cfg(test)]
mod tests;
