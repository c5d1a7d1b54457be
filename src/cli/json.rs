//! Objects for scripts: one line of JSON, which a terminal may show as it is.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter};

/// Writes `object` and a line feed.
pub(super) fn write(object: &impl Serialize, mut out: impl Write) -> io::Result<()> {
    let mut line = Vec::new();
    object.serialize(&mut serde_json::Serializer::with_formatter(&mut line, Escaped))?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
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
        write(&serde_json::json!({ "text": text }), &mut bytes).unwrap();
        let line = String::from_utf8(bytes).unwrap();
        assert!(line.strip_suffix('\n').is_some_and(|line| !line.contains(char::is_control)), "{line}");
        let back: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(back["text"], text);
    }
}
