//! One turn, from a prompt to its last token.

use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crossbeam_channel::{SendError, Sender};

use super::allowance::Allowance;
use super::load::Loaded;
use super::sampler::{self, Sampler};
use super::saved::Place;
use super::shelf::{Kept, Start};
use super::worker::Gone;
use crate::chat::{self, Parser};
use crate::model::{Rows, Segment};
use crate::protocol::{
    Channel, ContextFull, Event, ExitCode, ExpertCounts, Finish, Outcome, Part, Prompt, Reached, Reused,
    Telemetry, TokenCost, TurnRequest, UserError,
};
use crate::store::Counters;
use crate::tokenizer::{Decoder, Tokenizer};

/// Tokens of the prompt in one pass where nobody asks for another number.
pub(super) const CHUNK: usize = 64;

/// Why a turn ended before its time.
#[derive(Clone, Debug)]
pub(super) enum End {
    Failed(UserError),
    /// In the middle of a pass, which is lost. A turn that is stopped between two passes ends in good order.
    Cancelled,
    Gone(Gone),
}

impl From<sampler::Error> for End {
    fn from(error: sampler::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<UserError> for End {
    fn from(error: UserError) -> Self {
        Self::Failed(error)
    }
}

impl From<SendError<Event>> for End {
    fn from(error: SendError<Event>) -> Self {
        Self::Gone(error.into())
    }
}

fn prompt_ids(loaded: &Loaded, prompt: &Prompt) -> Result<Vec<u32>, UserError> {
    Ok(match prompt {
        Prompt::Chat(conversation) => chat::encode(&loaded.tokenizer, &chat::render(conversation)?),
        Prompt::Raw(text) => loaded.tokenizer.encode_with_specials(text),
        Prompt::Ids(ids) => ids.clone(),
    })
}

fn check_ids(loaded: &Loaded, ids: &[u32]) -> Result<(), UserError> {
    let vocabulary = loaded.facts.vocabulary;
    match ids.iter().enumerate().find(|(_, id)| **id as usize >= vocabulary) {
        None => Ok(()),
        Some((place, id)) => {
            let detail =
                format!("token {} of the prompt is {id}, and ids end at {}", place + 1, vocabulary - 1);
            Err(UserError::new(ExitCode::Usage, "Bad token ids", detail))
        }
    }
}

/// Holds a prompt against the vocabulary and the context.
fn check(loaded: &Loaded, prompt: &[u32]) -> Result<(), UserError> {
    let usage = |title: &str, detail: String| UserError::new(ExitCode::Usage, title, detail);
    let limit = loaded.facts.context_limit;
    if prompt.is_empty() {
        return Err(usage("The prompt is empty", "a prompt has at least one token".to_owned()));
    }
    check_ids(loaded, prompt)?;
    if prompt.len() >= limit {
        let detail = format!(
            "the prompt has {} tokens, and the context has room for {limit} with the answer",
            prompt.len()
        );
        let mut hint = "Begin a new conversation, or shorten the prompt.".to_owned();
        let most = loaded.model.config().context_limit;
        if limit < most {
            let _ = write!(
                hint,
                " More memory gives the context more room, and --context N asks for it: up to {most}."
            );
        }
        return Err(usage("The prompt is too long", detail).with_hint(hint));
    }
    Ok(())
}

/// What a turn tells as it goes on, and to whom.
#[derive(Clone, Copy)]
pub(super) struct Listeners<'a> {
    pub(super) events: &'a Sender<Event>,
    pub(super) telemetry: &'a Telemetry,
}

/// What a pass took; of what several turns shared, one turn's part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) took: Duration,
    pub(super) counted: Counters,
}

/// A turn that was asked for. What comes of it stands in `outcome` at any moment, so that a failure loses nothing.
pub(super) struct Turn {
    pub(super) request: TurnRequest,
    pub(super) outcome: Outcome,
    /// How it ended.
    pub(super) end: Option<Result<Finish, End>>,
    pub(super) began: Instant,
    /// Nothing before it has begun, and nothing after its end.
    work: Option<Work>,
}

/// A turn that is under way.
struct Work {
    sampler: Sampler,
    output: Output,
    /// The state, and what it has seen.
    kept: Kept,
    /// The same before the pass that is under way, where there is memory for it.
    before: Option<Kept>,
    /// What it is to read next: what is left of the prompt and of the ids generated before, then each token as it is
    /// drawn.
    unread: Vec<u32>,
    /// Tokens of the prompt.
    prompt: usize,
    allowance: Allowance,
    /// Since when the prompt is read; nothing once it was, and tokens are drawn.
    reading: Option<Instant>,
}

