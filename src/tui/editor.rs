//! The user's editor: it has the terminal while it runs, and the program goes on without a screen.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};

use super::clerk::write_private;
use super::width;

/// What is used where the user names none.
const DEFAULT: &str = "vi";

/// An editor that runs, and the file that it writes.
pub(super) struct Editing {
    child: Child,
    file: PathBuf,
    name: String,
}

impl Editing {
    /// Writes a draft to a file and starts the editor with it; the terminal is its own from here on. Where that cannot
    /// be, the reason.
    pub(super) fn start(file: PathBuf, draft: &str) -> Result<Self, String> {
        let named = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let name = named("VISUAL").or_else(|| named("EDITOR")).unwrap_or_else(|| DEFAULT.to_owned());
        write_private(&file, draft.as_bytes())
            .map_err(|error| format!("{} cannot be written: {error}", file.display()))?;
        // By a shell, since the variables hold commands with arguments.
        let child =
            Command::new("sh").arg("-c").arg(format!("exec {name} \"$1\"")).arg("sh").arg(&file).spawn();
        match child {
            Ok(child) => Ok(Self { child, file, name: width::clean_line(&name) }),
            Err(error) => {
                let _ = fs::remove_file(&file);
                Err(format!("the editor cannot be started: {error} ({name})"))
            }
        }
    }

    /// What was written, once the editor has been left.
    pub(super) fn done(&mut self) -> Option<Result<String, String>> {
        let name = &self.name;
        let status = match self.child.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => status,
            Err(error) => return Some(Err(format!("the editor was lost: {error} ({name})"))),
        };
        let written = fs::read(&self.file).ok().map(String::from_utf8);
        Some(match (status.success(), written) {
            (true, Some(Ok(text))) => {
                let _ = fs::remove_file(&self.file);
                Ok(text)
            }
            (true, _) => Err(format!("what is in {} is no text", self.file.display())),
            (false, _) => {
                let _ = fs::remove_file(&self.file);
                let code =
                    status.code().map_or_else(|| "a signal".to_owned(), |code| format!("exit code {code}"));
                Err(format!("the editor ended with {code} ({name})"))
            }
        })
    }
}
