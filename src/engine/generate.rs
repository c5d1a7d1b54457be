//! One turn, from a prompt to its last token.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use crossbeam_channel::{SendError, Sender};

use super::load::{Kept, Loaded};
use super::sampler::{self, Sampler};
use super::telemetry::{Watch, publish};
use super::worker::{Gone, Record};
use crate::chat::{self, Parser};
use crate::model::{self, Observer, Rows, State};
use crate::protocol::{
    Event, ExitCode, Finish, Part, Phase, Prompt, Telemetry, TokenCost, TurnRequest, UserError,
};
use crate::tokenizer::{Decoder, Tokenizer};

/// Tokens of the prompt in one pass where nobody asks for another number.
pub(super) const CHUNK: usize = 64;

/// Why a turn ended before its time.
#[derive(Debug)]
pub(super) enum End {
    Failed(UserError),
    /// In the middle of a pass, whose state is lost. A turn that is stopped between two passes ends in good order.
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
    let mut output = match &request.prompt {
        Prompt::Chat(conversation) => {
            Output::Chat(Box::new(Parser::new(loaded.markers, conversation.thinking)))
        }
        Prompt::Raw(_) | Prompt::Ids(_) => Output::Text(Decoder::default()),
    };
    let mut kept = take_state(loaded, &prompt);
    let reused = kept.ids.len();
    events.send(Event::Prompt { turn: request.turn, ids: prompt.clone(), reused })?;

    let watch = Watch { telemetry, cancel: &request.cancel, beside: observer };
    let mut turn = Turn { loaded, request, record, events, watch, kept: &mut kept };
    let finish = turn.prefill(&prompt).and_then(|logits| match logits {
        None => Ok(Finish::Cancelled),
        Some(logits) => turn.decode(&sampler, logits, &mut output),
    });
    // What was held back for the rest of a character or a tag is text too, however the turn ended.
    for part in output.finish() {
        events.send(Event::Delta { turn: request.turn, part })?;
    }
    // After a failure the state holds half a step.
    if finish.is_ok() {
        loaded.kept = Some(kept);
    }
    finish
}

/// Positions and bytes of a state.
pub(super) fn size(loaded: &Loaded, kept: &Kept) -> (u64, u64) {
    let positions = kept.state.len();
    (positions as u64, State::bytes(loaded.model.config(), positions))
}

fn prompt_ids(loaded: &Loaded, prompt: &Prompt) -> Result<Vec<u32>, UserError> {
    Ok(match prompt {
        Prompt::Chat(conversation) => chat::encode(&loaded.tokenizer, &chat::render(conversation)?),
        Prompt::Raw(text) => loaded.tokenizer.encode_with_specials(text),
        Prompt::Ids(ids) => ids.clone(),
    })
}

/// Holds a prompt against the vocabulary and the context.
fn check(loaded: &Loaded, prompt: &[u32]) -> Result<(), UserError> {
    let usage = |title: &str, detail: String| UserError::new(ExitCode::Usage, title, detail);
    let (vocabulary, limit) = (loaded.facts.vocabulary, loaded.facts.context_limit);
    if prompt.is_empty() {
        return Err(usage("The prompt is empty", "a prompt has at least one token".to_owned()));
    }
    if let Some((place, id)) = prompt.iter().enumerate().find(|(_, id)| **id as usize >= vocabulary) {
        let detail = format!("token {} of the prompt is {id}, and ids end at {}", place + 1, vocabulary - 1);
        return Err(usage("Bad token ids", detail));
    }
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

/// The state to go on from: the last turn's where `prompt` truly goes on from it, else a new one.
///
/// Nothing less than the whole state will do. KDA's state cannot be cut back to an earlier token, so one that has
/// seen anything else than the beginning of this prompt would answer another question. One token at least must be
/// left to read, since the logits come of reading.
fn take_state(loaded: &mut Loaded, prompt: &[u32]) -> Kept {
    let kept = loaded.kept.take().filter(|kept| is_strict_prefix(&kept.ids, prompt));
    kept.unwrap_or_else(|| Kept::new(loaded.model.config()))
}

fn is_strict_prefix(seen: &[u32], prompt: &[u32]) -> bool {
    seen.len() < prompt.len() && prompt.starts_with(seen)
}

struct Turn<'a> {
    loaded: &'a mut Loaded,
    request: &'a TurnRequest,
    record: &'a mut Record,
    events: &'a Sender<Event>,
    watch: Watch<'a>,
    kept: &'a mut Kept,
}

