//! The commands that a draft may become, above the composer while one is being typed.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Widget};

use super::layout::Areas;
use crate::tui::app::App;
use crate::tui::width;

pub(super) fn draw(app: &App, areas: &Areas, buffer: &mut Buffer) {
    let completions = app.completions();
    let rows = u16::try_from(completions.len())
        .unwrap_or(u16::MAX)
        .min(areas.conversation.height + areas.alert.height);
    if rows == 0 {
        return;
    }
    let chosen = app.choice.min(completions.len().saturating_sub(1));
    let first = (chosen + 1).saturating_sub(usize::from(rows));
    let names = completions.iter().map(|completion| width::of(&completion.text)).max().unwrap_or(0);
    let top = areas.status.y.saturating_sub(rows);
    let area = Rect { x: areas.status.x, y: top, width: areas.status.width, height: rows };
    Clear.render(area, buffer);
    for (y, (number, completion)) in
        (area.top()..area.bottom()).zip(completions.iter().enumerate().skip(first))
    {
        let (mark, style) =
            if number == chosen { (" ▸ ", app.theme.accent) } else { ("   ", app.theme.text) };
        let line = Line::from(vec![
            Span::styled(mark, app.theme.accent),
            Span::styled(format!("{:names$}", completion.text), style),
            Span::styled(format!("  {}", completion.help), app.theme.dim),
        ]);
        width::draw(buffer, area.x, y, area.width, &line);
    }
}
