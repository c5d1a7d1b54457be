//! All keys and commands, from the tables that they are looked up in.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::{Clear, Widget};

use crate::tui::app::App;
use crate::tui::commands;
use crate::tui::keymap;
use crate::tui::transcript::wrap;
use crate::tui::width;

const LABEL: usize = 13;

pub(super) fn draw(app: &App, area: Rect, buffer: &mut Buffer) {
    Clear.render(area, buffer);
    let rows = rows(app, usize::from(area.width));
    let last = last(app, area);
    let first = app.help.unwrap_or(0).min(last);
    for (y, line) in (area.top()..area.bottom()).zip(rows.iter().skip(first)) {
        width::draw(buffer, area.x, y, area.width, line);
    }
    if first < last && area.height > 1 {
        let hint = " ↓ more ";
        let columns = u16::try_from(width::of(hint)).unwrap_or(0).min(area.width);
        let line = Line::styled(hint, app.theme.chosen);
        width::draw(buffer, area.right().saturating_sub(columns), area.bottom() - 1, columns, &line);
    }
}

/// How far the help can be scrolled in an area of this size.
pub(super) fn last(app: &App, area: Rect) -> usize {
    rows(app, usize::from(area.width)).len().saturating_sub(usize::from(area.height))
}

fn rows(app: &App, columns: usize) -> Vec<Line<'static>> {
    let theme = &app.theme;
    let mut out = Vec::new();
    let title = |text: &str, out: &mut Vec<Line<'static>>| {
        if !out.is_empty() {
            out.push(Line::default());
        }
        out.push(Line::styled(format!(" {text}"), theme.accent));
    };
    let entry = |label: &str, help: &str, out: &mut Vec<Line<'static>>| {
        let label = (format!("{label:LABEL$} "), theme.text);
        let rest = Line::from(" ".repeat((LABEL + 4).min(columns / 2)));
        wrap::styled(&[label, (help.to_owned(), theme.dim)], columns, &Line::from("   "), &rest, out);
    };
    title("Commands", &mut out);
    for command in commands::TABLE {
        let usage = command.usage();
        let help =
            if usage.is_empty() { command.help.to_owned() } else { format!("{}: {usage}", command.help) };
        entry(command.name, &help, &mut out);
    }
    title("Keys", &mut out);
    for row in app.options.keymap.bindings().iter().filter(|row| !row.hint.is_empty()) {
        let mut keys = row.keys.iter().map(|keys| keymap::label(keys));
        // One that the user has taken its keys from is in the palette still.
        let Some(first) = keys.next() else { continue };
        let others: Vec<String> = keys.collect();
        let help = if others.is_empty() {
            row.hint.to_owned()
        } else {
            format!("{}; also {}", row.hint, others.join(", "))
        };
        entry(&first, &help, &mut out);
    }
    title("Mouse", &mut out);
    let style: Style = theme.dim;
    let text = "The wheel scrolls. Shift and drag selects text in most terminals; F3 gives the mouse back to the terminal \
                altogether.";
    wrap::styled(&[(text.to_owned(), style)], columns, &Line::from("   "), &Line::from("   "), &mut out);
    out
}
