//! The panel of numbers: what the turn costs, and what the machine does for it.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::{gauge, heat};
use crate::protocol::{Sample, Took};
use crate::tui::app::{App, Engine};
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
    let groups = groups(app, INNER);
    // Blank lines between the groups give way before the numbers do, then the groups from the last one on.
    let lines: usize = groups.iter().map(Vec::len).sum();
    let spaced = lines + groups.len() <= usize::from(area.height) + 1;
    let mut y = area.top();
    for group in groups {
        if usize::from(y - area.top()) + group.len() > usize::from(area.height) {
            return;
        }
        for line in group {
            width::draw(buffer, area.x.saturating_add(2), y, area.width.saturating_sub(3), &line);
            y += 1;
        }
        y = y.saturating_add(u16::from(spaced)).min(area.bottom());
    }
}

/// The numbers in groups of lines of so many columns, the one that is needed most first.
pub(super) fn groups(app: &App, columns: usize) -> Vec<Vec<Line<'static>>> {
    let panel = Panel { app, now: app.pulse.now(), theme: &app.theme, columns };
    let groups = vec![
        panel.speed(),
        heat::strip(app, columns),
        panel.memory(),
        panel.experts(),
        panel.disk(),
        panel.context(),
        panel.machine(),
    ];
    groups.into_iter().filter(|group| !group.is_empty()).collect()
}

/// A name on the left, its value on the right.
pub(super) fn row(name: &str, value: &str, columns: usize, theme: &Theme) -> Line<'static> {
    titled(name, theme.dim, value, columns, theme)
}

fn titled(name: &str, style: Style, value: &str, columns: usize, theme: &Theme) -> Line<'static> {
    let value = width::ellipsis(value, columns.saturating_sub(width::of(name) + 1));
    let gap = columns.saturating_sub(width::of(name) + width::of(&value));
    Line::from(vec![
        Span::styled(name.to_owned(), style),
        Span::raw(" ".repeat(gap)),
        Span::styled(value, theme.text),
    ])
}

fn known(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// What the groups are made of.
struct Panel<'a> {
    app: &'a App,
    now: &'a Sample,
    theme: &'a Theme,
    columns: usize,
}

