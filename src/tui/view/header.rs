//! The first line: which program, which model, and that a demonstration is one.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::tui::app::App;
use crate::tui::width;

/// What the screen says of the bundled model.
pub(super) const DEMONSTRATION: &str = "a demonstration with a small model, not Kimi K3";

pub(super) fn draw(app: &App, area: Rect, buffer: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    let theme = &app.theme;
    let mut line = Line::from(vec![
        Span::styled(" dormouse", theme.accent),
        Span::styled(format!("  {}", width::clean_line(&app.options.model_label)), theme.text),
    ]);
    if app.options.demo {
        line.push_span(Span::styled(" · ", theme.dim));
        line.push_span(Span::styled(DEMONSTRATION, theme.warn));
    }
    width::draw(buffer, area.x, area.y, area.width, &line);
}
