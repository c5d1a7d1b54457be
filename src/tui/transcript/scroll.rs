//! Which rows of the conversation are on the screen.
//!
//! Either the end is followed, or a place is held: then nothing that arrives below moves what is being read. Only
//! turns that cross the viewport are laid out, and the one that grows; what a frame costs does not depend on how
//! long the conversation is.

use ratatui::text::Line;

use super::cell::{Cell, Facts, Look};
use crate::chat::Turn;

/// A row: which turn, and which row of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    turn: usize,
    row: usize,
}

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
}

/// The rows of all turns, and where the reader is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scrollback {
    cells: Vec<Cell>,
    columns: usize,
    height: usize,
    /// The row at the top; `None` follows the end.
    held: Option<Place>,
    wish: Wish,
    seen: Seen,
    top: Place,
    unseen: usize,
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
    }

    /// The rows on the screen, from the top; fewer than its height where there are no more.
    pub(crate) fn visible(&self) -> impl Iterator<Item = &Line<'static>> {
        let Place { turn, row } = self.top;
        self.cells
            .iter()
            .skip(turn)
            .enumerate()
            .flat_map(move |(number, cell)| {
                let first = if number == 0 { row } else { 0 };
                (first..cell.height()).filter_map(|row| cell.row(row))
            })
            .take(self.height)
    }
}

/// The turns while they are being laid out.
struct Layout<'a, 'b> {
    cells: &'a mut [Cell],
    turns: &'a [Turn],
    facts: &'a [Facts],
    look: &'a Look<'b>,
    hold: bool,
}

impl Layout<'_, '_> {
    /// Rows of a turn, which is laid out for it; 0 where there is none.
    fn height(&mut self, turn: usize) -> usize {
        let (Some(cell), Some(content)) = (self.cells.get_mut(turn), self.turns.get(turn)) else { return 0 };
        let facts = self.facts.get(turn).copied().unwrap_or_default();
        cell.update(content, &facts, self.look, self.hold)
    }

    /// Where `row` of a turn went when its width changed.
    fn rescale(&mut self, turn: usize, row: usize) -> usize {
        let before = self.cells.get(turn).map_or(0, Cell::height);
        let after = self.height(turn);
        row.saturating_mul(after).checked_div(before).unwrap_or(0)
    }

    /// The place, or the last row before it that exists.
    fn clamped(&mut self, place: Place) -> Place {
        let rows = self.height(place.turn);
        Place { turn: place.turn, row: place.row.min(rows.saturating_sub(1)) }
    }

