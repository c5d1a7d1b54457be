//! What a headless run writes: text without control codes, and logits.

use std::fs::File;
use std::io::{self, BufWriter, Write, stdout};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::json;
use crate::protocol::{ExitCode, UserError};

/// Whether a character may reach a terminal or a file that someone will print.
fn is_clean(character: char) -> bool {
    !character.is_control() || matches!(character, '\n' | '\t')
}

/// `text` without control codes, old (C0) and new (C1), except line feeds and tabs.
pub(super) fn clean(text: &str) -> String {
    text.chars().filter(|character| is_clean(*character)).collect()
}

/// Writes `text` to standard output, cleaned. If nobody reads it, so be it.
pub(super) fn print(text: &str) -> Result<(), UserError> {
    let mut out = stdout().lock();
    unless_nobody_reads(out.write_all(clean(text).as_bytes()).and_then(|()| out.flush()))
}

/// Writes an object as a line of JSON to standard output. If nobody reads it, so be it.
pub(super) fn print_json(object: &impl Serialize) -> Result<(), UserError> {
    unless_nobody_reads(json::write(object, stdout().lock()))
}

fn unless_nobody_reads(written: io::Result<()>) -> Result<(), UserError> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(UserError::new(ExitCode::Resources, "Cannot write the result", error.to_string()))
        }
        _ => Ok(()),
    }
}

/// An answer that is written as it comes, and ends with exactly one line feed.
#[derive(Debug)]
pub(super) struct Stream<W> {
    out: W,
    /// Line feeds that came and were not written, since they may be the last.
    held: usize,
    written: bool,
}

impl<W: Write> Stream<W> {
    pub(super) const fn new(out: W) -> Self {
        Self { out, held: 0, written: false }
    }

    /// Writes the next piece, cleaned, at once.
    pub(super) fn push(&mut self, text: &str) -> io::Result<()> {
        let text = clean(text);
        let body = text.trim_end_matches('\n');
        if !body.is_empty() {
            for _ in 0..std::mem::take(&mut self.held) {
                self.out.write_all(b"\n")?;
            }
            self.out.write_all(body.as_bytes())?;
            self.out.flush()?;
            self.written = true;
        }
        self.held += text.len() - body.len();
        Ok(())
    }

    /// Ends the last line, if there was any text.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        if self.written {
            self.written = false;
            self.out.write_all(b"\n")?;
            self.out.flush()?;
        }
        Ok(())
    }
}

/// A file of logits: little-endian f32, one row after another.
#[derive(Debug)]
pub(super) struct LogitsFile {
    out: BufWriter<File>,
    path: PathBuf,
}

impl LogitsFile {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { out: BufWriter::new(File::create(path)?), path: path.to_owned() })
    }

    /// How a failure speaks of it.
    pub(super) fn name(&self) -> String {
        format!("the logits to {}", self.path.display())
    }

    /// Writes one row through to the file.
    pub(super) fn push(&mut self, row: &[f32]) -> io::Result<()> {
        for value in row {
            self.out.write_all(&value.to_le_bytes())?;
        }
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streamed(pieces: &[&str]) -> String {
        let mut bytes = Vec::new();
        let mut stream = Stream::new(&mut bytes);
        for piece in pieces {
            stream.push(piece).unwrap();
        }
        stream.finish().unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn an_answer_ends_with_one_line_feed() {
        assert_eq!(streamed(&["Hel", "lo\n", "\n", "there", "\n\n"]), "Hello\n\nthere\n");
        assert_eq!(streamed(&["Hello"]), "Hello\n");
        assert_eq!(streamed(&["\n"]), "");
        assert_eq!(streamed(&[]), "");
    }

    #[test]
    fn control_codes_are_left_out() {
        assert_eq!(streamed(&["a\u{1b}[31mb\u{7}\r\tc\u{9b}2Jd\u{7f}\0é"]), "a[31mb\tc2Jdé\n");
    }

    #[test]
    fn logits_are_little_endian_rows() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logits");
        let mut file = LogitsFile::create(&path).unwrap();
        file.push(&[1.0, -2.5]).unwrap();
        // Written through: a reader sees each row as it comes.
        assert_eq!(std::fs::read(&path).unwrap(), [0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc0]);
    }
}
