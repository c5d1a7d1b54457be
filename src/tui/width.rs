//! How wide text is, what of it may reach the terminal, and how it is put into cells.
//!
//! Everything that the screen shows goes through [`clean`], is measured by [`of`] and drawn by [`draw`], which agree
//! with each other and tell ratatui's differ where it thinks otherwise, so that columns never drift.

use std::num::NonZeroU16;

use ratatui::buffer::{Buffer, CellDiffOption, CellWidth};
use ratatui::style::Style;
use ratatui::text::Line;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Columns between two tab stops.
const TAB: usize = 4;

/// Joins what stands before it to what follows.
const JOINER: char = '\u{200d}';

/// Columns that one grapheme takes. Control characters take none: they are never drawn.
pub(crate) fn grapheme(text: &str) -> usize {
    if text.len() == 1 {
        return usize::from(is_plain(text));
    }
    if text.contains(char::is_control) { 0 } else { text.width() }
}

/// Whether each byte is a grapheme of its own that takes one column, as in most of what is shown.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|b| (0x20..0x7f).contains(&b))
}

/// The graphemes of a text, and the byte at which each begins.
pub(crate) fn graphemes(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let (plain, other) = if is_plain(text) { (text, "") } else { ("", text) };
    (0..plain.len()).filter_map(|at| Some((at, plain.get(at..=at)?))).chain(other.grapheme_indices(true))
}

/// Columns that a text without line breaks takes.
pub(crate) fn of(text: &str) -> usize {
    if is_plain(text) {
        return text.len();
    }
    text.graphemes(true).map(grapheme).sum()
}

/// Columns that a styled line takes.
pub(crate) fn of_line(line: &Line<'_>) -> usize {
    line.spans.iter().map(|span| of(&span.content)).sum()
}

/// The longest beginning of `text` that fits in `columns`, on a grapheme's boundary.
pub(crate) fn prefix(text: &str, columns: usize) -> &str {
    let mut used = 0;
    for (at, cluster) in graphemes(text) {
        used += grapheme(cluster);
        if used > columns {
            return text.get(..at).unwrap_or_default();
        }
    }
    text
}

/// `text` if it fits in `columns`, else its beginning and an ellipsis.
pub(crate) fn ellipsis(text: &str, columns: usize) -> String {
    if of(text) <= columns {
        text.to_owned()
    } else if columns == 0 {
        String::new()
    } else {
        format!("{}…", prefix(text, columns - 1))
    }
}

/// Draws `line` from column `x` on, at most `columns` wide and never outside the buffer. A wide grapheme that would
/// be cut is left out.
pub(crate) fn draw(buffer: &mut Buffer, x: u16, y: u16, columns: u16, line: &Line<'_>) {
    let area = buffer.area;
    if y < area.top() || y >= area.bottom() || x < area.left() {
        return;
    }
    let end = area.right().min(x.saturating_add(columns));
    let mut at = x;
    for span in &line.spans {
        let style = line.style.patch(span.style);
        for (_, cluster) in graphemes(&span.content) {
            let Ok(width) = u16::try_from(grapheme(cluster)) else { continue };
            if width == 0 {
                continue;
            }
            if at.saturating_add(width) > end {
                return;
            }
            if let Some(cell) = buffer.cell_mut((at, y)) {
                // A joiner with nothing behind it would join the next cell in terminals that put clusters together.
                cell.set_symbol(cluster.trim_end_matches(JOINER)).set_style(style);
                // The differ counts the sound marks of half-width katakana twice since unicode-width counts them, too.
                if cluster.cell_width() != width
                    && let Some(width) = NonZeroU16::new(width)
                {
                    cell.set_diff_option(CellDiffOption::ForcedWidth(width));
                }
            }
            // What follows of a wide grapheme belongs to it.
            for covered in at + 1..at + width {
                if let Some(cell) = buffer.cell_mut((covered, y)) {
                    cell.reset();
                    cell.set_style(Style { sub_modifier: style.sub_modifier, ..Style::default() });
                }
            }
            at += width;
        }
    }
}

/// Takes out of a text what a terminal would obey instead of show, and lays tabs out as spaces.
///
/// Kept across calls, so that an escape sequence that arrives in pieces is still seen as one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cleaner {
    state: State,
    column: usize,
    keeps_tabs: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// Within `ESC [`.
    Control,
    /// Within a string: `ESC ]`, `ESC P`, `ESC X`, `ESC ^`, `ESC _`.
    Str,
    /// After ESC within a string: a backslash ends it.
    StrEscape,
}

impl Cleaner {
    /// Appends what may be shown of `raw` to `out`.
    #[expect(clippy::match_same_arms, reason = "what an arm means depends on those before it")]
    pub(crate) fn push(&mut self, raw: &str, out: &mut String) {
        out.reserve(raw.len());
        for c in raw.chars() {
            self.state = match (self.state, c) {
                // A line break ends whatever was open: no sequence may swallow the rest of an answer.
                (_, '\n') => {
                    out.push('\n');
                    self.column = 0;
                    State::Text
                }
                (State::Str, '\u{1b}') => State::StrEscape,
                (_, '\u{1b}') => State::Escape,
                // What ends a string, and what ends the other sequences.
                (State::Str, '\u{7}' | '\u{9c}') | (State::StrEscape, '\\') | (State::Control, '@'..='~') => {
                    State::Text
                }
                (State::Escape, '[') | (State::Text, '\u{9b}') | (State::Control, ' '..='?') => {
                    State::Control
                }
                (State::Str | State::StrEscape, _)
                | (State::Escape, ']' | 'P' | 'X' | '^' | '_')
                | (State::Text, '\u{9d}' | '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}') => State::Str,
                (State::Escape, ' '..='/') => State::Escape,
                (State::Escape, '0'..='~') => State::Text,
                (_, c) => {
                    self.show(c, out);
                    State::Text
                }
            };
        }
    }

