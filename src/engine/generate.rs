//! One turn, from a prompt to its last token.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crossbeam_channel::{SendError, Sender};

use super::allowance::Allowance;
use super::load::Loaded;
use super::sampler::{self, Sampler};
use super::saved::Place;
use super::shelf::{Kept, Start};
use super::telemetry::publish;
use super::watch::Watch;
use super::worker::{Gone, Record};
use crate::chat::{self, Parser};
use crate::model::{self, Observer, Rows, State};
use crate::protocol::{
    Channel, Event, ExitCode, Finish, Part, Phase, Prompt, Reached, Reused, Telemetry, TokenCost,
    TurnRequest, UserError,
};
use crate::tokenizer::{Decoder, Tokenizer};

/// Tokens of the prompt in one pass where nobody asks for another number.
pub(super) const CHUNK: usize = 64;

/// Why a turn ended before its time.
#[derive(Debug)]
pub(super) enum End {
    Failed(UserError),
    /// In the middle of a pass, which is lost. A turn that is stopped between two passes ends in good order.
    Cancelled,
    Gone(Gone),
}

impl From<model::Error> for End {
    fn from(error: model::Error) -> Self {
        match error {
            model::Error::Cancelled => Self::Cancelled,
            error => Self::Failed(error.into()),
        }
    }
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

/// Runs `request` on `loaded`. What comes of it stands in `record` at any moment, so that a failure loses nothing.
pub(super) fn run(
    loaded: &mut Loaded,
    request: &TurnRequest,
    record: &mut Record,
    events: &Sender<Event>,
    telemetry: &Telemetry,
    observer: &dyn Observer,
) -> Result<Finish, End> {
    telemetry.turn.store(request.turn.0, Relaxed);
    telemetry.tokens.store(0, Relaxed);
    telemetry.first_token_ns.store(0, Relaxed);
    telemetry.last_token_ns.store(0, Relaxed);
    telemetry.token_requests.store(0, Relaxed);
    telemetry.token_resident.store(0, Relaxed);

    let sampler = Sampler::new(request.sampling, (loaded.facts.temperature, loaded.facts.top_p))?;
    record.outcome.seed = sampler.seed();
    let prompt = prompt_ids(loaded, &request.prompt)?;
    check(loaded, &prompt)?;
    let sequence: Vec<u32> = prompt.iter().chain(&request.generated).copied().collect();
    check_ids(loaded, &sequence)?;
    let mut output = match &request.prompt {
        Prompt::Chat(conversation) => {
            Output::Chat(Box::new(Parser::new(loaded.markers, conversation.thinking)))
        }
        Prompt::Raw(_) | Prompt::Ids(_) => Output::Text(Decoder::default()),
    };
    let looked = Instant::now();
    let Start { mut kept, logits, from } = loaded.start(&prompt, &sequence);
    let (read, reused) = (prompt.len(), kept.ids.len());
    record.outcome.reused = Reused { positions: reused, from, took_s: looked.elapsed().as_secs_f64() };
    (record.outcome.took.prompt, record.outcome.took.reused) = (read, reused);
    events.send(Event::Prompt { turn: request.turn, ids: prompt, reused })?;

    let watch = Watch::new(telemetry, &request.cancel, observer);
    let allowance = Allowance::new(request.limits);
    let mut turn = Turn { loaded, request, record, events, watch, kept: &mut kept, before: None, allowance };
    let finish = turn.replay(&mut output, sequence.len()).and_then(|ended| match ended {
        Some(finish) => Ok(finish),
        None => turn.prefill(&sequence, read, logits).and_then(|logits| match logits {
            None => Ok(Finish::Cancelled),
            Some(logits) => turn.decode(&sampler, logits, &mut output),
        }),
    });
    let before = turn.before.take();
    // What was held back for the rest of a character or a tag is text too, however the turn ended.
    for part in output.finish() {
        events.send(Event::Delta { turn: request.turn, part })?;
    }
    // After a failure the state holds half a step; what the turn had read and written before it is not lost.
    if let Some(whole) = if kept.state.is_whole() { Some(kept) } else { before } {
        loaded.shelf.keep(whole);
    }
    finish
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
            "the prompt has {} tokens, and the model's context {limit} with the answer",
            prompt.len()
        );
        return Err(usage("The prompt is too long", detail)
            .with_hint("Begin a new conversation, or shorten the prompt."));
    }
    Ok(())
}

