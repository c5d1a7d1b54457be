//! What a draft may become, above the composer while it is being typed: commands, files, earlier messages.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Widget};

use super::layout::Areas;
use crate::tui::app::{App, Mode};
use crate::tui::width;

pub(super) fn draw(app: &App, areas: &Areas, buffer: &mut Buffer) {
    let (entries, chosen): (Vec<(String, &str)>, usize) = if let Mode::Recall(recall) = &app.mode {
        // The newest is next to what is written.
        let entries: Vec<_> = app.recalled().into_iter().rev().map(|draft| (draft.line(), "")).collect();
        let chosen = entries.len().saturating_sub(1 + recall.choice);
        (entries, chosen)
    } else {
        let completions = app.completions();
        let entries: Vec<_> = completions.into_iter().map(|found| (found.text, found.help)).collect();
        let chosen = app.choice.min(entries.len().saturating_sub(1));
        (entries, chosen)
    };
    let room = areas.conversation.height + areas.alert.height + areas.queue.height;
    let rows = u16::try_from(entries.len()).unwrap_or(u16::MAX).min(room);
    if rows == 0 {
        return;
    }
    let first = match app.mode {
        // The list ends at the newest for as long as the one that is chosen can be seen.
        Mode::Recall(_) => entries.len().saturating_sub(usize::from(rows)).min(chosen),
        _ => (chosen + 1).saturating_sub(usize::from(rows)),
    };
    let names = entries.iter().map(|(name, _)| width::of(name)).max().unwrap_or(0);
    let top = areas.status.y.saturating_sub(rows);
    let area = Rect { x: areas.status.x, y: top, width: areas.status.width, height: rows };
    Clear.render(area, buffer);
    let shown = entries.iter().enumerate().skip(first);
    for (y, (number, (name, help))) in (area.top()..area.bottom()).zip(shown) {
        let (mark, style) =
            if number == chosen { (" ▸ ", app.theme.accent) } else { ("   ", app.theme.text) };
        let name = width::ellipsis(&width::clean_line(name), usize::from(area.width.saturating_sub(4)));
        let spaces = " ".repeat(names.saturating_sub(width::of(&name)));
        let line = Line::from(vec![
            Span::styled(mark, app.theme.accent),
            Span::styled(name + &spaces, style),
            Span::styled(format!("  {help}"), app.theme.dim),
        ]);
        width::draw(buffer, area.x, y, area.width, &line);
    }
}
