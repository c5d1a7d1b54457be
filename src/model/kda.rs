//! Kimi Delta Attention (spec, section 4.4): a recurrent state of fixed size instead of a cache of positions.

use std::sync::Arc;

use rayon::prelude::*;

use super::linear::Context;
use super::state::{KdaState, Run};
use super::{Error, L2_NORM_EPS};
use crate::checkpoint::{LayerTensor as L, ModelConfig, Tensor};
use crate::kernels::{Kernels, math};
use crate::store::Store;

/// Depthwise causal convolution of `T` inputs with SiLU after it. `inputs` is `[tokens, width]`, `history` the
/// `taps - 1` inputs before them, `[taps - 1, width]`, oldest first, `weights` `[width, taps]`, the last tap on the
/// current token. Leaves the last `taps - 1` inputs in `history`.
pub fn short_convolution(
    kernels: &Kernels,
    inputs: &[f32],
    history: &mut [f32],
    weights: &[f32],
    taps: usize,
) -> Vec<f32> {
    let width = weights.len() / taps;
    let all = [&*history, inputs].concat();
    let mut out = vec![0.0; inputs.len()];
    out.par_chunks_exact_mut(width).enumerate().for_each(|(token, out)| {
        kernels.convolve(&all[token * width..(token + taps) * width], weights, out);
    });
    history.copy_from_slice(&all[inputs.len()..]);
    out
}

/// The factors by which states decay, in place of `f` (`[tokens, heads * dim]`): `exp(bound * sigmoid(exp(a_log) *
/// (f + bias)))`. `bias` is `[heads * dim]`; of `a_log` the first elements belong to the heads, however long it is.
pub fn decay(kernels: &Kernels, f: &mut [f32], a_log: &[f32], bias: &[f32], dim: usize, bound: f32) {
    f.par_chunks_exact_mut(bias.len()).for_each(|token| {
        for ((f, bias), a_log) in token.chunks_exact_mut(dim).zip(bias.chunks_exact(dim)).zip(a_log) {
            kernels.kda_decay(f, bias, math::exp(*a_log), bound);
        }
    });
}

/// What one head is given for `T` tokens: each `[tokens, head_dim]`, but `beta`, which is `[tokens]`.
#[derive(Clone, Copy, Debug)]
pub struct HeadInput<'a> {
    /// Queries after convolution.
    pub q: &'a [f32],
    /// Keys after convolution.
    pub k: &'a [f32],
    /// Values after convolution.
    pub v: &'a [f32],
    /// Decay factors of the key channels.
    pub decay: &'a [f32],
    /// Write strengths.
    pub beta: &'a [f32],
}

/// Takes one head's state (`[keys, values]`) through `T` tokens and reads its outputs, `[tokens, head_dim]`. Queries and
/// keys are normed here; queries are scaled by `head_dim^-0.5`.
pub fn recur(kernels: &Kernels, state: &mut [f32], input: HeadInput<'_>, dim: usize, out: &mut [f32]) {
    let scale = 1.0 / (dim as f32).sqrt();
    let (mut q, mut k, mut error) = (vec![0.0; dim], vec![0.0; dim], vec![0.0; dim]);
    for (token, out) in out.chunks_exact_mut(dim).enumerate() {
        let at = token * dim..(token + 1) * dim;
        q.copy_from_slice(&input.q[at.clone()]);
        k.copy_from_slice(&input.k[at.clone()]);
        kernels.l2_norm(&mut q, L2_NORM_EPS);
        kernels.l2_norm(&mut k, L2_NORM_EPS);
        for q in &mut q {
            *q *= scale;
        }
        let (v, decay) = (&input.v[at.clone()], &input.decay[at]);
        kernels.kda_step(state, &q, &k, v, decay, input.beta[token], &mut error, out);
    }
}

/// The norm and gate of one head's output: `o * rsqrt(mean(o^2) + eps) * weight * sigmoid(gate)`, in place.
pub fn gated_norm(kernels: &Kernels, o: &mut [f32], weight: &[f32], gate: &[f32], eps: f32) {
    let inverse = kernels.inverse_rms(o, eps);
    for (o, weight) in o.iter_mut().zip(weight) {
        *o = *o * inverse * weight;
    }
    kernels.gate(o, gate);
}

