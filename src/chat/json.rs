//! JSON as Python's `json.dumps(..., ensure_ascii=False)` writes it, since the model was trained on that.
//!
//! Strings, floats (`1e-05`, `1e+16`), order and separators are Python's. What cannot be kept is what `serde_json` has
//! already lost when it read a number: an integer beyond 64 bits is a float by then, and `-0` is `-0.0`.

use std::io;

use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

/// What kind of JSON value this is, by the name that the format uses for it.
pub(super) const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Python's default: `, ` and `: `, keys in the order given.
pub(super) fn spaced(value: &Value) -> String {
    write(value, Python { item: b", ", key: b": " })
}

/// Without spaces, the keys of every object sorted.
pub(super) fn sorted_compact(value: &Value) -> String {
    let mut value = value.clone();
    value.sort_all_objects();
    write(&value, Python { item: b",", key: b":" })
}

fn write(value: &Value, style: Python) -> String {
    use serde::Serialize;
    let mut bytes = Vec::new();
    // Writing a `Value` to memory cannot fail: its keys are strings and its floats are finite.
    match value.serialize(&mut Serializer::with_formatter(&mut bytes, style)) {
        Ok(()) => String::from_utf8(bytes).unwrap_or_default(),
        Err(_) => String::new(),
    }
}

#[derive(Clone, Copy)]
struct Python {
    item: &'static [u8],
    key: &'static [u8],
}

impl Formatter for Python {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(float(value).as_bytes())
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(self.item) }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(self.item) }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(self.key)
    }

    fn write_char_escape<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        escape: serde_json::ser::CharEscape,
    ) -> io::Result<()> {
        CompactFormatter.write_char_escape(writer, escape)
    }
}

/// Python's `repr` of a float: the shortest digits that read back, with an exponent below 1e-4 and from 1e16 on.
fn float(value: f64) -> String {
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if exponent < -4 => format!("{digits}e-{:02}", -exponent),
        Ok(exponent) if exponent >= 16 => format!("{digits}e+{exponent:02}"),
        _ => format!("{value:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn as_python_writes_it() {
        // (what `json.loads` reads, what `json.dumps(_, ensure_ascii=False)` makes of it)
        for (text, python) in [
            (r#"{"b":1,"a":[1,2,{}],"c":[]}"#, r#"{"b": 1, "a": [1, 2, {}], "c": []}"#),
            ("[1.0,0.5,-2.50,100.0,1e5,0.0001]", "[1.0, 0.5, -2.5, 100.0, 100000.0, 0.0001]"),
            (
                "[1e-5,1.5e-7,1e16,1e15,123456789012345680.0,1e100]",
                "[1e-05, 1.5e-07, 1e+16, 1000000000000000.0, 1.2345678901234568e+17, 1e+100]",
            ),
            (
                "[18446744073709551615,-9223372036854775808,0.1]",
                "[18446744073709551615, -9223372036854775808, 0.1]",
            ),
            (
                r#""\u0001\b\t\n\f\r\"\\\/\u007f é \ud83c\udf89\u2028""#,
                "\"\\u0001\\b\\t\\n\\f\\r\\\"\\\\/\u{7f} é 🎉\u{2028}\"",
            ),
            ("[true,false,null]", "[true, false, null]"),
        ] {
            assert_eq!(spaced(&read(text)), python);
        }
    }

    #[test]
    fn sorting_goes_all_the_way_down_and_leaves_lists() {
        let value = read(r#"{"b":[{"z":1,"é":2,"a":3},1],"B":{"y":{"q":1,"p":2},"x":0}}"#);
        assert_eq!(sorted_compact(&value), r#"{"B":{"x":0,"y":{"p":2,"q":1}},"b":[{"a":3,"z":1,"é":2},1]}"#);
    }
}
