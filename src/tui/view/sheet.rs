//! The numbers on the whole screen: what the panel shows, a table of layers, a table of tokens.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Widget};

use super::{stats, tables};
use crate::tui::app::{App, Sheet, Tab};
use crate::tui::width;

/// Columns of a block of the overview, and between two.
const BLOCK: usize = 36;
const GAP: usize = 4;

pub(super) fn draw(app: &App, area: Rect, buffer: &mut Buffer) {
    let Some(sheet) = app.sheet else { return };
    Clear.render(area, buffer);
    if area.is_empty() {
        return;
    }
    width::draw(buffer, area.x, area.y, area.width, &tabs(app, sheet));
    let body = body(area);
    let (head, rows) = rows(app, sheet.tab, usize::from(body.width));
    let mut y = body.top();
    for line in &head {
        if y < body.bottom() {
            width::draw(buffer, body.x, y, body.width, line);
            y += 1;
        }
    }
    let room = usize::from(body.bottom() - y);
    let top = sheet.top.min(rows.len().saturating_sub(room));
    for (y, line) in (y..body.bottom()).zip(rows.iter().skip(top)) {
        width::draw(buffer, body.x, y, body.width, line);
    }
    if top + room < rows.len() && body.height > 2 {
        let hint = format!(" ↓ {} more ", rows.len() - top - room);
        let columns = u16::try_from(width::of(&hint)).unwrap_or(0).min(area.width);
        let line = Line::styled(hint, app.theme.chosen);
        width::draw(buffer, area.right().saturating_sub(columns), area.bottom() - 1, columns, &line);
    }
}

/// How far the sheet can be scrolled in an area of this size.
pub(super) fn last(app: &App, area: Rect) -> usize {
    let Some(sheet) = app.sheet else { return 0 };
    let body = body(area);
    let (head, rows) = rows(app, sheet.tab, usize::from(body.width));
    rows.len().saturating_sub(usize::from(body.height).saturating_sub(head.len()))
}

/// What is left below the tabs.
fn body(area: Rect) -> Rect {
    let above = if area.height > 6 { 2 } else { 1 };
    Rect {
        x: area.x.saturating_add(1),
        y: area.y.saturating_add(above),
        width: area.width.saturating_sub(2),
        height: area.height.saturating_sub(above),
    }
}

fn tabs(app: &App, sheet: Sheet) -> Line<'static> {
    let theme = &app.theme;
    let mut line = Line::from(Span::styled(" numbers ", theme.accent));
    for tab in Tab::ALL {
        // The brackets say it without colour.
        let chosen = tab == sheet.tab;
        let text = if chosen { format!(" [{}]", tab.name()) } else { format!("  {} ", tab.name()) };
        line.push_span(Span::styled(text, if chosen { theme.strong } else { theme.dim }));
    }
    line
}

/// What stays, and what scrolls.
fn rows(app: &App, tab: Tab, columns: usize) -> (Vec<Line<'static>>, Vec<Line<'static>>) {
    match tab {
        Tab::Overview => (Vec::new(), overview(app, columns)),
        Tab::Layers => tables::layers(app, columns),
        Tab::Tokens => tables::tokens(app, columns),
    }
}

/// The groups of the panel, as many side by side as there is room for, each below the shortest column so far.
fn overview(app: &App, columns: usize) -> Vec<Line<'static>> {
    let across = ((columns + GAP) / (BLOCK + GAP)).max(1);
    let wide = if across == 1 { columns } else { BLOCK };
    let mut stacks: Vec<Vec<Line<'static>>> = vec![Vec::new(); across];
    for group in stats::groups(app, wide) {
        let Some(stack) = stacks.iter_mut().min_by_key(|stack| stack.len()) else { continue };
        if !stack.is_empty() {
            stack.push(Line::default());
        }
        stack.extend(group);
    }
    let height = stacks.iter().map(Vec::len).max().unwrap_or(0);
    let beside = |row: usize| {
        let mut line = Line::default();
        for (number, stack) in stacks.iter().enumerate() {
            let part = stack.get(row).cloned().unwrap_or_default();
            if number > 0 {
                line.push_span(Span::raw(" ".repeat(GAP)));
            }
            let gap = wide.saturating_sub(width::of_line(&part));
            line.spans.extend(part.spans);
            line.push_span(Span::raw(" ".repeat(gap)));
        }
        line
    };
    (0..height).map(beside).collect()
}
