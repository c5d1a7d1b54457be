//! What was found in the turns, and the way from one hit to another.

use super::cell::Cell;
use super::layout::Place;

/// All hits: turn, number within it, and row.
fn hits(cells: &[Cell]) -> impl Iterator<Item = (usize, usize, usize)> {
    cells.iter().enumerate().flat_map(|(turn, cell)| {
        let mut next = 0;
        cell.hits().iter().filter_map(move |stretch| {
            let is_first = stretch.hit == next;
            next += usize::from(is_first);
            is_first.then_some((turn, stretch.hit, stretch.row))
        })
    })
}

/// The row of a hit in its turn.
pub(super) fn row_of(cells: &[Cell], turn: usize, hit: usize) -> Option<usize> {
    cells.get(turn)?.hits().iter().find(|stretch| stretch.hit == hit).map(|stretch| stretch.row)
}

/// The hit that is so many from `at`, or from the last one up to `origin`; beyond the last it goes on with the first.
pub(super) fn step_to(
    cells: &[Cell],
    at: Option<(usize, usize)>,
    origin: Place,
    steps: isize,
) -> Option<(usize, usize)> {
    let all: Vec<(usize, usize, usize)> = hits(cells).collect();
    let is_up_to = |(turn, hit, row): &(usize, usize, usize)| match at {
        Some(at) => (*turn, *hit) <= at,
        None => Place { turn: *turn, row: *row } <= origin,
    };
    let from = all.partition_point(is_up_to).saturating_sub(1);
    let len = isize::try_from(all.len()).ok().filter(|len| *len > 0)?;
    let to = isize::try_from(from).ok()?.saturating_add(steps).rem_euclid(len);
    all.get(usize::try_from(to).ok()?).map(|(turn, hit, _)| (*turn, *hit))
}

/// Which of all hits `at` is, and how many there are.
pub(super) fn counted(cells: &[Cell], at: Option<(usize, usize)>) -> (usize, usize) {
    let of = |cell: &Cell| cell.hits().last().map_or(0, |stretch| stretch.hit + 1);
    let all = cells.iter().map(of).sum();
    let before = at.map_or(0, |(turn, hit)| cells.iter().take(turn).map(of).sum::<usize>() + hit);
    (before, all)
}
