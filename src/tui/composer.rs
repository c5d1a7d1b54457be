//! The editor of the message: several lines, wrapped as they are drawn, with the caret between graphemes.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use super::transcript::wrap;
use super::width;

/// A draft, and where the caret is in it.
#[derive(Clone, Debug)]
pub(crate) struct Composer {
    text: String,
    /// Byte of the caret; always between two graphemes.
    caret: usize,
    /// Column that moves up and down aim for.
    goal: Option<usize>,
    killed: String,
    columns: usize,
    rows: Vec<Range<usize>>,
}

impl Default for Composer {
    fn default() -> Self {
        Self {
            text: String::new(),
            caret: 0,
            goal: None,
            killed: String::new(),
            columns: usize::MAX,
            rows: std::iter::once(0..0).collect(),
        }
    }
}

impl Composer {
    /// The draft.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether nothing but white space is in it.
    pub(crate) fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// Replaces the draft; the caret goes to its end.
    pub(crate) fn set(&mut self, text: impl Into<String>) {
        self.text = text.into();
        self.caret = self.text.len();
        self.changed();
    }

    /// Takes the draft away.
    pub(crate) fn take(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        self.caret = 0;
        self.changed();
        text
    }

    /// Puts a text at the caret, as typed or pasted: line ends of all systems become ours, and what a terminal would
    /// obey is left out, so that what is sent is what is seen.
    pub(crate) fn insert(&mut self, text: &str) {
        let text = width::clean(&text.replace("\r\n", "\n").replace('\r', "\n"));
        self.text.insert_str(self.caret, &text);
        self.caret += text.len();
        // A combining character joins what stands before it, or what follows joins it: stay between graphemes.
        if !self.boundary(self.caret) {
            self.caret = self.next(self.caret);
        }
        self.changed();
    }

    /// Deletes the grapheme before the caret.
    pub(crate) fn backspace(&mut self) {
        self.delete(self.previous(self.caret)..self.caret);
    }

    /// Deletes the grapheme after the caret.
    pub(crate) fn delete_next(&mut self) {
        self.delete(self.caret..self.next(self.caret));
    }

    /// Moves by one grapheme.
    pub(crate) fn left(&mut self) {
        self.go(self.previous(self.caret));
    }

    /// Moves by one grapheme.
    pub(crate) fn right(&mut self) {
        self.go(self.next(self.caret));
    }

    /// Moves to the beginning of the word, or of the one before.
    pub(crate) fn word_left(&mut self) {
        self.go(self.word_start());
    }

    /// Moves behind the end of the word, or of the next.
    pub(crate) fn word_right(&mut self) {
        self.go(self.word_end());
    }

    /// Moves to the beginning of the line.
    pub(crate) fn home(&mut self) {
        self.go(self.line().start);
    }

    /// Moves to the end of the line.
    pub(crate) fn end(&mut self) {
        self.go(self.line().end);
    }

    /// Moves one row up; false where there is none.
    pub(crate) fn up(&mut self) -> bool {
        let (row, _) = self.caret_cell();
        row > 0 && self.go_row(row - 1)
    }

    /// Moves one row down; false where there is none.
    pub(crate) fn down(&mut self) -> bool {
        let (row, _) = self.caret_cell();
        row + 1 < self.rows.len() && self.go_row(row + 1)
    }

    /// Cuts to the end of the line, or the line break where the caret is at the end.
    pub(crate) fn kill_to_end(&mut self) {
        let end = self.line().end;
        self.kill(self.caret..if end == self.caret { self.next(end) } else { end });
    }

    /// Cuts to the beginning of the line.
    pub(crate) fn kill_to_start(&mut self) {
        self.kill(self.line().start..self.caret);
    }

    /// Cuts the word before the caret.
    pub(crate) fn kill_word(&mut self) {
        self.kill(self.word_start()..self.caret);
    }

    /// Puts back what was cut last.
    pub(crate) fn yank(&mut self) {
        let killed = self.killed.clone();
        self.insert(&killed);
    }

    /// Wraps the draft for an area of `columns`. The last of them is left to the caret.
    pub(crate) fn wrap(&mut self, columns: usize) {
        let columns = columns.saturating_sub(1).max(1);
        if columns != self.columns {
            self.columns = columns;
            self.rows = wrapped(&self.text, columns);
        }
    }

