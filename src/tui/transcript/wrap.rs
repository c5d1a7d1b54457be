//! Breaking text into rows that fit, at spaces where there are any, never inside a grapheme.

use std::ops::Range;

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::tui::width;

/// The rows of `text` (one logical line) at `columns`: ranges that join to the whole of it. Spaces at a break stay at
/// the end of their row and may hang over its edge; what is drawn of a row is [`visible`], which fits wherever
/// `columns` holds the widest grapheme. A text without anything in it has one empty row.
pub(crate) fn rows(text: &str, columns: usize) -> Vec<Range<usize>> {
    let columns = columns.max(1);
    // Most lines fit, and most are ASCII.
    if text.len() <= columns && text.is_ascii() {
        return std::iter::once(0..text.len()).collect();
    }
    let mut rows = Vec::new();
    let mut start = 0;
    let mut used = 0;
    // Where the last word of this row begins, and the columns before it.
    let mut word: Option<(usize, usize)> = None;
    let mut after_space = false;
    for (at, cluster) in width::graphemes(text) {
        let wide = width::grapheme(cluster);
        if cluster == " " {
            used += 1;
            after_space = true;
            continue;
        }
        if after_space {
            // A row's own indentation is no place to break at.
            word = (!text.get(start..at).unwrap_or_default().trim_start_matches(' ').is_empty()
                || used >= columns)
                .then_some((at, used))
                .or(word);
            after_space = false;
        }
        if used + wide > columns && at > start {
            if let Some((begin, before)) = word.take() {
                rows.push(start..begin);
                start = begin;
                used -= before;
            } else {
                rows.push(start..at);
                start = at;
                used = 0;
            }
            // The word itself may be longer than a row.
            if used + wide > columns && at > start {
                rows.push(start..at);
                start = at;
                used = 0;
            }
        }
        used += wide;
        // Wide scripts have no spaces: any of their graphemes may begin a row.
        if wide == 2 {
            word = Some((at + cluster.len(), used));
        }
    }
    rows.push(start..text.len());
    rows
}

/// What is drawn of a row: all but the spaces that hang at its end.
pub(crate) fn visible(row: &str) -> &str {
    row.trim_end_matches(' ')
}

/// Wraps one styled line: the first row begins with `first`, the others with `rest`, and none is wider than
/// `columns`.
pub(crate) fn styled(
    spans: &[(String, Style)],
    columns: usize,
    first: &Line<'static>,
    rest: &Line<'static>,
    out: &mut Vec<Line<'static>>,
) {
    let indent = width::of_line(first).max(width::of_line(rest));
    let text: String = spans.iter().map(|(text, _)| text.as_str()).collect();
    for (number, row) in rows(&text, columns.saturating_sub(indent)).into_iter().enumerate() {
        let end = row.start + visible(text.get(row.clone()).unwrap_or_default()).len();
        let mut line = if number == 0 { first.clone() } else { rest.clone() };
        push_slice(spans, row.start..end, &mut line.spans);
        out.push(line);
    }
}

/// The spans of `range` within the joined text of `spans`.
fn push_slice(spans: &[(String, Style)], range: Range<usize>, out: &mut Vec<Span<'static>>) {
    let mut begin = 0;
    for (text, style) in spans {
        let end = begin + text.len();
        let from = range.start.max(begin);
        let to = range.end.min(end);
        if from < to
            && let Some(piece) = text.get(from - begin..to - begin)
        {
            out.push(Span::styled(piece.to_owned(), *style));
        }
        begin = end;
        if begin >= range.end {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use unicode_segmentation::UnicodeSegmentation;

    fn shown(text: &str, columns: usize) -> Vec<&str> {
        rows(text, columns).into_iter().map(|row| visible(&text[row])).collect()
    }

    #[test]
    fn breaks_fall_at_spaces() {
        assert_eq!(shown("the quick brown fox", 10), ["the quick", "brown fox"]);
        assert_eq!(shown("", 10), [""]);
        assert_eq!(shown("exactly ten", 7), ["exactly", "ten"]);
        assert_eq!(shown("  indented text", 8), ["  indent", "ed text"]);
        assert_eq!(shown("  indented text", 10), ["  indented", "text"]);
    }

    #[test]
    fn long_words_are_cut_and_wide_ones_move_on() {
        assert_eq!(shown("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(shown("漢字漢字漢", 5), ["漢字", "漢字", "漢"]);
        assert_eq!(shown("ab漢", 3), ["ab", "漢"]);
        assert_eq!(shown("👩‍👩‍👧👩‍👩‍👧", 3), ["👩‍👩‍👧", "👩‍👩‍👧"]);
    }

    #[test]
    fn styles_survive_a_break() {
        let bold = Style::new().bold();
        let spans = vec![("one ".to_owned(), Style::new()), ("two three".to_owned(), bold)];
        let mut lines = Vec::new();
        styled(&spans, 9, &Line::from("- "), &Line::from("  "), &mut lines);
        let text: Vec<String> = lines.iter().map(ToString::to_string).collect();
        assert_eq!(text, ["- one two", "  three"]);
        assert_eq!(lines[0].spans[2].style, bold);
        assert_eq!(lines[1].spans[1].style, bold);
    }

    proptest! {
        /// T15.
        #[test]
        fn t15_rows_join_to_the_text_and_fit(
            text in "([a-z ]{0,6}|漢|，|👩‍👩‍👧|e\u{301}|🇩🇪|ｶﾞ|\\PC){0,30}",
            columns in 2usize..20,
        ) {
            let text = width::clean_line(&text);
            let rows = rows(&text, columns);
            let boundaries: Vec<usize> =
                text.grapheme_indices(true).map(|(at, _)| at).chain([text.len()]).collect();
            let mut end = 0;
            for row in &rows {
                prop_assert_eq!(row.start, end);
                end = row.end;
                prop_assert!(boundaries.contains(&row.start));
                let row = visible(&text[row.clone()]);
                // A single grapheme wider than the row cannot be broken: it has the row to itself.
                prop_assert!(width::of(row) <= columns || row.graphemes(true).count() == 1, "{row:?}");
            }
            prop_assert_eq!(end, text.len());
            prop_assert!(rows.iter().skip(1).all(|row| !row.is_empty()) || text.is_empty());
        }
    }
}
