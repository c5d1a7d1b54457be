//! A session as the screen takes it in: its turns with what they say, and what is known of each.

use super::transcript::{Asked, Facts};
use crate::chat::{Transcript, Turn};
use crate::protocol::{ExitCode, Finish, Limits, Outcome, Part, TurnId, UserError};
use crate::session::{self, Damage, Session};

/// A session that is to be shown.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    /// Its name.
    pub(crate) id: String,
    /// The turns of all branches, in the order in which they began. They are named by their number, from 1.
    pub(crate) turns: Vec<(Turn, Facts)>,
    /// The last turn of the branch that is gone on with.
    pub(crate) head: Option<TurnId>,
    /// What the model was told before everything else, in that branch...
    pub(crate) system: Option<String>,
    /// ...and what the journal holds of it.
    pub(crate) kept_system: Option<String>,
    /// Whether another program writes it, so that here it can only be read.
    pub(crate) read_only: bool,
    /// What the user is told of it.
    pub(crate) notice: Option<String>,
}

impl Opening {
    /// Session `id`, with what each of its turns says.
    pub fn of(id: String, session: &Session, parts: Vec<Vec<Part>>) -> Self {
        let name = |turn: usize| TurnId(turn as u64 + 1);
        let mut turns = Vec::with_capacity(session.turns.len());
        for ((number, turn), parts) in session.turns.iter().enumerate().zip(parts) {
            let mut said = Transcript::default();
            said.begin(name(number), turn.start.user.clone());
            for part in parts {
                said.push(name(number), part);
            }
            said.finish(name(number), outcome(turn));
            turns.extend(said.split_off(0).into_iter().map(|mut shown| {
                shown.follows = turn.follows.map(name);
                (shown, facts(turn))
            }));
        }
        let head = session.head.and_then(|head| session.turns.get(head));
        let kept_system = session.system.clone();
        let system = head.map_or_else(|| kept_system.clone(), |turn| turn.system.clone());
        Self { id, turns, head: session.head.map(name), system, kept_system, ..Self::default() }
    }

    /// The limits of the last turn of the branch that is gone on with.
    pub fn limits(&self) -> Option<Limits> {
        let last = self.turns.iter().find(|(turn, _)| Some(turn.id) == self.head);
        last.and_then(|(_, facts)| facts.asked).map(|asked| asked.limits)
    }

    /// The same, of which something could not be used.
    #[must_use]
    pub fn damaged(self, damage: &Damage) -> Self {
        let notice = format!("Session {0}: {damage}; they are in {0}.lost now.", self.id);
        Self { notice: Some(notice), ..self }
    }

    /// The same, to be read and not written.
    #[must_use]
    pub fn read_only(self) -> Self {
        Self { read_only: true, ..self }
    }
}

fn facts(turn: &session::Turn) -> Facts {
    let start = &turn.start;
    let asked = Asked {
        thinking: start.thinking,
        sampling: start.sampling(),
        max_tokens: start.max_tokens,
        limits: start.limits,
        dropped: turn.dropped,
    };
    Facts { digest: turn.prompt, asked: Some(asked), allowed_from: turn.allowed_from(), ..Facts::default() }
}

fn outcome(turn: &session::Turn) -> Outcome {
    let (finish, error) = match &turn.end {
        None => {
            let cut =
                UserError::new(ExitCode::Invalid, "The answer was cut", "the program ended before it did");
            (Finish::Error, Some(cut))
        }
        Some(end) => {
            let failed = || UserError::new(ExitCode::Invalid, end.error.clone(), "");
            (end.finish, (!end.error.is_empty()).then(failed))
        }
    };
    let took = turn.end.as_ref().and_then(|end| end.took).unwrap_or_default();
    let reached = turn.end.as_ref().and_then(|end| end.reached);
    Outcome { error, ids: turn.ids.clone(), seed: turn.start.seed, reached, took, ..Outcome::new(finish) }
}