    /// The rows as drawn.
    pub(crate) fn rows(&self) -> impl ExactSizeIterator<Item = &str> {
        self.rows.iter().map(|row| wrap::visible(self.text.get(row.clone()).unwrap_or_default()))
    }

    /// Row and column of the caret.
    pub(crate) fn caret_cell(&self) -> (usize, usize) {
        // At a soft break the caret is at the beginning of the row after it.
        let row = self.rows.iter().rposition(|row| row.start <= self.caret).unwrap_or(0);
        let start = self.rows.get(row).map_or(0, |row| row.start);
        let column = width::of(self.text.get(start..self.caret).unwrap_or_default());
        (row, column.min(self.columns))
    }

    fn go(&mut self, caret: usize) {
        self.caret = caret;
        self.goal = None;
    }

    fn go_row(&mut self, row: usize) -> bool {
        let goal = self.goal.unwrap_or_else(|| self.caret_cell().1);
        let Some(range) = self.rows.get(row).cloned() else { return false };
        let text = self.text.get(range.clone()).unwrap_or_default();
        let mut caret = range.start + width::prefix(text, goal).len();
        // The end of a row that goes on is the beginning of the next one: stay before it.
        if caret == range.end && self.rows.get(row + 1).is_some_and(|next| next.start == caret) {
            caret = self.previous(caret).max(range.start);
        }
        self.caret = caret;
        self.goal = Some(goal);
        true
    }

    fn kill(&mut self, range: Range<usize>) {
        if let Some(text) = self.text.get(range.clone())
            && !text.is_empty()
        {
            text.clone_into(&mut self.killed);
            self.delete(range);
        }
    }

    fn delete(&mut self, range: Range<usize>) {
        if self.text.get(range.clone()).is_some_and(|text| !text.is_empty()) {
            self.caret = range.start;
            self.text.drain(range);
            if !self.boundary(self.caret) {
                self.caret = self.next(self.caret);
            }
            self.changed();
        }
    }

    fn changed(&mut self) {
        self.goal = None;
        self.rows = wrapped(&self.text, self.columns);
    }

    /// The logical line of the caret, without its break.
    fn line(&self) -> Range<usize> {
        let (before, after) = self.text.split_at(self.caret);
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        start..after.find('\n').map_or(self.text.len(), |at| self.caret + at)
    }

    /// Whether a byte is between two graphemes. Line breaks always are, so that its line decides.
    fn boundary(&self, at: usize) -> bool {
        let line = self.line_around(at);
        let text = self.text.get(line.clone()).unwrap_or_default();
        at == line.end || text.grapheme_indices(true).any(|(start, _)| line.start + start == at)
    }

    fn line_around(&self, at: usize) -> Range<usize> {
        let start = self.text.get(..at).and_then(|text| text.rfind('\n')).map_or(0, |at| at + 1);
        let end =
            self.text.get(at..).and_then(|text| text.find('\n')).map_or(self.text.len(), |found| at + found);
        start..end
    }

    fn previous(&self, at: usize) -> usize {
        let line = self.line_around(at);
        match self.text.get(line.start..at).and_then(|text| text.grapheme_indices(true).next_back()) {
            Some((start, _)) => line.start + start,
            None => at.saturating_sub(1),
        }
    }

    fn next(&self, at: usize) -> usize {
        let line = self.line_around(at);
        let text = self.text.get(line.clone()).unwrap_or_default();
        text.grapheme_indices(true)
            .map(|(start, cluster)| line.start + start + cluster.len())
            .find(|end| *end > at)
            .unwrap_or_else(|| (at + 1).min(self.text.len()))
    }

    fn word_start(&self) -> usize {
        let before = self.text.get(..self.caret).unwrap_or_default();
        let words = before.split_word_bound_indices().rev();
        words.into_iter().find(|(_, word)| is_word(word)).map_or(0, |(at, _)| at)
    }

    fn word_end(&self) -> usize {
        let after = self.text.get(self.caret..).unwrap_or_default();
        after
            .split_word_bound_indices()
            .find(|(_, word)| is_word(word))
            .map_or(self.text.len(), |(at, word)| self.caret + at + word.len())
    }
}

fn is_word(text: &str) -> bool {
    text.chars().any(char::is_alphanumeric)
}

