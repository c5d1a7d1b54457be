//! What a person is told when something is wrong.

use std::fmt;

/// Exit codes of the program. Scripts rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// A check found something wrong.
    CheckFailed = 1,
    /// Bad usage or configuration.
    Usage = 2,
    /// The model's files are missing, damaged or not understood.
    ModelFiles = 3,
    /// Not enough memory, disk, threads.
    Resources = 4,
    /// The run itself is invalid: its numbers or its state cannot be trusted.
    Invalid = 5,
    /// Stopped by the user.
    Stopped = 130,
}

/// Characters of a text that a person is shown: some twelve lines of a terminal.
const READABLE: usize = 1000;

/// One failure, as the screen, the command line and the doctor print it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserError {
    /// What went wrong, in a few words.
    pub title: String,
    /// Where, what was expected, what was found. May be empty.
    pub detail: String,
    /// The way out. May be empty.
    pub hint: String,
    /// What the program exits with.
    pub code: ExitCode,
}

impl UserError {
    /// A failure without a hint. What a detail quotes may be of any length; the middle of one that nobody would read is
    /// left out, since the place stands at its beginning and the reason at its end.
    pub fn new(code: ExitCode, title: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { title: title.into(), detail: shortened(detail.into()), hint: String::new(), code }
    }

    /// The same with a way out.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }
}

fn shortened(text: String) -> String {
    let half = READABLE / 2;
    let start = text.char_indices().nth(half).map(|(at, _)| at);
    let end = text.char_indices().nth_back(half - 1).map(|(at, _)| at);
    match (start, end) {
        (Some(start), Some(end)) if start < end => {
            let (first, last) = (text.get(..start).unwrap_or_default(), text.get(end..).unwrap_or_default());
            format!("{first} [… {} bytes …] {last}", end - start)
        }
        _ => text,
    }
}

impl fmt::Display for UserError {
    /// The title, then the detail and the hint on lines of their own where there are any.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.title)?;
        for line in [&self.detail, &self.hint] {
            if !line.is_empty() {
                write!(f, "\n  {line}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for UserError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detail_of_any_length_can_be_read() {
        let told = |detail: &str| UserError::new(ExitCode::Usage, "Bad", detail).detail;
        for whole in [String::new(), "short".to_owned(), "é".repeat(READABLE)] {
            assert_eq!(told(&whole), whole);
        }
        let long = told(&format!("place: {} reason", "漢".repeat(1_000_000)));
        assert!(long.starts_with("place: 漢") && long.ends_with("漢 reason"), "{long}");
        assert!(long.contains(" [… 2997042 bytes …] "), "{long}");
        assert!(long.chars().count() < READABLE + 40);
    }
}
