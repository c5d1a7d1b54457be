//! Text that grows at its end, laid out so that growing costs only what is still open.
//!
//! A block of markdown is final once the first line of another one after it is ended, and a line of plain text once it is ended: these
//! are laid out once, kept, and never touched again. What is open at the end is laid out anew as it grows, but for a
//! block of code, which can be long: its lines are final as they end.

use std::ops::Range;

use ratatui::text::Line;

use super::fence::Fence;
use super::{markdown, wrap};
use crate::tui::theme::Theme;
use crate::tui::width::Cleaner;

/// How a text is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// As markdown.
    Markdown,
    /// Line by line, in the style of thinking.
    Thinking,
    /// Line by line, in the style of text.
    Plain,
}

/// One text and its rows.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    kind: Kind,
    first: Line<'static>,
    rest: Line<'static>,
    cleaner: Cleaner,
    /// Bytes of the raw text that were taken in.
    taken: usize,
    text: String,
    columns: usize,
    /// Bytes of `text` that `settled` shows.
    settled_bytes: usize,
    settled: Vec<Line<'static>>,
    open: Vec<Line<'static>>,
    /// The block of code that is open, if its lines settle as they end.
    fence: Option<Fence>,
    /// Which rows are of code, for each block of it: of the settled rows, and of all.
    settled_code: Vec<Range<usize>>,
    code: Vec<Range<usize>>,
}

impl Flow {
    /// An empty one whose first row begins with `first` and whose others begin with `rest`.
    pub(super) fn new(kind: Kind, first: Line<'static>, rest: Line<'static>) -> Self {
        Self {
            kind,
            first,
            rest,
            cleaner: Cleaner::default(),
            taken: 0,
            text: String::new(),
            columns: 0,
            settled_bytes: 0,
            settled: Vec::new(),
            open: Vec::new(),
            fence: None,
            settled_code: Vec::new(),
            code: Vec::new(),
        }
    }

    /// Takes in what `raw` has gained since the last call, and lays it out at `columns`. `raw` only ever grows.
    pub(super) fn update(&mut self, raw: &str, columns: usize, theme: &Theme) {
        let grown = raw.len() > self.taken;
        if grown {
            self.cleaner.push(raw.get(self.taken..).unwrap_or_default(), &mut self.text);
            self.taken = raw.len();
        }
        if columns != self.columns {
            self.columns = columns;
            self.settled_bytes = 0;
            self.settled.clear();
            self.settled_code.clear();
            self.fence = None;
        } else if !grown {
            return;
        }
        self.open.clear();
        match self.kind {
            Kind::Markdown => self.lay_out_blocks(theme),
            Kind::Thinking | Kind::Plain => self.lay_out_lines(theme),
        }
    }

    fn lay_out_blocks(&mut self, theme: &Theme) {
        loop {
            if self.fence.is_some() && !self.lay_out_code(theme) {
                return;
            }
            let tail = self.text.get(self.settled_bytes..).unwrap_or_default();
            let mut blocks = markdown::blocks(tail, self.columns, &self.rest, theme);
            // What a line is can change until it is ended: only a block with an ended first line has begun for good.
            let ended = tail.rfind('\n').unwrap_or(0);
            let open = blocks.iter().rposition(|block| block.source < ended).unwrap_or(0);
            let open = blocks.split_off(open.min(blocks.len()));
            for block in blocks {
                push_block(&mut self.settled, &mut self.settled_code, 0, block);
            }
            self.settled_bytes += open.first().map_or(0, |block| block.source);
            if self.begin_code(&open) {
                continue;
            }
            self.code.clone_from(&self.settled_code);
            for block in open {
                push_block(&mut self.open, &mut self.code, self.settled.len(), block);
            }
            return;
        }
    }

    /// Whether what is open is a block of code whose lines can settle one by one; then it has begun.
    fn begin_code(&mut self, open: &[markdown::Block]) -> bool {
        let tail = self.text.get(self.settled_bytes..).unwrap_or_default();
        let (Some(block), Some((line, _))) = (open.first(), tail.split_once('\n')) else { return false };
        let Some(fence) = Fence::opened_by(line) else { return false };
        let Some(code) = block.code.first() else { return false };
        if !self.settled.is_empty() {
            self.settled.push(Line::default());
        }
        // What is above the code: the name of the language.
        self.settled.extend(block.rows.iter().take(code.start).cloned());
        self.settled_code.push(self.settled.len()..self.settled.len());
        self.settled_bytes += line.len() + 1;
        self.fence = Some(fence);
        true
    }