impl Panel<'_> {
    fn title(&self, text: &str, value: &str) -> Line<'static> {
        titled(text, self.theme.strong, value, self.columns, self.theme)
    }

    fn row(&self, name: &str, value: &str) -> Line<'static> {
        row(name, value, self.columns, self.theme)
    }

    /// Two names with their values on one line.
    fn pair(&self, left: (&str, &str), right: (&str, &str)) -> Line<'static> {
        let half = self.columns / 2;
        let mut line = row(left.0, left.1, half.saturating_sub(1), self.theme);
        line.push_span(Span::raw(" "));
        line.spans.extend(row(right.0, right.1, self.columns - half, self.theme).spans);
        line
    }

    fn bar(&self, share: f64, style: Style) -> Line<'static> {
        Line::from(gauge::bar(share, self.columns, style, self.theme).to_vec())
    }

    fn speed(&self) -> Vec<Line<'static>> {
        let took: Option<&Took> =
            self.app.transcript.turns().last().and_then(|turn| turn.outcome.as_ref()).map(|o| &o.took);
        let running = self.app.running.as_ref();
        let last = match running {
            Some(_) => self.app.pulse.tokens_per_second(),
            None => took.and_then(Took::rate),
        };
        let usual = match running {
            Some(_) if self.app.steps.is_empty() => None,
            Some(_) => self.app.usual_token_s(),
            None => took.and_then(|took| took.token_s),
        };
        let first = match running {
            Some(running) if self.now.turn == running.turn.0 && self.now.first_token_ns > 0 => {
                Some(self.now.first_token_ns as f64 * 1e-9)
            }
            Some(_) => None,
            None => took.and_then(|took| took.first_token_s),
        };
        let both =
            |last: Option<String>, usual: Option<String>| format!("{:>9} {:>8}", known(last), known(usual));
        let rate = |rate: f64| if rate < 1.0 { format!("{rate:.4}") } else { format!("{rate:.2}") };
        let seconds = |seconds: f64| format!("{seconds:.3}");
        vec![
            self.title("Speed", if running.is_some() { "last   median" } else { "mean   median" }),
            self.row("tokens/s", &both(last.map(rate), usual.filter(|s| *s > 0.0).map(|s| rate(1.0 / s)))),
            self.row(
                "s/token",
                &both(last.filter(|r| *r > 0.0).map(|r| seconds(1.0 / r)), usual.map(seconds)),
            ),
            self.row("time to first token", &known(first.map(|seconds| Seconds(seconds).to_string()))),
        ]
    }

    /// What the process has in memory against the budget, and what for.
    fn memory(&self) -> Vec<Line<'static>> {
        let (now, theme) = (self.now, self.theme);
        let budget = if now.budget == 0 { now.machine_memory } else { now.budget };
        let used = share(now.rss, budget);
        let style = if used > 1.0 { theme.warn } else { theme.accent };
        let mut lines = vec![
            self.title("Memory", &format!("{} of {}", Bytes(now.rss), Bytes(budget))),
            self.bar(used, style),
        ];
        if let Engine::Ready(facts) = &self.app.engine {
            let plan = &facts.plan;
            let experts = now.slots_used * plan.slot.0;
            let buffers = plan.tiles as u64 * plan.tile.0;
            // What grows with the conversation, copies for retries included.
            let context = now.state_bytes.saturating_sub(plan.state.0);
            let state = now.state_bytes - context;
            let known = now.trunk_resident + experts + buffers + now.state_bytes;
            let text = |bytes: u64| Bytes(bytes).to_string();
            let other = now.rss.saturating_sub(known);
            lines.push(self.pair(("pinned", &text(now.trunk_resident)), ("experts", &text(experts))));
            lines.push(self.pair(("buffer", &text(buffers)), ("context", &text(context))));
            lines.push(self.pair(("state", &text(state)), ("other", &text(other))));
        }
        lines
    }

    fn experts(&self) -> Vec<Line<'static>> {
        let now = self.now;
        let session = now.experts();
        let grouped = numbers::grouped;
        vec![
            self.title("Experts", &format!("{} reads", grouped(session.reads))),
            self.row("found, last token", &Percent::of(now.token_resident, now.token_requests).to_string()),
            self.row("found, session", &session.hit_rate().to_string()),
            self.row("slots", &format!("{} of {}", grouped(now.slots_used), grouped(now.slots_total))),
            self.row("late, in time", &format!("{}, {}", grouped(now.late), grouped(now.in_time))),
        ]
    }

    fn disk(&self) -> Vec<Line<'static>> {
        let rates = self.app.pulse.rates();
        let now = if self.app.moves() { rates.disk.to_string() } else { "–".to_owned() };
        let mut lines = vec![self.title("Disk", &now)];
        let history = gauge::sparkline(self.app.pulse.disk_history(), self.columns);
        if !history.is_empty() {
            lines.push(Line::styled(history, self.theme.accent));
        }
        lines.push(self.row("waited for", &rates.waited.to_string()));
        let last = self.app.steps.last().map(|step| step.cost);
        let bytes = |bytes: Option<u64>| known(bytes.map(|bytes| Bytes(bytes).to_string()));
        lines.push(self.row("trunk, last token", &bytes(last.map(|cost| cost.trunk))));
        lines.push(self.row("experts, last token", &bytes(last.map(|cost| cost.experts))));
        lines
    }

    fn context(&self) -> Vec<Line<'static>> {
        let now = self.now;
        let used =
            format!("{} of {}", numbers::grouped(now.context_used), numbers::grouped(now.context_limit));
        vec![
            self.title("Context", &used),
            self.bar(share(now.context_used, now.context_limit), self.theme.accent),
        ]
    }

    /// The processors, and what the system tells of its troubles.
    fn machine(&self) -> Vec<Line<'static>> {
        let now = self.now;
        let busy = format!("{:.0} % of a core", now.cpu_permille as f64 / 10.0);
        let mut lines = vec![self.title("Processors", &busy)];
        if now.temperature > 0 {
            lines.push(self.row("temperature", &format!("{:.0} °C", now.temperature as f64 / 1000.0)));
        }
        if now.pressure_io > 0 {
            let share = |told: u64| format!("{:.0}", told.saturating_sub(1) as f64 / 100.0);
            let all = [now.pressure_io, now.pressure_memory, now.pressure_cpu].map(share).join("/");
            lines.push(self.row("pressure io/mem/cpu", &format!("{all} %")));
        }
        lines
    }
}
