//! Matrices of the trunk and of experts times activations, split over threads by rows.

use rayon::prelude::*;

use super::{Error, Observer, Wait};
use crate::checkpoint::{ModelConfig, Situ, Tensor};
use crate::kernels::{Kernels, Mxfp4, Vectors};
use crate::store::Store;

/// Below so many multiplications a split over threads costs more than it gains.
const SERIAL: usize = 1 << 17;

/// Below so many numbers the same holds for what is computed number by number.
const ELEMENTS: usize = 1 << 12;

/// Kernels take so many rows at once at most.
const BLOCK: usize = 8;

/// What every part of a layer computes with.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) kernels: &'static Kernels,
    pub(super) observer: &'a dyn Observer,
}

impl Context<'_> {
    /// Stops here if the observer says so.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.observer.piece();
        if self.observer.cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Whether a wait for the disk is to end.
    pub(super) fn gives_up(&self, waits_for: Wait) -> bool {
        self.observer.waiting(waits_for);
        self.observer.cancelled()
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
        let xs = self.kernels.vectors(xs, xs.len() / tokens);
        store.rows(tensor, &|| self.gives_up(Wait::Trunk), |tile| {
            self.check()?;
            let rows = tile.weights.len() / tile.columns;
            let begin = tile.first * tokens;
            by_row.resize(begin + rows * tokens, 0.0);
            split_rows(&mut by_row[begin..], rows, tile.columns, tokens, |first, out| {
                let weights = &tile.weights[first * tile.columns..][..out.len() / tokens * tile.columns];
                self.kernels.bf16_rows(weights, &xs, out);
            });
            Ok::<(), Error>(())
        })?;
        Ok(by_token(by_row, tokens))
    }

    /// De-interleaved vectors through a packed matrix: `[tokens, rows]`.
    pub(super) fn packed(&self, matrix: &Mxfp4<'_>, xs: &Vectors<'_>) -> Vec<f32> {
        let tokens = xs.count();
        let mut by_row = vec![0.0; matrix.rows() * tokens];
        split_rows(&mut by_row, matrix.rows(), matrix.columns(), tokens, |first, out| {
            self.kernels.mxfp4(matrix, first, xs, out);
        });
        by_token(by_row, tokens)
    }

    /// SiTU-GLU of gates and their linear halves, into `gates`.
    pub(super) fn situ(&self, config: &ModelConfig, gates: &mut [f32], ups: &[f32]) {
        let Situ { beta, linear_beta } = config.situ;
        let parts = gates.par_chunks_mut(ELEMENTS).zip(ups.par_chunks(ELEMENTS));
        parts.for_each(|(gates, ups)| self.kernels.situ(gates, ups, beta, linear_beta));
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
    let row = columns.saturating_mul(tokens).max(1);
    if threads == 1 || rows.saturating_mul(row) < SERIAL {
        compute(0, out);
        return;
    }
    // A few ranges for each thread, so that one that is held up does not hold up the others; of whole blocks of rows.
    let range = rows.div_ceil(threads * 4).max(SERIAL / 2 / row).next_multiple_of(BLOCK);
    out.par_chunks_mut(range * tokens).enumerate().for_each(|(i, out)| compute(i * range, out));
}

/// `[rows, tokens]` to `[tokens, rows]`.
fn by_token(by_row: Vec<f32>, tokens: usize) -> Vec<f32> {
    /// Rows and tokens of a tile, which stays in the nearest cache however far apart its rows lie.
    const TILE: usize = 8;
    if tokens == 1 {
        return by_row;
    }
    let rows = by_row.len() / tokens.max(1);
    let mut out = vec![0.0; by_row.len()];
    out.par_chunks_mut((TILE * rows).max(1)).enumerate().for_each(|(i, out)| {
        for (tile, values) in by_row.chunks(TILE * tokens).enumerate() {
            for (t, out) in out.chunks_exact_mut(rows).enumerate() {
                let out = &mut out[tile * TILE..][..values.len() / tokens];
                for (r, out) in out.iter_mut().enumerate() {
                    *out = values[r * tokens + i * TILE + t];
                }
            }
        }
    });
    out
}

/// Applies `norm(row, out)` to every row of `[tokens, width]`.
pub(super) fn each_row(xs: &[f32], width: usize, norm: impl Fn(&[f32], &mut [f32]) + Sync) -> Vec<f32> {
    let mut out = vec![0.0; xs.len()];
    let rows = xs.par_chunks_exact(width).zip(out.par_chunks_exact_mut(width));
    rows.with_min_len(ELEMENTS.div_ceil(width)).for_each(|(x, out)| norm(x, out));
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
