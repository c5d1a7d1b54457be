//! The residual stream: a running sum, snapshots of it, and the mix of both that each branch reads (spec, sections 4.2
//! and 4.3).

use rayon::prelude::*;

use crate::kernels::Kernels;

/// One mix for one token: `sources` (`[hidden]` each, snapshots oldest first, then the running sum) weighted by a
/// softmax of their scores. `fold` is the product of the mix's norm and projection weights. The raw sources are mixed;
/// their norm only enters the scores.
pub fn mix(kernels: &Kernels, sources: &[&[f32]], fold: &[f32], eps: f32, out: &mut [f32]) {
    let mut weights: Vec<f32> =
        sources.iter().map(|v| kernels.dot(v, fold) * kernels.inverse_rms(v, eps)).collect();
    kernels.softmax(&mut weights);
    out.fill(0.0);
    for (weight, source) in weights.iter().zip(sources) {
        kernels.add_scaled(out, *weight, source);
    }
}

/// The stream of `T` tokens on its way through the layers.
pub(super) struct Stream {
    hidden: usize,
    /// Each `[tokens, hidden]`, oldest first.
    snapshots: Vec<Vec<f32>>,
    /// `[tokens, hidden]`; nothing between a snapshot and the next branch's output.
    running: Option<Vec<f32>>,
}

impl Stream {
    /// Begins with the embeddings, `[tokens, hidden]`.
    pub(super) const fn new(embeddings: Vec<f32>, hidden: usize) -> Self {
        Self { hidden, snapshots: Vec::new(), running: Some(embeddings) }
    }

    /// What the next branch reads, `[tokens, hidden]`: the running sum alone before the first snapshot, a mix after it.
    pub(super) fn read(&self, kernels: &Kernels, fold: &[f32], eps: f32) -> Vec<f32> {
        if self.snapshots.is_empty() {
            return self.running.clone().unwrap_or_default();
        }
        let all: Vec<&[f32]> = self.snapshots.iter().chain(&self.running).map(Vec::as_slice).collect();
        let mut out = vec![0.0; all[0].len()];
        out.par_chunks_exact_mut(self.hidden).enumerate().for_each(|(token, out)| {
            let begin = token * self.hidden;
            let sources: Vec<&[f32]> = all.iter().map(|all| &all[begin..begin + self.hidden]).collect();
            mix(kernels, &sources, fold, eps, out);
        });
        out
    }

    /// Puts the running sum aside; it begins anew with the next branch's output.
    pub(super) fn snapshot(&mut self) {
        self.snapshots.extend(self.running.take());
    }

    /// Adds a branch's output, `[tokens, hidden]`.
    pub(super) fn add(&mut self, branch: Vec<f32>) {
        match &mut self.running {
            Some(running) => {
                for (sum, x) in running.iter_mut().zip(&branch) {
                    *sum += x;
                }
            }
            None => self.running = Some(branch),
        }
    }

    /// The running sum, `[tokens, hidden]`.
    pub(super) fn running(&self) -> &[f32] {
        self.running.as_deref().unwrap_or_default()
    }

    /// Only these tokens of the stream, in this order.
    pub(super) fn keep(&mut self, tokens: &[usize]) {
        for all in self.snapshots.iter_mut().chain(&mut self.running) {
            let rows = tokens.iter().flat_map(|token| &all[token * self.hidden..(token + 1) * self.hidden]);
            *all = rows.copied().collect();
        }
    }
}
