//! `dormouse`: the full-screen chat.

use std::io::{IsTerminal, stdin, stdout};

use super::args::Common;
use super::{Done, settings};
use crate::protocol::{ExitCode, UserError};

/// Starts the engine and hands it to the screen.
pub(super) fn chat(common: &Common) -> Result<Done, UserError> {
    let resolved = settings::resolve(common)?;
    check_terminal()?;
    let _settings = resolved.settings()?;
    Ok(Done::Well)
}

/// A full screen needs a terminal on both sides that knows more than lines.
fn check_terminal() -> Result<(), UserError> {
    let problem = if !stdin().is_terminal() {
        "standard input is no terminal"
    } else if !stdout().is_terminal() {
        "standard output is no terminal"
    } else if std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
        "TERM is `dumb`"
    } else {
        return Ok(());
    };
    Err(UserError::new(ExitCode::Usage, "The chat needs a terminal", problem)
        .with_hint("Without one, use `dormouse run --prompt TEXT`; see `dormouse run --help`."))
}