/// The mixer of a KDA layer: `x` is `[tokens, hidden]`, and so is the result.
pub(super) fn mixer(
    context: Context<'_>,
    store: &Store,
    config: &ModelConfig,
    layer: u16,
    runs: &mut [Run<'_, KdaState>],
    x: &[f32],
    tokens: usize,
) -> Result<Vec<f32>, Error> {
    let (kda, kernels) = (&config.kda, context.kernels);
    let (dim, width) = (kda.head_dim, kda.width());
    let linear = |tensor, x: &[f32]| context.linear(store, Tensor::Layer(layer, tensor), x, tokens);
    let vector = |tensor| store.vector(Tensor::Layer(layer, tensor));

    let mut convolved = [const { Vec::new() }; 3];
    let projections = [(L::KdaQ, L::KdaConvQ), (L::KdaK, L::KdaConvK), (L::KdaV, L::KdaConvV)];
    for (which, (convolved, (projection, convolution))) in convolved.iter_mut().zip(projections).enumerate() {
        let (inputs, weights) = (linear(projection, x)?, vector(convolution)?);
        for run in &mut *runs {
            let inputs = run.rows(&inputs, width);
            let history = Arc::make_mut(&mut run.state.history[which]);
            convolved.extend(short_convolution(kernels, inputs, history, weights, kda.conv));
        }
    }
    let [q, k, v] = convolved;

    let (a_log, bias) = (vector(L::KdaALog)?, vector(L::KdaDtBias)?);
    let mut decays = linear(L::KdaFB, &linear(L::KdaFA, x)?)?;
    decay(kernels, &mut decays, a_log, bias, dim, kda.gate_lower_bound);
    let mut beta = linear(L::KdaB, x)?;
    kernels.sigmoid(&mut beta);
    let gate = linear(L::Gate, x)?;
    let norm = vector(L::KdaONorm)?;

    let outputs = runs.par_iter_mut().map(|run| {
        let [q, k, v, decays, gate] = [&q, &k, &v, &decays, &gate].map(|all| run.rows(all, width));
        let beta = run.rows(&beta, kda.heads);
        let tokens = run.tokens.len();
        let mut by_head = vec![0.0; tokens * width];
        let heads = by_head.par_chunks_exact_mut(tokens * dim).zip(&mut run.state.matrices);
        heads.enumerate().for_each(|(head, (out, matrix))| {
            let of_head = |all: &[f32], dim: usize| gather(all, kda.heads, head, dim);
            let (q, k, v, decay) = (of_head(q, dim), of_head(k, dim), of_head(v, dim), of_head(decays, dim));
            let beta = of_head(beta, 1);
            let input = HeadInput { q: &q, k: &k, v: &v, decay: &decay, beta: &beta };
            // What someone else still holds of the state is copied here, where it is about to be read anyway.
            recur(kernels, Arc::make_mut(matrix), input, dim, out);
            for (o, gate) in out.chunks_exact_mut(dim).zip(of_head(gate, dim).chunks_exact(dim)) {
                gated_norm(kernels, o, norm, gate, config.rms_eps);
            }
        });
        scatter(&by_head, kda.heads, tokens, dim)
    });
    let outputs = outputs.collect::<Vec<_>>().concat();
    context.check()?;
    linear(L::Output, &outputs)
}

/// One head out of `[tokens, heads, dim]`: `[tokens, dim]`.
pub(super) fn gather(all: &[f32], heads: usize, head: usize, dim: usize) -> Vec<f32> {
    all.chunks_exact(heads * dim).flat_map(|token| &token[head * dim..(head + 1) * dim]).copied().collect()
}

/// `[heads, tokens, dim]` to `[tokens, heads, dim]`.
pub(super) fn scatter(by_head: &[f32], heads: usize, tokens: usize, dim: usize) -> Vec<f32> {
    let mut out = vec![0.0; by_head.len()];
    for (head, rows) in by_head.chunks_exact(tokens * dim).enumerate() {
        for (token, row) in rows.chunks_exact(dim).enumerate() {
            let begin = (token * heads + head) * dim;
            out[begin..begin + dim].copy_from_slice(row);
        }
    }
    out
}
