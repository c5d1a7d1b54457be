//! Messages in the form of OpenAI's chat completions.

use serde_json::{Map, Value};

use super::arguments;
use super::error::Error;
use super::json;
use crate::protocol::{Arguments, Message, ToolCall};

/// Reads a JSON list of messages: `role`, `content` (text, a list of text parts, or null), `name`, `reasoning_content`
/// (or `reasoning`), `tool_calls` with arguments as text or as an object, `tool_call_id`, and `tools` on a system
/// message. Other fields are not looked at: clients send many that mean nothing here.
///
/// # Errors
/// Anything else in these fields, images included: [`Error::Message`] names the message and the field.
pub fn messages_from_openai(text: &[u8]) -> Result<Vec<Message>, Error> {
    let list: Vec<Value> = serde_json::from_slice(text)?;
    (1..).zip(&list).map(|(index, value)| message(index, value)).collect()
}

fn message(index: usize, value: &Value) -> Result<Message, Error> {
    let Value::Object(map) = value else {
        let found = json::kind(value).to_owned();
        return Err(Error::Message { index, field: "messages", expected: "an object", found });
    };
    let fields = Fields { index, map };
    let name = fields.text("name")?;
    let content = fields.content()?;
    match fields.text("role")?.as_deref() {
        Some("system") => Ok(Message::System { name, content, tools: fields.tools()? }),
        Some("user") => Ok(Message::User { name, content }),
        Some("assistant") => {
            let reasoning = fields.text("reasoning_content")?.filter(|text| !text.is_empty());
            let thinking = match reasoning {
                Some(text) => text,
                None => fields.text("reasoning")?.unwrap_or_default(),
            };
            Ok(Message::Assistant { name, thinking, content, tool_calls: fields.calls()? })
        }
        Some("tool") => {
            let name = fields.text("tool")?.or(name);
            Ok(Message::Tool { name, call_id: fields.text("tool_call_id")?, content })
        }
        other => {
            let found = other.map_or_else(|| "none".to_owned(), |role| format!("{role:?}"));
            Err(fields.wrong("role", "system, user, assistant or tool", found))
        }
    }
}

/// The fields of one message.
struct Fields<'a> {
    index: usize,
    map: &'a Map<String, Value>,
}

