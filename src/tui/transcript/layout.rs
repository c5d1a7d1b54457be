//! The turns while they are laid out: only those that are asked for are.

use super::cell::{Cell, Facts, Look};
use crate::chat::Turn;

/// A row: which turn, and which row of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) turn: usize,
    pub(super) row: usize,
}

/// The turns while they are being laid out.
pub(super) struct Layout<'a, 'b> {
    pub(super) cells: &'a mut [Cell],
    pub(super) turns: &'a [Turn],
    pub(super) facts: &'a [Facts],
    pub(super) look: &'a Look<'b>,
    pub(super) hold: bool,
}

impl Layout<'_, '_> {
    /// Rows of a turn, which is laid out for it; 0 where there is none.
    pub(super) fn height(&mut self, turn: usize) -> usize {
        let (Some(cell), Some(content)) = (self.cells.get_mut(turn), self.turns.get(turn)) else { return 0 };
        let facts = self.facts.get(turn).copied().unwrap_or_default();
        cell.update(content, &facts, self.look, self.hold)
    }

    /// Where `row` of a turn went when its width changed.
    pub(super) fn rescale(&mut self, turn: usize, row: usize) -> usize {
        let before = self.cells.get(turn).map_or(0, Cell::height);
        let after = self.height(turn);
        row.saturating_mul(after).checked_div(before).unwrap_or(0)
    }

    /// The place, or the last row before it that exists.
    pub(super) fn clamped(&mut self, place: Place) -> Place {
        let rows = self.height(place.turn);
        Place { turn: place.turn, row: place.row.min(rows.saturating_sub(1)) }
    }

    /// `rows` away from `place`, as far as there are any.
    pub(super) fn moved(&mut self, place: Place, rows: isize) -> Place {
        let mut place = self.clamped(place);
        let mut left = rows.unsigned_abs();
        while left > 0 {
            if rows < 0 {
                if left <= place.row {
                    place.row -= left;
                    break;
                }
                if place.turn == 0 {
                    place.row = 0;
                    break;
                }
                left -= place.row + 1;
                place.turn -= 1;
                place.row = self.height(place.turn).saturating_sub(1);
            } else {
                let rest = self.height(place.turn).saturating_sub(1).saturating_sub(place.row);
                if left <= rest {
                    place.row += left;
                    break;
                }
                if place.turn + 1 >= self.turns.len() {
                    place.row += rest;
                    break;
                }
                left -= rest + 1;
                place = Place { turn: place.turn + 1, row: 0 };
            }
        }
        place
    }

    /// The top row with which the last row is at the bottom of the screen.
    pub(super) fn end_top(&mut self, height: usize) -> Place {
        let mut missing = height;
        for turn in (0..self.turns.len()).rev() {
            let rows = self.height(turn);
            if rows >= missing {
                return Place { turn, row: rows - missing };
            }
            missing -= rows;
        }
        Place::default()
    }

    /// Lays out the turns that a screen shows from `top` on.
    pub(super) fn fill(&mut self, top: Place, height: usize) {
        let mut rows = self.height(top.turn).saturating_sub(top.row);
        let mut turn = top.turn + 1;
        while rows < height && turn < self.turns.len() {
            rows += self.height(turn);
            turn += 1;
        }
    }

    /// The first row of `height` with which the rows from `first` to `last` are on the screen, where `top` is the first
    /// now; what does not fit is shown from its beginning.
    pub(super) fn revealing(&mut self, (first, last): (Place, Place), top: Place, height: usize) -> Place {
        let rows = |height: usize| isize::try_from(height).unwrap_or(isize::MAX);
        let bottom = self.moved(top, rows(height.saturating_sub(1)));
        if first >= top && last <= bottom {
            return top;
        }
        let from_last = self.moved(last, -rows(height.saturating_sub(1)));
        if first < top || from_last >= first { first } else { from_last }
    }
}