    fn show(&mut self, c: char, out: &mut String) {
        match c {
            '\t' if self.keeps_tabs => out.push('\t'),
            '\t' => {
                let spaces = TAB - self.column % TAB;
                out.extend(std::iter::repeat_n(' ', spaces));
                self.column += spaces;
            }
            c if c.is_control() || is_invisible(c) => {}
            c => {
                out.push(c);
                self.column += 1;
            }
        }
    }
}

/// Characters that change the order or the place of others, and show nothing themselves.
const fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    )
}

/// What may be shown of `raw`: no control characters but line breaks, no escape sequences, tabs as spaces.
pub(crate) fn clean(raw: &str) -> String {
    let mut out = String::new();
    Cleaner::default().push(raw, &mut out);
    out
}

/// The same, but tabs stay, for what leaves the program again.
pub(crate) fn safe(raw: &str) -> String {
    let mut out = String::new();
    Cleaner { keeps_tabs: true, ..Cleaner::default() }.push(raw, &mut out);
    out
}

/// What may be shown of `raw` on a single line: line breaks become spaces. For names, titles and the like.
pub(crate) fn clean_line(raw: &str) -> String {
    clean(raw).replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use ratatui::layout::Rect;

    proptest! {
        #[test]
        fn graphemes_are_those_of_the_standard(text in "[ -~]{0,20}|\\PC{0,8}|(\r\n|e\u{301}|漢|[a-z]){0,8}") {
            let all: Vec<(usize, &str)> = text.grapheme_indices(true).collect();
            prop_assert_eq!(graphemes(&text).collect::<Vec<_>>(), all);
            prop_assert_eq!(of(&text), graphemes(&text).map(|(_, cluster)| grapheme(cluster)).sum::<usize>());
        }
    }

    #[test]
    fn what_a_terminal_would_obey_is_gone() {
        for (raw, shown) in [
            ("plain\ntext", "plain\ntext"),
            ("a\u{1b}[31mred\u{1b}[0m", "ared"),
            ("\u{1b}]52;c;aGk=\u{7}after", "after"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{9b}2Jtext", "text"),
            ("\u{1b}]0;never closed\nnext line", "\nnext line"),
            ("\u{1b}(Bx", "x"),
            ("bell\u{7} back\u{8} del\u{7f} nul\u{0} cr\r\n", "bell back del nul cr\n"),
            ("\u{202e}gnp.exe", "gnp.exe"),
            ("a\tb", "a   b"),
            ("12345\tb", "12345   b"),
            ("\u{1b}", ""),
            ("é 漢字 👩‍👩‍👧", "é 漢字 👩‍👩‍👧"),
        ] {
            assert_eq!(clean(raw), shown, "{raw:?}");
        }
    }

    #[test]
    fn what_is_copied_keeps_its_tabs() {
        assert_eq!(safe("x:\n\ty\u{1b}]0;t\u{7}\r\n\u{202e}z\t"), "x:\n\ty\nz\t");
    }

    #[test]
    fn a_sequence_in_pieces_is_still_one() {
        let mut cleaner = Cleaner::default();
        let mut out = String::new();
        for piece in ["a\u{1b}", "]52;c;", "aGk=", "\u{1b}", "\\b"] {
            cleaner.push(piece, &mut out);
        }
        assert_eq!(out, "ab");
    }

    #[test]
    fn widths_are_those_of_cells() {
        for (text, columns) in
            [("", 0), ("abc", 3), ("漢字", 4), ("e\u{301}", 1), ("👩‍👩‍👧", 2), ("ｶﾞ", 2), ("，", 2)]
        {
            assert_eq!(of(text), columns, "{text:?}");
        }
    }

    #[test]
    fn a_cut_never_splits_a_grapheme() {
        assert_eq!(prefix("漢字", 3), "漢");
        assert_eq!(prefix("e\u{301}x", 1), "e\u{301}");
        assert_eq!(ellipsis("a long title", 6), "a lon…");
        assert_eq!(ellipsis("漢字", 3), "漢…");
        assert_eq!(ellipsis("x", 0), "");
    }

    #[test]
    fn nothing_joins_two_cells() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 6, 1));
        draw(&mut buffer, 0, 0, 6, &Line::from("ab\u{200d} 👩‍👩‍👧"));
        let symbols: Vec<_> = (0..4).map(|x| buffer[(x, 0)].symbol()).collect();
        assert_eq!(symbols, ["a", "b", " ", "👩‍👩‍👧"]);
    }

    proptest! {
        /// T13.
        #[test]
        fn t13_drawing_takes_the_measured_columns(text in "(\\PC|漢|👩‍👩‍👧|e\u{301}|\u{1b}){0,12}", room in 0u16..30) {
            let mut buffer = Buffer::empty(Rect::new(0, 0, 40, 1));
            let shown = clean(&text);
            draw(&mut buffer, 0, 0, room, &Line::from(shown.clone()));
            let used = (0..40).rev().find(|x| buffer[(*x, 0)].symbol() != " ").map_or(0, |x| {
                usize::from(x) + grapheme(buffer[(x, 0)].symbol())
            });
            prop_assert!(used <= usize::from(room));
            prop_assert!(used <= of(&shown));
            prop_assert!(of(prefix(&shown, usize::from(room))) <= usize::from(room));
        }

        #[test]
        fn nothing_that_is_shown_is_a_control_character(text in any::<String>()) {
            prop_assert!(!clean(&text).chars().any(|c| c.is_control() && c != '\n'));
        }
    }
}
