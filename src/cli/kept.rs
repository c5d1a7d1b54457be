//! The turn of a headless run that belongs to a session: written down as it comes, or taken up where it was cut.

use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::args::Run;
use super::settings::Resolved;
use super::words::Words;
use crate::config::Paths;
use crate::engine::sampler;
use crate::protocol::{
    Channel, ExitCode, Finish, Limits, ModelFacts, PauseFlag, Prompt, Sampling, Thinking, TurnId, UserError,
};
use crate::session::{
    Damage, End, Error, Folder, Header, Journal, Opened, PromptDigest, Record, Session, Trouble, Turn,
    TurnStart, unix_now,
};

/// How often a full disk is looked at.
const POLL: Duration = Duration::from_millis(50);

/// A session, and the turn of it that runs.
#[derive(Debug)]
pub(super) struct KeptTurn {
    journal: Journal,
    plan: Plan,
    /// Whether its beginning is written, so that its end must be.
    begun: bool,
}

/// Where the turn comes from.
#[derive(Debug)]
enum Plan {
    /// The user says something.
    New { user: String, thinking: Thinking, terms: Terms },
    /// It was cut.
    GoOn { start: TurnStart, prompt: Option<PromptDigest>, allowed_from: usize },
    /// It came to its end, and is only told again.
    Over { start: TurnStart, prompt: Option<PromptDigest>, allowed_from: usize },
}

/// How a turn's tokens are drawn, and how many.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Terms {
    pub(super) sampling: Sampling,
    /// The most tokens of the turn.
    pub(super) max_tokens: Option<usize>,
    /// How long it may think and answer.
    pub(super) limits: Limits,
    /// Of the tokens before a cut, so many do not count for the limits.
    pub(super) allowed_from: usize,
}

impl Terms {
    /// What was asked for a new turn.
    pub(super) fn asked(run: &Run, resolved: &Resolved) -> Self {
        Self {
            sampling: Sampling { seed: run.seed, ..resolved.sampling },
            max_tokens: run.max_tokens,
            limits: resolved.limits,
            allowed_from: 0,
        }
    }
}

/// Where the sessions of this user lie.
pub(super) fn folder(paths: &Paths) -> Folder {
    Folder::at(paths.sessions())
}

/// The folder of the model that a session was begun with, if both are there.
pub(super) fn model_of(paths: &Paths, id: &str) -> Option<PathBuf> {
    let (session, _damage) = folder(paths).read(id).ok()?;
    Some(PathBuf::from(session.header.folder)).filter(|path| path.is_dir())
}

/// What a new session of the model in this folder begins with.
fn header(words: &Words, model: &Path) -> Header {
    let folder = model.canonicalize().unwrap_or_else(|_unreadable| model.to_owned());
    let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy().into_owned();
    Header { model: words.digest, folder: folder.to_string_lossy().into_owned(), name, created: unix_now() }
}

impl KeptTurn {
    /// Opens session `id`, and makes it where a message is to begin it. `text` is the next message; none takes up the last
    /// turn. Gives with it what the model reads, and what the turn has generated before it was cut.
    pub(super) fn open(
        id: &str,
        text: Option<String>,
        run: &Run,
        resolved: &Resolved,
        model: &Path,
    ) -> Result<(Self, Prompt, Vec<u32>), UserError> {
        let words = Words::of(model)?;
        let (session, journal) = journal(&folder(&resolved.paths), id, &words, model, text.is_some())?;
        let mut before = session.branch();
        let (plan, generated, dropped, system) = if let Some(user) = text {
            let (thinking, terms) = (resolved.thinking, Terms::asked(run, resolved));
            let dropped = before.last().map_or(0, |turn| turn.dropped);
            (Plan::New { user, thinking, terms }, Vec::new(), dropped, session.system.clone())
        } else {
            let turn = to_go_on(id, &session)?;
            before.pop();
            let allowed_from = turn.allowed_from();
            let plan = Plan::GoOn { start: turn.start.clone(), prompt: turn.prompt, allowed_from };
            (plan, turn.ids.clone(), turn.dropped, turn.system.clone())
        };
        let (user, thinking) = match &plan {
            Plan::New { user, thinking, .. } => (user, *thinking),
            Plan::GoOn { start, .. } | Plan::Over { start, .. } => (&start.user, start.thinking),
        };
        let mut transcript = words.transcript(&before, id);
        transcript.system = system;
        transcript.dropped = dropped;
        transcript.begin(TurnId(0), user.clone());
        let prompt = Prompt::Chat(transcript.conversation(thinking));
        Ok((Self { journal, plan, begun: false }, prompt, generated))
    }

