//! Setting up the real model: everything above the footer, one step at a time.

mod download;
mod steps;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Widget};

pub(super) use steps::draw_welcome;

use crate::setup::wizard::{Step, Wizard};
use crate::tui::app::{App, Shown};
use crate::tui::transcript::wrap;
use crate::tui::width;

/// Columns before what is typed.
const MARK: u16 = 3;

/// What a step is called where all of them stand in one line.
const fn name(step: Step) -> &'static str {
    match step {
        Step::Welcome => "welcome",
        Step::Machine => "machine",
        Step::Model => "model",
        Step::Place => "place",
        Step::Download => "download",
        Step::Verify => "verify",
        Step::Memory => "memory",
        Step::Ready => "ready",
    }
}

/// Rows that are put one under the other, as wide as the screen.
struct Page<'a> {
    app: &'a App,
    columns: usize,
    rows: Vec<Line<'static>>,
}

impl Page<'_> {
    /// A text in one style, wrapped where it must be.
    fn text(&mut self, text: &str, style: Style) {
        self.marked(" ", style, text, style);
    }

    /// The same behind a mark; further rows begin where the first one's text does.
    fn marked(&mut self, mark: &str, mark_style: Style, text: &str, style: Style) {
        let first = Line::styled(mark.to_owned(), mark_style);
        let rest = Line::raw(" ".repeat(width::of(mark)));
        for line in width::clean(text).lines() {
            wrap::styled(&[(line.to_owned(), style)], self.columns, &first, &rest, &mut self.rows);
        }
    }

    /// What the key does that goes on from here.
    fn goes_on(&mut self, what: &str) {
        self.text(&format!("{} {what}", self.app.key_of("go-on")), self.app.theme.dim);
    }

    fn gap(&mut self) {
        self.rows.push(Line::default());
    }

    fn title(&mut self, text: &str) {
        self.text(text, self.app.theme.strong);
        self.gap();
    }

    fn line(&mut self, line: Line<'static>) {
        self.rows.push(line);
    }
}

/// Lays out what the size of the screen decides: the folder's name in its editor, and what of the page is seen.
pub(super) fn prepare(app: &mut App, area: Rect) {
    let body = body(area);
    app.wrap_place(usize::from(area.width.saturating_sub(MARK + 1)));
    let Some((shown, wizard)) = app.setup_page() else { return };
    let (first, last) = if is_table(shown, wizard) {
        download::first(app, wizard, body)
    } else {
        let (rows, caret) = rows(app, shown, wizard, body.width);
        let room = usize::from(body.height);
        let last = rows.len().saturating_sub(room);
        // Checks come one after the other, and the newest is seen. A caret is always.
        let looking = shown == Shown::Doctor || wizard.step == Step::Machine;
        let first = app.setup_top().unwrap_or(if looking { last } else { 0 }).min(last);
        (caret.map_or(first, |(row, _)| first.max((row + 1).saturating_sub(room)).min(row)), last)
    };
    app.lay_setup(first, last);
}

/// Draws what is open over the chat. Returns where the terminal's cursor belongs, where something is being typed.
pub(super) fn draw(app: &App, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    let (shown, wizard) = app.setup_page()?;
    Clear.render(area, buffer);
    let title = match shown {
        Shown::Steps => way(app, wizard.step, usize::from(area.width)),
        Shown::Doctor => Line::styled(" doctor", app.theme.accent),
    };
    width::draw(buffer, area.x, area.y, area.width, &title);
    let body = body(area);
    let first = app.setup_first();
    if is_table(shown, wizard) {
        download::draw(app, wizard, first, body, buffer);
        return None;
    }
    let (rows, caret) = rows(app, shown, wizard, body.width);
    if body.y.saturating_sub(area.y) > 1 {
        let unseen = unseen(app, first, rows.len(), usize::from(body.height));
        let wide = u16::try_from(width::of_line(&unseen)).unwrap_or(0).min(area.width);
        width::draw(buffer, area.right() - wide, body.y - 1, wide, &unseen);
    }
    for (y, line) in (body.top()..body.bottom()).zip(rows.iter().skip(first)) {
        width::draw(buffer, body.x, y, body.width, line);
    }
    let (row, column) = caret?;
    let cell = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
    Some(Position {
        x: body.x.saturating_add(cell(column)).min(body.right().saturating_sub(1)),
        y: body.y.saturating_add(cell(row.saturating_sub(first))).min(body.bottom().saturating_sub(1)),
    })
}

/// How much of the page is above and below what is seen; nothing where all of it is.
fn unseen(app: &App, first: usize, rows: usize, room: usize) -> Line<'static> {
    let below = rows.saturating_sub(first + room);
    let parts = [('↑', first), ('↓', below)];
    let said = parts.iter().filter(|(_, rows)| *rows > 0).map(|(mark, rows)| format!(" {mark} {rows} more "));
    Line::styled(said.collect::<String>(), app.theme.dim)
}

fn is_table(shown: Shown, wizard: &Wizard) -> bool {
    shown == Shown::Steps && wizard.step == Step::Download
}

/// What is left under the first line, with air between where there is enough of it.
fn body(area: Rect) -> Rect {
    let above = u16::from(area.height > 1) + u16::from(area.height >= 12);
    Rect { y: area.y.saturating_add(above), height: area.height.saturating_sub(above), ..area }
}

fn rows(
    app: &App,
    shown: Shown,
    wizard: &Wizard,
    columns: u16,
) -> (Vec<Line<'static>>, Option<(usize, usize)>) {
    let columns = usize::from(columns.saturating_sub(1));
    let mut page = Page { app, columns, rows: Vec::new() };
    let caret = match shown {
        Shown::Steps => steps::rows(&mut page, wizard),
        Shown::Doctor => {
            steps::doctor(&mut page, wizard);
            None
        }
    };
    (page.rows, caret)
}

/// All steps in one line with the one that is shown among them, or that one alone where there is no room.
fn way(app: &App, now: Step, columns: usize) -> Line<'static> {
    let theme = &app.theme;
    let mut line = Line::from(Span::styled(" set up ", theme.accent));
    for step in &Step::ALL[1..] {
        let (mark, style) = match step.cmp(&now) {
            std::cmp::Ordering::Less => ("✓", theme.good),
            std::cmp::Ordering::Equal => ("●", theme.accent),
            std::cmp::Ordering::Greater => ("○", theme.dim),
        };
        let text = if *step == now { theme.strong } else { theme.dim };
        line.push_span(Span::styled(format!(" {mark} "), style));
        line.push_span(Span::styled(name(*step), text));
    }
    if width::of_line(&line) <= columns {
        return line;
    }
    let at = Step::ALL.iter().position(|step| *step == now).unwrap_or(0);
    let place = format!(" {at}/{}: {}", Step::ALL.len() - 1, name(now));
    let mut line = Line::from(Span::styled(" set up ", theme.accent));
    if width::of_line(&line) + width::of(&place) > columns {
        line.spans.clear();
    }
    line.push_span(Span::styled(place, theme.strong));
    line
}
