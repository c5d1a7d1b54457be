//! `dormouse run`: one turn without a screen, as scripts want it.

use std::fmt;
use std::io::{self, stdout};
use std::path::Path;
use std::time::Duration;

use crossbeam_channel::RecvTimeoutError;

use super::args::{Common, Run};
use super::kept::{self, KeptTurn, Terms};
use super::output::{LogitsFile, Stream};
use super::progress::Progress;
use super::report::Report;
use super::settings::Resolved;
use super::{Done, error, input, json, no_resource, settings};
use crate::engine;
use crate::protocol::{
    CancelFlag, Command, EngineLink, Event, ExitCode, Finish, ModelFacts, Outcome, Part, PauseFlag, Prompt,
    TurnId, TurnRequest, UserError,
};
use crate::session::End;
use crate::setup::verify;
use crate::sys::memory;
use crate::sys::signals::StopSignal;

/// How long a signal may wait to be seen.
const POLL: Duration = Duration::from_millis(20);

/// Said once where a person reads along.
pub(super) const UNCHECKED: &str = "note: reads are not checked; `dormouse verify --seal` writes the checksums that a run can hold them against";

/// Why a run ended before its time.
enum Halt {
    Failed(UserError),
    Cancelled,
    /// Whoever read the answer has left, which is no failure: `dormouse run ... | head -1`.
    NobodyReads,
}

impl From<UserError> for Halt {
    fn from(error: UserError) -> Self {
        Self::Failed(error)
    }
}

/// Runs one turn. With `--json` the object is printed whatever happens.
pub(super) fn run(common: &Common, args: &Run) -> Result<Done, UserError> {
    let mut run = Headless {
        args,
        report: Report { seed: args.seed, ..Report::default() },
        ended: None,
        progress: Progress::new(),
    };
    let ended = run.drive(common);
    run.progress.finish();
    let done = match ended {
        Ok(()) => Ok(Done::Well),
        Err(Halt::NobodyReads) => return Ok(Done::Well),
        Err(Halt::Cancelled) => {
            run.report.finish = Finish::Cancelled.as_str();
            Ok(Done::Stopped)
        }
        Err(Halt::Failed(error)) => {
            run.report.failed(&error);
            Err(error)
        }
    };
    if args.json {
        run.report.memory.peak_rss = memory::process().peak;
        match json::write(&run.report, stdout().lock())
            .map_err(|error| cannot_write("the result to standard output", &error))
        {
            Ok(()) | Err(Halt::NobodyReads | Halt::Cancelled) => {}
            // The first failure is the one to tell.
            Err(Halt::Failed(error)) => return done.and(Err(error)),
        }
    }
    done
}

/// What was asked for.
enum Input {
    /// One turn that stands for itself.
    Alone(Prompt),
    /// The next message of a session, or none: its last turn goes on.
    InSession { id: String, text: Option<String> },
}

impl Input {
    fn read(args: &Run, resolved: &Resolved) -> Result<Self, UserError> {
        Ok(match &args.session {
            None => Self::Alone(input::prompt(args, resolved.thinking)?),
            Some(id) => {
                let text = if args.go_on { None } else { Some(input::message(args)?) };
                Self::InSession { id: id.clone(), text }
            }
        })
    }
}

/// What the engine is to do.
struct Work {
    prompt: Prompt,
    generated: Vec<u32>,
    terms: Terms,
    kept: Option<KeptTurn>,
}

struct Headless<'a> {
    args: &'a Run,
    report: Report,
    /// How the turn ended, as a session keeps it.
    ended: Option<End>,
    progress: Progress,
}

