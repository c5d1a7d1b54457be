//! The panel of numbers: what the turn costs, and what the machine does for it.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::gauge;
use crate::protocol::{Phase, Sample};
use crate::tui::app::App;
use crate::tui::numbers;
use crate::tui::theme::Theme;
use crate::tui::width;
use crate::units::{Bytes, Percent, Seconds};

/// Columns of the panel, its border included.
pub(super) const WIDTH: u16 = 36;
/// Columns of what stands in it.
const INNER: usize = 32;

pub(super) fn draw(app: &App, area: Rect, buffer: &mut Buffer) {
    let border = Line::styled("│", app.theme.dim);
    for y in area.top()..area.bottom() {
        width::draw(buffer, area.x, y, 1, &border);
    }
    let groups = groups(app);
    // Blank lines between the groups give way before the numbers do.
    let lines: usize = groups.iter().map(Vec::len).sum();
    let spaced = lines + groups.len() <= usize::from(area.height);
    let mut y = area.top();
    for group in groups {
        for line in group {
            if y >= area.bottom() {
                return;
            }
            width::draw(buffer, area.x.saturating_add(2), y, area.width.saturating_sub(3), &line);
            y += 1;
        }
        y += u16::from(spaced);
    }
}

fn groups(app: &App) -> Vec<Vec<Line<'static>>> {
    let theme = &app.theme;
    let now = app.pulse.now();
    vec![
        speed(app, now, theme),
        memory(now, theme),
        experts(now, theme),
        disk(app, now, theme),
        context(now, theme),
        layers(now, theme),
    ]
}

fn title(text: &'static str, theme: &Theme) -> Line<'static> {
    Line::styled(text, theme.strong)
}

/// A name on the left, its value on the right.
fn row(name: &str, value: &str, theme: &Theme) -> Line<'static> {
    let value = width::ellipsis(value, INNER.saturating_sub(width::of(name) + 1));
    let gap = INNER.saturating_sub(width::of(name) + width::of(&value));
    Line::from(vec![
        Span::styled(name.to_owned(), theme.dim),
        Span::raw(" ".repeat(gap)),
        Span::styled(value, theme.text),
    ])
}

fn bar(share: f64, style: Style, theme: &Theme) -> Line<'static> {
    Line::from(gauge::bar(share, INNER, style, theme).to_vec())
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn speed(app: &App, now: &Sample, theme: &Theme) -> Vec<Line<'static>> {
    let done = || app.transcript.turns().last().and_then(|turn| turn.outcome.as_ref());
    let rate = if app.running.is_some() {
        app.pulse.tokens_per_second()
    } else {
        done().and_then(|outcome| outcome.took.rate())
    };
    let first = match &app.running {
        Some(running) if now.turn == running.turn.0 && now.first_token_ns > 0 => {
            Some(now.first_token_ns as f64 * 1e-9)
        }
        Some(_) => None,
        None => done().and_then(|outcome| outcome.took.first_token_s),
    };
    let known = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    vec![
        title("Speed", theme),
        row("tokens per second", &known(rate.map(|rate| format!("{rate:.2}"))), theme),
        row(
            "seconds per token",
            &known(rate.filter(|rate| *rate > 0.0).map(|rate| format!("{:.3}", 1.0 / rate))),
            theme,
        ),
        row("time to first token", &known(first.map(|seconds| Seconds(seconds).to_string())), theme),
    ]
}

fn memory(now: &Sample, theme: &Theme) -> Vec<Line<'static>> {
    let used = share(now.rss, now.machine_memory);
    let style = if used > 0.9 { theme.warn } else { theme.accent };
    let mut lines = vec![
        title("Memory", theme),
        row("resident", &format!("{} of {}", Bytes(now.rss), Bytes(now.machine_memory)), theme),
        bar(used, style, theme),
        row("budget", &if now.budget == 0 { "–".to_owned() } else { Bytes(now.budget).to_string() }, theme),
    ];
    if now.state_bytes > 0 {
        lines.push(row("state of the model", &Bytes(now.state_bytes).to_string(), theme));
    }
    lines
}

fn experts(now: &Sample, theme: &Theme) -> Vec<Line<'static>> {
    let session = now.experts();
    vec![
        title("Experts in memory", theme),
        row("found, last token", &Percent::of(now.token_resident, now.token_requests).to_string(), theme),
        row("found, session", &session.hit_rate().to_string(), theme),
        row(
            "slots",
            &format!("{} of {}", numbers::grouped(now.slots_used), numbers::grouped(now.slots_total)),
            theme,
        ),
        row("reads", &numbers::grouped(session.reads), theme),
    ]
}

fn disk(app: &App, now: &Sample, theme: &Theme) -> Vec<Line<'static>> {
    let rates = app.pulse.rates();
    let mut lines = vec![
        title("Read from disk", theme),
        row("trunk", &Bytes(now.trunk_bytes).to_string(), theme),
        row("experts", &Bytes(now.expert_bytes).to_string(), theme),
        row("now", &if app.moves() { rates.disk.to_string() } else { "–".to_owned() }, theme),
        row("waited for", &rates.waited.to_string(), theme),
    ];
    let history = gauge::sparkline(app.pulse.disk_history(), INNER);
    if !history.is_empty() {
        lines.push(Line::styled(history, theme.accent));
    }
    lines
}

fn context(now: &Sample, theme: &Theme) -> Vec<Line<'static>> {
    let used = format!("{} of {}", numbers::grouped(now.context_used), numbers::grouped(now.context_limit));
    vec![
        title("Context", theme),
        row("tokens", &used, theme),
        bar(share(now.context_used, now.context_limit), theme.accent, theme),
    ]
}

/// One mark for each layer: done, being computed, to come.
fn layers(now: &Sample, theme: &Theme) -> Vec<Line<'static>> {
    if now.layers == 0 {
        return Vec::new();
    }
    let computing = matches!(now.phase, Phase::Prefill | Phase::Decode);
    let count = usize::try_from(now.layers.min(512)).unwrap_or(0);
    let at = usize::try_from(now.layer).unwrap_or(usize::MAX);
    let mark = |layer: usize| match layer.cmp(&at) {
        _ if !computing => Span::styled("·", theme.dim),
        std::cmp::Ordering::Less => Span::styled("■", theme.text),
        std::cmp::Ordering::Equal => Span::styled("▣", theme.accent),
        std::cmp::Ordering::Greater => Span::styled("·", theme.dim),
    };
    let mut lines = vec![row(
        "Layers",
        &if computing {
            format!("{}/{}", (now.layer + 1).min(now.layers), now.layers)
        } else {
            now.layers.to_string()
        },
        theme,
    )];
    for first in (0..count).step_by(INNER) {
        lines.push(Line::from((first..count.min(first + INNER)).map(mark).collect::<Vec<_>>()));
    }
    lines
}