impl Fields<'_> {
    fn wrong(&self, field: &'static str, expected: &'static str, found: impl Into<String>) -> Error {
        Error::Message { index: self.index, field, expected, found: found.into() }
    }

    /// A field that is there and not null.
    fn get(&self, field: &str) -> Option<&Value> {
        self.map.get(field).filter(|value| !value.is_null())
    }

    fn text(&self, field: &'static str) -> Result<Option<String>, Error> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(self.wrong(field, "text", json::kind(other))),
        }
    }

    fn content(&self) -> Result<Vec<String>, Error> {
        match self.get("content") {
            None => Ok(Vec::new()),
            Some(Value::String(text)) => Ok(vec![text.clone()]),
            Some(Value::Array(parts)) => parts.iter().map(|part| self.part(part)).collect(),
            Some(other) => Err(self.wrong("content", "text or a list of text parts", json::kind(other))),
        }
    }

    fn part(&self, part: &Value) -> Result<String, Error> {
        let expected = "parts of the type text, with a `text`";
        let kind = part.get("type").and_then(Value::as_str);
        match (part, kind, part.get("text")) {
            (Value::String(text), _, _) | (_, Some("text"), Some(Value::String(text))) => Ok(text.clone()),
            (_, Some("text") | None, _) => Err(self.wrong("content", expected, json::spaced(part))),
            (_, Some(kind), _) => {
                Err(self.wrong("content", expected, format!("a part of the type {kind:?}")))
            }
        }
    }

    fn tools(&self) -> Result<Option<Value>, Error> {
        match self.get("tools") {
            None => Ok(None),
            Some(list @ Value::Array(_)) => Ok(Some(list.clone())),
            Some(other) => Err(self.wrong("tools", "a list of declarations", json::kind(other))),
        }
    }

    fn calls(&self) -> Result<Vec<ToolCall>, Error> {
        match self.get("tool_calls") {
            None => Ok(Vec::new()),
            Some(Value::Array(calls)) => calls.iter().map(|call| self.call(call)).collect(),
            Some(other) => Err(self.wrong("tool_calls", "a list of calls", json::kind(other))),
        }
    }

    fn call(&self, call: &Value) -> Result<ToolCall, Error> {
        let function = call.get("function").unwrap_or(call);
        let Some(name) = function.get("name").and_then(Value::as_str) else {
            return Err(self.wrong(
                "tool_calls",
                "calls with a `function` that has a `name`",
                json::spaced(call),
            ));
        };
        let arguments = match function.get("arguments") {
            None => Ok(Arguments::Object(Map::new())),
            Some(Value::String(text)) => arguments::from_text(text),
            Some(value) => arguments::from_json(value.clone()),
        };
        let arguments = arguments.map_err(|kind| {
            self.wrong("tool_calls", "`arguments` that are a JSON object", format!("{kind} for {name:?}"))
        })?;
        let id = call.get("id").and_then(Value::as_str).map(str::to_owned);
        Ok(ToolCall { id, name: name.to_owned(), arguments })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_message_is_read() {
        let text = r#"[
            {"role":"system","content":"Be brief.","name":"ops"},
            {"role":"system","tools":[{"type":"function"}],"content":null},
            {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"cache_control":{}},
            {"role":"assistant","reasoning_content":"","reasoning":"hm","content":null,"refusal":null,"tool_calls":[
                {"id":"c1","type":"function","function":{"name":"f","arguments":"{\"z\":1,\"a\":\"x\"}"}},
                {"id":"c2","function":{"name":"g","arguments":{"k":null}}},
                {"function":{"name":"h","arguments":"{broken"}},
                {"function":{"name":"i","arguments":" "}},
                {"name":"j"}]},
            {"role":"tool","tool_call_id":"c1","content":"4"},
            {"role":"tool","tool":"g","name":"other","content":"5"}
        ]"#;
        let object = |text: &str| Arguments::Object(serde_json::from_str(text).unwrap());
        let call = |id: Option<&str>, name: &str, arguments| ToolCall {
            id: id.map(str::to_owned),
            name: name.to_owned(),
            arguments,
        };
        assert_eq!(
            messages_from_openai(text.as_bytes()).unwrap(),
            [
                Message::System { name: Some("ops".into()), content: vec!["Be brief.".into()], tools: None },
                Message::System {
                    name: None,
                    content: vec![],
                    tools: Some(serde_json::json!([{"type":"function"}]))
                },
                Message::User { name: None, content: vec!["a".into(), "b".into()] },
                Message::Assistant {
                    name: None,
                    thinking: "hm".into(),
                    content: vec![],
                    tool_calls: vec![
                        call(Some("c1"), "f", object(r#"{"z":1,"a":"x"}"#)),
                        call(Some("c2"), "g", object(r#"{"k":null}"#)),
                        call(None, "h", Arguments::Raw("{broken".into())),
                        call(None, "i", object("{}")),
                        call(None, "j", object("{}")),
                    ],
                },
                Message::Tool { name: None, call_id: Some("c1".into()), content: vec!["4".into()] },
                Message::Tool { name: Some("g".into()), call_id: None, content: vec!["5".into()] },
            ]
        );
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_place() {
        for (text, message) in [
            ("{}", "messages: expected a JSON list of messages: "),
            ("[", "messages: expected a JSON list of messages: "),
            ("[7]", "message 1, `messages`: expected an object, found number"),
            (
                r#"[{"role":"user"},{"content":""}]"#,
                "message 2, `role`: expected system, user, assistant or tool, found none",
            ),
            (
                r#"[{"role":"robot"}]"#,
                "message 1, `role`: expected system, user, assistant or tool, found \"robot\"",
            ),
            (r#"[{"role":1}]"#, "message 1, `role`: expected text, found number"),
            (
                r#"[{"role":"user","content":{}}]"#,
                "message 1, `content`: expected text or a list of text parts, found object",
            ),
            (
                r#"[{"role":"user","content":[{"type":"image_url"}]}]"#,
                "message 1, `content`: expected parts of the type text, with a `text`, found a part of the type \"image_url\"",
            ),
            (r#"[{"role":"user","content":[{"type":"text"}]}]"#, "found {\"type\": \"text\"}"),
            (r#"[{"role":"user","name":[]}]"#, "message 1, `name`: expected text, found array"),
            (
                r#"[{"role":"system","tools":{}}]"#,
                "message 1, `tools`: expected a list of declarations, found object",
            ),
            (
                r#"[{"role":"assistant","tool_calls":{}}]"#,
                "message 1, `tool_calls`: expected a list of calls, found object",
            ),
            (
                r#"[{"role":"assistant","tool_calls":[{"function":{}}]}]"#,
                "expected calls with a `function` that has a `name`",
            ),
            (
                r#"[{"role":"assistant","tool_calls":[{"name":"f","arguments":"[1]"}]}]"#,
                "expected `arguments` that are a JSON object, found array for \"f\"",
            ),
        ] {
            let error = messages_from_openai(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(message), "{error}\nnot: {message}");
        }
    }
}
