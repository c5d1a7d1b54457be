//! The rows of the conversation, what of them is looked for or chosen, and where the reader is when he has scrolled
//! back.

use ratatui::buffer::Buffer;
use ratatui::text::{Line, Span};

use super::layout::Areas;
use crate::tui::app::App;
use crate::tui::numbers;
use crate::tui::theme::Theme;
use crate::tui::transcript::Row;
use crate::tui::width;

pub(super) fn draw(app: &App, areas: &Areas, buffer: &mut Buffer) {
    let text = areas.text();
    for (y, row) in (text.top()..text.bottom()).zip(app.scrollback.visible()) {
        if row.is_chosen {
            let mark = Line::styled("▌", app.theme.accent);
            width::draw(buffer, areas.conversation.x, y, 1, &mark);
        }
        if row.hits.is_empty() {
            width::draw(buffer, text.x, y, text.width, row.line);
        } else {
            width::draw(buffer, text.x, y, text.width, &lit(&row, &app.theme));
        }
    }
    if !app.scrollback.follows() && text.height > 0 {
        let key = app.key_of("to-end");
        let hint = match app.scrollback.unseen() {
            0 => format!(" ↓ {key} to the end "),
            unseen => format!(" ↓ {} below, {key} ", numbers::counted(unseen as u64, "new line")),
        };
        let hint = width::ellipsis(&hint, usize::from(text.width));
        let columns = u16::try_from(width::of(&hint)).unwrap_or(text.width);
        let x = text.right().saturating_sub(columns);
        width::draw(buffer, x, text.bottom() - 1, columns, &Line::styled(hint, app.theme.chosen));
    }
}

/// A row with what was looked for standing out.
fn lit(row: &Row<'_>, theme: &Theme) -> Line<'static> {
    let mut line = Line::default().style(row.line.style);
    let mut begin = 0;
    for span in &row.line.spans {
        let end = begin + span.content.len();
        let mut at = begin;
        let mut push = |to: usize, style| {
            if let Some(text) = span.content.get(at - begin..to - begin).filter(|text| !text.is_empty()) {
                line.spans.push(Span::styled(text.to_owned(), style));
            }
            at = to;
        };
        for (bytes, current) in &row.hits {
            let (from, to) = (bytes.start.clamp(begin, end), bytes.end.clamp(begin, end));
            if from < to {
                push(from, span.style);
                push(to, span.style.patch(if *current { theme.chosen } else { theme.found }));
            }
        }
        push(end, span.style);
        begin = end;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_stand_out_across_spans_and_nothing_is_lost() {
        let theme = Theme::TERMINAL;
        let line =
            Line::from(vec![Span::raw("a dor"), Span::styled("mou", theme.strong), Span::raw("se 漢")]);
        let row = Row { line: &line, hits: vec![(2..10, false), (11..14, true)], is_chosen: false };
        let lit = lit(&row, &theme);
        let texts: Vec<_> = lit.spans.iter().map(|span| span.content.as_ref()).collect();
        assert_eq!(texts, ["a ", "dor", "mou", "se", " ", "漢"]);
        assert_eq!((lit.spans[1].style, lit.spans[5].style), (theme.found, theme.chosen));
        assert_eq!(lit.spans[0].style, ratatui::style::Style::new());
    }
}
