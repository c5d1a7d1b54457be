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
    /// A failure without a hint.
    pub fn new(code: ExitCode, title: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { title: title.into(), detail: detail.into(), hint: String::new(), code }
    }

    /// The same with a way out.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
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
