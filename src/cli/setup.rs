//! `dormouse setup`: from nothing to the real model, on the screen or, for scripts, without a question.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use crossbeam_channel::RecvTimeoutError;

use super::args::Common;
use super::chat::{self, Which};
use super::download::{Hub, Show};
use super::settings::{self, Resolved};
use super::{Done, doctor, no_resource};
use crate::config::{Paths, Preset};
use crate::engine;
use crate::protocol::{
    CancelFlag, Command, EngineLink, Event, ExitCode, Settings, TurnId, TurnRequest, UserError,
};
use crate::setup::doctor::{Subject, Target, Terminal};
use crate::setup::wizard::{Act, Hands, Kept, Model, News, Order, Stage, Start, Step, Told, Verdict, Wizard};
use crate::sys::memory;
use crate::sys::signals::StopSignal;
use crate::tui::SetUp;
use crate::units::Bytes;

const HELP: &str = "\
On the screen every step can be left and comes back; what was fetched is kept. With --yes no question is asked: \
the model is fetched into --target, looked at, tried with one token, and written into config.toml.";

/// What was typed.
#[derive(Debug, Default, Args)]
#[command(after_help = HELP)]
pub(super) struct Setup {
    /// Ask nothing; for scripts
    #[arg(long, requires = "target")]
    yes: bool,
    /// Folder of the real model
    #[arg(long, value_name = "DIR")]
    target: Option<PathBuf>,
    /// Print one JSON object for each event on standard output
    #[arg(long, requires = "yes")]
    json: bool,
    #[command(flatten)]
    hub: Hub,
}

/// Runs it.
pub(super) fn setup(common: &Common, args: &Setup) -> Result<Done, UserError> {
    if !args.yes {
        return chat::chat(common, Which::New, Some(args), false);
    }
    let resolved = settings::resolve(common)?;
    if resolved.memory.is_some() && resolved.preset.is_none() {
        let detail = "a size was given for the memory, and what is written into config.toml is a preset";
        return Err(UserError::new(ExitCode::Usage, "Name a preset", detail)
            .with_hint("Like --preset laptop; without one it is `auto`."));
    }
    let preset = resolved.preset.unwrap_or(Preset::Auto);
    let target = args.target.as_deref().unwrap_or(Path::new(""));
    // A script has a folder that it is in, and knows it.
    let target = std::path::absolute(target).map_err(|error| no_resource("the current folder", &error))?;
    let stop = StopSignal::watch(ExitCode::Stopped as u8).map_err(|error| no_resource("signals", &error))?;
    let start = Start { place: target, open: true, step: Some(Step::Place), ..start(&resolved.paths) };
    let hub = args.hub.options(PathBuf::new())?;
    Script { resolved: &resolved, preset, stop, show: Show::new(args.json), failed: None, repaired: false }
        .run(start, hub)
}

/// Where the wizard begins on the screen. `asked` is what was typed after `setup`, if that was.
pub(super) fn on_screen(resolved: &Resolved, asked: Option<&Setup>, first: bool) -> Result<SetUp, UserError> {
    let paths = &resolved.paths;
    let mut start = start(paths);
    start.kept = Kept::read(&paths.setup());
    start.open = first || asked.is_some();
    start.step = asked.map(|_| Step::Machine);
    if let Some(target) = asked.and_then(|asked| asked.target.as_ref()) {
        let target =
            std::path::absolute(target).map_err(|error| no_resource("the current folder", &error))?;
        match &mut start.kept {
            Some(kept) => kept.place = target.display().to_string(),
            None => start.place = target,
        }
    } else if let Some(model) = &resolved.model {
        start.place.clone_from(model);
    }
    let hub = match asked {
        Some(asked) => asked.hub.options(PathBuf::new())?,
        // A chat must not fail for a token that it may never need.
        None => Hub::default()
            .options(PathBuf::new())
            .unwrap_or_else(|_unusable| Hub::default().without_token(PathBuf::new())),
    };
    let terminal = Terminal::of(crossterm::terminal::size().ok(), |name| std::env::var(name).ok());
    let target = Target::at(&start.place);
    let planner = Some(doctor::planner(resolved));
    let subject = Subject { terminal: Some(terminal), planner, ..Subject::here(paths.clone(), target) };
    Ok(SetUp { start, fetch: hub, subject, paths: paths.clone() })
}

fn start(paths: &Paths) -> Start {
    Start {
        place: paths.models().join(super::download::NAME),
        home: std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from),
        memory: memory::machine().total,
        ..Start::default()
    }
}

/// The wizard without anybody to ask.
struct Script<'a> {
    resolved: &'a Resolved,
    preset: Preset,
    stop: StopSignal,
    show: Show,
    /// What ended the trial, with its exit code.
    failed: Option<UserError>,
    /// Whether files that were bad have been fetched again already.
    repaired: bool,
}

