//! Which rows of the conversation are on the screen.
//!
//! Either the end is followed, or a place is held: then nothing that arrives below moves what is being read. Only
//! turns that cross the viewport are laid out, and the one that grows; what a frame costs does not depend on how
//! long the conversation is.

use std::ops::Range;

use ratatui::text::Line;

use super::cell::{Cell, Facts, Look};
use super::hits::{counted, row_of, step_to};
use super::layout::{Layout, Place};
use super::passage::Chosen;
use crate::chat::Turn;
use crate::tui::theme::Theme;

/// What the reader has seen: everything up to this row of this turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    turn: usize,
    rows: usize,
}

/// A wish to scroll, carried out when the rows are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Wish {
    #[default]
    None,
    /// By rows; negative is up.
    Rows(isize),
    /// By screens; negative is up.
    Pages(isize),
    Start,
    End,
    /// To one of the hits: the nearest or the one where the reader is, and so many from there; negative is up.
    Hit {
        nearest: bool,
        steps: isize,
    },
    /// To the passage that is chosen.
    Chosen,
    /// To where the reader was: that row, or the end.
    Back(Option<Place>),
}

/// From one hit to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// To the last one that was on the screen when the search began, or above it.
    Nearest,
    /// To the one before; from the first to the last.
    Older,
    /// To the one after; from the last to the first.
    Newer,
}

/// The rows of all turns, and where the reader is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scrollback {
    cells: Vec<Cell>,
    /// The styles that the cells were laid out with.
    theme: Option<Theme>,
    columns: usize,
    height: usize,
    /// The row at the top; `None` follows the end.
    held: Option<Place>,
    wish: Wish,
    seen: Seen,
    top: Place,
    unseen: usize,
    /// Where the reader was when the search began, and the first row of the screen then.
    origin: Option<(Option<Place>, Place)>,
    /// Turn and number of the hit that the reader is at.
    hit: Option<(usize, usize)>,
    /// Which of all hits that is, from 0, and how many there are.
    found: (usize, usize),
    /// The rows of the passage that is chosen.
    chosen: Option<(usize, Range<usize>)>,
}

impl Scrollback {
    /// Scrolls by rows; negative is up.
    pub(crate) const fn scroll(&mut self, rows: isize) {
        let before = if let Wish::Rows(before) = self.wish { before } else { 0 };
        self.wish = Wish::Rows(before.saturating_add(rows));
    }

    /// Scrolls by screens; negative is up.
    pub(crate) const fn page(&mut self, pages: isize) {
        let before = if let Wish::Pages(before) = self.wish { before } else { 0 };
        self.wish = Wish::Pages(before.saturating_add(pages));
    }

    /// Goes to the first row.
    pub(crate) const fn go_to_start(&mut self) {
        self.wish = Wish::Start;
    }

    /// Goes to the last row and follows it.
    pub(crate) const fn go_to_end(&mut self) {
        self.wish = Wish::End;
    }

    /// A search begins here.
    pub(crate) fn begin_search(&mut self) {
        // Who follows the end looks from there.
        let from = self.held.unwrap_or(Place { turn: usize::MAX, row: 0 });
        self.origin = Some((self.held, from));
    }

    /// The search is over: the reader stays, or goes back to where he was.
    pub(crate) fn end_search(&mut self, back: bool) {
        if let Some((held, _)) = self.origin.take()
            && back
        {
            self.wish = Wish::Back(held);
        }
        self.hit = None;
    }

    /// Goes to another hit.
    pub(crate) const fn show_hit(&mut self, step: Step) {
        let (nearest, before) =
            if let Wish::Hit { nearest, steps } = self.wish { (nearest, steps) } else { (false, 0) };
        self.wish = match step {
            Step::Nearest => Wish::Hit { nearest: true, steps: 0 },
            Step::Older => Wish::Hit { nearest, steps: before.saturating_sub(1) },
            Step::Newer => Wish::Hit { nearest, steps: before.saturating_add(1) },
        };
    }

    /// Brings what is chosen onto the screen.
    pub(crate) const fn show_chosen(&mut self) {
        self.wish = Wish::Chosen;
    }

    /// Which hit the reader is at, from 1, and how many there are.
    pub(crate) const fn found(&self) -> (usize, usize) {
        (if self.found.1 == 0 { 0 } else { self.found.0 + 1 }, self.found.1)
    }

    /// The turn of the hit that the reader is at.
    pub(crate) fn turn_of_hit(&self) -> Option<usize> {
        self.hit.map(|(turn, _)| turn)
    }

    /// The turn at the top of the screen.
    pub(crate) const fn top_turn(&self) -> usize {
        self.top.turn
    }

    /// Whether the end is followed.
    pub(crate) const fn follows(&self) -> bool {
        self.held.is_none()
    }

