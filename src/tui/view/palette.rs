//! All commands and keys that fit a few letters, over the conversation.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Widget};

use crate::tui::app::App;
use crate::tui::width;

const MARK: &str = " ❯ ";

/// Draws the palette and returns where the terminal's cursor belongs.
pub(super) fn draw(app: &App, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    let palette = app.palette.as_ref()?;
    Clear.render(area, buffer);
    let theme = &app.theme;
    let filter = width::clean_line(&palette.filter);
    let mut typed =
        Line::from(vec![Span::styled(MARK, theme.accent), Span::styled(filter.clone(), theme.text)]);
    if filter.is_empty() {
        typed.push_span(Span::styled("letters of a command, of a key, or of what it does", theme.dim));
    }
    width::draw(buffer, area.x, area.y, area.width, &typed);
    let list = Rect { y: area.y.saturating_add(1), height: area.height.saturating_sub(1), ..area };
    let items = app.palette_items();
    if items.is_empty() {
        width::draw(buffer, list.x, list.y, list.width, &Line::styled("   Nothing fits.", theme.dim));
    }
    let chosen = app.palette_choice();
    let first = (chosen + 1).saturating_sub(usize::from(list.height));
    let labels = items.iter().map(|item| width::of(&item.label)).max().unwrap_or(0);
    for (y, (number, item)) in (list.top()..list.bottom()).zip(items.iter().enumerate().skip(first)) {
        let (mark, style) = if number == chosen { (" ▸ ", theme.accent) } else { ("   ", theme.text) };
        let blanks = " ".repeat(labels.saturating_sub(width::of(&item.label)) + 2);
        let line = Line::from(vec![
            Span::styled(mark, theme.accent),
            Span::styled(item.label.clone(), style),
            Span::raw(blanks),
            Span::styled(item.help, theme.dim),
        ]);
        width::draw(buffer, list.x, y, list.width, &line);
    }
    let column = width::of(MARK) + width::of(&filter);
    let x =
        area.x.saturating_add(u16::try_from(column).unwrap_or(u16::MAX)).min(area.right().saturating_sub(1));
    Some(Position { x, y: area.y })
}
