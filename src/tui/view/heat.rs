//! One mark for each layer, as high as it was dear in the last pass: in time, or in experts that were not there.

use ratatui::text::{Line, Span};

use super::gauge;
use super::stats::row;
use crate::protocol::{LayerCost, Phase};
use crate::tui::app::App;

/// A line that names it, and as many of marks as the layers take.
pub(super) fn strip(app: &App, columns: usize) -> Vec<Line<'static>> {
    let theme = &app.theme;
    let now = app.pulse.now();
    if now.layers == 0 || columns == 0 {
        return Vec::new();
    }
    let misses = app.remembered.misses;
    let name = if misses { "Layers, experts missed" } else { "Layers, time" };
    let computing = matches!(now.phase, Phase::Prefill | Phase::Decode);
    let at = if computing {
        format!("{}/{}", (now.layer + 1).min(now.layers), now.layers)
    } else {
        now.layers.to_string()
    };
    let mut lines = vec![row(name, &at, columns, theme)];
    let count = usize::try_from(now.layers).unwrap_or(0).min(app.layers.len());
    let current = usize::try_from(now.layer).unwrap_or(usize::MAX);
    let values: Vec<f64> = app.layers.iter().take(count).map(|layer| value(layer, misses)).collect();
    let largest = if misses { 1.0 } else { values.iter().copied().fold(0.0, f64::max) };
    let mark = |(layer, value): (usize, &f64)| {
        let mark = if largest > 0.0 { gauge::step(value / largest) } else { "·" };
        // What this pass has not come to yet shows the pass before.
        let style = match layer.cmp(&current) {
            _ if !computing => theme.dim,
            std::cmp::Ordering::Less => theme.text,
            std::cmp::Ordering::Equal => theme.chosen,
            std::cmp::Ordering::Greater => theme.dim,
        };
        Span::styled(mark, style)
    };
    let marks: Vec<Span<'static>> = values.iter().enumerate().map(mark).collect();
    lines.extend(marks.chunks(columns).map(|marks| Line::from(marks.to_vec())));
    lines
}

fn value(layer: &LayerCost, misses: bool) -> f64 {
    if !misses {
        return layer.ns as f64;
    }
    let share = layer.misses().0;
    if share.is_nan() { 0.0 } else { share }
}
