//! `dormouse run --messages-dir`: all prompts of a folder, overnight.
//!
//! Each prompt leaves two files in the folder of the results: `ID.json`, the object that `run --json` prints, which is
//! there once it has come to its end; and `ID.journal`, written token by token, from which the same command goes on after
//! whatever cut it. A prompt that cannot be read or answered is told and stands in nobody's way; what is wrong with the
//! machine or the model ends the run.

mod prompts;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::args::{Common, Run};
use super::kept::{self, Asked, KeptTurn, Terms};
use super::progress::Progress;
use super::report::Report;
use super::run::{UNCHECKED, engine_left, next_event, send, wait_for_model};
use super::settings::Resolved;
use super::words::Words;
use super::{Done, input, json, no_resource, output, settings};
use crate::engine;
use crate::protocol::{
    CancelFlag, Command, Conversation, EngineLink, Event, ExitCode, Finish, Message, ModelFacts, Outcome,
    PauseFlag, Prompt as Input, Settings, TurnId, TurnRequest, UserError,
};
use crate::session::{End, Folder, PromptDigest};
use crate::sys::signals::StopSignal;
use crate::sys::{file, memory};
use crate::units::Seconds;
use prompts::Prompt;

/// Works through the prompts in `dir`, whose results go to `out`.
pub(super) fn batch(common: &Common, args: &Run, dir: &Path, out: &Path) -> Result<Done, UserError> {
    let resolved = settings::resolve(common)?;
    let prompts = prompts::find(dir)?;
    make_place(dir, out)?;
    let stop = StopSignal::watch(ExitCode::Stopped as u8).map_err(|error| no_resource("signals", &error))?;
    // States on the disk are for conversations that go on; here each ends, and they would push those out.
    let settings = Settings { together: args.together, states: None, ..resolved.settings()? };
    let mut batch = Batch {
        args,
        words: Words::of(&settings.model)?,
        model: settings.model.clone(),
        folder: Folder::at(out.to_owned()),
        resolved,
        out,
        stop,
        progress: Progress::new(),
        total: prompts.len(),
        tally: Tally::default(),
        waiting: VecDeque::new(),
        running: BTreeMap::new(),
        broken: None,
    };
    batch.sort_out(prompts)?;
    if !batch.waiting.is_empty() {
        batch.answer(settings)?;
    }
    batch.progress.finish();
    batch.sum_up()
}

/// Makes the folder of the results, which must not be that of the prompts: a result could take the place of a prompt.
fn make_place(dir: &Path, out: &Path) -> Result<(), UserError> {
    let cannot = |error: std::io::Error| {
        let detail = format!("cannot make {}: {error}", out.display());
        UserError::new(ExitCode::Usage, "The results cannot be written", detail)
    };
    fs::create_dir_all(out).map_err(cannot)?;
    if out.canonicalize().map_err(cannot)? == dir.canonicalize().map_err(cannot)? {
        let detail = format!("{} holds the prompts, and --out names it as well", dir.display());
        return Err(UserError::new(ExitCode::Usage, "The results need a folder of their own", detail));
    }
    Ok(())
}

/// What became of the prompts so far.
#[derive(Debug, Default)]
struct Tally {
    /// Answered by an earlier run.
    before: usize,
    answered: usize,
    failed: usize,
    /// Tokens that this run has generated.
    tokens: usize,
    /// Since when it does.
    began: Option<Instant>,
}

/// A prompt that is being answered.
struct Running {
    prompt: Prompt,
    kept: KeptTurn,
    report: Report,
    cancel: CancelFlag,
    pause: PauseFlag,
    began: Instant,
    /// Tokens that an earlier run has generated.
    before: usize,
    /// Why its answer is not wanted after all.
    refused: Option<UserError>,
}

struct Batch<'a> {
    args: &'a Run,
    resolved: Resolved,
    words: Words,
    model: PathBuf,
    folder: Folder,
    out: &'a Path,
    stop: StopSignal,
    progress: Progress,
    total: usize,
    tally: Tally,
    waiting: VecDeque<Prompt>,
    running: BTreeMap<TurnId, Running>,
    /// Why no more prompts are begun, beside the user's wish.
    broken: Option<UserError>,
}

