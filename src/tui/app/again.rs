//! Asking again: another answer, another message in place of one, and going on with an answer that was cut. Nothing is
//! written over: each begins a turn beside the old one, or takes the same one up.

use super::{App, Effect, Engine};
use crate::protocol::{Command, Finish, Reached, TurnId};
use crate::session::Record;
use crate::tui::commands::Answer;
use crate::tui::draft::Draft;

/// A message that is being written anew.
#[derive(Clone, Debug)]
pub(crate) struct Editing {
    /// The turn that it began.
    pub(crate) turn: TurnId,
    /// What was written before, which comes back.
    draft: Draft,
}

impl App {
    /// Why nothing can be asked now, if so.
    pub(super) fn cannot_ask(&self) -> Option<String> {
        if self.read_only {
            return Some("This session is open in another dormouse; /new begins one of your own.".to_owned());
        }
        let key = |action| self.key_of(action);
        match self.engine {
            _ if self.running.is_some() => Some(format!("A turn is running; {} stops it.", key("stop"))),
            Engine::Ready(_) => None,
            Engine::Loading => Some("The model is still loading.".to_owned()),
            Engine::Failed(_) => {
                Some(format!("The engine is not running; {} loads it again.", key("load-again")))
            }
            Engine::Gone => {
                Some(format!("The engine has left; leave with {} and start again.", key("interrupt")))
            }
        }
    }

    /// Refuses what must wait for the end of a turn, while one runs.
    pub(super) fn wants_no_turn(&self) -> Result<(), String> {
        match self.running {
            Some(_) => Err(format!("A turn is running; {} stops it first.", self.key_of("stop"))),
            None => Ok(()),
        }
    }

    /// Asks what was written: after the last turn, or in place of the message that was edited.
    pub(super) fn ask(&mut self, text: String) -> Vec<Effect> {
        if let Some(Editing { turn, draft }) = self.editing.take() {
            if let Some(at) = self.place_of(turn) {
                self.set_aside(at);
            }
            self.composer.set(draft);
        }
        self.begin(text, None)
    }

    /// Asks for another answer to the last message, with new random numbers or those of `seed`.
    pub(crate) fn retry(&mut self, seed: &str) -> Answer {
        if let Some(why) = self.cannot_ask() {
            return Err(why);
        }
        let seed = match seed {
            "" => self.fresh_seed(),
            seed => seed.parse().map_err(|_bad| format!("`{seed}` is no seed: a whole number from 0 on"))?,
        };
        let Some(turn) = self.transcript.turns().last() else {
            return Err("Nothing was asked yet.".to_owned());
        };
        let user = turn.user.clone();
        self.leave_edit();
        let at = self.transcript.turns().len() - 1;
        self.set_aside(at);
        let effects = self.begin(user, Some(seed));
        let greedy = self
            .facts
            .last()
            .and_then(|facts| facts.asked)
            .is_some_and(|asked| asked.sampling.temperature == Some(0.0));
        if greedy {
            self.notify("At temperature 0 the answer will be the same; /temperature changes it.");
        }
        Ok(effects)
    }

    /// Brings the last message back into the composer, and each further time the one before.
    pub(crate) fn edit_message(&mut self) -> Answer {
        self.wants_no_turn()?;
        let turns = self.transcript.turns();
        let at = match &self.editing {
            None => turns.len().checked_sub(1).ok_or("Nothing was asked yet.")?,
            Some(editing) => self
                .place_of(editing.turn)
                .and_then(|at| at.checked_sub(1))
                .ok_or("This is the first message.")?,
        };
        let Some((turn, user)) = turns.get(at).map(|turn| (turn.id, turn.user.clone())) else {
            return Err("Nothing was asked yet.".to_owned());
        };
        let draft = self.composer.take();
        let draft = self.editing.take().map_or(draft, |editing| editing.draft);
        self.editing = Some(Editing { turn, draft });
        self.composer.set(user);
        Ok(Vec::new())
    }

    /// Leaves a message as it was; what was written before is there again.
    pub(crate) fn leave_edit(&mut self) -> Vec<Effect> {
        if let Some(Editing { draft, .. }) = self.editing.take() {
            let edited = self.composer.take();
            // Not lost either.
            self.history.keep(&edited);
            self.composer.set(draft);
        }
        Vec::new()
    }

    /// Which of the messages that are shown is being edited, from 1, and of how many.
    pub(crate) fn edited_place(&self) -> Option<(usize, usize)> {
        let at = self.place_of(self.editing.as_ref()?.turn)?;
        Some((at + 1, self.transcript.turns().len()))
    }

    fn place_of(&self, turn: TurnId) -> Option<usize> {
        self.transcript.turns().iter().position(|other| other.id == turn)
    }

    /// Whether an empty draft that is sent goes on with the last answer: it was cut, it failed, or a limit ended it.
    pub(crate) fn offers_to_go_on(&self) -> bool {
        let outcome = self.transcript.turns().last().and_then(|turn| turn.outcome.as_ref());
        let unfinished = outcome.is_some_and(|outcome| {
            outcome.full.is_none()
                && !matches!(outcome.reached, Some(Reached::Tokens(_)))
                && matches!(outcome.finish, Finish::Error | Finish::Length)
        });
        unfinished && self.editing.is_none() && !self.read_only && self.running.is_none()
    }

    /// Goes on with the last answer from the token after its last one, with the random numbers that it would have had.
    pub(crate) fn go_on(&mut self) -> Answer {
        if let Some(why) = self.cannot_ask() {
            return Err(why);
        }
        let last = self.transcript.turns().last().zip(self.facts.last());
        let Some((last, facts)) = last else { return Err("Nothing was asked yet.".to_owned()) };
        let (turn, said, before) = (last.id, last.ids.len(), facts.allowed_from);
        let finish = last.outcome.as_ref().map(|outcome| outcome.finish);
        let full = last.outcome.as_ref().and_then(|outcome| outcome.full);
        let Some(asked) = facts.asked else {
            return Err("It is not known how this answer was drawn; /retry asks again.".to_owned());
        };
        if finish == Some(Finish::Stop) {
            return Err("The answer is complete; /retry asks for another.".to_owned());
        }
        if let (Some(full), Engine::Ready(model)) = (full, &self.engine)
            && model.context_limit <= full.limit
        {
            return Err("The context is full; /new begins another, /drop makes room.".to_owned());
        }
        // A limit that ended it allows as much again.
        let allowed_from = if finish == Some(Finish::Length) { said } else { before };
        if self.is_followed_aside(turn) {
            return Err("Another branch follows this answer; /retry asks again.".to_owned());
        }
        self.leave_edit();
        if let Some(facts) = self.facts.last_mut() {
            facts.allowed_from = allowed_from;
        }
        self.transcript.dropped = asked.dropped;
        self.mark_branches();
        let generated = self.transcript.reopen().unwrap_or_default().to_vec();
        let request = self.request(turn, generated, asked, allowed_from);
        Ok(vec![Effect::Record(Record::Resumed(0)), Effect::Send(Command::Generate(Box::new(request)))])
    }
}