impl Headless<'_> {
    fn drive(&mut self, common: &Common) -> Result<(), Halt> {
        // What is cheap to find wrong is looked at before anything is loaded.
        let mut resolved = settings::resolve(common)?;
        let input = Input::read(self.args, &resolved)?;
        let logits = match &self.args.logits {
            None => None,
            Some(path) => Some(LogitsFile::create(path).map_err(|error| {
                let detail = format!("cannot create {}: {error}", path.display());
                UserError::new(ExitCode::Usage, "The logits cannot be written", detail)
            })?),
        };
        let stop =
            StopSignal::watch(ExitCode::Stopped as u8).map_err(|error| no_resource("signals", &error))?;
        let demo = resolved.model.is_none();
        if let Some(id) = &self.args.session
            && demo
        {
            resolved.model = kept::model_of(&resolved.paths, id);
        }
        let settings = resolved.settings()?;
        let mut work = self.work(input, &resolved, &settings.model)?;
        let link = engine::spawn().map_err(|error| no_resource("a thread for the engine", &error))?;
        let model = settings.model.clone();
        send(&link, Command::Load(settings))?;
        let facts = wait_for_model(&link, &mut self.progress, &stop)?.ok_or(Halt::Cancelled)?;
        self.report.loaded(&facts);
        // The small model was held against its digests when it was laid out, moments ago.
        if !facts.checked && !demo {
            self.progress.note(UNCHECKED);
        }
        // Where nobody reads along, it is not said, and waits for the first time that someone does.
        if !demo
            && self.progress.is_watched()
            && let Some(warning) = verify::first_warning(&resolved.paths, &model)
        {
            self.progress.note(&format!("note: {warning}"));
        }
        if let Work { kept: Some(kept), terms, .. } = &mut work {
            *terms = kept.begin(&facts);
        }
        let kept = work.kept.take();
        let mut result = self.turn(&link, &stop, work, kept.as_ref(), logits);
        if let Some(kept) = kept {
            let end = self.ended.take().unwrap_or_else(|| {
                // It did not come to an end of its own.
                let (finish, error) = match &result {
                    Err(Halt::Failed(error)) => (Finish::Error, Some(error.clone())),
                    // The turn is as whole as it can be without a reader.
                    _ => (Finish::Cancelled, None),
                };
                End { took: None, ..End::of(&Outcome { error, ..Outcome::new(finish) }) }
            });
            // The first failure is the one to tell.
            if let Err(error) = kept.end(end, || stop.is_set())
                && !matches!(result, Err(Halt::Failed(_)))
            {
                result = Err(error.into());
            }
        }
        // What the turn has led to is kept for the next one. The turn itself has ended, whatever comes of that.
        if let Err(Halt::Failed(error)) = self.leave(&link)
            && !matches!(result, Err(Halt::Failed(_)))
        {
            result = Err(error.into());
        }
        // What the turn took up counts as well: the state grows with it.
        self.report.memory.budget = link.telemetry.sample().budget;
        result.map(|_finish| ())
    }

    /// What the engine is to do, as far as it is known before the model is loaded.
    fn work(&self, input: Input, resolved: &Resolved, model: &Path) -> Result<Work, UserError> {
        let terms = Terms::asked(self.args, resolved);
        Ok(match input {
            Input::Alone(prompt) => Work { prompt, generated: Vec::new(), terms, kept: None },
            Input::InSession { id, text } => {
                let (kept, prompt, generated) = KeptTurn::open(&id, text, self.args, resolved, model)?;
                Work { prompt, generated, terms, kept: Some(kept) }
            }
        })
    }

    fn turn(
        &mut self,
        link: &EngineLink,
        stop: &StopSignal,
        work: Work,
        kept: Option<&KeptTurn>,
        mut logits: Option<LogitsFile>,
    ) -> Result<Finish, Halt> {
        let (cancel, pause) = (CancelFlag::default(), PauseFlag::default());
        let request = TurnRequest {
            turn: TurnId(1),
            prompt: work.prompt,
            generated: work.generated,
            sampling: work.terms.sampling,
            max_tokens: work.terms.max_tokens,
            limits: work.terms.limits,
            allowed_from: work.terms.allowed_from,
            prefill_chunk: self.args.prefill_chunk,
            logits: logits.is_some(),
            cancel: cancel.clone(),
            pause: pause.clone(),
        };
        send(link, Command::Generate(Box::new(request)))?;
        let mut stream = Stream::new(stdout());
        loop {
            if stop.is_set() {
                cancel.cancel();
            }
            match next_event(link, &mut self.progress)? {
                Some(Event::Prompt { ids, .. }) => {
                    if let Some(kept) = kept {
                        kept.prompt(&ids)?;
                    }
                    self.report.prompt_ids = ids;
                }
                Some(Event::Token { id, channel, .. }) => {
                    if let Some(kept) = kept {
                        kept.token(id, channel, &pause, || stop.is_set())?;
                    }
                }
                Some(Event::Logits { values, .. }) => {
                    if let Some(file) = &mut logits {
                        file.push(&values).map_err(|error| cannot_write(file.name(), &error))?;
                    }
                }
                Some(Event::Delta { part, .. }) => {
                    if let Part::Answer(text) = &part
                        && !self.args.json
                    {
                        self.progress.before_text();
                        stream
                            .push(text)
                            .map_err(|error| cannot_write("the answer to standard output", &error))?;
                    }
                    self.report.push(part);
                }
                Some(Event::Finished { outcome, .. }) => {
                    self.progress.finish();
                    self.ended = Some(End::of(&outcome));
                    stream.finish().map_err(|error| cannot_write("the answer to standard output", &error))?;
                    let (finish, error) = (outcome.finish, outcome.error.clone());
                    self.report.finished(*outcome);
                    if finish == Finish::Length && !self.args.json {
                        self.tell_of_silence();
                    }
                    return match (finish, error) {
                        (Finish::Stop | Finish::Length, _) => Ok(finish),
                        (Finish::Cancelled, _) => Err(Halt::Cancelled),
                        (Finish::Error, Some(error)) => Err(error.into()),
                        (Finish::Error, None) => Err(engine_left().into()),
                    };
                }
                Some(Event::Failed(error) | Event::Refused(error)) => return Err(error.into()),
                Some(Event::Note(text)) => self.report.note(&text),
                Some(Event::Loading { .. } | Event::Ready(_) | Event::Step { .. } | Event::Stopped)
                | None => {}
            }
        }
    }

    /// Waits until the engine has left, and with it all that it writes is on the disk.
    fn leave(&mut self, link: &EngineLink) -> Result<(), Halt> {
        send(link, Command::Shutdown)?;
        loop {
            match next_event(link, &mut self.progress)? {
                Some(Event::Note(text)) => self.report.note(&text),
                Some(Event::Stopped) => break,
                _ => {}
            }
        }
        self.report.saved(&link.telemetry.sample());
        Ok(())
    }

    /// Nothing on standard output and an exit code of 0 look like a fault, and the limit is the reason.
    fn tell_of_silence(&self) {
        let report = &self.report;
        if report.text.is_empty() && report.tool_calls.is_empty() && !report.thinking.is_empty() {
            error::note(
                "there is no answer, since a limit was reached while the model was still thinking: \
                 a larger one (--max-tokens, --limit-think) gives it time, --think off does without.",
            );
        }
    }
}