impl Batch<'_> {
    /// Looks at every prompt, before anything is loaded: which is answered, which cannot be read, and which waits.
    fn sort_out(&mut self, prompts: Vec<Prompt>) -> Result<(), UserError> {
        let mut taken = HashSet::new();
        for prompt in prompts {
            if !taken.insert(prompt.id.clone()) {
                let detail = format!("another file has the result {}.json already", prompt.id);
                let error = UserError::new(ExitCode::Usage, "Two prompts have one name", detail);
                self.tally.failed += 1;
                self.line(&prompt, &failure(&error.with_hint("Rename one of them.")));
                continue;
            }
            match self.look_at(&prompt) {
                Ok(true) => self.tally.before += 1,
                Ok(false) => self.waiting.push_back(prompt),
                Err(error) => self.failed(&prompt, &error)?,
            }
        }
        Ok(())
    }

    /// Whether a prompt is answered. One that was changed since it was begun is an error, as one that cannot be read.
    fn look_at(&self, prompt: &Prompt) -> Result<bool, UserError> {
        let messages = input::file(&prompt.path)?;
        let answered = prompt.is_answered(self.out);
        // What cannot be read is told where it is to be gone on with; without a journal a result is believed.
        let Ok((session, _damage)) = self.folder.read(&prompt.id) else { return Ok(answered) };
        if session.header.model != self.words.digest {
            return Err(kept::other_model(&prompt.id, &session, &self.model));
        }
        if let Some(turn) = session.turns.first()
            && let Some(before) = turn.prompt
        {
            let thinking = turn.start.thinking;
            let ids = self.words.prompt(&Conversation { messages, thinking, ..Conversation::default() })?;
            if before != PromptDigest::of(&ids) {
                let (id, out) = (&prompt.id, self.out.display());
                let detail = format!("{id}.journal in {out} was begun with another one");
                return Err(UserError::new(ExitCode::Usage, "The prompt is another one than before", detail)
                    .with_hint(format!("To ask anew, delete {id}.journal and {id}.json there.")));
            }
        }
        Ok(answered)
    }

    /// Answers what waits, until nothing does or something ends it.
    fn answer(&mut self, settings: Settings) -> Result<(), UserError> {
        let link = engine::spawn().map_err(|error| no_resource("a thread for the engine", &error))?;
        send(&link, Command::Load(settings))?;
        let loaded = wait_for_model(&link, &mut self.progress, &self.stop);
        let Some(facts) = loaded.map_err(|error| self.with_way_out(error))? else { return Ok(()) };
        if !facts.checked && self.resolved.model.is_some() {
            self.progress.note(UNCHECKED);
        }
        self.tally.began = Some(Instant::now());
        let mut turn = TurnId(0);
        loop {
            if self.is_over() {
                self.running.values().for_each(|running| running.cancel.cancel());
            }
            // One more than run at once, so that it joins as soon as another ends.
            while self.running.len() <= facts.plan.together && !self.is_over() {
                let Some(prompt) = self.waiting.pop_front() else { break };
                turn = TurnId(turn.0 + 1);
                self.begin(prompt, turn, &link, &facts)?;
            }
            if self.running.is_empty() {
                return Ok(());
            }
            if let Some(event) = next_event(&link, &mut self.progress)? {
                self.take(event, &link)?;
            }
        }
    }

    /// Each conversation takes memory of its own.
    fn with_way_out(&self, error: UserError) -> UserError {
        if error.code == ExitCode::Resources && self.args.together.is_some_and(|count| count > 1) {
            let hint = format!("{} A smaller --together takes less.", error.hint);
            return error.with_hint(hint);
        }
        error
    }

    /// Whether no more prompts are to be begun.
    fn is_over(&self) -> bool {
        self.broken.is_some() || self.stop.is_set()
    }

    /// Opens the journal of a prompt, and hands it to the engine.
    fn begin(
        &mut self,
        prompt: Prompt,
        turn: TurnId,
        link: &EngineLink,
        facts: &ModelFacts,
    ) -> Result<(), UserError> {
        let opened = input::file(&prompt.path).and_then(|messages| {
            let asked = Asked {
                user: last_words(&messages),
                thinking: self.resolved.thinking,
                terms: Terms::asked(self.args, &self.resolved),
            };
            let kept = KeptTurn::of_prompt(&prompt.id, &self.folder, &self.words, &self.model, asked)?;
            Ok((messages, kept))
        });
        let (messages, (mut kept, thinking, generated)) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.failed(&prompt, &error),
        };
        let Terms { sampling, max_tokens, limits, allowed_from } = kept.begin(facts);
        let mut report = Report { file: Some(prompt.name.clone()), ..Report::default() };
        report.loaded(facts);
        let (cancel, pause) = (CancelFlag::default(), PauseFlag::default());
        let before = generated.len();
        let request = TurnRequest {
            turn,
            prompt: Input::Chat(Conversation { messages, thinking, ..Conversation::default() }),
            generated,
            sampling,
            max_tokens,
            limits,
            allowed_from,
            prefill_chunk: self.args.prefill_chunk,
            logits: false,
            cancel: cancel.clone(),
            pause: pause.clone(),
        };
        let began = Instant::now();
        self.running
            .insert(turn, Running { prompt, kept, report, cancel, pause, began, before, refused: None });
        send(link, Command::Generate(Box::new(request)))
    }

    /// Takes in what the engine says.
    fn take(&mut self, event: Event, link: &EngineLink) -> Result<(), UserError> {
        let stop = &self.stop;
        match event {
            Event::Prompt { turn, ids, .. } => {
                if let Some(running) = self.running.get_mut(&turn) {
                    if let Err(error) = running.kept.prompt(&ids) {
                        running.refused = Some(error);
                        running.cancel.cancel();
                    }
                    running.report.prompt_ids = ids;
                }
            }
            Event::Token { turn, id, channel } => {
                if let Some(running) = self.running.get(&turn)
                    && let Err(error) = running.kept.token(id, channel, &running.pause, || stop.is_set())
                {
                    self.broken.get_or_insert(error);
                }
            }
            Event::Delta { turn, part } => {
                if let Some(running) = self.running.get_mut(&turn) {
                    running.report.push(part);
                }
            }
            Event::Finished { turn, outcome } => {
                if let Some(running) = self.running.remove(&turn) {
                    self.ended(running, *outcome, link)?;
                }
            }
            Event::Failed(error) | Event::Refused(error) => {
                self.broken.get_or_insert(error);
            }
            Event::Stopped => return Err(engine_left()),
            Event::Note(text) => self.progress.line(&format!("note: {text}")),
            Event::Step { .. } | Event::Logits { .. } | Event::Loading { .. } | Event::Ready(_) => {}
        }
        Ok(())
    }

    /// Writes down how the answer to a prompt came to its end.
    fn ended(&mut self, running: Running, outcome: Outcome, link: &EngineLink) -> Result<(), UserError> {
        let Running { prompt, kept, mut report, began, before, refused, .. } = running;
        // A bad prompt is one of many; anything else would meet the next one as well.
        if let Some(error) = outcome.error.as_ref().filter(|error| error.code != ExitCode::Usage) {
            self.broken.get_or_insert(error.clone());
        }
        let error = refused.or_else(|| outcome.error.clone());
        let finish = if error.is_some() { Finish::Error } else { outcome.finish };
        let stop = &self.stop;
        let end = End::of(&Outcome { finish, error: error.clone(), ..outcome.clone() });
        if let Err(error) = kept.end(end, || stop.is_set()) {
            self.broken.get_or_insert(error);
        }
        let tokens = outcome.ids.len();
        self.tally.tokens += tokens.saturating_sub(before);
        report.finished(outcome);
        report.memory.budget = link.telemetry.sample().budget;
        report.memory.peak_rss = memory::process().peak;
        if let Some(error) = &error {
            report.failed(error);
            self.tally.failed += 1;
            self.line(&prompt, &failure(error));
            return self.write(&prompt, &report);
        }
        // The journal has what there is of an answer that was stopped.
        if finish == Finish::Cancelled {
            return Ok(());
        }
        self.write(&prompt, &report)?;
        self.tally.answered += 1;
        let took = Seconds(began.elapsed().as_secs_f64());
        self.line(&prompt, &format!("{}, {tokens} tokens in {took}", finish.as_str()));
        Ok(())
    }

    /// A prompt that never came to the engine.
    fn failed(&mut self, prompt: &Prompt, error: &UserError) -> Result<(), UserError> {
        let mut report = Report { file: Some(prompt.name.clone()), ..Report::default() };
        report.failed(error);
        self.tally.failed += 1;
        self.line(prompt, &failure(error));
        // An answer that is there already stays.
        if prompt.is_answered(self.out) { Ok(()) } else { self.write(prompt, &report) }
    }

    /// Writes the object of a prompt, whole or not at all.
    fn write(&self, prompt: &Prompt, report: &Report) -> Result<(), UserError> {
        let cannot = |error: &dyn std::fmt::Display| {
            UserError::new(ExitCode::Resources, "The result cannot be written", error.to_string())
                .with_hint("The journals are kept; make room, and the same command goes on.")
        };
        let mut bytes = Vec::new();
        json::write(report, &mut bytes).map_err(|error| cannot(&error))?;
        file::replace(&prompt.result(self.out), &bytes).map_err(|error| cannot(&error))?;
        if self.args.json { output::print_json(report) } else { Ok(()) }
    }

    /// A line for a prompt that came to its end.
    fn line(&mut self, prompt: &Prompt, text: &str) {
        let Tally { before, answered, failed, .. } = self.tally;
        let line = format!("[{}/{}] {}: {text}", before + answered + failed, self.total, prompt.name);
        self.progress.line(&line);
    }

    /// Tells what became of all prompts.
    fn sum_up(mut self) -> Result<Done, UserError> {
        let Tally { before, answered, failed, tokens, began } = self.tally;
        let unfinished = self.total - before - answered - failed;
        let mut counts = vec![format!("{answered} answered")];
        for (count, what) in [(before, "answered before"), (failed, "failed"), (unfinished, "unfinished")] {
            if count > 0 {
                counts.push(format!("{count} {what}"));
            }
        }
        let took = began.map(|began| began.elapsed().as_secs_f64()).filter(|_| tokens > 0);
        let cost = took.map_or_else(String::new, |took| {
            format!("; {tokens} tokens in {}, {} each", Seconds(took), Seconds(took / tokens as f64))
        });
        let (total, counts, out) = (self.total, counts.join(", "), self.out.display());
        self.progress.line(&format!("{total} prompts: {counts}{cost}. The results are in {out}."));
        if unfinished > 0 {
            self.progress
                .line("The same command goes on where this one was, also in the middle of an answer.");
        }
        match self.broken {
            Some(error) => Err(error),
            None if unfinished > 0 => Ok(Done::Stopped),
            None if failed > 0 => {
                let detail = format!("{failed} of {} failed, for the reasons above", self.total);
                Err(UserError::new(ExitCode::CheckFailed, "Not every prompt was answered", detail))
            }
            None => Ok(Done::Well),
        }
    }
}

/// A failure in one line.
fn failure(error: &UserError) -> String {
    let parts = [error.title.as_str(), error.detail.as_str(), error.hint.as_str()];
    let said: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    format!("failed: {}", said.join(": ").replace('\n', " "))
}

/// What the user said last: what the journal is called by.
fn last_words(messages: &[Message]) -> String {
    let of_user = messages.iter().rev().find_map(|message| match message {
        Message::User { content, .. } => Some(content.concat()),
        _ => None,
    });
    of_user.unwrap_or_default()
}
