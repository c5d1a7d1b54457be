//! Fields of a JSON object, typed and ranged, whose refusals say where they stand.

use std::ops::RangeInclusive;
use std::path::Path;

use serde_json::{Map, Value};

use crate::checkpoint::error::{Error, file_name, json, shown};

/// An object in a config file.
pub(super) struct Fields<'a> {
    file: &'a str,
    /// The objects around, each followed by a dot.
    prefix: String,
    map: &'a Map<String, Value>,
}

/// Parses a whole file, of which only the name is used, for messages. Its top level must be an object.
pub(super) fn document(file: &Path, text: &[u8]) -> Result<(String, Map<String, Value>), Error> {
    let file = file_name(file);
    match serde_json::from_slice(text) {
        Ok(Value::Object(map)) => Ok((file, map)),
        Ok(other) => {
            let (field, expected) = ("the top level".to_owned(), "an object".to_owned());
            Err(Error::Field { file, field, expected, found: shown(&other.to_string()) })
        }
        Err(problem) => Err(json(file, String::new(), &problem)),
    }
}

impl<'a> Fields<'a> {
    /// The fields of a whole file.
    pub(super) const fn root(file: &'a str, map: &'a Map<String, Value>) -> Self {
        Self { file, prefix: String::new(), map }
    }

    /// A refusal of field `key`.
    pub(super) fn refuse(&self, key: &str, expected: impl Into<String>) -> Error {
        let found = self.map.get(key).map_or_else(|| "nothing".to_owned(), |value| shown(&value.to_string()));
        self.refuse_found(key, expected, found)
    }

    /// A refusal of field `key` where what is wrong is a part of it, or its relation to others.
    pub(super) fn refuse_found(
        &self,
        key: &str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Error {
        let field = format!("{}{}", self.prefix, shown(key));
        Error::Field { file: self.file.to_owned(), field, expected: expected.into(), found: found.into() }
    }

    /// The value, where the field is there and is not null.
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    /// The keys in the file's order.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.map.keys().map(String::as_str)
    }

    /// An object within.
    pub(super) fn object(&self, key: &str) -> Result<Self, Error> {
        match self.get(key) {
            Some(Value::Object(map)) => {
                Ok(Self { file: self.file, prefix: format!("{}{}.", self.prefix, shown(key)), map })
            }
            _ => Err(self.refuse(key, "an object")),
        }
    }

    /// An integer in `range`.
    pub(super) fn integer(&self, key: &str, range: RangeInclusive<u64>) -> Result<usize, Error> {
        self.get(key)
            .and_then(Value::as_u64)
            .filter(|value| range.contains(value))
            .and_then(|value| usize::try_from(value).ok())
            .ok_or_else(|| self.refuse(key, integer_in(&range)))
    }

    /// An integer in `range`, if there is one.
    pub(super) fn optional_integer(
        &self,
        key: &str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<usize>, Error> {
        self.get(key).map(|_| self.integer(key, range)).transpose()
    }

    /// A list of integers in `range`.
    pub(super) fn integers(&self, key: &str, range: &RangeInclusive<u64>) -> Result<Vec<usize>, Error> {
        let expected = || format!("a list of integers from {} to {}", range.start(), range.end());
        let Some(Value::Array(values)) = self.get(key) else { return Err(self.refuse(key, expected())) };
        let read = |value: &Value| {
            let integer = value.as_u64().filter(|value| range.contains(value));
            integer.and_then(|value| usize::try_from(value).ok())
        };
        let item =
            |value| read(value).ok_or_else(|| self.refuse_found(key, expected(), shown(&value.to_string())));
        values.iter().map(item).collect()
    }

    /// A number that is `accepted` once it is an f32; infinite ones never are.
    pub(super) fn number(&self, key: &str, expected: &str, accepted: fn(f32) -> bool) -> Result<f32, Error> {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the model's constants are f32; what overflows is refused"
        )]
        let value = self.get(key).and_then(Value::as_f64).map(|value| value as f32);
        value.filter(|&value| value.is_finite() && accepted(value)).ok_or_else(|| self.refuse(key, expected))
    }

    /// The same, if there is one.
    pub(super) fn optional_number(
        &self,
        key: &str,
        expected: &str,
        accepted: fn(f32) -> bool,
    ) -> Result<Option<f32>, Error> {
        self.get(key).map(|_| self.number(key, expected, accepted)).transpose()
    }

    /// True or false.
    pub(super) fn boolean(&self, key: &str) -> Result<bool, Error> {
        self.get(key).and_then(Value::as_bool).ok_or_else(|| self.refuse(key, "true or false"))
    }

    /// The same, if there is one.
    pub(super) fn optional_boolean(&self, key: &str) -> Result<Option<bool>, Error> {
        self.get(key).map(|_| self.boolean(key)).transpose()
    }

    /// One value that alone is computed here.
    pub(super) fn exactly(&self, key: &str, value: impl Into<Value>) -> Result<(), Error> {
        let value = value.into();
        if self.map.get(key) == Some(&value) { Ok(()) } else { Err(self.refuse(key, value.to_string())) }
    }

    /// The same, where it is said at all.
    pub(super) fn exactly_if_there(&self, key: &str, value: impl Into<Value>) -> Result<(), Error> {
        if self.map.contains_key(key) { self.exactly(key, value) } else { Ok(()) }
    }

    /// Nothing, or null: what stands there otherwise changes the numbers in a way that is not computed here.
    pub(super) fn absent(&self, key: &str) -> Result<(), Error> {
        if self.get(key).is_none() { Ok(()) } else { Err(self.refuse(key, "null, or no such field")) }
    }

    /// One id or a list of ids, if there are any.
    pub(super) fn optional_ids(&self, key: &str) -> Result<Vec<u32>, Error> {
        let expected = "a token id or a list of them";
        let id = |value: &Value| {
            let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
            id.ok_or_else(|| self.refuse_found(key, expected, shown(&value.to_string())))
        };
        match self.get(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(list)) => list.iter().map(id).collect(),
            Some(value) => Ok(vec![id(value)?]),
        }
    }
}

fn integer_in(range: &RangeInclusive<u64>) -> String {
    if range.start() == range.end() {
        range.start().to_string()
    } else {
        format!("an integer from {} to {}", range.start(), range.end())
    }
}
