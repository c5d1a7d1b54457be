//! What a tool is given: JSON, or text that was meant to be.

use serde_json::{Map, Value};

use super::json;
use crate::protocol::Arguments;

/// Reads arguments that are given as text: nothing at all and `null` are no arguments, an object is taken apart, and
/// what cannot be read stays as it is. JSON that is no object is refused with the name of its kind.
pub(super) fn from_text(text: &str) -> Result<Arguments, &'static str> {
    if text.trim().is_empty() {
        return Ok(Arguments::Object(Map::new()));
    }
    match serde_json::from_str(text) {
        Ok(value) => from_json(value),
        Err(_) => Ok(Arguments::Raw(text.to_owned())),
    }
}

/// The same of JSON that was read already.
pub(super) fn from_json(value: Value) -> Result<Arguments, &'static str> {
    match value {
        Value::Object(map) => Ok(Arguments::Object(map)),
        Value::Null => Ok(Arguments::Object(Map::new())),
        other => Err(json::kind(&other)),
    }
}
