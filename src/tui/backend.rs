//! How cells reach the terminal: ratatui's own way, but for the place of what follows a cluster of characters.

use std::io::{self, Write};

use ratatui::backend::{Backend, ClearType, CrosstermBackend, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};

/// Writes cells, and says anew where it is after each that holds more than one character.
///
/// Terminals differ in how wide they show emoji in sequence, marks and the clusters of Indic scripts. Cells beside
/// each other are written without saying where they go, so one such difference moves the rest of the row, and what is
/// written there later misses it and leaves remains.
pub(super) struct Placed<W: Write>(CrosstermBackend<W>);

impl<W: Write> Placed<W> {
    pub(super) const fn new(out: W) -> Self {
        Self(CrosstermBackend::new(out))
    }
}

impl<W: Write> Backend for Placed<W> {
    type Error = io::Error;

    fn draw<'a, I: Iterator<Item = (u16, u16, &'a Cell)>>(&mut self, content: I) -> io::Result<()> {
        let cells: Vec<_> = content.collect();
        // Each call begins by saying where.
        cells
            .split_inclusive(|(_, _, cell)| cell.symbol().chars().nth(1).is_some())
            .try_for_each(|piece| self.0.draw(piece.iter().copied()))
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.0.hide_cursor()
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.0.show_cursor()
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        self.0.get_cursor_position()
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.0.set_cursor_position(position)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.0.clear()
    }

    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        self.0.clear_region(region)
    }

    fn size(&self) -> io::Result<Size> {
        self.0.size()
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        self.0.window_size()
    }

    fn flush(&mut self) -> io::Result<()> {
        Backend::flush(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_a_cluster_is_placed_anew() {
        let drawn = |symbols: &[&'static str]| {
            let cells: Vec<Cell> = symbols.iter().map(|symbol| Cell::new(symbol)).collect();
            let mut out = Vec::new();
            let content = (0..).zip(&cells).map(|(x, cell)| (x, 0, cell));
            Placed::new(&mut out).draw(content).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(drawn(&["a", "é", "c"]).starts_with("\x1b[1;1Haéc\x1b["));
        let clusters = drawn(&["a", "e\u{301}", "b", "c"]);
        assert!(clusters.starts_with("\x1b[1;1Hae\u{301}\x1b["), "{clusters:?}");
        assert!(clusters.contains("\x1b[1;3Hbc"), "{clusters:?}");
    }
}
