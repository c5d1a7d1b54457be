//! The first line: which program, which model, and that a demonstration is one.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::tui::app::App;
use crate::tui::width;

/// What the screen says of the bundled model.
pub(super) const DEMONSTRATION: &str = "a demonstration with a small model, not Kimi K3";
/// The same where there is less room.
pub(super) const DEMONSTRATION_SHORT: &str = "demonstration, not Kimi K3";

pub(super) fn draw(app: &App, area: Rect, buffer: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    let theme = &app.theme;
    let label = width::clean_line(&app.options.model_label);
    let name = Span::styled(" dormouse ", theme.accent);
    let model = Span::styled(format!(" {label}"), theme.text);
    let dot = Span::styled(" · ", theme.dim);
    let says = |text| Span::styled(text, theme.warn);
    let session =
        app.session.as_deref().map(|id| Span::styled(format!(" · {}", width::clean_line(id)), theme.dim));
    let fetching = app.fetching().map(|text| Span::styled(format!(" · {text}"), theme.accent));
    let mut lines = if app.options.demo {
        vec![
            Line::from(vec![name.clone(), model.clone(), dot.clone(), says(DEMONSTRATION)]),
            Line::from(vec![name, model.clone(), dot.clone(), says(DEMONSTRATION_SHORT)]),
            Line::from(vec![model, dot, says(DEMONSTRATION_SHORT)]),
        ]
    } else {
        vec![Line::from(vec![name, model])]
    };
    // Where there is room for it.
    if let (Some(session), Some(line)) = (session, lines.first()) {
        let mut line = line.clone();
        line.push_span(session);
        lines.insert(0, line);
    }
    // What is being fetched matters more than what the session is called.
    if let Some(fetching) = fetching {
        let with = |line: &Line<'static>| {
            let mut line = line.clone();
            line.push_span(fetching.clone());
            line
        };
        let before: Vec<Line<'_>> = lines.iter().map(with).collect();
        lines.splice(0..0, before);
    }
    let fits = |line: &&Line<'_>| width::of_line(line) <= usize::from(area.width);
    if let Some(line) = lines.iter().find(fits).or(lines.last()) {
        width::draw(buffer, area.x, area.y, area.width, line);
    }
}