impl Turn {
    pub(super) fn new(request: TurnRequest) -> Self {
        let outcome = Outcome::new(Finish::Error);
        Self { request, outcome, end: None, began: Instant::now(), work: None }
    }

    /// Whether it is still to begin.
    pub(super) const fn is_new(&self) -> bool {
        self.work.is_none() && self.end.is_none()
    }

    /// Whether it reads its prompt.
    pub(super) fn is_reading(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.reading.is_some())
    }

    /// Positions of its state.
    pub(super) fn positions(&self) -> usize {
        self.work.as_ref().map_or(0, |work| work.kept.state.len())
    }

    /// Renders and checks what was asked for, and looks up what of it was read before.
    pub(super) fn begin(&mut self, loaded: &mut Loaded, to: Listeners<'_>) {
        if let Err(end) = self.try_begin(loaded, to) {
            self.ends(Err(end), loaded, to);
        }
    }

    fn try_begin(&mut self, loaded: &mut Loaded, to: Listeners<'_>) -> Result<(), End> {
        let request = &self.request;
        let sampler = Sampler::new(request.sampling, (loaded.facts.temperature, loaded.facts.top_p))?;
        self.outcome.seed = sampler.seed();
        let prompt = prompt_ids(loaded, &request.prompt)?;
        let limit = loaded.facts.context_limit;
        if prompt.len() >= limit {
            self.outcome.full = Some(ContextFull { prompt: prompt.len(), limit });
        }
        check(loaded, &prompt)?;
        let sequence: Vec<u32> = prompt.iter().chain(&request.generated).copied().collect();
        check_ids(loaded, &sequence)?;
        let output = match &request.prompt {
            Prompt::Chat(conversation) => {
                Output::Chat(Box::new(Parser::new(loaded.markers, conversation.thinking)))
            }
            Prompt::Raw(_) | Prompt::Ids(_) => Output::Text(Decoder::default()),
        };
        let looked = Instant::now();
        let Start { kept, logits, from } = loaded.start(&prompt, &sequence);
        let unread = sequence[kept.ids.len()..].to_vec();
        let (length, reused) = (prompt.len(), kept.ids.len());
        self.outcome.reused = Reused { positions: reused, from, took_s: looked.elapsed().as_secs_f64() };
        (self.outcome.took.prompt, self.outcome.took.reused) = (length, reused);
        to.telemetry.prompt_total.fetch_add(unread.len() as u64, Relaxed);
        let chunk = self.chunk().min(loaded.most_together.max(1));
        let of_prompt = length.saturating_sub(reused);
        let chunks = of_prompt.div_ceil(chunk) + (unread.len() - of_prompt).div_ceil(chunk);
        to.telemetry.chunks.fetch_add(chunks as u64, Relaxed);
        let allowance = Allowance::new(request.limits);
        let reading = Some(Instant::now());
        self.work =
            Some(Work { sampler, output, kept, before: None, unread, prompt: length, allowance, reading });
        to.events.send(Event::Prompt { turn: request.turn, ids: prompt, reused })?;
        match (self.replay(loaded, to, sequence.len())?, logits) {
            (Some(finish), _) => self.ends(Ok(finish), loaded, to),
            // All was read before. A state that is shorter has logits too, but they are of its own last token.
            (None, Some(logits)) if reused == sequence.len() => {
                self.draw(&logits, Duration::ZERO, loaded, to)?;
            }
            (None, _) => {}
        }
        Ok(())
    }

    /// Tells anew what was generated before the turn was cut. Gives how it ended, if it had come to its end.
    fn replay(
        &mut self,
        loaded: &Loaded,
        to: Listeners<'_>,
        positions: usize,
    ) -> Result<Option<Finish>, End> {
        let Some(Work { output, allowance, .. }) = &mut self.work else { return Ok(None) };
        let generated = &self.request.generated;
        self.outcome.ids.clone_from(generated);
        to.telemetry.tokens.fetch_add(generated.len() as u64, Relaxed);
        for (place, id) in generated.iter().enumerate() {
            if loaded.stop_ids.binary_search(id).is_ok() {
                return Ok(Some(Finish::Stop));
            }
            if place >= self.request.allowed_from {
                allowance.count(output.channel(), Duration::ZERO);
            }
            for part in output.push(&loaded.tokenizer, *id) {
                to.events.send(Event::Delta { turn: self.request.turn, part })?;
            }
        }
        if !generated.is_empty() {
            self.look_at_limits(loaded, positions);
        }
        Ok(self.outcome.reached.map(|_| Finish::Length))
    }

    /// Writes down which limit keeps the turn from drawing another token, if one does.
    fn look_at_limits(&mut self, loaded: &Loaded, positions: usize) {
        self.outcome.reached = self.reached(loaded, positions);
        if self.outcome.reached == Some(Reached::Context) {
            let prompt = positions - self.outcome.ids.len();
            self.outcome.full = Some(ContextFull { prompt, limit: loaded.facts.context_limit });
        }
    }

    /// Which limit keeps the turn from drawing another token, if one does, with so many positions before it.
    fn reached(&self, loaded: &Loaded, positions: usize) -> Option<Reached> {
        let work = self.work.as_ref()?;
        let most = self.request.max_tokens.filter(|most| self.outcome.ids.len() >= *most);
        most.map(Reached::Tokens)
            .or_else(|| work.allowance.reached(work.output.channel()))
            .or_else(|| (positions >= loaded.facts.context_limit).then_some(Reached::Context))
    }

    /// The most tokens of the prompt that it takes into a pass.
    fn chunk(&self) -> usize {
        self.request.prefill_chunk.unwrap_or(CHUNK).max(1)
    }

    /// How many tokens it would take into the next pass.
    pub(super) fn wants(&self) -> usize {
        let Some(work) = &self.work else { return 0 };
        // The state at the end of the prompt is worth a copy, so no chunk goes across it.
        let to_the_end = work.prompt.saturating_sub(work.kept.ids.len());
        let most = if to_the_end == 0 { usize::MAX } else { to_the_end };
        work.unread.len().min(most).min(self.chunk())
    }

    /// The next `count` tokens, for a pass.
    pub(super) fn segment(&mut self, count: usize, loaded: &Loaded) -> Option<Segment<'_>> {
        let Work { kept, before, unread, prompt, .. } = self.work.as_mut()?;
        // Memory is planned for two of them. While the one before is still being written it is not let go of yet.
        if loaded.plan.held.0 > 0 && !(before.is_some() && loaded.is_saving()) {
            *before = None;
            *before = Some(kept.clone());
        }
        let ids = unread.get(..count)?;
        let whole = count == unread.len() || kept.ids.len() + count == *prompt;
        Some(Segment { state: &mut kept.state, ids, rows: if whole { Rows::Last } else { Rows::None } })
    }

    /// Counts what a pass took for this turn, whatever came of it.
    pub(super) fn counts(&mut self, cost: Cost) {
        let (outcome, counted) = (&mut self.outcome, cost.counted);
        outcome.trunk_bytes += counted.trunk_bytes;
        outcome.expert_bytes += counted.expert_bytes;
        let before = outcome.experts;
        outcome.experts = ExpertCounts {
            requests: before.requests + counted.requests,
            resident: before.resident + counted.resident,
            reads: before.reads + counted.reads,
            bytes: before.bytes + counted.expert_bytes,
        };
        outcome.waits.late += counted.late;
        outcome.waits.in_time += counted.in_time;
        outcome.waits.waited_s += counted.waited_ns as f64 * 1e-9;
    }

    /// A pass has read the next `count` tokens, with these logits where they were wanted.
    pub(super) fn took(
        &mut self,
        count: usize,
        logits: &[f32],
        cost: Cost,
        loaded: &mut Loaded,
        to: Listeners<'_>,
    ) {
        let Some(work) = &mut self.work else { return };
        work.kept.ids.extend(work.unread.drain(..count));
        self.outcome.computed += count;
        if loaded.saved.as_ref().is_some_and(|saved| saved.is_due(work.kept.state.len())) {
            loaded.save(&work.kept, (!logits.is_empty()).then_some(logits), Place::Between);
        }
        if let Some(began) = work.reading {
            to.telemetry.prompt_done.fetch_add(count as u64, Relaxed);
            self.outcome.took.read += count;
            self.outcome.took.prefill_s = began.elapsed().as_secs_f64();
            if work.kept.ids.len() == work.prompt {
                loaded.keep_prompt(&work.kept, logits);
            }
        } else {
            self.outcome.decode_s.push(cost.took.as_secs_f64());
            let counted = cost.counted;
            let of_token = TokenCost {
                trunk: counted.trunk_bytes,
                experts: counted.expert_bytes,
                woken: counted.requests,
                resident: counted.resident,
                waited_s: counted.waited_ns as f64 * 1e-9,
            };
            self.outcome.tokens.push(of_token);
            let (turn, seconds) = (self.request.turn, cost.took.as_secs_f64());
            if let Err(gone) = to.events.send(Event::Step { turn, seconds, cost: of_token }) {
                self.ends(Err(gone.into()), loaded, to);
                return;
            }
        }
        // The first token comes of the pass that read the prompt, which is no time of thinking.
        let took = if work.reading.is_some() { Duration::ZERO } else { cost.took };
        if work.unread.is_empty()
            && let Err(end) = self.draw(logits, took, loaded, to)
        {
            self.ends(Err(end), loaded, to);
        }
    }

    /// Draws the next token from the logits of the last one, and leaves it to be read, unless the turn ends with it.
    /// `took` is the time of the pass that they come of.
    fn draw(
        &mut self,
        logits: &[f32],
        took: Duration,
        loaded: &mut Loaded,
        to: Listeners<'_>,
    ) -> Result<(), End> {
        let turn = self.request.turn;
        let Some(Work { sampler, output, kept, allowance, reading, .. }) = &mut self.work else {
            return Ok(());
        };
        *reading = None;
        if self.request.logits {
            to.events.send(Event::Logits { turn, values: logits.to_vec() })?;
        }
        // The state has seen all but the token that is about to be drawn.
        let positions = kept.ids.len() + 1;
        if self.request.max_tokens == Some(0) {
            self.outcome.reached = Some(Reached::Tokens(0));
            self.ends(Ok(Finish::Length), loaded, to);
            return Ok(());
        }
        // Which number of the random stream comes next depends on the place in the turn alone.
        let id = sampler.draw(logits, self.outcome.ids.len() as u64)?;
        self.outcome.ids.push(id);
        let since = self.began.elapsed();
        if self.outcome.took.first_token_s.is_none() {
            self.outcome.took.first_token_s = Some(since.as_secs_f64());
            let since = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
            to.telemetry.first_token_ns.store(since, Relaxed);
        }
        to.telemetry.tokens.fetch_add(1, Relaxed);
        to.events.send(Event::Token { turn, id, channel: output.channel() })?;
        allowance.count(output.channel(), took);
        self.outcome.took.thinking_s = allowance.thinking_s();
        if loaded.stop_ids.binary_search(&id).is_ok() {
            self.ends(Ok(Finish::Stop), loaded, to);
            return Ok(());
        }
        for part in output.push(&loaded.tokenizer, id) {
            to.events.send(Event::Delta { turn, part })?;
        }
        // Asked before the pass and not only after it: the last token's logits would go nowhere.
        self.look_at_limits(loaded, positions);
        if self.outcome.reached.is_some() {
            self.ends(Ok(Finish::Length), loaded, to);
        } else if let Some(work) = &mut self.work {
            work.unread.push(id);
        }
        Ok(())
    }

    /// The turn is over. After a failure its state holds half a step; what it had read and written before is not lost.
    pub(super) fn ends(&mut self, end: Result<Finish, End>, loaded: &mut Loaded, to: Listeners<'_>) {
        let mut end = end;
        if let Some(Work { output, kept, before, .. }) = self.work.take() {
            // What was held back for the rest of a character or a tag is text too, however the turn ended.
            for part in output.finish() {
                if let Err(gone) = to.events.send(Event::Delta { turn: self.request.turn, part }) {
                    end = Err(gone.into());
                }
            }
            if let Some(whole) = if kept.state.is_whole() { Some(kept) } else { before } {
                loaded.shelf.keep(whole);
            }
        }
        self.end = Some(end);
    }
}

/// What becomes of the generated ids.
enum Output {
    /// Channels of the chat format.
    Chat(Box<Parser>),
    /// Plain text.
    Text(Decoder),
}

impl Output {
    fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> Vec<Part> {
        match self {
            Self::Chat(parser) => parser.push(tokenizer, id),
            Self::Text(decoder) => text(decoder.push(tokenizer.token(id).unwrap_or_default())),
        }
    }

    /// Where the text of the next token belongs.
    fn channel(&self) -> Channel {
        match self {
            Self::Chat(parser) => parser.channel(),
            Self::Text(_) => Channel::Answer,
        }
    }

    fn finish(self) -> Vec<Part> {
        match self {
            Self::Chat(mut parser) => parser.finish(),
            Self::Text(mut decoder) => text(decoder.finish()),
        }
    }
}

fn text(text: String) -> Vec<Part> {
    if text.is_empty() { Vec::new() } else { vec![Part::Answer(text)] }
}
