//! `dormouse`: the full-screen chat.

use super::args::Common;
use super::{Done, no_resource, settings};
use crate::protocol::UserError;
use crate::tui::{self, Exit, Options};
use crate::{engine, setup};

/// Messages that a newcomer could begin with, of what the small model can talk about.
const SUGGESTIONS: [&str; 3] =
    ["What is Dormouse?", "What is the capital of Italy?", "Tell me a short story."];

/// Starts the engine and hands it to the screen.
pub(super) fn chat(common: &Common) -> Result<Done, UserError> {
    let resolved = settings::resolve(common)?;
    // Before the small model is laid out: a script that forgot `run` should leave nothing behind.
    tui::check_terminal()?;
    let settings = resolved.settings()?;
    let demo = resolved.model.is_none();
    let folder = settings.model.file_name().map(|name| name.to_string_lossy().into_owned());
    let options = Options {
        model_label: if demo {
            setup::NAME.to_owned()
        } else {
            folder.unwrap_or_else(|| "Kimi K3".to_owned())
        },
        demo,
        thinking: resolved.thinking,
        sampling: resolved.sampling,
        max_tokens: None,
        suggestions: if demo { SUGGESTIONS.map(str::to_owned).to_vec() } else { Vec::new() },
        settings,
    };
    let link = engine::spawn().map_err(|error| no_resource("a thread for the engine", &error))?;
    Ok(match tui::run(options, link)? {
        Exit::Quit => Done::Well,
        Exit::Signal(signal) => Done::Signal(signal),
    })
}