    /// Settles the lines of the open block of code that have ended; whether the block has.
    fn lay_out_code(&mut self, theme: &Theme) -> bool {
        let Some(mut fence) = self.fence.take() else { return true };
        let indent = (&self.rest, &self.rest);
        let mut closed = false;
        while !closed {
            let tail = self.text.get(self.settled_bytes..).unwrap_or_default();
            let Some((line, _)) = tail.split_once('\n') else { break };
            closed = fence.is_closed_by(line);
            if !closed || !fence.has_lines {
                let line = if closed { "" } else { fence.content(line) };
                markdown::code_line(&mut fence.lexer, line, self.columns, indent, theme, &mut self.settled);
                fence.has_lines = true;
            }
            self.settled_bytes += line.len() + 1;
        }
        if let Some(code) = self.settled_code.last_mut() {
            code.end = self.settled.len();
        }
        self.code.clone_from(&self.settled_code);
        if closed {
            return true;
        }
        let line = self.text.get(self.settled_bytes..).unwrap_or_default();
        let line = if fence.is_closed_by(line) { "" } else { fence.content(line) };
        if !line.is_empty() || !fence.has_lines {
            markdown::code_line(&mut fence.lexer.clone(), line, self.columns, indent, theme, &mut self.open);
            if let Some(code) = self.code.last_mut() {
                code.end = self.settled.len() + self.open.len();
            }
        }
        self.fence = Some(fence);
        false
    }

    fn lay_out_lines(&mut self, theme: &Theme) {
        let style = if self.kind == Kind::Thinking { theme.thinking } else { theme.text };
        let lay_out = |line: &str, first: bool, out: &mut Vec<Line<'static>>| {
            let first = if first { &self.first } else { &self.rest };
            wrap::styled(&[(line.to_owned(), style)], self.columns, first, &self.rest, out);
        };
        let tail = self.text.get(self.settled_bytes..).unwrap_or_default();
        let ended = tail.rfind('\n').map_or(0, |at| at + 1);
        let (done, open) = tail.split_at(ended);
        for line in done.split_terminator('\n') {
            let first = self.settled.is_empty();
            lay_out(line, first, &mut self.settled);
        }
        self.settled_bytes += ended;
        if !open.is_empty() {
            let first = self.settled.is_empty();
            lay_out(open, first, &mut self.open);
        }
    }

    /// Which rows are of code, for each block of it.
    pub(super) fn code(&self) -> &[Range<usize>] {
        &self.code
    }

    /// How many rows there are.
    pub(super) fn len(&self) -> usize {
        self.settled.len() + self.open.len()
    }

    /// One row.
    pub(super) fn row(&self, number: usize) -> Option<&Line<'static>> {
        self.settled.get(number).or_else(|| self.open.get(number.checked_sub(self.settled.len())?))
    }
}

/// Appends the rows of a block to `rows`, before which there are `above`, after a blank one where something comes
/// before it.
fn push_block(
    rows: &mut Vec<Line<'static>>,
    code: &mut Vec<Range<usize>>,
    above: usize,
    block: markdown::Block,
) {
    if block.rows.is_empty() {
        return;
    }
    if above > 0 || !rows.is_empty() {
        rows.push(Line::default());
    }
    let begin = above + rows.len();
    code.extend(block.code.into_iter().map(|range| begin + range.start..begin + range.end));
    rows.extend(block.rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid_out(pieces: &[&str], kind: Kind) -> (Vec<String>, usize) {
        let theme = Theme::NONE;
        let mut flow = Flow::new(kind, Line::from("> "), Line::from("  "));
        let mut raw = String::new();
        for piece in pieces {
            raw.push_str(piece);
            flow.update(&raw, 40, &theme);
        }
        (
            (0..flow.len()).filter_map(|row| flow.row(row)).map(ToString::to_string).collect(),
            flow.settled.len(),
        )
    }

    #[test]
    fn blocks_settle_once_the_next_one_has_begun() {
        let (rows, settled) = laid_out(&["one\n", "\ntwo", "\n\nthree\n"], Kind::Markdown);
        assert_eq!(rows, ["  one", "", "  two", "", "  three"]);
        assert_eq!(settled, 3);
    }

    #[test]
    fn a_line_that_is_not_ended_may_still_become_something_else() {
        // What looks like a fence becomes a row of the table before it.
        let pieces = ["| a | b |\n|--|--|\n```<b>", "```"];
        assert_eq!(laid_out(&pieces, Kind::Markdown).0, laid_out(&[&pieces.concat()], Kind::Markdown).0);
        let pieces = ["title\n-", "--\ntext"];
        assert_eq!(laid_out(&pieces, Kind::Markdown).0, laid_out(&[&pieces.concat()], Kind::Markdown).0);
    }

    #[test]
    fn code_settles_line_by_line() {
        let pieces =
            ["text\n\n```rust\nfn", " a() {\n", "    \"b\n", "  c\";\n``", "`\n", "after\n```\n\n```"];
        for end in 1..=pieces.len() {
            let pieces = &pieces[..end];
            assert_eq!(laid_out(pieces, Kind::Markdown).0, laid_out(&[&pieces.concat()], Kind::Markdown).0);
        }
        assert_eq!(laid_out(&pieces[..3], Kind::Markdown).1, 5);
        let mut flow = Flow::new(Kind::Markdown, Line::default(), Line::default());
        flow.update(&pieces.concat(), 40, &Theme::NONE);
        assert_eq!(flow.code(), [3..6, 9..10]);
        assert_eq!(flow.row(3).map(ToString::to_string).as_deref(), Some("  fn a() {"));
    }

    #[test]
    fn lines_settle_when_they_end() {
        let (rows, settled) = laid_out(&["o", "ne\ntw", "o\nthree"], Kind::Plain);
        assert_eq!(rows, ["> one", "  two", "  three"]);
        assert_eq!(settled, 2);
    }
}
