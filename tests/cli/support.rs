//! The program with a home of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::nano::nano;

/// The tiny checkpoint of the tests.
pub(crate) fn tiny() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny")
}

/// A user who has never run the program.
pub(crate) struct User {
    home: tempfile::TempDir,
}

impl User {
    pub(crate) fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Where the program lays out the small model.
    pub(crate) fn bundled(&self) -> PathBuf {
        self.path("data/dormouse/models/dormouse-nano")
    }

    /// The program with these arguments, split at spaces.
    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dormouse"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("DORMOUSE_") {
                command.env_remove(name);
            }
        }
        command.env("HOME", self.home.path());
        command.env("XDG_DATA_HOME", self.path("data")).env("XDG_CONFIG_HOME", self.path("config"));
        command.env("XDG_STATE_HOME", self.path("state"));
        command.args(arguments.split_whitespace());
        command
    }

    /// `dormouse run` on the small model of the repository, which needs no laying out.
    pub(crate) fn on_nano(&self, arguments: &str) -> Command {
        let mut command = self.command("run");
        command.arg("--model").arg(nano()).args(arguments.split_whitespace());
        command
    }

    pub(crate) fn run(&self, arguments: &str) -> Output {
        self.on_nano(arguments).output().unwrap()
    }

    /// The object that a run prints, which must go well.
    pub(crate) fn json(&self, arguments: &str) -> Value {
        let output = self.run(&format!("{arguments} --json"));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        object(&output)
    }
}

/// The one object on standard output.
pub(crate) fn object(output: &Output) -> Value {
    let text = stdout(output);
    assert_eq!(text.lines().count(), 1, "{text}");
    serde_json::from_str(&text).unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
