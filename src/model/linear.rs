//! Matrices of the trunk and of experts times activations, split over threads by rows.

use rayon::prelude::*;

use super::{Error, Observer};
use crate::checkpoint::Tensor;
use crate::kernels::{Kernels, Mxfp4};
use crate::store::Store;

/// Below so many multiplications a split over threads costs more than it gains.
const SERIAL: usize = 1 << 16;

/// What every part of a layer computes with.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) kernels: &'static Kernels,
    pub(super) observer: &'a dyn Observer,
}

impl Context<'_> {
    /// Stops here if the observer says so.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.observer.cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// `xs` (`[tokens, columns]`) through the matrix `tensor`: `[tokens, rows]`.
    pub(super) fn linear(
        &self,
        store: &Store,
        tensor: Tensor,
        xs: &[f32],
        tokens: usize,
    ) -> Result<Vec<f32>, Error> {
        let mut by_row: Vec<f32> = Vec::new();
        store.rows(tensor, |tile| {
            self.check()?;
            let rows = tile.weights.len() / tile.columns;
            let begin = tile.first * tokens;
            by_row.resize(begin + rows * tokens, 0.0);
            split_rows(&mut by_row[begin..], rows, tile.columns, tokens, |first, out| {
                let weights = &tile.weights[first * tile.columns..][..out.len() / tokens * tile.columns];
                self.kernels.bf16_rows(weights, tile.columns, xs, out);
            });
            Ok::<(), Error>(())
        })?;
        Ok(by_token(by_row, tokens))
    }

    /// `xs` (`[tokens, columns]`, de-interleaved) through a packed matrix: `[tokens, rows]`.
    pub(super) fn packed(&self, matrix: &Mxfp4<'_>, xs: &[f32], tokens: usize) -> Vec<f32> {
        let mut by_row = vec![0.0; matrix.rows() * tokens];
        split_rows(&mut by_row, matrix.rows(), matrix.columns(), tokens, |first, out| {
            self.kernels.mxfp4(matrix, first, xs, out);
        });
        by_token(by_row, tokens)
    }
}

/// Calls `compute(first row, results)` for ranges of rows that together make up `out` (`[rows, tokens]`), on several
/// threads where that pays.
fn split_rows(
    out: &mut [f32],
    rows: usize,
    columns: usize,
    tokens: usize,
    compute: impl Fn(usize, &mut [f32]) + Sync,
) {
    let threads = rayon::current_num_threads();
    let work = rows.saturating_mul(columns).saturating_mul(tokens);
    if threads == 1 || work < SERIAL {
        compute(0, out);
        return;
    }
    // A few ranges for each thread, so that one that is held up does not hold up the others.
    let range = rows.div_ceil(threads * 4).max(SERIAL / 2 / columns.max(1)).max(1);
    out.par_chunks_mut(range * tokens).enumerate().for_each(|(i, out)| compute(i * range, out));
}

/// `[rows, tokens]` to `[tokens, rows]`.
fn by_token(by_row: Vec<f32>, tokens: usize) -> Vec<f32> {
    if tokens == 1 {
        return by_row;
    }
    let rows = by_row.len() / tokens.max(1);
    let mut out = vec![0.0; by_row.len()];
    for (row, values) in by_row.chunks_exact(tokens).enumerate() {
        for (token, value) in values.iter().enumerate() {
            out[token * rows + row] = *value;
        }
    }
    out
}

/// Applies `norm(row, out)` to every row of `[tokens, width]`.
pub(super) fn each_row(xs: &[f32], width: usize, mut norm: impl FnMut(&[f32], &mut [f32])) -> Vec<f32> {
    let mut out = vec![0.0; xs.len()];
    for (x, out) in xs.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
        norm(x, out);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_computed_once_however_it_is_split() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        for rows in [1, 2, 63, 64, 1000] {
            for tokens in [1, 3] {
                let mut out = vec![0.0; rows * tokens];
                pool.install(|| {
                    split_rows(&mut out, rows, 1 << 15, tokens, |first, out| {
                        for (row, out) in out.chunks_mut(tokens).enumerate() {
                            for (token, out) in out.iter_mut().enumerate() {
                                *out += ((first + row) * tokens + token) as f32;
                            }
                        }
                    });
                });
                let exact: Vec<f32> = (0..rows * tokens).map(|i| i as f32).collect();
                assert_eq!(out, exact);
            }
        }
    }

    #[test]
    fn results_turn_from_rows_to_tokens() {
        assert_eq!(by_token(vec![1.0, 10.0, 2.0, 20.0, 3.0, 30.0], 2), [1.0, 2.0, 3.0, 10.0, 20.0, 30.0]);
    }
}
