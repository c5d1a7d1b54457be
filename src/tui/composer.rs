//! The editor of the message: several lines, wrapped as they are drawn, with the caret between graphemes.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use super::draft::{CHIP, Draft};
use super::transcript::wrap;
use super::width;

/// A draft, and where the caret is in it.
#[derive(Clone, Debug)]
pub(crate) struct Composer {
    draft: Draft,
    /// Byte of the caret in the draft's text; always between two graphemes.
    caret: usize,
    /// Column that moves up and down aim for.
    goal: Option<usize>,
    killed: Draft,
    columns: usize,
    /// The draft as it is shown, and which bytes of that are chips.
    shown: String,
    labels: Vec<Range<usize>>,
    /// Bytes of what is shown.
    rows: Vec<Range<usize>>,
}

impl Default for Composer {
    fn default() -> Self {
        Self {
            draft: Draft::default(),
            caret: 0,
            goal: None,
            killed: Draft::default(),
            columns: usize::MAX,
            shown: String::new(),
            labels: Vec::new(),
            rows: std::iter::once(0..0).collect(),
        }
    }
}

impl Composer {
    /// The draft's text, with one character for each chip.
    pub(crate) fn text(&self) -> &str {
        self.draft.text()
    }

    /// The draft.
    pub(crate) const fn draft(&self) -> &Draft {
        &self.draft
    }

    /// Whether nothing but white space is in it.
    pub(crate) fn is_blank(&self) -> bool {
        self.draft.is_blank()
    }

    /// Replaces the draft; the caret goes to its end.
    pub(crate) fn set(&mut self, draft: impl Into<Draft>) {
        self.draft = draft.into();
        self.caret = self.text().len();
        self.changed();
    }

    /// Takes the draft away.
    pub(crate) fn take(&mut self) -> Draft {
        let draft = std::mem::take(&mut self.draft);
        self.caret = 0;
        self.changed();
        draft
    }

    /// Puts what is typed at the caret: what a terminal would obey is left out, so that what is sent is what is seen.
    pub(crate) fn insert(&mut self, text: &str) {
        self.put(width::clean(&text.replace("\r\n", "\n").replace('\r', "\n")));
    }

    /// Puts what was pasted at the caret; a large one becomes a chip.
    pub(crate) fn paste(&mut self, text: &str) {
        self.put(Draft::pasted(text));
    }

    /// Learns the tokens of its chips from a draft that they were counted in.
    pub(crate) fn learn(&mut self, counted: &Draft) {
        if self.draft.learn(counted) {
            let goal = self.goal;
            self.changed();
            self.goal = goal;
        }
    }

    /// Puts a draft at the caret.
    pub(crate) fn put(&mut self, other: impl Into<Draft>) {
        let other = other.into();
        let len = other.text().len();
        self.draft.insert(self.caret, other);
        self.caret += len;
        // A combining character joins what stands before it, or what follows joins it: stay between graphemes.
        if !self.boundary(self.caret) {
            self.caret = self.next(self.caret);
        }
        self.changed();
    }

    /// Makes one line of what is written, where one line is wanted.
    pub(crate) fn join_lines(&mut self) {
        if self.text().contains('\n') {
            let line = self.text().replace('\n', " ");
            self.set(line);
        }
    }

    /// The word that ends at the caret, from the last white space or chip on.
    pub(crate) fn word_before(&self) -> &str {
        let before = self.text().get(..self.caret).unwrap_or_default();
        before.rsplit(|c: char| c.is_whitespace() || c == CHIP).next().unwrap_or_default()
    }

    /// Puts something in the place of the last bytes before the caret.
    pub(crate) fn replace_before(&mut self, len: usize, other: impl Into<Draft>) {
        self.delete(self.caret.saturating_sub(len)..self.caret);
        self.put(other);
    }

    /// Puts something in the place of the last mention of a word; false where there is none.
    pub(crate) fn replace_word(&mut self, word: &str, other: impl Into<Draft>) -> bool {
        let Some(at) = self.text().rfind(word) else { return false };
        let behind = self.text().len() - self.caret;
        self.delete(at..at + word.len());
        self.caret = at;
        self.put(other);
        // Who has written on meanwhile goes on where he was.
        let caret = self.text().len().saturating_sub(behind).max(self.caret);
        if self.text().is_char_boundary(caret) && self.boundary(caret) {
            self.caret = caret;
        }
        true
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
        self.put(self.killed.clone());
    }

    /// Wraps the draft for an area of `columns`. The last of them is left to the caret.
    pub(crate) fn wrap(&mut self, columns: usize) {
        let columns = columns.saturating_sub(1).max(1);
        if columns != self.columns {
            self.columns = columns;
            self.rows = wrapped(&self.shown, columns);
        }
    }

    /// The rows as drawn.
    pub(crate) fn rows(&self) -> impl ExactSizeIterator<Item = &str> {
        self.rows.iter().map(|row| wrap::visible(self.shown.get(row.clone()).unwrap_or_default()))
    }

    /// The same in pieces, and whether each is of a chip.
    pub(crate) fn pieces(&self) -> impl ExactSizeIterator<Item = Vec<(&str, bool)>> {
        self.rows.iter().map(|row| {
            let end = row.start + wrap::visible(self.shown.get(row.clone()).unwrap_or_default()).len();
            let mut out = Vec::new();
            let mut at = row.start;
            let mut push = |to: usize, is_chip| {
                if let Some(text) = self.shown.get(at..to).filter(|text| !text.is_empty()) {
                    out.push((text, is_chip));
                    at = to;
                }
            };
            for label in &self.labels {
                push(label.start.clamp(row.start, end), false);
                push(label.end.clamp(row.start, end), true);
            }
            push(end, false);
            out
        })
    }

