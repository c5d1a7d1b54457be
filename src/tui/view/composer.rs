//! The draft, or the words that are looked for, and where the caret is.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};

use super::forecast;
use super::header::{DEMONSTRATION, DEMONSTRATION_SHORT};
use crate::tui::app::{App, Mode};
use crate::tui::width;

const MARK_WIDTH: u16 = 2;

/// Columns that the draft is wrapped to.
pub(super) fn columns(screen: Rect) -> usize {
    usize::from(screen.width.saturating_sub(MARK_WIDTH + 1))
}

/// Draws the composer and returns where the terminal's cursor belongs.
pub(super) fn draw(app: &App, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    let theme = &app.theme;
    let mut text = Rect { x: area.x.saturating_add(1), width: area.width.saturating_sub(1), ..area };
    // The least height that is not a single row has its rules: see the layout.
    if area.height >= 3 && app.line().rows().len() < usize::from(area.height) {
        let rule = Line::styled("─".repeat(usize::from(area.width)), theme.dim);
        width::draw(buffer, area.x, area.y, area.width, &rule);
        width::draw(buffer, area.x, area.bottom() - 1, area.width, &rule);
        forecast::draw(app, Rect { y: area.bottom() - 1, height: 1, ..area }, buffer);
        text.y += 1;
        text.height -= 2;
    }
    if text.is_empty() {
        return None;
    }
    let (row, column) = app.line().caret_cell();
    let height = usize::from(text.height);
    let first = (row + 1).saturating_sub(height);
    let mark = match app.mode {
        Mode::Write | Mode::Browse(_) => "❯ ",
        Mode::Find(_) => "/ ",
        Mode::Recall(_) => "↑ ",
    };
    let rows = app.line().pieces().enumerate().skip(first);
    for (y, (number, pieces)) in (text.top()..text.bottom()).zip(rows) {
        let mark = if number == 0 { mark } else { "  " };
        let mut line = Line::from(Span::styled(mark, theme.accent));
        line.extend(
            pieces
                .into_iter()
                .map(|(text, is_chip)| Span::styled(text, if is_chip { theme.accent } else { theme.text })),
        );
        width::draw(buffer, text.x, y, text.width, &line);
    }
    let room = usize::from(text.width.saturating_sub(MARK_WIDTH));
    if app.line().text().is_empty() {
        let placeholder = placeholder(app, room);
        width::draw(buffer, text.x + MARK_WIDTH, text.y, text.width, &Line::styled(placeholder, theme.dim));
    }
    if let Mode::Find(find) = &app.mode
        && find.needle.is_some()
    {
        let found = match app.scrollback.found() {
            (_, 0) => " nothing found".to_owned(),
            (at, all) => format!(" {at} of {all}"),
        };
        let columns = width::of(&found);
        let used = app.line().rows().last().map_or(0, width::of);
        if used + columns <= room {
            let x = text.right().saturating_sub(u16::try_from(columns).unwrap_or(0));
            width::draw(buffer, x, text.bottom() - 1, text.width, &Line::styled(found, theme.dim));
        }
    }
    if matches!(app.mode, Mode::Browse(_)) {
        return None;
    }
    let x = text.x.saturating_add(MARK_WIDTH).saturating_add(u16::try_from(column).unwrap_or(u16::MAX));
    let y = text.y.saturating_add(u16::try_from(row - first).unwrap_or(u16::MAX));
    Some(Position { x: x.min(area.right().saturating_sub(1)), y: y.min(area.bottom().saturating_sub(1)) })
}

fn placeholder(app: &App, room: usize) -> String {
    match app.mode {
        Mode::Write | Mode::Browse(_) => {}
        Mode::Find(_) => return width::ellipsis("Find in the conversation", room),
        Mode::Recall(_) => return width::ellipsis("Find an earlier message", room),
    }
    let plain = format!("Write to {}", width::clean_line(&app.options.model_label));
    let demonstrations = [DEMONSTRATION, DEMONSTRATION_SHORT];
    let explained =
        demonstrations.iter().filter(|_| app.options.demo).map(|text| format!("{plain} ({text})"));
    explained
        .into_iter()
        .find(|text| width::of(text) <= room)
        .unwrap_or_else(|| width::ellipsis(&plain, room))
}