    /// Rows that have come below the screen since the end was left.
    pub(crate) const fn unseen(&self) -> usize {
        self.unseen
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Lays out what the screen will show, and carries out the wish to scroll.
    pub(crate) fn prepare(&mut self, turns: &[Turn], facts: &[Facts], look: &Look<'_>, height: usize) {
        if self.theme != Some(*look.theme) {
            self.theme = Some(*look.theme);
            self.cells.clear();
        }
        self.cells.truncate(turns.len());
        while self.cells.len() < turns.len() {
            self.cells.push(Cell::new(self.cells.is_empty(), look.theme));
        }
        let mut layout = Layout { cells: &mut self.cells, turns, facts, look, hold: self.held.is_some() };
        if look.columns != self.columns {
            // The same words, as far as their share of the turn tells where they are now.
            if let Some(place) = &mut self.held {
                place.row = layout.rescale(place.turn, place.row);
            }
            self.seen.rows = layout.rescale(self.seen.turn, self.seen.rows);
            self.columns = look.columns;
        }
        if look.needle.is_some() {
            // Hits are counted everywhere.
            for turn in 0..turns.len() {
                layout.height(turn);
            }
        }
        let old_height = std::mem::replace(&mut self.height, height);
        let was_following = self.held.is_none();
        match std::mem::take(&mut self.wish) {
            Wish::None => {}
            Wish::Rows(rows) => self.held = Some(layout.moved(self.held.unwrap_or(self.top), rows)),
            Wish::Pages(pages) => {
                let page = isize::try_from(old_height.saturating_sub(2).max(1)).unwrap_or(1);
                let rows = pages.saturating_mul(page);
                self.held = Some(layout.moved(self.held.unwrap_or(self.top), rows));
            }
            Wish::Start => self.held = Some(Place::default()),
            Wish::End => self.held = None,
            Wish::Back(held) => self.held = held,
            Wish::Hit { nearest, steps } => {
                let mut origin = self.origin.map_or(self.top, |(_, from)| from);
                if origin.turn < turns.len() {
                    origin = layout.moved(origin, isize::try_from(height.saturating_sub(1)).unwrap_or(0));
                }
                let at = self.hit.filter(|_| !nearest);
                self.hit = step_to(layout.cells, at, origin, steps);
                if let Some((turn, hit)) = self.hit
                    && let Some(row) = row_of(layout.cells, turn, hit)
                {
                    let place = Place { turn, row };
                    let top = layout.revealing((place, place), self.top, height);
                    if top != self.top {
                        // With what stands around it.
                        let above = isize::try_from(height / 3).unwrap_or(0);
                        self.held = Some(layout.moved(place, -above));
                    } else if self.held.is_none() {
                        self.held = Some(self.top);
                    }
                }
            }
            Wish::Chosen => {
                if let Some(Chosen { turn, passage }) = look.chosen {
                    layout.height(turn);
                    if let Some(rows) = layout.cells.get(turn).and_then(|cell| cell.rows_of(passage)) {
                        let first = Place { turn, row: rows.start };
                        let last = Place { turn, row: rows.end.saturating_sub(1).max(rows.start) };
                        let top = layout.revealing((first, last), self.top, height);
                        if top != self.top {
                            self.held = Some(top);
                        }
                    }
                }
            }
        }
        layout.hold = self.held.is_some();
        let end = layout.end_top(height);
        match self.held {
            Some(place) => {
                let place = layout.clamped(place);
                // At the end there is nothing to hold.
                self.held = (place < end).then_some(place);
                self.top = place.min(end);
            }
            None => self.top = end,
        }
        let last = turns.len().saturating_sub(1);
        if self.held.is_none() {
            self.unseen = 0;
            self.seen = Seen { turn: last, rows: layout.height(last) };
        } else {
            if was_following {
                self.seen = Seen { turn: last, rows: layout.height(last) };
            }
            let grown = layout.height(self.seen.turn).saturating_sub(self.seen.rows);
            let later: usize = (self.seen.turn + 1..turns.len()).map(|turn| layout.height(turn)).sum();
            self.unseen = grown + later;
            // What follows the top is drawn, so it must be laid out.
            layout.fill(self.top, height);
        }
        // Another branch may have taken the place of the turn where it was.
        if self.hit.is_some_and(|(turn, hit)| row_of(&self.cells, turn, hit).is_none()) {
            self.hit = step_to(&self.cells, None, self.top, 0);
        }
        self.found = counted(&self.cells, self.hit);
        self.chosen = look.chosen.and_then(|Chosen { turn, passage }| {
            self.cells.get(turn).and_then(|cell| cell.rows_of(passage)).map(|rows| (turn, rows))
        });
    }

    /// The rows on the screen, from the top; fewer than its height where there are no more.
    pub(crate) fn visible(&self) -> impl Iterator<Item = Row<'_>> {
        let Place { turn, row } = self.top;
        self.cells
            .iter()
            .enumerate()
            .skip(turn)
            .flat_map(move |(number, cell)| {
                let first = if number == turn { row } else { 0 };
                (first..cell.height()).filter_map(move |row| {
                    let line = cell.row(row)?;
                    let begin = cell.hits().partition_point(|stretch| stretch.row < row);
                    let stretches = cell.hits().get(begin..).unwrap_or_default().iter();
                    let hits = stretches
                        .take_while(|stretch| stretch.row == row)
                        .map(|stretch| (stretch.bytes.clone(), self.hit == Some((number, stretch.hit))))
                        .collect();
                    let chosen = self.chosen.as_ref();
                    let is_chosen = chosen.is_some_and(|(turn, rows)| *turn == number && rows.contains(&row));
                    Some(Row { line, hits, is_chosen })
                })
            })
            .take(self.height)
    }
}

/// A row on the screen.
pub(crate) struct Row<'a> {
    pub(crate) line: &'a Line<'static>,
    /// Bytes of its text that were looked for, and whether the reader is at this hit.
    pub(crate) hits: Vec<(Range<usize>, bool)>,
    /// Whether it is of the passage that is chosen.
    pub(crate) is_chosen: bool,
}

#[cfg(test)]
mod tests;
