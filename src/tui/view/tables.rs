//! Tables of numbers. On a narrow screen the columns that are needed least give way.

use ratatui::text::{Line, Span};

use super::gauge;
use crate::protocol::LayerCost;
use crate::tui::app::{App, TokenRow};
use crate::tui::theme::Theme;
use crate::tui::width;
use crate::units::{Bytes, Percent};

/// A column: its title, how wide it is, and the text of its cell.
struct Column<'a, R> {
    title: &'static str,
    wide: usize,
    cell: &'a dyn Fn(&R) -> String,
}

const fn column<'a, R>(title: &'static str, wide: usize, cell: &'a dyn Fn(&R) -> String) -> Column<'a, R> {
    Column { title, wide, cell }
}

/// The line of titles, and a line for each row. The columns stand in the order in which they are needed.
fn table<R>(
    rows: impl Iterator<Item = R>,
    columns: &[Column<'_, R>],
    room: usize,
    theme: &Theme,
) -> (Vec<Line<'static>>, Vec<Line<'static>>) {
    let mut used = 0;
    let fits = |column: &&Column<'_, R>| {
        used += column.wide + 1;
        used <= room + 1
    };
    let columns: Vec<&Column<'_, R>> = columns.iter().take_while(fits).collect();
    let right = |text: &str, wide: usize| {
        let text = width::ellipsis(text, wide);
        format!("{}{text} ", " ".repeat(wide.saturating_sub(width::of(&text))))
    };
    let head: String = columns.iter().map(|column| right(column.title, column.wide)).collect();
    let line = |row: R| {
        let cells = columns.iter().map(|column| right(&(column.cell)(&row), column.wide));
        Line::from(cells.map(|cell| Span::styled(cell, theme.text)).collect::<Vec<_>>())
    };
    (vec![Line::styled(head, theme.strong)], rows.map(line).collect())
}

fn seconds(seconds: f64) -> String {
    if seconds < 10.0 { format!("{seconds:.3} s") } else { format!("{seconds:.1} s") }
}

fn nanoseconds(ns: u64) -> String {
    seconds(ns as f64 * 1e-9)
}

/// Each layer in the last pass.
pub(super) fn layers(app: &App, room: usize) -> (Vec<Line<'static>>, Vec<Line<'static>>) {
    type Row = (usize, LayerCost);
    let slowest = app.layers.iter().map(|layer| layer.ns).max().unwrap_or(0).max(1);
    let bar = |(_, layer): &Row| gauge::bar_text(layer.ns as f64 / slowest as f64, 10).concat();
    table(
        app.layers.iter().copied().enumerate(),
        &[
            column("layer", 5, &|(number, _): &Row| (number + 1).to_string()),
            column("time", 9, &|(_, layer): &Row| nanoseconds(layer.ns)),
            column("waited", 9, &|(_, layer): &Row| nanoseconds(layer.waited_ns)),
            column("missed", 6, &|(_, layer): &Row| layer.misses().to_string()),
            column("woken", 6, &|(_, layer): &Row| layer.requests.to_string()),
            column("experts", 9, &|(_, layer): &Row| Bytes(layer.expert_bytes).to_string()),
            column("trunk", 9, &|(_, layer): &Row| Bytes(layer.trunk_bytes).to_string()),
            column("of the slowest", 14, &bar),
        ],
        room,
        &app.theme,
    )
}

/// Each token, the newest first.
pub(super) fn tokens(app: &App, room: usize) -> (Vec<Line<'static>>, Vec<Line<'static>>) {
    type Row = TokenRow;
    let rows = app.token_rows();
    if rows.is_empty() {
        let none = "No token was decoded yet.".to_owned();
        return (Vec::new(), vec![Line::styled(none, app.theme.dim)]);
    }
    table(
        rows.into_iter().rev(),
        &[
            column("turn", 4, &|row: &Row| row.turn.to_string()),
            column("token", 6, &|row: &Row| row.token.to_string()),
            column("time", 9, &|row: &Row| seconds(row.step.seconds)),
            column("waited", 9, &|row: &Row| seconds(row.step.cost.waited_s)),
            column("found", 6, &|row: &Row| {
                Percent::of(row.step.cost.resident, row.step.cost.woken).to_string()
            }),
            column("experts", 9, &|row: &Row| Bytes(row.step.cost.experts).to_string()),
            column("trunk", 9, &|row: &Row| Bytes(row.step.cost.trunk).to_string()),
            column("woken", 6, &|row: &Row| row.step.cost.woken.to_string()),
        ],
        room,
        &app.theme,
    )
}
