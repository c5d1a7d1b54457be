//! The download: how far it is, what stands in the way, and a table of its files.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::protocol::UserError;
use crate::setup::download::{Row, State};
use crate::setup::wizard::{Fetching, Stage, Wizard};
use crate::tui::app::App;
use crate::tui::transcript::wrap;
use crate::tui::view::gauge;
use crate::tui::width;
use crate::units::{Bytes, Percent, Rate, Seconds};

/// Columns of the words for a state.
const STATE: usize = 10;

/// The first row of the table that is seen, and the last that could be.
pub(super) fn first(app: &App, wizard: &Wizard, area: Rect) -> (usize, usize) {
    let height = split(app, wizard, area).1.height;
    let files = &wizard.fetching.table.rows;
    let last = files.len().saturating_sub(usize::from(height));
    // Where the user has scrolled to, else so that what is busy is seen, with what was done just before it.
    let busy = |row: &Row| !matches!(row.state, State::Waiting | State::Complete | State::Unverified);
    let follow = || files.iter().position(busy).unwrap_or(0).saturating_sub(1);
    (app.setup_top().unwrap_or_else(follow).min(last), last)
}

/// Draws how far it is, and the table from its row `first` on.
pub(super) fn draw(app: &App, wizard: &Wizard, first: usize, area: Rect, buffer: &mut Buffer) {
    let (head, table) = split(app, wizard, area);
    for (y, line) in (area.top()..table.top()).zip(&head) {
        width::draw(buffer, area.x, y, area.width, line);
    }
    let files = &wizard.fetching.table.rows;
    for (y, row) in (table.top()..table.bottom()).zip(files.iter().skip(first)) {
        width::draw(buffer, table.x, y, table.width, &file(app, row, usize::from(area.width)));
    }
    let below = files.len().saturating_sub(first + usize::from(table.height));
    if below > 0 && table.height > 1 {
        let hint = format!(" ↓ {below} more ");
        let wide = u16::try_from(width::of(&hint)).unwrap_or(0).min(table.width);
        let x = table.right().saturating_sub(wide);
        width::draw(buffer, x, table.bottom() - 1, wide, &Line::styled(hint, app.theme.chosen));
    }
}

/// What stands over the table, and where the table is. It keeps at least a third of the screen, however much there is to
/// say over it.
fn split(app: &App, wizard: &Wizard, area: Rect) -> (Vec<Line<'static>>, Rect) {
    let mut rows = head(app, wizard, usize::from(area.width));
    rows.truncate(usize::from(area.height - area.height / 3));
    let head = u16::try_from(rows.len()).unwrap_or(u16::MAX).min(area.height);
    (rows, Rect { y: area.y.saturating_add(head), height: area.height - head, ..area })
}

fn head(app: &App, wizard: &Wizard, columns: usize) -> Vec<Line<'static>> {
    let theme = &app.theme;
    let Fetching { stage, table } = &wizard.fetching;
    let mut rows = Vec::new();
    let mut say = |text: &str, style: Style| {
        for line in width::clean(text).lines() {
            let (indent, text) = (Line::raw(" "), (line.to_owned(), style));
            wrap::styled(&[text], columns, &indent, &indent, &mut rows);
        }
    };
    let (word, style) = match stage {
        Stage::Idle => ("Nothing is fetched yet".to_owned(), theme.strong),
        Stage::Runs if table.rows.is_empty() => {
            ("Asking the hub for the list of files".to_owned(), theme.strong)
        }
        Stage::Runs => ("Fetching Kimi K3".to_owned(), theme.strong),
        Stage::Stops { .. } => ("Stopping: what came is made safe".to_owned(), theme.warn),
        Stage::Paused => ("Paused; what came is kept".to_owned(), theme.warn),
        Stage::Failed(failure) => (UserError::from(failure).title, theme.error),
        Stage::Done { .. } => ("Complete".to_owned(), theme.good),
    };
    let folder = wizard.folder().map(|folder| format!(" · {}", folder.display())).unwrap_or_default();
    say(&format!("{word}{folder}"), style);
    if table.total() > 0 {
        let share = table.verified() as f64 / table.total() as f64;
        let mut line = Line::from(" ");
        line.extend(gauge::bar(share, columns.saturating_sub(8).clamp(4, 100), theme.accent, theme));
        line.push_span(Span::styled(format!(" {}", Percent(share)), theme.text));
        rows.push(line);
        rows.push(sums(app, &wizard.fetching, columns));
    }
    let mut say = |text: &str, style: Style| {
        for line in width::clean(text).lines() {
            let (indent, text) = (Line::raw(" "), (line.to_owned(), style));
            wrap::styled(&[text], columns, &indent, &indent, &mut rows);
        }
    };
    match stage {
        Stage::Failed(failure) => {
            let error = UserError::from(failure);
            say(&error.detail, theme.text);
            say(&error.hint, theme.dim);
        }
        Stage::Idle if wizard.is_there() => {
            let (look, check) = (app.key_of("go-on"), app.key_of("pause"));
            let text = format!(
                "The files are here already. {look} looks at them; {check} holds every byte against the hub's digests \
                 and fetches what is missing."
            );
            say(&text, theme.text);
        }
        _ => {
            if let Some(trouble) = &table.trouble {
                say(&trouble.to_string(), theme.warn);
            }
        }
    }
    if let Some(problem) = &wizard.problem {
        say(problem, theme.warn);
    }
    rows.push(Line::default());
    rows
}

