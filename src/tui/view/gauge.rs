//! Bars, sparklines and the spinner.

use ratatui::style::Style;
use ratatui::text::Span;

use crate::tui::theme::Theme;

const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const STEPS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// The spinner at a time: it turns by the clock of the screen, so that it turns while the engine computes.
pub(super) fn spinner(now: f64) -> &'static str {
    let step = index(now.max(0.0) * 8.0) % SPINNER.len();
    SPINNER.get(step).copied().unwrap_or(" ")
}

/// A bar of `columns` of which `share` is filled.
pub(super) fn bar(share: f64, columns: usize, style: Style, theme: &Theme) -> [Span<'static>; 2] {
    let [filled, empty] = bar_text(share, columns);
    [Span::styled(filled, style), Span::styled(empty, theme.dim)]
}

/// The same as text: what is filled, and what is not.
pub(super) fn bar_text(share: f64, columns: usize) -> [String; 2] {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let filled = index((share * columns as f64).round()).min(columns);
    ["━".repeat(filled), "─".repeat(columns - filled)]
}

/// The last `columns` values as a line, relative to the largest.
pub(super) fn sparkline(values: impl DoubleEndedIterator<Item = f64>, columns: usize) -> String {
    let mut last: Vec<f64> = values.rev().take(columns).collect();
    last.reverse();
    let largest = last.iter().copied().fold(0.0, f64::max);
    if largest <= 0.0 {
        return String::new();
    }
    last.into_iter().map(|value| step(value / largest)).collect()
}

/// A mark as high as a share.
pub(super) fn step(share: f64) -> &'static str {
    let top = (STEPS.len() - 1) as f64;
    STEPS.get(index((share * top).round())).copied().unwrap_or(" ")
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a saturated cast of a non-negative number"
)]
const fn index(value: f64) -> usize {
    value.max(0.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_fill_and_never_overflow() {
        let theme = Theme::NONE;
        let text = |share| bar(share, 4, theme.text, &theme).map(|span| span.content).concat();
        assert_eq!(text(0.0), "────");
        assert_eq!(text(0.5), "━━──");
        assert_eq!(text(7.0), "━━━━");
        assert_eq!(text(f64::NAN), "────");
    }

    #[test]
    fn sparklines_show_the_newest() {
        assert_eq!(sparkline([9.0, 0.0, 7.0, 14.0].into_iter(), 3), "▁▅█");
        assert_eq!(sparkline([0.0, 0.0].into_iter(), 3), "");
    }

    #[test]
    fn the_spinner_turns() {
        assert_ne!(spinner(0.0), spinner(0.2));
        assert_eq!(spinner(-5.0), spinner(0.0));
    }
}
