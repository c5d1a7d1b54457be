//! From the ids of a session to its text.

use std::path::{Path, PathBuf};

use super::kept::other_model;
use crate::chat::{self, Markers, Parser, Transcript};
use crate::checkpoint::Checkpoint;
use crate::protocol::{Conversation, ExitCode, Finish, Outcome, Part, TurnId, UserError};
use crate::session::{Session, Turn};
use crate::tokenizer::Tokenizer;
use crate::tui;

/// What of a model is needed to read a session of it.
#[derive(Debug)]
pub(super) struct Words {
    /// Digest of the model.
    pub(super) digest: u64,
    tokenizer: Tokenizer,
    markers: Markers,
}

impl Words {
    /// The words of the model in this folder. Reads its tokenizer and headers, and no weights.
    pub(super) fn of(model: &Path) -> Result<Self, UserError> {
        let checkpoint = Checkpoint::open(model)?;
        let tokenizer = Tokenizer::load(checkpoint.dir(), checkpoint.config().vocabulary)?;
        let markers = Markers::of(&tokenizer)?;
        Ok(Self { digest: checkpoint.headers_digest(), tokenizer, markers })
    }

    /// What a conversation is rendered to.
    pub(super) fn prompt(&self, conversation: &Conversation) -> Result<Vec<u32>, UserError> {
        Ok(chat::encode(&self.tokenizer, &chat::render(conversation)?))
    }

    /// What the ids of a turn say.
    pub(super) fn parts(&self, turn: &Turn) -> Vec<Part> {
        let mut parser = Parser::new(self.markers, turn.start.thinking);
        // The id that ended the turn says nothing.
        let stopped = turn.end.as_ref().is_some_and(|end| end.finish == Finish::Stop);
        let said = turn.ids.len() - usize::from(stopped && !turn.ids.is_empty());
        let mut parts: Vec<Part> =
            turn.ids.iter().take(said).flat_map(|id| parser.push(&self.tokenizer, *id)).collect();
        parts.extend(parser.finish());
        parts
    }

    /// These turns of session `id`, each with its end.
    pub(super) fn transcript(&self, turns: &[&Turn], id: &str) -> Transcript {
        let mut transcript = Transcript::default();
        transcript.system = turns.last().and_then(|turn| turn.system.clone());
        for (number, turn) in (1..).map(TurnId).zip(turns) {
            transcript.begin(number, turn.start.user.clone());
            for part in self.parts(turn) {
                transcript.push(number, part);
            }
            transcript.finish(number, outcome(turn, id));
        }
        transcript
    }
}

/// The words of a model for the screen, read when they are needed first.
#[derive(Debug)]
pub(super) struct ScreenWords {
    model: PathBuf,
    words: Option<Words>,
}

impl ScreenWords {
    /// Of the model in this folder.
    pub(super) const fn of(model: PathBuf) -> Self {
        Self { model, words: None }
    }
}

impl tui::Words for ScreenWords {
    fn parts(&mut self, id: &str, session: &Session) -> Result<Vec<Vec<Part>>, UserError> {
        let words = match &mut self.words {
            Some(words) => words,
            none => none.insert(Words::of(&self.model)?),
        };
        if words.digest != session.header.model {
            return Err(other_model(id, session, &self.model));
        }
        Ok(session.turns.iter().map(|turn| words.parts(turn)).collect())
    }

    fn change_model(&mut self, folder: &Path) {
        *self = Self::of(folder.to_owned());
    }
}

fn outcome(turn: &Turn, id: &str) -> Outcome {
    let cut = || {
        UserError::new(ExitCode::Invalid, "The turn was cut", "the program ended before it did")
            .with_hint(format!("`dormouse run --session {id} --continue` finishes it."))
    };
    let failed = |error: &str| UserError::new(ExitCode::Invalid, error, "");
    let (finish, error) = match &turn.end {
        None => (Finish::Error, Some(cut())),
        Some(end) => (end.finish, (!end.error.is_empty()).then(|| failed(&end.error))),
    };
    let took = turn.end.as_ref().and_then(|end| end.took).unwrap_or_default();
    let reached = turn.end.as_ref().and_then(|end| end.reached);
    Outcome { error, ids: turn.ids.clone(), seed: turn.start.seed, reached, took, ..Outcome::new(finish) }
}