    /// The turn of one prompt among many, whose journal `id` lies in `folder`: new, or taken up where it was cut. `asked`
    /// counts where it is new. Gives with it how much it thinks, and what it has generated before.
    pub(super) fn of_prompt(
        id: &str,
        folder: &Folder,
        words: &Words,
        model: &Path,
        asked: Asked,
    ) -> Result<(Self, Thinking, Vec<u32>), UserError> {
        let (session, journal) = journal(folder, id, words, model, true)?;
        let (plan, thinking, generated) = match session.turns.into_iter().next() {
            None => {
                let Asked { user, thinking, terms } = asked;
                (Plan::New { user, thinking, terms }, thinking, Vec::new())
            }
            Some(turn) => {
                let (thinking, prompt, allowed_from) =
                    (turn.start.thinking, turn.prompt, turn.allowed_from());
                let over =
                    turn.end.as_ref().is_some_and(|end| matches!(end.finish, Finish::Stop | Finish::Length));
                let start = turn.start;
                let plan = if over {
                    Plan::Over { start, prompt, allowed_from }
                } else {
                    Plan::GoOn { start, prompt, allowed_from }
                };
                (plan, thinking, turn.ids)
            }
        };
        Ok((Self { journal, plan, begun: false }, thinking, generated))
    }

    /// Writes down that the turn begins, with all that its answer depends on. Gives how tokens are drawn, and how
    /// many.
    pub(super) fn begin(&mut self, facts: &ModelFacts) -> Terms {
        self.begun = !matches!(self.plan, Plan::Over { .. });
        match &self.plan {
            Plan::New { user, thinking, terms: Terms { sampling, max_tokens, limits, .. } } => {
                let start = TurnStart {
                    user: user.clone(),
                    thinking: *thinking,
                    temperature: sampling.temperature.unwrap_or(facts.temperature),
                    top_p: sampling.top_p.unwrap_or(facts.top_p),
                    seed: sampling.seed.unwrap_or_else(sampler::random_seed),
                    max_tokens: *max_tokens,
                    limits: *limits,
                    at: unix_now(),
                };
                let terms = terms_of(&start, 0);
                self.journal.append(&Record::Turn(start));
                terms
            }
            Plan::GoOn { start, allowed_from, .. } => {
                self.journal.append(&Record::Resumed(unix_now()));
                terms_of(start, *allowed_from)
            }
            Plan::Over { start, allowed_from, .. } => terms_of(start, *allowed_from),
        }
    }

    /// Writes down what the prompt was rendered to. A turn that goes on must read what it read before, or it would be
    /// another answer.
    pub(super) fn prompt(&self, ids: &[u32]) -> Result<(), UserError> {
        let found = PromptDigest::of(ids);
        match self.plan {
            Plan::GoOn { prompt: Some(before), .. } | Plan::Over { prompt: Some(before), .. }
                if before != found =>
            {
                let detail = format!(
                    "its prompt had {} tokens with the digest {:016x}, and has {} with {:016x} now",
                    before.count, before.digest, found.count, found.digest
                );
                Err(UserError::new(ExitCode::Invalid, "The turn cannot be gone on with", detail)
                    .with_hint("Another version of the program has begun it. Ask again with --prompt."))
            }
            Plan::GoOn { prompt: Some(_), .. } | Plan::Over { .. } => Ok(()),
            Plan::GoOn { prompt: None, .. } | Plan::New { .. } => {
                self.journal.append(&Record::Prompt(found));
                Ok(())
            }
        }
    }

