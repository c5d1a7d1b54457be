//! The messages that wait for the running turn, between the conversation and the status line.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::tui::app::App;
use crate::tui::numbers;
use crate::tui::width;

/// Messages that are shown at most.
const SHOWN: usize = 3;

/// Rows that it wants.
pub(super) fn height(app: &App) -> u16 {
    u16::try_from(rows(app).len()).unwrap_or(0)
}

pub(super) fn draw(app: &App, area: Rect, buffer: &mut Buffer) {
    for (y, line) in (area.top()..area.bottom()).zip(rows(app)) {
        let text = width::ellipsis(&line.to_string(), usize::from(area.width.saturating_sub(1)));
        let fits = width::of_line(&line) <= usize::from(area.width);
        let line = if fits { line } else { Line::styled(text, app.theme.dim) };
        width::draw(buffer, area.x, y, area.width, &line);
    }
}

fn rows(app: &App) -> Vec<Line<'static>> {
    let theme = &app.theme;
    let waiting = &app.queue.waiting;
    let mut out = Vec::new();
    if waiting.is_empty() {
        return out;
    }
    if app.queue.held {
        let count = numbers::counted(waiting.len() as u64, "queued message");
        let wait = if waiting.len() == 1 { "waits" } else { "wait" };
        let (send, back) = (app.key_of("send"), app.key_of("take-back"));
        let text = format!(" {count} {wait}: {send} sends the next, {back} takes the last back");
        out.push(Line::styled(text, theme.warn));
    }
    for draft in waiting.iter().take(SHOWN) {
        out.push(Line::from(vec![
            Span::styled(" queued ", theme.accent),
            Span::styled(draft.line(), theme.dim),
        ]));
    }
    if waiting.len() > SHOWN {
        out.push(Line::styled(format!("        and {} more", waiting.len() - SHOWN), theme.dim));
    }
    out
}