fn wrapped(text: &str, columns: usize) -> Vec<Range<usize>> {
    let mut rows = Vec::new();
    let mut start = 0;
    for line in text.split('\n') {
        rows.extend(wrap::rows(line, columns).into_iter().map(|row| start + row.start..start + row.end));
        start += line.len() + 1;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn composer(text: &str, columns: usize) -> Composer {
        let mut composer = Composer::default();
        composer.wrap(columns);
        composer.insert(text);
        composer
    }

    #[test]
    fn graphemes_are_deleted_whole() {
        let mut draft = composer("a漢e\u{301}👩‍👩‍👧", 20);
        for left in ["a漢e\u{301}", "a漢", "a", "", ""] {
            draft.backspace();
            assert_eq!(draft.text(), left);
        }
        draft.insert("x漢");
        draft.home();
        draft.delete_next();
        draft.delete_next();
        draft.delete_next();
        assert_eq!(draft.text(), "");
    }

    #[test]
    fn pastes_are_tamed() {
        assert_eq!(composer("one\r\ntwo\rthree\u{1b}[2J\u{7}\tfour", 40).text(), "one\ntwo\nthree   four");
    }

    #[test]
    fn the_caret_stands_where_the_next_character_goes() {
        let mut draft = composer("the quick brown", 11);
        assert_eq!(draft.rows().collect::<Vec<_>>(), ["the quick", "brown"]);
        assert_eq!(draft.caret_cell(), (1, 5));
        draft.home();
        assert_eq!(draft.caret_cell(), (0, 0));
        let full = composer("0123456789", 11);
        assert_eq!(full.caret_cell(), (0, 10));
        assert_eq!(composer("漢字", 20).caret_cell(), (0, 4));
        assert_eq!(composer("a\n", 20).caret_cell(), (1, 0));
        let mut wide = composer("漢字", 20);
        wide.left();
        assert_eq!(wide.caret_cell(), (0, 2));
    }

    #[test]
    fn rows_are_climbed_and_the_column_is_remembered() {
        let mut draft = composer("long line here\nab\nanother line", 40);
        assert_eq!(draft.caret_cell(), (2, 12));
        assert!(draft.up());
        assert_eq!(draft.caret_cell(), (1, 2));
        assert!(draft.up());
        assert_eq!(draft.caret_cell(), (0, 12));
        assert!(!draft.up());
        assert!(draft.down() && draft.down() && !draft.down());
        assert_eq!(draft.caret_cell(), (2, 12));
    }

    #[test]
    fn words_and_lines_are_cut_and_put_back() {
        let mut draft = composer("one two  three", 40);
        draft.kill_word();
        assert_eq!(draft.text(), "one two  ");
        draft.word_left();
        draft.kill_to_end();
        assert_eq!(draft.text(), "one ");
        draft.home();
        draft.yank();
        assert_eq!(draft.text(), "two  one ");
        draft.end();
        draft.kill_to_start();
        assert_eq!(draft.text(), "");
        let mut draft = composer("a\nb", 40);
        draft.up();
        draft.end();
        draft.kill_to_end();
        assert_eq!(draft.text(), "ab");
        draft.home();
        draft.word_right();
        assert_eq!(draft.caret_cell(), (0, 2));
    }

    proptest! {
        #[test]
        fn any_keys_leave_the_caret_between_graphemes(
            steps in prop::collection::vec((0usize..16, "(漢|e\u{301}|\u{301}|👩‍|👧|🇩🇪|[a-c ]|\n){0,4}"), 0..60),
            columns in 0usize..12,
        ) {
            let mut draft = Composer::default();
            draft.wrap(columns);
            for (step, text) in steps {
                match step {
                    0 => draft.left(),
                    1 => draft.right(),
                    2 => drop(draft.up()),
                    3 => drop(draft.down()),
                    4 => draft.home(),
                    5 => draft.end(),
                    6 => draft.word_left(),
                    7 => draft.word_right(),
                    8 => draft.backspace(),
                    9 => draft.delete_next(),
                    10 => draft.kill_word(),
                    11 => draft.kill_to_end(),
                    12 => draft.kill_to_start(),
                    13 => draft.yank(),
                    _ => draft.insert(&text),
                }
                prop_assert!(draft.text.is_char_boundary(draft.caret));
                prop_assert!(draft.boundary(draft.caret), "{:?} at {}", draft.text, draft.caret);
                let (row, column) = draft.caret_cell();
                prop_assert!(row < draft.rows.len() && column <= draft.columns);
            }
        }
    }
}
