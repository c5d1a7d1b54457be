//! When room runs out, in the context or on the disk: nothing is cut in silence.

use super::{App, Effect};
use crate::chat::Turn;
use crate::protocol::ContextFull;
use crate::tui::commands::Answer;
use crate::tui::numbers::counted;
use crate::units::Bytes;

impl App {
    /// The turn waits while the disk has no room for what it has said.
    pub(super) fn disk(&mut self, missing: Option<Bytes>) -> Vec<Effect> {
        let changed = missing.is_some() != self.disk_full.is_some();
        self.disk_full = missing;
        match &self.running {
            Some(running) if changed => vec![Effect::Pause(running.pause.clone(), missing.is_some())],
            _ => Vec::new(),
        }
    }

    /// That the disk has no room for what was said, where that is so.
    pub(crate) fn disk_told(&self) -> Option<String> {
        let missing = self.disk_full?;
        let waits = if self.running.is_some() { "the turn waits too" } else { "nothing of it is lost" };
        Some(format!("The disk is full: {missing} wait for room, {waits}."))
    }

    /// The context, where it had no room for the last message or for more of the last answer.
    pub(crate) fn context_full(&self) -> Option<ContextFull> {
        if self.running.is_some() {
            return None;
        }
        self.transcript.turns().last()?.outcome.as_ref()?.full
    }

    /// Leaves the oldest turns out of what the model reads: so many more, or enough for half of the context to be free.
    /// They stay on the screen and in the session. A message that did not fit is asked again.
    pub(crate) fn drop_oldest(&mut self, count: &str) -> Answer {
        if let Some(why) = self.cannot_ask() {
            return Err(why);
        }
        let turns = self.transcript.turns();
        let before = self.transcript.dropped;
        let last = turns.len().saturating_sub(1);
        if before >= last {
            return Err(
                "There is no earlier turn to leave out; shorten the message, or begin with /new.".to_owned()
            );
        }
        let dropped = if count.is_empty() {
            let limit = self.pulse.now().context_limit;
            let weights: Vec<u64> = turns.iter().map(weight).collect();
            enough(&weights, before, limit / 2)
        } else {
            let more: usize = count.parse().map_err(|_bad| format!("`{count}` is no number of turns"))?;
            before.saturating_add(more).min(last)
        };
        self.transcript.dropped = dropped;
        self.mark_branches();
        let refused = turns_refused(self.transcript.turns());
        let effects = if refused { self.retry("")? } else { Vec::new() };
        self.notify(format!("The model reads the oldest {} no more.", counted(dropped as u64, "turn")));
        Ok(effects)
    }
}

fn turns_refused(turns: &[Turn]) -> bool {
    let full = |turn: &Turn| turn.outcome.as_ref().is_some_and(|outcome| outcome.full.is_some());
    turns.last().is_some_and(|turn| turn.is_lost() && full(turn))
}

/// About the tokens that a turn takes of the context.
fn weight(turn: &Turn) -> u64 {
    if turn.is_lost() { 0 } else { (turn.ids.len() + turn.user.len() / 3 + 8) as u64 }
}

/// How many of the oldest turns must be left out for the others to fit in `room`: more than before, and never the last.
fn enough(weights: &[u64], before: usize, room: u64) -> usize {
    let last = weights.len().saturating_sub(1);
    let fits = |dropped: &usize| weights.iter().skip(*dropped).sum::<u64>() <= room;
    (before + 1..last).find(fits).unwrap_or(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_few_turns_as_make_room_are_left_out() {
        assert_eq!(enough(&[10, 10, 10, 10], 0, 30), 1);
        assert_eq!(enough(&[10, 10, 10, 10], 0, 29), 2);
        assert_eq!(enough(&[10, 10, 10, 10], 2, 100), 3, "more than before");
        assert_eq!(enough(&[10, 10, 10, 99], 0, 30), 3, "the last one stays");
        assert_eq!(enough(&[10, 10], 0, 100), 1);
        assert_eq!(enough(&[], 0, 100), 0);
    }
}