/// What all of it comes to; what does not fit is left out from the end.
fn sums(app: &App, fetching: &Fetching, columns: usize) -> Line<'static> {
    let table = &fetching.table;
    let mut pieces = vec![format!("{} of {} verified", Bytes(table.verified()), Bytes(table.total()))];
    if let (Stage::Runs, Some(look)) = (&fetching.stage, &table.look) {
        pieces.push(Rate(look.rate).to_string());
        if let Some(left) = look.left_s {
            pieces.push(format!("{} left", Seconds(left)));
        }
    }
    pieces.push(format!("{}/{} files", table.files_done(), table.rows.len()));
    if let Some(again) = table.look.as_ref().map(|look| look.again).filter(|again| *again > 0) {
        pieces.push(format!("{} came twice", Bytes(again)));
    }
    let wide = |pieces: &[String]| 1 + width::of(&pieces.join(" · "));
    while pieces.len() > 1 && wide(&pieces) > columns {
        pieces.pop();
    }
    Line::styled(format!(" {}", pieces.join(" · ")), app.theme.text)
}

/// A file: its name, what becomes of it, how much of it is there, how fast it comes. The name gives way from its
/// beginning, for the files of a model differ at their end.
fn file(app: &App, row: &Row, columns: usize) -> Line<'static> {
    let theme = &app.theme;
    let (word, style) = word(row.state, app);
    let rate = if row.rate > 0.0 { Rate(row.rate).to_string() } else { String::new() };
    let mut tail = vec![Span::styled(format!(" {word:STATE$}"), style)];
    if columns >= 60 {
        let share = if row.size == 0 { 1.0 } else { row.at as f64 / row.size as f64 };
        let wide = columns.saturating_sub(72).clamp(8, 24);
        tail.push(Span::raw(" "));
        if row.at > 0 && !row.state.is_there() {
            tail.extend(gauge::bar(share, wide, theme.accent, theme));
            tail.push(Span::styled(format!(" {:>5}", Percent(share).to_string()), theme.text));
        } else {
            tail.push(Span::raw(" ".repeat(wide + 6)));
        }
    }
    if columns >= 70 {
        tail.push(Span::styled(format!(" {:>9}", Bytes(row.size).to_string()), theme.dim));
    }
    if columns >= 80 {
        tail.push(Span::styled(format!(" {rate:>9}"), theme.dim));
    }
    let used: usize = tail.iter().map(|span| width::of(&span.content)).sum();
    let room = columns.saturating_sub(used + 1);
    let name = tail_of(&width::clean_line(&row.path), room);
    let pad = room.saturating_sub(width::of(&name));
    let mut line =
        Line::from(vec![Span::raw(" "), Span::styled(name, theme.text), Span::raw(" ".repeat(pad))]);
    line.extend(tail);
    line
}

fn word(state: State, app: &App) -> (&'static str, Style) {
    let theme = &app.theme;
    match state {
        State::Waiting => ("waiting", theme.dim),
        State::Checking => ("checking", theme.accent),
        State::Fetching => ("fetching", theme.accent),
        State::Paused => ("no room", theme.warn),
        State::Verifying => ("verifying", theme.accent),
        State::Complete => ("✓ complete", theme.good),
        State::Unverified => ("no digest", theme.warn),
        State::Mismatch => ("✗ mismatch", theme.error),
        State::Failed => ("✗ failed", theme.error),
    }
}

/// The end of a text, behind an ellipsis where its beginning does not fit.
fn tail_of(text: &str, columns: usize) -> String {
    if width::of(text) <= columns {
        return text.to_owned();
    }
    let mut begin = text.len();
    for (at, _) in text.char_indices().rev() {
        if width::of(text.get(at..).unwrap_or_default()) + 1 > columns {
            break;
        }
        begin = at;
    }
    format!("…{}", text.get(begin..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_end() {
        assert_eq!(tail_of("model-00012-of-000096.safetensors", 40), "model-00012-of-000096.safetensors");
        assert_eq!(tail_of("model-00012-of-000096.safetensors", 20), "…-000096.safetensors");
        assert_eq!(tail_of("漢字漢字", 5), "…漢字");
        assert_eq!(tail_of("abc", 1), "…");
    }
}
