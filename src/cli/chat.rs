//! `dormouse`: the chat, on the full screen or in lines.

use std::io::{stderr, stdout};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::args::Common;
use super::settings::Resolved;
use super::setup::{self, Setup};
use super::words::ScreenWords;
use super::{Done, error, kept, look, no_resource, settings};
use crate::config::{Paths, Remembered};
use crate::engine::{self, sampler};
use crate::protocol::{Event, ExitCode, Settings, UserError};
use crate::session::Folder;
use crate::setup as model;
use crate::tui::{self, Ended, Exit, Files, Keeper, Model, Models, Options, SMALL};

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

/// Starts the engine and hands it to the screen; to the chat in lines where `inline` asks for that, or where there is no
/// screen. Where `asked` is something, it is the way to the real model that is shown first.
pub(super) fn chat(
    common: &Common,
    which: Which<'_>,
    asked: Option<&Setup>,
    inline: bool,
) -> Result<Done, UserError> {
    if asked.is_some() {
        tui::check_terminal()?;
    }
    let mut resolved = settings::resolve(common)?;
    let screen = !inline && tui::check_terminal().is_ok();
    if matches!(which, Which::Picked) && !screen {
        let detail = "a list to choose from needs the whole screen of a terminal";
        return Err(UserError::new(ExitCode::Usage, "There is no screen", detail)
            .with_hint("`dormouse sessions list` shows the sessions, and `--session ID` opens one."));
    }
    let folder = kept::folder(&resolved.paths);
    let id = id_of(&folder, &mut resolved, which)?;
    let first = matches!(which, Which::New) && resolved.model.is_none() && is_new(&resolved.paths);
    let setup = if screen { Some(setup::on_screen(&resolved, asked, first)?) } else { None };
    let finder = Finder { resolved };
    let resolved = &finder.resolved;
    let model = finder.model(resolved.settings()?);
    let mut options = Options {
        thinking: resolved.thinking,
        sampling: resolved.sampling,
        limits: resolved.limits,
        remembered: Remembered::read(&resolved.paths.screen()),
        remember_at: Some(resolved.paths.screen()),
        config: Some(resolved.paths.config_file()),
        first_seed: sampler::random_seed(),
        files: Some(Files {
            history: resolved.paths.history(),
            copied: resolved.paths.copied(),
            draft: resolved.paths.draft(),
        }),
        pick: matches!(which, Which::Picked),
        setup,
        keymap: look::keymap(&resolved.paths)?,
        themes: look::themes(resolved)?,
        settings: model.settings,
        model_label: model.label,
        demo: model.demo,
        suggestions: model.suggestions,
        ..Options::default()
    };
    let full = PathBuf::from(&model.folder);
    let mut words = ScreenWords::of(full.clone());
    let mut keeper = Keeper::new(folder.clone(), model.folder, model.name);
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
    if options.notice.is_none() && !model.demo {
        options.notice = model::verify::first_warning(&resolved.paths, &full);
    }
    let keeper =
        keeper.with_words(Box::new(words)).map_err(|error| no_resource("a thread for sessions", &error))?;
    let link = engine::spawn().map_err(|error| no_resource("a thread for the engine", &error))?;
    let events = link.events.clone();
    let models: Option<Box<dyn Models>> = Some(Box::new(finder));
    let ended = if screen {
        tui::run(options, link, Some(keeper), models).map(Ended::Left)
    } else {
        tui::run_lines(options, link, Some(keeper), models, &mut stdout(), &mut stderr())
    };
    wait_for_engine(&events);
    let exit = match ended? {
        Ended::Left(exit) => exit,
        Ended::Failed(error) => return Err(error),
    };
    Ok(match exit {
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

/// Finds models for the screen, with the settings that the program was started with.
struct Finder {
    resolved: Resolved,
}

impl Finder {
    /// How the model is called that these settings load.
    fn model(&self, settings: Settings) -> Model {
        // A session of the small model names its folder.
        let bundled = self.resolved.paths.models().join(model::NAME).canonicalize().ok();
        let full = settings.model.canonicalize().unwrap_or_else(|_unreadable| settings.model.clone());
        let demo = bundled.is_some_and(|bundled| bundled == full);
        let name = full.file_name().map(|name| name.to_string_lossy().into_owned());
        let label = if demo { Some(model::NAME.to_owned()) } else { name.clone() };
        Model {
            settings,
            label: label.unwrap_or_else(|| "Kimi K3".to_owned()),
            demo,
            suggestions: if demo { SUGGESTIONS.map(str::to_owned).to_vec() } else { Vec::new() },
            folder: full.to_string_lossy().into_owned(),
            name: name.unwrap_or_default(),
        }
    }
}

impl Models for Finder {
    fn find(&self, name: &str) -> Result<Model, UserError> {
        let folder = if name == SMALL {
            model::ensure(&self.resolved.paths)?
        } else {
            let folder = tui::expand(Path::new(name));
            if !folder.is_dir() {
                let detail = format!("{} is no folder", folder.display());
                return Err(UserError::new(ExitCode::ModelFiles, "There is no such model", detail)
                    .with_hint("/model is followed by the folder of a checkpoint, or by `small`."));
            }
            folder
        };
        Ok(self.model(self.resolved.settings_for(folder)))
    }
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