impl Turn<'_> {
    /// Reads what the state has not seen of the prompt. Gives the last logits, or nothing if it was stopped between
    /// two passes.
    fn prefill(&mut self, prompt: &[u32]) -> Result<Option<Vec<f32>>, End> {
        let telemetry = self.watch.telemetry;
        let unread = &prompt[self.kept.ids.len()..];
        telemetry.prompt_total.store(unread.len() as u64, Relaxed);
        telemetry.prompt_done.store(0, Relaxed);
        telemetry.set_phase(Phase::Prefill);
        let began = Instant::now();
        let mut logits = None;
        let mut done = 0;
        for chunk in unread.chunks(self.request.prefill_chunk.unwrap_or(CHUNK).max(1)) {
            if self.request.cancel.is_cancelled() {
                return Ok(None);
            }
            logits = Some(self.pass(chunk)?);
            done += chunk.len();
            telemetry.prompt_done.store(done as u64, Relaxed);
            self.record.outcome.prefill_s = began.elapsed().as_secs_f64();
        }
        Ok(logits)
    }

    /// Draws and computes token after token, beginning with the prompt's last logits.
    fn decode(&mut self, sampler: &Sampler, logits: Vec<f32>, output: &mut Output) -> Result<Finish, End> {
        let telemetry = self.watch.telemetry;
        telemetry.set_phase(Phase::Decode);
        let turn = self.request.turn;
        let most = self.request.max_tokens.unwrap_or(usize::MAX);
        let mut logits = logits;
        for step in 0.. {
            if self.request.logits {
                self.events.send(Event::Logits { turn, values: logits.clone() })?;
            }
            // The state has seen all but the token that is about to be drawn.
            let positions = self.kept.ids.len() + 1;
            if self.record.outcome.ids.len() >= most {
                return Ok(Finish::Length);
            }
            let id = sampler.draw(&logits, step)?;
            self.record.outcome.ids.push(id);
            self.drawn();
            if self.loaded.stop_ids.binary_search(&id).is_ok() {
                return Ok(Finish::Stop);
            }
            for part in output.push(&self.loaded.tokenizer, id) {
                self.events.send(Event::Delta { turn, part })?;
            }
            // Asked before the pass and not only after it: the last token's logits would go nowhere.
            if self.record.outcome.ids.len() >= most || positions >= self.loaded.facts.context_limit {
                return Ok(Finish::Length);
            }
            if self.request.cancel.is_cancelled() {
                return Ok(Finish::Cancelled);
            }
            let (began, before) = (Instant::now(), self.loaded.model.store().counters());
            logits = self.pass(&[id])?;
            let (took, after) = (began.elapsed(), self.loaded.model.store().counters());
            self.record.outcome.decode_s.push(took.as_secs_f64());
            self.record.outcome.tokens.push(TokenCost {
                trunk: after.trunk_bytes - before.trunk_bytes,
                experts: after.expert_bytes - before.expert_bytes,
                waited_s: (after.waited_ns - before.waited_ns) as f64 * 1e-9,
            });
            telemetry.last_token_ns.store(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
            telemetry.token_requests.store(after.requests - before.requests, Relaxed);
            telemetry.token_resident.store(after.resident - before.resident, Relaxed);
        }
        Ok(Finish::Length)
    }

    /// Takes `ids` through the model, after all that the state has seen.
    fn pass(&mut self, ids: &[u32]) -> Result<Vec<f32>, End> {
        let telemetry = self.watch.telemetry;
        telemetry.pass_began_ns.store(telemetry.now_ns(), Relaxed);
        let logits = self.loaded.model.forward(&mut self.kept.state, ids, Rows::Last, &self.watch);
        publish(telemetry, self.loaded.model.store());
        let logits = logits?;
        self.kept.ids.extend_from_slice(ids);
        let (used, bytes) = size(self.loaded, self.kept);
        telemetry.context_used.store(used, Relaxed);
        telemetry.state_bytes.store(bytes, Relaxed);
        Ok(logits)
    }

    /// Writes down that a token was drawn.
    fn drawn(&mut self) {
        let telemetry = self.watch.telemetry;
        let since = self.record.began.elapsed();
        if self.record.outcome.first_token_s.is_none() {
            self.record.outcome.first_token_s = Some(since.as_secs_f64());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_reused_only_by_what_goes_on_from_it() {
        assert!(is_strict_prefix(&[1, 2], &[1, 2, 3]));
        // Nothing left to read.
        assert!(!is_strict_prefix(&[1, 2, 3], &[1, 2, 3]));
        assert!(!is_strict_prefix(&[1, 2, 3], &[1, 2]));
        assert!(!is_strict_prefix(&[1, 9], &[1, 2, 3]));
        assert!(is_strict_prefix(&[], &[1]));
    }
}
