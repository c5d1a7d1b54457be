//! A tool call as it comes in.

use serde_json::{Map, Value};

use super::arguments;
use crate::protocol::{Arguments, ToolCall};

/// A tool call that waits for its end.
#[derive(Clone, Debug)]
pub(super) struct Call {
    tool: String,
    arguments: Map<String, Value>,
    /// What was given outside of arguments, or as one piece of JSON.
    loose: String,
    argument: Option<Argument>,
}

/// An argument that waits for its end.
#[derive(Clone, Debug)]
struct Argument {
    /// Nothing for a piece of JSON that is all arguments.
    key: Option<String>,
    is_text: bool,
    spelled: bool,
    value: String,
}

impl Call {
    pub(super) fn new(tool: String) -> Self {
        Self { tool, arguments: Map::new(), loose: String::new(), argument: None }
    }

    /// Whether spelled markers are text: inside an argument that a control token has opened.
    pub(super) fn is_literal(&self) -> bool {
        self.argument.as_ref().is_some_and(|argument| !argument.spelled)
    }

    /// Begins an argument, or without a `key` a piece of JSON that is all arguments; one that is open ends.
    pub(super) fn begin_argument(&mut self, key: Option<String>, is_text: bool, spelled: bool) {
        self.end_argument();
        self.argument = Some(Argument { key, is_text, spelled, value: String::new() });
    }

    pub(super) fn push(&mut self, c: char) {
        let text = self.argument.as_mut().map_or(&mut self.loose, |argument| &mut argument.value);
        text.push(c);
    }

    pub(super) fn end_argument(&mut self) {
        let Some(Argument { key, is_text, value, .. }) = self.argument.take() else { return };
        match key {
            None => self.loose.push_str(&value),
            Some(key) => {
                // What is not the JSON that its type promises is kept as text.
                let read = if is_text { None } else { serde_json::from_str(&value).ok() };
                self.arguments.insert(key, read.unwrap_or(Value::String(value)));
            }
        }
    }

    /// The call as far as it came; nothing if it names no tool and gives it nothing.
    pub(super) fn finish(mut self) -> Option<ToolCall> {
        self.end_argument();
        let Self { tool, arguments, loose, .. } = self;
        let arguments = if arguments.is_empty() && !loose.trim().is_empty() {
            arguments::from_text(&loose).unwrap_or(Arguments::Raw(loose))
        } else {
            Arguments::Object(arguments)
        };
        let is_empty = matches!(&arguments, Arguments::Object(map) if map.is_empty());
        (!tool.is_empty() || !is_empty).then_some(ToolCall { id: None, name: tool, arguments })
    }
}
