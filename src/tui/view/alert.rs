//! Why the engine is not running, and the way out: between the conversation and the status line, covering nothing.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::tui::app::{App, Engine};
use crate::tui::transcript::wrap;
use crate::tui::width;

/// Rows that it wants.
pub(super) fn height(app: &App, columns: u16) -> u16 {
    u16::try_from(rows(app, columns).len()).unwrap_or(u16::MAX)
}

pub(super) fn draw(app: &App, area: Rect, buffer: &mut Buffer) {
    for (y, line) in (area.top()..area.bottom()).zip(rows(app, area.width)) {
        width::draw(buffer, area.x, y, area.width, &line);
    }
}

fn rows(app: &App, columns: u16) -> Vec<Line<'static>> {
    let theme = &app.theme;
    let texts: Vec<(&str, Style)> = match &app.engine {
        Engine::Loading | Engine::Ready(_) => return Vec::new(),
        Engine::Failed(error) => vec![
            (error.title.as_str(), theme.error),
            (error.detail.as_str(), theme.text),
            (error.hint.as_str(), theme.text),
            ("Ctrl-R loads the model again, Ctrl-C leaves.", theme.dim),
        ],
        Engine::Gone => vec![
            ("The engine has left", theme.error),
            ("Its thread has ended. What was said stays readable; Ctrl-C leaves.", theme.dim),
        ],
    };
    let bar = Line::from(Span::styled(" ┃ ", theme.error));
    let mut out = Vec::new();
    for (text, style) in texts {
        for line in width::clean(text).lines() {
            wrap::styled(&[(line.to_owned(), style)], usize::from(columns), &bar, &bar, &mut out);
        }
    }
    out
}