struct Turn<'a> {
    loaded: &'a mut Loaded,
    request: &'a TurnRequest,
    record: &'a mut Record,
    events: &'a Sender<Event>,
    watch: Watch<'a>,
    kept: &'a mut Kept,
    /// The state before the pass that is under way, where there is memory for it.
    before: Option<Kept>,
    allowance: Allowance,
}

impl Turn<'_> {
    /// Tells anew what was generated before the turn was cut. Gives how it ended, if it had come to its end.
    fn replay(&mut self, output: &mut Output, positions: usize) -> Result<Option<Finish>, End> {
        let generated = &self.request.generated;
        self.record.outcome.ids.clone_from(generated);
        self.watch.telemetry().tokens.store(generated.len() as u64, Relaxed);
        for (place, id) in generated.iter().enumerate() {
            if self.loaded.stop_ids.binary_search(id).is_ok() {
                return Ok(Some(Finish::Stop));
            }
            if place >= self.request.allowed_from {
                self.allowance.count(output.channel(), Duration::ZERO);
            }
            for part in output.push(&self.loaded.tokenizer, *id) {
                self.events.send(Event::Delta { turn: self.request.turn, part })?;
            }
        }
        self.record.outcome.reached =
            if generated.is_empty() { None } else { self.reached(output.channel(), positions) };
        Ok(self.record.outcome.reached.map(|_| Finish::Length))
    }

    /// Which limit keeps the turn from drawing another token, if one does: `next` is its channel, and `positions` what the
    /// context holds before it.
    fn reached(&self, next: Channel, positions: usize) -> Option<Reached> {
        let most = self.request.max_tokens.filter(|most| self.record.outcome.ids.len() >= *most);
        most.map(Reached::Tokens)
            .or_else(|| self.allowance.reached(next))
            .or_else(|| (positions >= self.loaded.facts.context_limit).then_some(Reached::Context))
    }

    /// Reads what the state has not seen of the prompt, whose length is `prompt`, and of the ids after it. Gives the last
    /// logits, or nothing if it was stopped between two passes.
    fn prefill(
        &mut self,
        sequence: &[u32],
        prompt: usize,
        logits: Option<Vec<f32>>,
    ) -> Result<Option<Vec<f32>>, End> {
        let telemetry = self.watch.telemetry();
        let seen = self.kept.ids.len();
        let unread = sequence.len() - seen;
        telemetry.prompt_total.store(unread as u64, Relaxed);
        telemetry.prompt_done.store(0, Relaxed);
        telemetry.set_phase(Phase::Prefill);
        let began = Instant::now();
        let mut logits = logits;
        // A chunk that would leave the budget is cut: it never changes a bit, only the time.
        let together = self.request.prefill_chunk.unwrap_or(CHUNK).clamp(1, self.loaded.most_together);
        // The state at the end of the prompt is worth a copy, so no chunk goes across it.
        let (before, after) = sequence[seen..].split_at(prompt.saturating_sub(seen));
        let chunks = before.len().div_ceil(together) + after.len().div_ceil(together);
        telemetry.chunks.store(chunks as u64, Relaxed);
        for (number, chunk) in (1..).zip(before.chunks(together).chain(after.chunks(together))) {
            telemetry.chunk.store(number, Relaxed);
            if self.request.cancel.is_cancelled() {
                return Ok(None);
            }
            let end = self.kept.ids.len() + chunk.len();
            let rows = if end == prompt || end == sequence.len() { Rows::Last } else { Rows::None };
            let read = self.pass(chunk, rows)?;
            let done = self.kept.ids.len() - seen;
            telemetry.prompt_done.store(done as u64, Relaxed);
            self.record.outcome.took.read = done;
            self.record.outcome.took.prefill_s = began.elapsed().as_secs_f64();
            if self.kept.ids.len() == prompt {
                self.loaded.keep_prompt(self.kept, &read);
            }
            logits = Some(read);
        }
        Ok(logits)
    }

    /// Draws and computes token after token, beginning with the prompt's last logits.
    fn decode(&mut self, sampler: &Sampler, logits: Vec<f32>, output: &mut Output) -> Result<Finish, End> {
        let telemetry = self.watch.telemetry();
        telemetry.set_phase(Phase::Decode);
        let turn = self.request.turn;
        let mut logits = logits;
        // The pass that the next token comes of; that of the first one read the prompt, and is no time of thinking.
        let mut took = Duration::ZERO;
        // Which number of the random stream comes next depends on the place in the turn alone.
        for step in self.request.generated.len() as u64.. {
            if self.request.logits {
                self.events.send(Event::Logits { turn, values: logits.clone() })?;
            }
            // The state has seen all but the token that is about to be drawn.
            let positions = self.kept.ids.len() + 1;
            if self.request.max_tokens == Some(0) {
                self.record.outcome.reached = Some(Reached::Tokens(0));
                return Ok(Finish::Length);
            }
            let id = sampler.draw(&logits, step)?;
            self.record.outcome.ids.push(id);
            self.drawn();
            self.events.send(Event::Token { turn, id, channel: output.channel() })?;
            self.allowance.count(output.channel(), took);
            self.record.outcome.took.thinking_s = self.allowance.thinking_s();
            if self.loaded.stop_ids.binary_search(&id).is_ok() {
                return Ok(Finish::Stop);
            }
            for part in output.push(&self.loaded.tokenizer, id) {
                self.events.send(Event::Delta { turn, part })?;
            }
            // Asked before the pass and not only after it: the last token's logits would go nowhere.
            self.record.outcome.reached = self.reached(output.channel(), positions);
            if self.record.outcome.reached.is_some() {
                return Ok(Finish::Length);
            }
            if self.request.cancel.is_cancelled() {
                return Ok(Finish::Cancelled);
            }
            let (began, before) = (Instant::now(), self.loaded.model.store().counters());
            logits = self.pass(&[id], Rows::Last)?;
            took = began.elapsed();
            let after = self.loaded.model.store().counters();
            self.record.outcome.decode_s.push(took.as_secs_f64());
            let cost = TokenCost {
                trunk: after.trunk_bytes - before.trunk_bytes,
                experts: after.expert_bytes - before.expert_bytes,
                woken: after.requests - before.requests,
                resident: after.resident - before.resident,
                waited_s: (after.waited_ns - before.waited_ns) as f64 * 1e-9,
            };
            self.record.outcome.tokens.push(cost);
            self.events.send(Event::Step { turn, seconds: took.as_secs_f64(), cost })?;
            telemetry.last_token_ns.store(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
            telemetry.token_requests.store(cost.woken, Relaxed);
            telemetry.token_resident.store(cost.resident, Relaxed);
        }
        Ok(Finish::Length)
    }

    /// Takes `ids` through the model, after all that the state has seen.
    fn pass(&mut self, ids: &[u32], rows: Rows) -> Result<Vec<f32>, End> {
        let telemetry = self.watch.telemetry();
        // Memory is planned for two of them. While the one before is still being written it is not let go of yet.
        if self.loaded.plan.held.0 > 0 && !(self.before.is_some() && self.loaded.is_saving()) {
            self.before = None;
            self.before = Some(self.kept.clone());
        }
        telemetry.pass_began_ns.store(telemetry.now_ns(), Relaxed);
        telemetry.pass_landed.store(telemetry.landed_bytes.load(Relaxed), Relaxed);
        let logits = self.loaded.model.forward(&mut self.kept.state, ids, rows, &self.watch);
        publish(telemetry, self.loaded.model.store());
        let logits = logits?;
        self.kept.ids.extend_from_slice(ids);
        self.record.outcome.computed += ids.len();
        let positions = self.kept.state.len();
        if self.loaded.saved.as_ref().is_some_and(|saved| saved.is_due(positions)) {
            self.loaded.save(self.kept, Some(&logits), Place::Between);
        }
        telemetry.context_used.store(positions as u64, Relaxed);
        let bytes = State::bytes(self.loaded.model.config(), positions) + self.loaded.shelf.bytes();
        telemetry.state_bytes.store(bytes, Relaxed);
        Ok(logits)
    }

    /// Writes down that a token was drawn.
    fn drawn(&mut self) {
        let telemetry = self.watch.telemetry();
        let since = self.record.began.elapsed();
        if self.record.outcome.took.first_token_s.is_none() {
            self.record.outcome.took.first_token_s = Some(since.as_secs_f64());
            telemetry.first_token_ns.store(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        }
        telemetry.tokens.store(self.record.outcome.ids.len() as u64, Relaxed);
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
