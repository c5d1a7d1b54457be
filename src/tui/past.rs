//! The messages of earlier starts: a file with one JSON string a line, the oldest first.
//!
//! It is rewritten as a whole for each message and takes its name when it is complete. Of two programs that write in
//! the same moment one may lose a message of this list; the sessions have them all.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::clerk::write_private;

/// Messages that are kept.
const KEPT: usize = 500;
/// Bytes of a message that is kept, and of all of them.
const LARGEST: usize = 64 << 10;
const ALL: usize = 1 << 20;

/// What was sent before, oldest first. What cannot be read is left out.
pub(super) fn read(path: &Path) -> Vec<String> {
    let mut bytes = Vec::new();
    let Ok(file) = File::open(path) else { return Vec::new() };
    // A line too many for a file that somebody else has made.
    if file.take(2 * ALL as u64).read_to_end(&mut bytes).is_err() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Adds a message as the newest; one that is there already moves.
pub(super) fn append(path: &Path, text: &str) -> io::Result<()> {
    if text.trim().is_empty() || text.len() > LARGEST {
        return Ok(());
    }
    let mut messages = read(path);
    messages.retain(|message| message != text);
    messages.push(text.to_owned());
    let mut lines = Vec::with_capacity(messages.len());
    let mut all = 0;
    for message in messages.iter().rev().take(KEPT) {
        let line = serde_json::to_string(message)?;
        all += line.len() + 1;
        if all > ALL {
            break;
        }
        lines.push(line);
    }
    lines.reverse();
    write_private(path, (lines.join("\n") + "\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_in_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/history.jsonl");
        assert!(read(&path).is_empty());
        for text in ["one", "two\nlines \"quoted\" \u{1b}", " ", "three", "one"] {
            append(&path, text).unwrap();
        }
        assert_eq!(read(&path), ["two\nlines \"quoted\" \u{1b}", "three", "one"]);
    }

    #[test]
    fn a_damaged_line_costs_that_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.jsonl");
        std::fs::write(&path, b"\"one\"\n\"tw\nnull\n\xff\n\"three\"\n\"fo").unwrap();
        assert_eq!(read(&path), ["one", "three"]);
        append(&path, "four").unwrap();
        assert_eq!(read(&path), ["one", "three", "four"]);
    }

    #[test]
    fn it_does_not_grow_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.jsonl");
        let many: Vec<String> = (0..KEPT + 20).map(|number| format!("\"{number}\"")).collect();
        std::fs::write(&path, many.join("\n")).unwrap();
        append(&path, "newest").unwrap();
        let kept = read(&path);
        assert_eq!((kept.len(), kept[0].as_str(), kept[KEPT - 1].as_str()), (KEPT, "21", "newest"));
        append(&path, &"x".repeat(LARGEST + 1)).unwrap();
        assert_eq!(read(&path).len(), KEPT);
        for number in 0..20 {
            append(&path, &format!("{number}{}", "x".repeat(LARGEST - 10))).unwrap();
        }
        assert!(std::fs::metadata(&path).unwrap().len() <= ALL as u64);
        assert!(read(&path).last().unwrap().starts_with("19x"));
    }
}
