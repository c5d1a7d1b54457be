//! What stands between the user and the next answer, and the way out: between the conversation and the status line,
//! covering nothing.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::protocol::Finish;
use crate::tui::app::{App, Engine};
use crate::tui::numbers::{counted, grouped};
use crate::tui::transcript::wrap;
use crate::tui::width;

/// Rows that it wants.
pub(super) fn height(app: &App, columns: u16) -> u16 {
    u16::try_from(rows(app, columns).len()).unwrap_or(u16::MAX)
}

pub(super) fn draw(app: &App, area: Rect, buffer: &mut Buffer) {
    for (y, line) in (area.top()..area.bottom()).zip(rows(app, area.width)) {
        width::draw(buffer, area.x, y, area.width, &line);
    }
}

fn rows(app: &App, columns: u16) -> Vec<Line<'static>> {
    let mut out = Vec::new();
    let mut say = |bar: Style, texts: &[(String, Style)]| {
        let bar = Line::from(Span::styled(" ┃ ", bar));
        for (text, style) in texts {
            for line in width::clean(text).lines() {
                wrap::styled(&[(line.to_owned(), *style)], usize::from(columns), &bar, &bar, &mut out);
            }
        }
    };
    say(app.theme.error, &engine(app));
    say(app.theme.warn, &disk(app));
    say(app.theme.warn, &conversation(app));
    out
}

/// Why the engine is not running.
fn engine(app: &App) -> Vec<(String, Style)> {
    let theme = &app.theme;
    let unchanged = || match app.engine {
        Engine::Ready(_) => format!("Nothing has changed; {} puts this away.", app.key_of("close-alert")),
        _ => String::new(),
    };
    let leaves = || format!("{} leaves.", app.key_of("interrupt"));
    match (&app.engine, &app.alert) {
        (Engine::Loading | Engine::Ready(_), None) => Vec::new(),
        (Engine::Loading | Engine::Ready(_), Some(error)) => vec![
            (error.title.clone(), theme.warn),
            (error.detail.clone(), theme.text),
            (error.hint.clone(), theme.text),
            (unchanged(), theme.dim),
        ],
        (Engine::Failed(error), _) => vec![
            (error.title.clone(), theme.error),
            (error.detail.clone(), theme.text),
            (error.hint.clone(), theme.text),
            (format!("{} loads the model again, {}", app.key_of("load-again"), leaves()), theme.dim),
        ],
        (Engine::Gone, _) => vec![
            ("The engine has left".to_owned(), theme.error),
            (format!("Its thread has ended. What was said stays readable; {}", leaves()), theme.dim),
        ],
    }
}

/// That the disk has no room for what was said.
fn disk(app: &App) -> Vec<(String, Style)> {
    app.disk_told().map(|told| (told, app.theme.warn)).into_iter().collect()
}

/// What the conversation stands at.
fn conversation(app: &App) -> Vec<(String, Style)> {
    let theme = &app.theme;
    let mut out = Vec::new();
    if app.read_only {
        out.push((
            "Open in another dormouse: here it can only be read. /sessions shows others.".to_owned(),
            theme.warn,
        ));
    }
    if let Some((at, of)) = app.edited_place() {
        let (send, leave) = (app.key_of("send"), app.key_of("leave-edit"));
        let text =
            format!("Editing message {at} of {of}: {send} asks it as a branch, {leave} leaves it as it was.");
        out.push((text, theme.warn));
    } else if let Some(full) = app.context_full() {
        let limit = grouped(full.limit as u64);
        out.push((
            if full.prompt >= full.limit {
                format!(
                    "It does not fit: {} to read, and the context holds {limit}.",
                    counted(full.prompt as u64, "token")
                )
            } else {
                format!("The context is full: all {limit} tokens are used.")
            },
            theme.warn,
        ));
        let ways = "/drop leaves the oldest turns out, /new begins anew, more memory holds more.";
        out.push((ways.to_owned(), theme.text));
    } else if app.offers_to_go_on() {
        out.push((unfinished(app), theme.warn));
    }
    if let Some(repeats) = app.running.as_ref().and_then(|running| running.repeats) {
        let (span, times) = (counted(repeats.span as u64, "token"), grouped(repeats.times as u64));
        out.push((
            format!(
                "It repeats itself: the last {span} have come {times} times. {} stops.",
                app.key_of("stop")
            ),
            theme.warn,
        ));
    }
    out
}

/// That the last answer could go on.
fn unfinished(app: &App) -> String {
    let last = app.transcript.turns().last();
    let said = counted(last.map_or(0, |turn| turn.ids.len()) as u64, "token");
    let key = app.key_of("send");
    let limited =
        last.and_then(|turn| turn.outcome.as_ref()).is_some_and(|outcome| outcome.finish == Finish::Length);
    if limited {
        format!("The answer is at its limit ({said}): {key} on an empty line goes on.")
    } else {
        format!("The answer is not finished ({said}): {key} on an empty line goes on.")
    }
}
