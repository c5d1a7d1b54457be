//! `dormouse`: the full-screen chat.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::args::Common;
use super::settings::Resolved;
use super::setup::{self, Setup};
use super::words::ScreenWords;
use super::{Done, error, kept, no_resource, settings};
use crate::config::{Paths, Remembered};
use crate::engine::{self, sampler};
use crate::protocol::{Event, ExitCode, UserError};
use crate::session::Folder;
use crate::setup as model;
use crate::tui::{self, Exit, Files, Keeper, Options};

/// Messages that a newcomer could begin with, of what the small model can talk about.
const SUGGESTIONS: [&str; 3] =
    ["What is Dormouse?", "What is the capital of Italy?", "Tell me a short story."];

/// How long leaving may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which conversation is shown.
#[derive(Clone, Copy, Debug)]
pub(super) enum Which<'a> {
    /// A new one.
    New,
    /// The one that was written last.
    Last,
    /// The one of this name.
    Named(&'a str),
    /// One that the user chooses on the screen.
    Picked,
}

/// Starts the engine and hands it to the screen.
/// Where `asked` is something, it is the way to the real model that is shown first.
pub(super) fn chat(common: &Common, which: Which<'_>, asked: Option<&Setup>) -> Result<Done, UserError> {
    let mut resolved = settings::resolve(common)?;
    // Before the small model is laid out: a script that forgot `run` should leave nothing behind.
    tui::check_terminal()?;
    let folder = kept::folder(&resolved.paths);
    let id = id_of(&folder, &mut resolved, which)?;
    let first = matches!(which, Which::New) && resolved.model.is_none() && is_new(&resolved.paths);
    let setup = setup::on_screen(&resolved, asked, first)?;
    let settings = resolved.settings()?;
    // A session of the small model names its folder.
    let bundled = resolved.paths.models().join(model::NAME).canonicalize().ok();
    let full = settings.model.canonicalize().unwrap_or_else(|_unreadable| settings.model.clone());
    let demo = resolved.model.is_none() || bundled.is_some_and(|bundled| bundled == full);
    let name = full.file_name().map(|name| name.to_string_lossy().into_owned());
    let label = name.clone().unwrap_or_else(|| "Kimi K3".to_owned());
    let mut options = Options {
        model_label: if demo { model::NAME.to_owned() } else { label },
        demo,
        thinking: resolved.thinking,
        sampling: resolved.sampling,
        max_tokens: None,
        limits: resolved.limits,
        remembered: Remembered::read(&resolved.paths.screen()),
        remember_at: Some(resolved.paths.screen()),
        suggestions: if demo { SUGGESTIONS.map(str::to_owned).to_vec() } else { Vec::new() },
        first_seed: sampler::random_seed(),
        files: Some(Files {
            history: resolved.paths.history(),
            copied: resolved.paths.copied(),
            draft: resolved.paths.draft(),
        }),
        pick: matches!(which, Which::Picked),
        settings,
        setup: Some(setup),
        ..Options::default()
    };
    let mut words = ScreenWords::of(full.clone());
    let mut keeper =
        Keeper::new(folder.clone(), full.to_string_lossy().into_owned(), name.unwrap_or_default());
    if let Some(id) = id {
        let (opening, journal) = tui::open(&folder, id.clone(), &mut words)?;
        options.opening = Some(opening);
        if let Some(journal) = journal {
            keeper = keeper.going_on(id, journal);
        }
        if let Some(limits) = options.opening.as_ref().and_then(tui::Opening::limits)
            && !resolved.limits_typed
        {
            options.limits = limits;
        }
    }
    if options.notice.is_none() && !demo {
        options.notice = model::verify::first_warning(&resolved.paths, &full);
    }
    let keeper =
        keeper.with_words(Box::new(words)).map_err(|error| no_resource("a thread for sessions", &error))?;
    let link = engine::spawn().map_err(|error| no_resource("a thread for the engine", &error))?;
    let events = link.events.clone();
    let exit = tui::run(options, link, Some(keeper));
    wait_for_engine(&events);
    Ok(match exit? {
        Exit::Quit => Done::Well,
        Exit::Signal(signal) => Done::Signal(signal),
    })
}

/// Waits until what the engine keeps of the conversation is on the disk. It was told to leave; without an answer in time
/// the conversation is whole all the same, and only more of it is computed again.
fn wait_for_engine(events: &Receiver<Event>) {
    let began = Instant::now();
    let mut told = false;
    while began.elapsed() < PATIENCE {
        match events.recv_timeout(Duration::from_millis(500)) {
            Ok(Event::Stopped) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) if !std::mem::replace(&mut told, true) => {
                error::note("the state of the conversation is being written to the disk");
            }
            _ => {}
        }
    }
}

/// Whether the program was never started by this user: nothing of it is there yet.
fn is_new(paths: &Paths) -> bool {
    let traces = [paths.config_file(), paths.models(), paths.sessions(), paths.setup()];
    !traces.iter().any(|path| path.exists())
}

/// The session that was asked for, if one was. Where the user names no model, it is that of the session.
fn id_of(folder: &Folder, resolved: &mut Resolved, which: Which<'_>) -> Result<Option<String>, UserError> {
    let id = match which {
        Which::New | Which::Picked => return Ok(None),
        Which::Named(id) => id.to_owned(),
        Which::Last => {
            let readable = folder.list()?.into_iter().find(|entry| entry.content.is_ok());
            let none = || {
                let detail = format!("{} holds none", folder.dir().display());
                UserError::new(ExitCode::Usage, "There is no session to go on with", detail)
                    .with_hint("`dormouse` alone begins one.")
            };
            readable.ok_or_else(none)?.id
        }
    };
    if resolved.model.is_none() {
        resolved.model = kept::model_of(&resolved.paths, &id);
    }
    Ok(Some(id))
}
