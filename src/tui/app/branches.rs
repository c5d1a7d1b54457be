//! Branches of the conversation: turns that stand beside those on the screen, and the ways between them.

use super::{App, Effect, Mode};
use crate::chat::{Transcript, Turn};
use crate::protocol::TurnId;
use crate::session::Record;
use crate::tui::draft::Draft;
use crate::tui::opening::Opening;
use crate::tui::transcript::Facts;

/// What the screen does not show of the conversation.
#[derive(Debug, Default)]
pub(crate) struct Branches {
    /// Turns beside the branch that is shown, each with what is known of it.
    aside: Vec<(Turn, Facts)>,
    /// The turn that came last before this conversation: turns are numbered in its journal from there on.
    base: u64,
    /// The turn that the journal's next one would follow.
    pub(super) head: Option<TurnId>,
}

impl App {
    /// Shows a session in place of the conversation.
    pub(crate) fn open(&mut self, opening: Opening) {
        self.clear_conversation();
        let Opening { id, turns, head, system, kept_system, read_only, notice } = opening;
        let base = self.branches.base;
        let name = |id: TurnId| TurnId(id.0 + base);
        self.next_turn += turns.len() as u64;
        for (mut turn, facts) in turns {
            self.history.keep(&Draft::from(turn.user.as_str()));
            (turn.id, turn.follows) = (name(turn.id), turn.follows.map(name));
            self.branches.aside.push((turn, facts));
        }
        self.session = Some(id);
        (self.transcript.system, self.kept_system) = (system, kept_system);
        self.read_only = read_only;
        if let Some(head) = head {
            self.show(name(head));
        }
        if let Some(notice) = notice {
            self.notify(notice);
        }
    }

    /// Forgets the conversation: what comes next begins another one.
    pub(super) fn clear_conversation(&mut self) {
        self.transcript = Transcript::default();
        self.kept_system = None;
        self.facts.clear();
        self.branches = Branches { base: self.next_turn - 1, ..Branches::default() };
        self.scrollback.clear();
        self.clear_queue();
        self.forecast.forget();
        self.mode = Mode::Write;
        self.leave_edit();
        self.session = None;
        self.read_only = false;
    }

    /// The number of a turn in the journal.
    pub(super) fn number(&self, turn: TurnId) -> usize {
        usize::try_from(turn.0 - self.branches.base).unwrap_or(usize::MAX)
    }

    /// Puts the turns from this place on beside those that are shown.
    pub(super) fn set_aside(&mut self, at: usize) {
        // What was found or chosen may be among them.
        if !matches!(self.mode, Mode::Write) {
            self.mode = Mode::Write;
            self.scrollback.end_search(false);
        }
        let facts = self.facts.split_off(at.min(self.facts.len()));
        self.branches.aside.extend(self.transcript.split_off(at).into_iter().zip(facts));
    }

    /// Whether a turn that is not shown follows this one. What it says is part of another prompt then, and stays as it is.
    pub(super) fn is_followed_aside(&self, turn: TurnId) -> bool {
        self.branches.aside.iter().any(|(other, _)| other.follows == Some(turn))
    }

    /// Goes to the branch before or after the one that is shown.
    pub(crate) fn turn_branch(&mut self, step: isize) -> Vec<Effect> {
        if let Err(why) = self.wants_no_turn() {
            self.notify(why);
            return Vec::new();
        }
        let ends = self.ends();
        let shown = self.transcript.turns().last().map(|turn| turn.id);
        let at = ends.iter().position(|end| Some(*end) == shown);
        let next = at.and_then(|at| at.checked_add_signed(step)).and_then(|next| ends.get(next));
        match (next, ends.len()) {
            (Some(end), _) => {
                let end = *end;
                self.leave_edit();
                self.show(end);
                if self.read_only {
                    return Vec::new();
                }
                vec![Effect::Record(Record::GoTo(self.number(end)))]
            }
            (None, 0 | 1) => {
                self.notify("There are no branches yet; /retry and /edit make one.");
                Vec::new()
            }
            (None, count) => {
                let which = if step < 0 { "first" } else { "last" };
                self.notify(format!("This is the {which} of {count} branches."));
                Vec::new()
            }
        }
    }

    /// All turns with those that they follow, in the order in which they began.
    fn links(&self) -> Vec<(TurnId, Option<TurnId>)> {
        let aside = self.branches.aside.iter().map(|(turn, _)| turn);
        let mut links: Vec<_> =
            self.transcript.turns().iter().chain(aside).map(|turn| (turn.id, turn.follows)).collect();
        links.sort_unstable();
        links
    }

    /// The last turn of each branch. Branches that part late stand together.
    fn ends(&self) -> Vec<TurnId> {
        let links = self.links();
        let followers = |of: Option<TurnId>| {
            links.iter().rev().filter(move |(_, follows)| *follows == of).map(|(id, _)| *id)
        };
        let mut open: Vec<TurnId> = followers(None).collect();
        let mut ends = Vec::new();
        while let Some(turn) = open.pop() {
            let before = open.len();
            open.extend(followers(Some(turn)));
            if open.len() == before {
                ends.push(turn);
            }
        }
        ends
    }

    /// Shows the branch that ends with this turn.
    fn show(&mut self, end: TurnId) {
        let links = self.links();
        let mut branch = vec![end];
        let follows =
            |turn: TurnId| links.iter().find(|(id, _)| *id == turn).and_then(|(_, follows)| *follows);
        // It comes to an end: no turn follows one that began later.
        while let Some(before) = branch.last().and_then(|turn| follows(*turn)) {
            branch.push(before);
        }
        branch.reverse();
        let shown =
            self.transcript.turns().iter().zip(&branch).take_while(|(turn, id)| turn.id == **id).count();
        self.set_aside(shown);
        for id in branch.into_iter().skip(shown) {
            if let Some(at) = self.branches.aside.iter().position(|(turn, _)| turn.id == id) {
                let (turn, facts) = self.branches.aside.swap_remove(at);
                self.transcript.append(turn);
                self.facts.push(facts);
            }
        }
        self.branches.head = Some(end);
        self.transcript.dropped =
            self.facts.last().and_then(|facts| facts.asked).map_or(0, |asked| asked.dropped);
        self.mark_branches();
        self.scrollback.go_to_end();
    }

    /// Notes at each turn that is shown how many stand in its place, and where those begin that the model still reads.
    pub(super) fn mark_branches(&mut self) {
        let links = self.links();
        let dropped = self.transcript.dropped;
        for (place, (turn, facts)) in self.transcript.turns().iter().zip(&mut self.facts).enumerate() {
            let versions = || links.iter().filter(|(_, follows)| *follows == turn.follows);
            let (at, of) = (versions().take_while(|(id, _)| *id < turn.id).count() + 1, versions().count());
            facts.version = (of > 1).then_some((at, of));
            facts.left_out = if place == dropped { dropped } else { 0 };
        }
    }
}