impl Script<'_> {
    fn run(mut self, start: Start, hub: crate::setup::download::Options) -> Result<Done, UserError> {
        let subject = Subject::here(self.resolved.paths.clone(), Target::at(&start.place));
        let (mut wizard, mut orders) = Wizard::new(start);
        let (mut hands, news) = Hands::new(hub, subject, self.resolved.paths.clone());
        loop {
            for order in std::mem::take(&mut orders) {
                if let Some(order) = hands.carry_out(order) {
                    match order {
                        Order::Try(model, preset) => {
                            let tried = self.trial(model, preset);
                            let tried = tried.map_err(|error| {
                                let UserError { title, detail, hint, .. } = error.clone();
                                self.failed = Some(error);
                                Told { title, detail, hint }
                            });
                            orders.extend(wizard.news(News::Loaded));
                            orders.extend(wizard.news(News::Tried(tried)));
                        }
                        Order::Chat(Model::Real) => return Ok(self.done(&wizard)),
                        _ => {}
                    }
                }
            }
            if self.stop.is_set() {
                drop(hands);
                self.show.stopped();
                return Ok(Done::Stopped);
            }
            match self.next(&wizard)? {
                Some(act) => orders.extend(wizard.act(act)),
                None if orders.is_empty() => match news.recv_timeout(Duration::from_millis(50)) {
                    Ok(news) => {
                        if let News::Fetch(event) = &news {
                            self.show.event(event);
                        }
                        orders.extend(wizard.news(news));
                    }
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
                },
                None => {}
            }
        }
    }

    /// What a person in a hurry would do now; nothing while something is waited for.
    fn next(&mut self, wizard: &Wizard) -> Result<Option<Act>, UserError> {
        if let Some(problem) = &wizard.problem {
            return Err(UserError::new(ExitCode::Usage, "The folder cannot be used", problem.as_str()));
        }
        Ok(match wizard.step {
            // It is looked at once, and gone on from when that was answered.
            Step::Place => wizard.look().map(|_| Act::Next),
            Step::Download => match &wizard.fetching.stage {
                Stage::Failed(failure) => return Err(failure.into()),
                Stage::Runs | Stage::Stops { .. } => None,
                _ => Some(Act::Next),
            },
            Step::Verify => match &wizard.verdict {
                Verdict::Bad(failure) if self.repaired || wizard.fetching.is_done() => {
                    return Err(failure.into());
                }
                Verdict::Bad(_) => {
                    self.repaired = true;
                    Some(Act::Next)
                }
                Verdict::Good(_) => Some(Act::Next),
                Verdict::Open | Verdict::Runs => None,
            },
            Step::Memory => match self.failed.take() {
                Some(error) => return Err(error),
                None if wizard.preset == self.preset => Some(Act::Next),
                None if wizard.offers.contains(&self.preset) => Some(Act::Down),
                None => {
                    let needs = self.preset.memory().unwrap_or_default();
                    let detail = format!(
                        "{} is {needs}, and this machine has {}",
                        self.preset.as_str(),
                        Bytes(memory::machine().total)
                    );
                    return Err(UserError::new(ExitCode::Resources, "There is not enough memory", detail));
                }
            },
            Step::Ready => match &wizard.configured {
                None => None,
                Some(Err(failure)) => return Err(failure.into()),
                Some(Ok(_)) => Some(Act::Next),
            },
            Step::Welcome | Step::Machine | Step::Model => Some(Act::Next),
        })
    }

    /// Loads the model and computes one token of it; seconds that the token took.
    fn trial(&self, model: PathBuf, preset: Preset) -> Result<f64, UserError> {
        let own = Resolved { model: Some(model), memory: preset.memory(), ..self.resolved.clone() };
        let link = engine::spawn().map_err(|error| no_resource("a thread for the engine", &error))?;
        let settings: Settings = own.settings()?;
        let cancel = CancelFlag::default();
        send(&link, Command::Load(settings))?;
        let stopped = || UserError::new(ExitCode::Stopped, "Stopped", "");
        loop {
            if self.stop.is_set() {
                cancel.cancel();
                return Err(stopped());
            }
            match link.events.recv_timeout(Duration::from_millis(50)) {
                Ok(Event::Ready(_)) => {
                    send(&link, Command::Generate(Box::new(TurnRequest::trial(TurnId(1), cancel.clone()))))?;
                }
                Ok(Event::Finished { outcome, .. }) => {
                    return match outcome.error {
                        Some(error) => Err(error),
                        None => Ok(outcome.took.first_token_s.unwrap_or(outcome.took.prefill_s)),
                    };
                }
                Ok(Event::Failed(error)) => return Err(error),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(UserError::new(ExitCode::Invalid, "The engine has left", ""));
                }
            }
        }
    }

    fn done(&mut self, wizard: &Wizard) -> Done {
        let folder = wizard.folder().unwrap_or_default();
        let seconds = match wizard.test {
            crate::setup::wizard::Test::Good(seconds) => Some(seconds),
            _ => None,
        };
        let config = self.resolved.paths.config_file();
        self.show.ready(&folder, wizard.preset.as_str(), seconds, &config);
        Done::Well
    }
}

fn send(link: &EngineLink, command: Command) -> Result<(), UserError> {
    link.commands.send(command).map_err(|_gone| UserError::new(ExitCode::Invalid, "The engine has left", ""))
}
