//! Tables of an answer: columns as wide as their text where that fits, else narrowed and wrapped, else one line for
//! each cell.

use pulldown_cmark::Alignment;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::wrap;
use crate::tui::theme::Theme;
use crate::tui::width;

/// Below this a column of wrapped text cannot be read.
const NARROWEST: usize = 6;
const GAP: &str = " │ ";
const GAP_WIDTH: usize = 3;

type Cell = Vec<(String, Style)>;

/// A table while it is read; its first row is the head.
pub(super) struct Table {
    alignments: Vec<Alignment>,
    cells: Vec<Vec<Cell>>,
}

impl Table {
    pub(super) const fn new(alignments: Vec<Alignment>) -> Self {
        Self { alignments, cells: Vec::new() }
    }

    pub(super) fn begin_row(&mut self) {
        self.cells.push(Vec::new());
    }

    pub(super) fn push_cell(&mut self, cell: Cell) {
        if let Some(row) = self.cells.last_mut() {
            row.push(cell);
        }
    }

    /// The table as rows of at most `columns`.
    pub(super) fn rows(mut self, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
        if let Some(head) = self.cells.first_mut() {
            for (_, style) in head.iter_mut().flatten() {
                *style = style.patch(theme.strong);
            }
        }
        match self.widths(columns) {
            Some(widths) => self.grid(&widths, theme),
            None => self.list(columns, theme),
        }
    }

    /// How wide each column is drawn, or none where there is no room for columns.
    fn widths(&self, columns: usize) -> Option<Vec<usize>> {
        let count = self.alignments.len();
        let mut widths = vec![1; count];
        for (column, cell) in self.cells.iter().flat_map(|row| row.iter().enumerate()) {
            if let Some(widest) = widths.get_mut(column) {
                *widest = (*widest).max(cell_width(cell));
            }
        }
        let room = columns.checked_sub(GAP_WIDTH * count.saturating_sub(1))?;
        let mut excess = widths.iter().sum::<usize>().saturating_sub(room);
        // Take from the widest, one column at a time, until it fits.
        while excess > 0 {
            let widest = widths.iter_mut().max()?;
            if *widest <= NARROWEST {
                return None;
            }
            *widest -= 1;
            excess -= 1;
        }
        Some(widths)
    }

    fn grid(&self, widths: &[usize], theme: &Theme) -> Vec<Line<'static>> {
        let mut out = Vec::new();
        for (number, row) in self.cells.iter().enumerate() {
            let cells: Vec<Vec<Line<'static>>> = widths
                .iter()
                .enumerate()
                .map(|(column, room)| {
                    let mut lines = Vec::new();
                    let cell = row.get(column).map_or(&[][..], Vec::as_slice);
                    wrap::styled(cell, *room, &Line::default(), &Line::default(), &mut lines);
                    lines
                })
                .collect();
            for height in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
                let mut line = Line::default();
                for (column, (lines, room)) in cells.iter().zip(widths).enumerate() {
                    if column > 0 {
                        line.spans.push(Span::styled(GAP, theme.dim));
                    }
                    let text = lines.get(height).cloned().unwrap_or_default();
                    let spare = room.saturating_sub(width::of_line(&text));
                    let (left, right) = match self.alignments.get(column) {
                        Some(Alignment::Right) => (spare, 0),
                        Some(Alignment::Center) => (spare / 2, spare - spare / 2),
                        _ => (0, spare),
                    };
                    line.spans.push(Span::raw(" ".repeat(left)));
                    line.spans.extend(text.spans);
                    line.spans.push(Span::raw(" ".repeat(right)));
                }
                out.push(line);
            }
            if number == 0 {
                let rule: Vec<String> = widths.iter().map(|room| "─".repeat(*room)).collect();
                out.push(Line::styled(rule.join("─┼─"), theme.dim));
            }
        }
        out
    }

    /// One line for each cell, named by its column, a blank one between rows.
    fn list(&self, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
        let mut out = Vec::new();
        let Some((head, body)) = self.cells.split_first() else { return out };
        for (number, row) in body.iter().enumerate() {
            if number > 0 {
                out.push(Line::default());
            }
            for (column, cell) in row.iter().enumerate() {
                let mut spans = head.get(column).cloned().unwrap_or_default();
                spans.push((": ".to_owned(), theme.dim));
                spans.extend(cell.iter().cloned());
                wrap::styled(&spans, columns, &Line::default(), &Line::from("  "), &mut out);
            }
        }
        out
    }
}

fn cell_width(cell: &Cell) -> usize {
    cell.iter().map(|(text, _)| width::of(text)).sum()
}