    /// Writes a token down. While the disk is full this waits, and the turn is held up with it through `pause`; `stopped`
    /// says whether the user would rather stop.
    pub(super) fn token(
        &self,
        id: u32,
        channel: Channel,
        pause: &PauseFlag,
        stopped: impl Fn() -> bool,
    ) -> Result<(), UserError> {
        self.journal.append(&Record::Token { id, channel });
        let mut told = false;
        loop {
            match self.journal.trouble() {
                Some(trouble @ Trouble::Full { .. }) if !stopped() => {
                    pause.set(true);
                    tell_once(&mut told, &trouble);
                    thread::sleep(POLL);
                }
                Some(trouble @ Trouble::Failed { .. }) => return Err(not_written(&trouble)),
                _ => {
                    pause.set(false);
                    return Ok(());
                }
            }
        }
    }

    /// Writes down how the turn ended, if it began, and waits until everything is on the disk, or until the user would
    /// rather leave.
    pub(super) fn end(&self, end: End, stopped: impl Fn() -> bool) -> Result<(), UserError> {
        if self.begun {
            self.journal.append(&Record::End(End { at: unix_now(), ..end }));
        }
        let mut told = false;
        let flushed = self.journal.flush(|trouble| {
            tell_once(&mut told, trouble);
            !stopped()
        });
        flushed.map_err(|trouble| not_written(&trouble))
    }
}

fn terms_of(start: &TurnStart, allowed_from: usize) -> Terms {
    Terms { sampling: start.sampling(), max_tokens: start.max_tokens, limits: start.limits, allowed_from }
}

/// What is asked of a new turn.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) user: String,
    pub(super) thinking: Thinking,
    pub(super) terms: Terms,
}

/// Opens the journal of session `id`, which must be one of this model; makes it where it may.
fn journal(
    folder: &Folder,
    id: &str,
    words: &Words,
    model: &Path,
    may_make: bool,
) -> Result<(Session, Journal), UserError> {
    let Opened { session, damage, journal } = match folder.open(id) {
        Err(Error::Missing { .. }) if may_make => folder.create(id, header(words, model))?,
        opened => opened?,
    };
    if let Some(damage) = &damage {
        tell(id, damage);
        journal.append(&Record::Note(damage.to_string()));
    }
    if session.header.model != words.digest {
        return Err(other_model(id, &session, model));
    }
    Ok((session, journal))
}

/// The last turn, if more of it can come.
fn to_go_on<'a>(id: &str, session: &'a Session) -> Result<&'a Turn, UserError> {
    let nothing = |detail: String| {
        UserError::new(ExitCode::Usage, "There is no turn to go on with", detail)
            .with_hint("Say something with --prompt.")
    };
    let turn = session.last().ok_or_else(|| nothing(format!("nothing was said in session {id}")))?;
    if !turn.can_go_on() {
        return Err(nothing(format!("the last turn of session {id} came to its end: {}", turn.finish())));
    }
    if session.head.is_some_and(|head| session.is_followed(head)) {
        return Err(nothing(format!("another branch of session {id} follows its last turn")));
    }
    Ok(turn)
}

pub(super) fn other_model(id: &str, session: &Session, model: &Path) -> UserError {
    let detail =
        format!("session {id} was begun with {}; {} is not the same", session.header.folder, model.display());
    UserError::new(ExitCode::Usage, "The session belongs to another model", detail)
        .with_hint("Name its model with --model, or begin a new session.")
}

/// Tells the user what of a session was lost. Where standard error is gone there is nobody left to tell.
fn tell(id: &str, damage: &Damage) {
    let _ = writeln!(stderr(), "note: session {id}: {damage}; they are in {id}.lost now");
}

fn tell_once(told: &mut bool, trouble: &Trouble) {
    if let Trouble::Full { missing } = trouble
        && !std::mem::replace(told, true)
    {
        let _ = writeln!(
            stderr(),
            "note: the disk is full; {missing} of the session wait for room, and the turn with them"
        );
    }
}

fn not_written(trouble: &Trouble) -> UserError {
    let detail = match trouble {
        Trouble::Full { missing } => format!("the disk is full, and {missing} of it are not written"),
        Trouble::Failed { reason } => reason.clone(),
    };
    UserError::new(ExitCode::Resources, "The session cannot be written", detail)
        .with_hint("All that was written before is kept; make room, and go on with --continue.")
}
