//! What stands where the conversation will be: how far loading is, then what is there to talk to.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::gauge;
use super::header::DEMONSTRATION;
use crate::protocol::ModelFacts;
use crate::tui::app::{App, Engine};
use crate::tui::numbers;
use crate::tui::transcript::wrap;
use crate::tui::width;
use crate::units::{Bytes, Percent, Seconds};

pub(super) fn draw(app: &App, area: Rect, buffer: &mut Buffer) {
    let theme = &app.theme;
    let now = app.pulse.now();
    let label = width::clean_line(&app.options.model_label);
    let mut lines = vec![Line::styled(format!("Loading {label}"), theme.strong), Line::default()];
    if now.load_total > 0 {
        let share = now.load_done as f64 / now.load_total as f64;
        let columns = usize::from(area.width).saturating_sub(16).clamp(4, 48);
        let mut bar = Line::from(gauge::bar(share, columns, theme.accent, theme).to_vec());
        bar.push_span(Span::raw(format!(" {}", Percent(share))));
        lines.push(bar);
        let rate = app.pulse.load_rate();
        let mut text = format!("{} of {}", Bytes(now.load_done), Bytes(now.load_total));
        if rate.0 > 0.0 {
            let left = now.load_total.saturating_sub(now.load_done) as f64 / rate.0;
            text = format!("{text} · {rate} · about {} left", Seconds(left.ceil()));
        }
        lines.push(Line::styled(text, theme.dim));
    } else {
        lines.push(Line::styled(format!("{} opening the files", gauge::spinner(now.at)), theme.dim));
    }
    centred(&lines, area, buffer);
}

/// The screen before the first message.
pub(super) fn draw_welcome(app: &App, area: Rect, buffer: &mut Buffer) {
    let theme = &app.theme;
    let Engine::Ready(facts) = &app.engine else { return };
    let mut lines = vec![(format!("Ready: {}", width::clean_line(&facts.name)), theme.strong)];
    if app.options.demo {
        lines.push((format!("This is {DEMONSTRATION}."), theme.warn));
    }
    lines.push((described(facts), theme.dim));
    if !app.options.suggestions.is_empty() {
        lines.push((String::new(), theme.dim));
        lines.push(("Try, for example:".to_owned(), theme.dim));
        lines.extend(
            app.options.suggestions.iter().map(|text| (format!("  {}", width::clean_line(text)), theme.text)),
        );
    }
    lines.push((String::new(), theme.dim));
    lines.push(("/help shows the keys and commands.".to_owned(), theme.dim));
    let columns = usize::from(area.width.saturating_sub(2).min(72));
    let mut rows = Vec::new();
    for line in lines {
        wrap::styled(&[line], columns, &Line::default(), &Line::default(), &mut rows);
    }
    centred(&rows, area, buffer);
}

fn described(facts: &ModelFacts) -> String {
    format!(
        "{} of {} experts a token in {} layers, {} parameters, {} on disk, {} in memory; {} threads, {}; loaded in {}.",
        facts.top_k,
        numbers::grouped(facts.experts as u64),
        facts.layers,
        numbers::magnitude(facts.parameters),
        facts.bytes,
        facts.resident,
        facts.threads,
        width::clean_line(facts.tier),
        Seconds(facts.load_s),
    )
}

/// Draws lines as one block in the middle; what does not fit is cut at the bottom.
pub(super) fn centred(lines: &[Line<'_>], area: Rect, buffer: &mut Buffer) {
    let wide = lines.iter().map(width::of_line).max().unwrap_or(0);
    let wide = u16::try_from(wide).unwrap_or(u16::MAX).min(area.width);
    let tall = u16::try_from(lines.len()).unwrap_or(u16::MAX).min(area.height);
    let x = area.x + (area.width - wide) / 2;
    // A little above the middle looks like the middle.
    let top = area.y + (area.height - tall) / 3;
    for (y, line) in (top..area.bottom()).zip(lines) {
        width::draw(buffer, x, y, area.right().saturating_sub(x), line);
    }
}