/// The model that is being loaded; nothing where the user would rather stop.
pub(super) fn wait_for_model(
    link: &EngineLink,
    progress: &mut Progress,
    stop: &StopSignal,
) -> Result<Option<Box<ModelFacts>>, UserError> {
    loop {
        match next_event(link, progress)? {
            Some(Event::Ready(facts)) => return Ok(Some(facts)),
            Some(Event::Failed(error) | Event::Refused(error)) => return Err(error),
            _ if stop.is_set() => return Ok(None),
            _ => {}
        }
    }
}

/// The next event, if one comes before it is time to look at signals again.
pub(super) fn next_event(link: &EngineLink, progress: &mut Progress) -> Result<Option<Event>, UserError> {
    progress.tick(&link.telemetry);
    match link.events.recv_timeout(POLL) {
        Ok(event) => Ok(Some(event)),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => Err(engine_left()),
    }
}

pub(super) fn send(link: &EngineLink, command: Command) -> Result<(), UserError> {
    // A command channel that is gone means the same as an event channel that is gone.
    link.commands.send(command).map_err(|_gone| engine_left())
}

pub(super) fn engine_left() -> UserError {
    UserError::new(ExitCode::Invalid, "The engine left without a word", "its thread is gone")
}

fn cannot_write(what: impl fmt::Display, error: &io::Error) -> Halt {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Halt::NobodyReads
    } else {
        Halt::Failed(UserError::new(ExitCode::Resources, format!("Cannot write {what}"), error.to_string()))
    }
}