    /// Row and column of the caret.
    pub(crate) fn caret_cell(&self) -> (usize, usize) {
        let caret = self.to_shown(self.caret);
        // At a soft break the caret is at the beginning of the row after it.
        let row = self.rows.iter().rposition(|row| row.start <= caret).unwrap_or(0);
        let start = self.rows.get(row).map_or(0, |row| row.start);
        let column = width::of(self.shown.get(start..caret).unwrap_or_default());
        (row, column.min(self.columns))
    }

    /// Where a byte of the text is in what is shown.
    fn to_shown(&self, at: usize) -> usize {
        let before = self.labels.iter().take(self.draft.chips_before(at));
        at + before.map(|label| label.len() - CHIP_LEN).sum::<usize>()
    }

    /// Where a byte of what is shown is in the text; within a chip, behind it or before it.
    fn to_text(&self, shown: usize, behind: bool) -> usize {
        let mut more = 0;
        for label in &self.labels {
            if shown <= label.start {
                break;
            }
            if shown < label.end {
                return label.start - more + if behind { CHIP_LEN } else { 0 };
            }
            more += label.len() - CHIP_LEN;
        }
        shown - more
    }

    fn go(&mut self, caret: usize) {
        self.caret = caret;
        self.goal = None;
    }

    fn go_row(&mut self, row: usize) -> bool {
        let goal = self.goal.unwrap_or_else(|| self.caret_cell().1);
        let Some(range) = self.rows.get(row).cloned() else { return false };
        let text = self.shown.get(range.clone()).unwrap_or_default();
        let mut shown = range.start + width::prefix(text, goal).len();
        // The end of a row that goes on is the beginning of the next one: stay before it.
        if shown == range.end && self.rows.get(row + 1).is_some_and(|next| next.start == shown) {
            shown = range.start + text.grapheme_indices(true).next_back().map_or(0, |(at, _)| at);
        }
        // A chip that goes over several rows is left on the side that is gone to.
        self.caret = self.to_text(shown, row > self.caret_cell().0);
        if !self.boundary(self.caret) {
            self.caret = self.next(self.caret);
        }
        self.goal = Some(goal);
        true
    }

    fn kill(&mut self, range: Range<usize>) {
        if let Some(cut) = self.delete(range) {
            self.killed = cut;
        }
    }

    fn delete(&mut self, range: Range<usize>) -> Option<Draft> {
        self.text().get(range.clone()).filter(|text| !text.is_empty())?;
        self.caret = range.start;
        let cut = self.draft.remove(range);
        if !self.boundary(self.caret) {
            self.caret = self.next(self.caret);
        }
        self.changed();
        Some(cut)
    }

    fn changed(&mut self) {
        self.goal = None;
        (self.shown, self.labels) = self.draft.shown();
        self.rows = wrapped(&self.shown, self.columns);
    }

    /// The logical line of the caret, without its break.
    fn line(&self) -> Range<usize> {
        let (before, after) = self.text().split_at(self.caret);
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        start..after.find('\n').map_or(self.text().len(), |at| self.caret + at)
    }

    /// Whether a byte is between two graphemes. Line breaks always are, so that its line decides.
    fn boundary(&self, at: usize) -> bool {
        let line = self.line_around(at);
        let text = self.text().get(line.clone()).unwrap_or_default();
        at == line.end || text.grapheme_indices(true).any(|(start, _)| line.start + start == at)
    }

    fn line_around(&self, at: usize) -> Range<usize> {
        let start = self.text().get(..at).and_then(|text| text.rfind('\n')).map_or(0, |at| at + 1);
        let end = self
            .text()
            .get(at..)
            .and_then(|text| text.find('\n'))
            .map_or(self.text().len(), |found| at + found);
        start..end
    }

    fn previous(&self, at: usize) -> usize {
        let line = self.line_around(at);
        match self.text().get(line.start..at).and_then(|text| text.grapheme_indices(true).next_back()) {
            Some((start, _)) => line.start + start,
            None => at.saturating_sub(1),
        }
    }

    fn next(&self, at: usize) -> usize {
        let line = self.line_around(at);
        let text = self.text().get(line.clone()).unwrap_or_default();
        text.grapheme_indices(true)
            .map(|(start, cluster)| line.start + start + cluster.len())
            .find(|end| *end > at)
            .unwrap_or_else(|| (at + 1).min(self.text().len()))
    }

    fn word_start(&self) -> usize {
        let before = self.text().get(..self.caret).unwrap_or_default();
        let words = before.split_word_bound_indices().rev();
        words.into_iter().find(|(_, word)| is_word(word)).map_or(0, |(at, _)| at)
    }

    fn word_end(&self) -> usize {
        let after = self.text().get(self.caret..).unwrap_or_default();
        after
            .split_word_bound_indices()
            .find(|(_, word)| is_word(word))
            .map_or(self.text().len(), |(at, word)| self.caret + at + word.len())
    }
}

/// Bytes of what stands for a chip in the text.
const CHIP_LEN: usize = CHIP.len_utf8();

fn is_word(text: &str) -> bool {
    text.contains(CHIP) || text.chars().any(char::is_alphanumeric)
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
mod tests;