    /// `rows` away from `place`, as far as there are any.
    fn moved(&mut self, place: Place, rows: isize) -> Place {
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
    fn end_top(&mut self, height: usize) -> Place {
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
    fn fill(&mut self, top: Place, height: usize) {
        let mut rows = self.height(top.turn).saturating_sub(top.row);
        let mut turn = top.turn + 1;
        while rows < height && turn < self.turns.len() {
            rows += self.height(turn);
            turn += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::Transcript;
    use crate::protocol::{Part, TurnId};
    use crate::tui::theme::Theme;

    struct Chat {
        transcript: Transcript,
        scrollback: Scrollback,
        columns: usize,
        height: usize,
    }

    impl Chat {
        /// Turns of three rows each and a blank one between them.
        fn new(turns: u64) -> Self {
            let mut transcript = Transcript::default();
            for turn in 0..turns {
                transcript.begin(TurnId(turn), format!("question {turn}"));
                transcript.push(TurnId(turn), Part::Answer(format!("answer {turn}")));
            }
            let mut chat = Self { transcript, scrollback: Scrollback::default(), columns: 40, height: 6 };
            chat.prepare();
            chat
        }

        fn prepare(&mut self) {
            let theme = Theme::new(false);
            let look = Look { columns: self.columns, thinking: None, theme: &theme };
            self.scrollback.prepare(self.transcript.turns(), &[], &look, self.height);
        }

        fn rows(&mut self) -> Vec<String> {
            self.prepare();
            self.scrollback.visible().map(|row| row.to_string().trim().to_owned()).collect()
        }
    }

    #[test]
    fn a_short_conversation_stands_at_the_top() {
        assert_eq!(Chat::new(1).rows(), ["❯ question 0", "", "answer 0"]);
        assert_eq!(Chat::new(0).rows(), [""; 0]);
    }

    #[test]
    fn the_end_is_followed_until_it_is_left() {
        let mut chat = Chat::new(5);
        assert_eq!(chat.rows(), ["", "answer 3", "", "❯ question 4", "", "answer 4"]);
        chat.transcript.push(TurnId(4), Part::Answer("\n\nmore".to_owned()));
        assert_eq!(chat.rows(), ["", "❯ question 4", "", "answer 4", "", "more"]);
    }

    #[test]
    fn reading_back_is_not_disturbed_and_new_rows_are_counted() {
        let mut chat = Chat::new(5);
        chat.scrollback.scroll(-4);
        let reading = chat.rows();
        assert_eq!(reading, ["", "answer 2", "", "❯ question 3", "", "answer 3"]);
        assert!(!chat.scrollback.follows());
        assert_eq!(chat.scrollback.unseen(), 0);
        chat.transcript.push(TurnId(4), Part::Answer("\n\nmore\n\nand more".to_owned()));
        assert_eq!(chat.rows(), reading);
        assert_eq!(chat.scrollback.unseen(), 4);
        chat.transcript.begin(TurnId(5), "next".to_owned());
        assert_eq!(chat.rows(), reading);
        assert_eq!(chat.scrollback.unseen(), 6);
        chat.scrollback.go_to_end();
        assert_eq!(chat.rows().last().map(String::as_str), Some("❯ next"));
        assert!(chat.scrollback.follows());
        assert_eq!(chat.scrollback.unseen(), 0);
    }

    #[test]
    fn scrolling_ends_at_both_ends_and_follows_again() {
        let mut chat = Chat::new(5);
        chat.scrollback.page(-100);
        assert_eq!(chat.rows()[0], "❯ question 0");
        chat.scrollback.scroll(3);
        assert_eq!(chat.rows()[1], "❯ question 1");
        chat.scrollback.page(1);
        chat.rows();
        assert!(!chat.scrollback.follows());
        chat.scrollback.scroll(1000);
        assert_eq!(chat.rows().len(), 6);
        assert!(chat.scrollback.follows());
    }

    #[test]
    fn thinking_that_is_being_read_is_not_folded_away() {
        let mut chat = Chat::new(3);
        chat.transcript.begin(TurnId(9), "why?".to_owned());
        chat.transcript.push(TurnId(9), Part::Thinking("a\nb\nc\nd\ne\nf\ng\nh\ni".to_owned()));
        chat.prepare();
        chat.scrollback.scroll(-3);
        let reading = chat.rows();
        assert_eq!(reading[0], "│ a");
        chat.transcript.push(TurnId(9), Part::Answer("because".to_owned()));
        assert_eq!(chat.rows(), reading);
        chat.scrollback.go_to_end();
        assert!(chat.rows().iter().any(|row| row.starts_with("▸ thought, 9 words")));
    }

    #[test]
    fn a_new_width_keeps_the_place() {
        let mut chat = Chat::new(2);
        let words: Vec<String> = (0..400).map(|word| format!("w{word}")).collect();
        chat.transcript.push(TurnId(0), Part::Answer(format!("\n\n{}", words.join(" "))));
        chat.scrollback.go_to_start();
        chat.prepare();
        chat.scrollback.scroll(30);
        let before = chat.rows()[0].clone();
        chat.columns = 80;
        let after = chat.rows()[0].clone();
        let number =
            |row: &str| row.split(' ').next().and_then(|word| word[1..].parse::<i32>().ok()).unwrap();
        assert!((number(&before) - number(&after)).abs() < 40, "{before} / {after}");
    }

    #[test]
    fn only_what_crosses_the_screen_is_laid_out() {
        let chat = Chat::new(10_000);
        let laid_out = |chat: &Chat| chat.scrollback.cells.iter().filter(|cell| cell.height() > 0).count();
        assert!(laid_out(&chat) <= 3, "{}", laid_out(&chat));
        let mut chat = chat;
        chat.scrollback.page(-3);
        chat.prepare();
        assert!(laid_out(&chat) < 10, "{}", laid_out(&chat));
        chat.scrollback.go_to_start();
        chat.columns = 30;
        chat.prepare();
        assert!(laid_out(&chat) < 14, "{}", laid_out(&chat));
    }

    #[test]
    fn no_size_is_too_small() {
        for (columns, height) in [(0, 0), (1, 1), (2, 0), (0, 5), (3, 2)] {
            let mut chat = Chat::new(3);
            (chat.columns, chat.height) = (columns, height);
            chat.scrollback.scroll(-2);
            assert!(chat.rows().len() <= height);
        }
    }
}
