//! The sessions to choose from: a line to search by typing, and a row for each.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Widget};

use crate::session;
use crate::tui::app::{App, Asking, Picker};
use crate::tui::library::Row;
use crate::tui::numbers;
use crate::tui::width;

/// Columns of the facts beside a title, and below how many there is no room for them.
const WIDE: usize = 76;
/// The same for the time alone.
const NARROW: usize = 44;

/// Draws the list and returns where the terminal's cursor belongs.
pub(super) fn draw(app: &App, picker: &Picker, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    Clear.render(area, buffer);
    if area.is_empty() {
        return None;
    }
    let theme = &app.theme;
    let columns = usize::from(area.width);
    let found = picker.found();
    let (mark, text) = match &picker.asking {
        None => (" Search: ", picker.search.clone()),
        Some(Asking::Rename(title)) => (" New title: ", title.clone()),
        Some(Asking::Delete) => {
            (" Delete the chosen session for good? y deletes, any other key keeps it. ", String::new())
        }
    };
    let style = if picker.asking == Some(Asking::Delete) { theme.warn } else { theme.accent };
    // The end of what is typed is what is looked at.
    let room = columns.saturating_sub(width::of(mark) + 1);
    let text = width::clean_line(&text);
    let typed: String = tail(&text, room);
    let line = Line::from(vec![Span::styled(mark, style), Span::styled(typed.clone(), theme.text)]);
    width::draw(buffer, area.x, area.y, area.width, &line);
    let caret = u16::try_from(width::of(mark) + width::of(&typed)).unwrap_or(u16::MAX).min(area.width - 1);

    let list = Rect { y: area.y + 1, height: area.height - 1, ..area };
    if let Some(nothing) = nothing(app, picker, &found) {
        let y = list.y + u16::from(list.height > 2);
        if y < list.bottom() {
            width::draw(buffer, list.x, y, list.width, &Line::styled(format!(" {nothing}"), theme.dim));
        }
    }
    let height = usize::from(list.height);
    let chosen = picker.chosen();
    let first = (chosen + 1).saturating_sub(height);
    for (y, (place, row)) in (list.top()..list.bottom()).zip(found.iter().enumerate().skip(first)) {
        let here = app.session.as_ref() == Some(&row.id);
        width::draw(buffer, list.x, y, list.width, &line_of(app, row, place == chosen, here, columns));
    }
    if !found.is_empty() && list.height > 1 {
        let count = if found.len() < picker.total() {
            format!(" {} of {} ", found.len(), picker.total())
        } else {
            format!(" {} ", numbers::counted(found.len() as u64, "session"))
        };
        let used = u16::try_from(width::of(&count)).unwrap_or(u16::MAX);
        if u16::try_from(width::of(mark) + width::of(&text)).is_ok_and(|typed| typed + used < area.width) {
            width::draw(buffer, area.right() - used, area.y, used, &Line::styled(count, theme.dim));
        }
    }
    Some(Position { x: area.x + caret, y: area.y })
}

/// What stands in place of rows where there are none.
fn nothing(app: &App, picker: &Picker, found: &[&Row]) -> Option<String> {
    let back = app.key_of("leave-sessions");
    if picker.is_reading() {
        Some("Reading the sessions …".to_owned())
    } else if picker.total() == 0 {
        Some(format!("No conversation was written down yet. {back} goes back; the first message begins one."))
    } else if found.is_empty() {
        Some(format!("No session holds these words. {back} takes the search back."))
    } else {
        None
    }
}

fn line_of(app: &App, row: &Row, chosen: bool, here: bool, columns: usize) -> Line<'static> {
    let theme = &app.theme;
    let (mark, style) = if chosen { (" ▸ ", theme.accent) } else { ("   ", theme.text) };
    let date = session::date(row.changed);
    let facts = if columns >= WIDE && row.readable {
        let (turns, tokens) =
            (numbers::counted(row.turns as u64, "turn"), numbers::grouped(row.tokens as u64));
        let last = if here { "open here" } else { row.last };
        format!("  {date}  {turns:>9}  {tokens:>7} tok  {last:<9}")
    } else if columns >= NARROW {
        format!("  {date}")
    } else {
        String::new()
    };
    let room = columns.saturating_sub(width::of(mark) + width::of(&facts));
    let title =
        if row.title.is_empty() { "(nothing was said)".to_owned() } else { width::clean_line(&row.title) };
    let title = width::ellipsis(&title, room);
    let pad = " ".repeat(room.saturating_sub(width::of(&title)));
    let style = if row.readable { style } else { theme.error };
    Line::from(vec![
        Span::styled(mark, theme.accent),
        Span::styled(title, style),
        Span::raw(pad),
        Span::styled(facts, theme.dim),
    ])
}

/// As much of the end of a text as `columns` hold.
fn tail(text: &str, columns: usize) -> String {
    let mut start = 0;
    let mut rest = text;
    while width::of(rest) > columns {
        start += rest.chars().next().map_or(1, char::len_utf8);
        rest = text.get(start..).unwrap_or_default();
    }
    rest.to_owned()
}
