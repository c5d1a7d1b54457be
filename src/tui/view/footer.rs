//! The last line: the keys that matter now, from the keymap, or what there is to tell.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::tui::app::{App, Mode};
use crate::tui::keymap::{self, Context};
use crate::tui::width;

pub(super) fn draw(app: &App, area: Rect, buffer: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    let theme = &app.theme;
    let room = usize::from(area.width.saturating_sub(1));
    let line = match &app.notice {
        Some(notice) => {
            Line::styled(format!(" {}", width::ellipsis(&width::clean_line(&notice.text), room)), theme.warn)
        }
        None => hints(app, room),
    };
    width::draw(buffer, area.x, area.y, area.width, &line);
}

fn hints(app: &App, room: usize) -> Line<'static> {
    let contexts = app.contexts();
    let mut line = Line::from(" ");
    let mut used = 0;
    let mut told: Vec<&str> = Vec::new();
    let mut labels: Vec<String> = Vec::new();
    for row in app.options.keymap.bindings() {
        let (Some(hint), Some(keys)) = (row.footer, row.keys.first()) else { continue };
        let label = keymap::label(keys);
        // A key does what its narrowest row says, and rows of narrow contexts come first.
        let known = told.contains(&row.action) || labels.contains(&label);
        // Where words are looked for or a passage is chosen, the keys of the draft are not worth their room.
        let is_beside = row.context == Context::Chat && !matches!(app.mode, Mode::Write);
        if !contexts.contains(&row.context) || known || is_beside {
            continue;
        }
        let columns = width::of(&label) + 1 + width::of(hint) + if used > 0 { 3 } else { 0 };
        if used + columns > room {
            continue;
        }
        if used > 0 {
            line.push_span(Span::styled(" · ", app.theme.dim));
        }
        line.push_span(Span::styled(label.clone(), app.theme.text));
        labels.push(label);
        line.push_span(Span::styled(format!(" {hint}"), app.theme.dim));
        used += columns;
        told.push(row.action);
    }
    line
}
