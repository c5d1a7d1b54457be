//! Which of a session's turns follow each other: an edit or a retry puts a turn beside another one, and nothing is lost.

use super::content::{Session, Turn};

impl Session {
    /// The turns of the branch that is gone on with, oldest first.
    pub fn branch(&self) -> Vec<&Turn> {
        self.head.map_or_else(Vec::new, |head| self.branch_to(head))
    }

    /// The turns from the beginning to this one, oldest first.
    pub fn branch_to(&self, turn: usize) -> Vec<&Turn> {
        let mut branch = Vec::new();
        let mut next = Some(turn);
        // It comes to an end: no turn follows one that began later.
        while let Some(turn) = next.and_then(|turn| self.turns.get(turn)) {
            branch.push(turn);
            next = turn.follows;
        }
        branch.reverse();
        branch
    }

    /// The last turn of the branch that is gone on with.
    pub fn last(&self) -> Option<&Turn> {
        self.turns.get(self.head?)
    }

    /// All turns that stand where this one does, itself among them, in the order in which they began.
    pub fn versions(&self, turn: usize) -> Vec<usize> {
        let Some(follows) = self.turns.get(turn).map(|turn| turn.follows) else { return Vec::new() };
        (0..self.turns.len())
            .filter(|other| self.turns.get(*other).is_some_and(|t| t.follows == follows))
            .collect()
    }

    /// The last turn of each branch, in the order in which they began.
    pub fn ends(&self) -> Vec<usize> {
        (0..self.turns.len()).filter(|turn| !self.is_followed(*turn)).collect()
    }

    /// Whether a turn follows this one on any branch. What it says is then part of another prompt, and stays as it is.
    pub fn is_followed(&self, turn: usize) -> bool {
        self.turns.iter().any(|other| other.follows == Some(turn))
    }
}

impl Session {
    /// The session that these records tell, for tests of those who show one.
    #[cfg(test)]
    pub(crate) fn of(header: super::Header, records: impl IntoIterator<Item = super::Record>) -> Self {
        let mut session = Self::new(header);
        for record in records {
            session.apply(record).unwrap_or_else(|fault| panic!("{fault:?}"));
        }
        session
    }
}
