//! Gated multi-head latent attention without positions (spec, section 4.5), in the absorbed form only: queries are taken
//! into the latent space, so that the cache is the latent itself and no head's keys or values are ever expanded.

use rayon::prelude::*;

use super::kda::{gather, scatter};
use super::linear::{Context, each_row};
use super::state::Latents;
use super::{Error, MLA_NORM_EPS};
use crate::checkpoint::{LayerTensor as L, Mla, ModelConfig, Tensor};
use crate::kernels::{Kernels, math};
use crate::store::Store;

/// The rows of `kv_b_proj` that belong to one head: `[nope, latent]` for its keys, `[value, latent]` for its values.
#[derive(Clone, Copy, Debug)]
pub struct HeadWeights<'a> {
    /// Latent to the head's own part of the key.
    pub key: &'a [u16],
    /// Latent to the head's value.
    pub value: &'a [u16],
}

impl<'a> HeadWeights<'a> {
    /// Of head `head` out of rows of the matrix that begin with head 0, `[heads * (nope + value), latent]`.
    pub fn of(kv_b: &'a [u16], mla: &Mla, head: usize) -> Self {
        let rows = mla.nope + mla.value;
        let all = &kv_b[head * rows * mla.kv_rank..(head + 1) * rows * mla.kv_rank];
        let (key, value) = all.split_at(mla.nope * mla.kv_rank);
        Self { key, value }
    }
}

/// One head of one token: attends with `query` (`[nope + rope]`) over `rows` (`[positions, latent + rope]`, the token's
/// own row last) and gives the mixed latent, `[latent]`, which [`HeadWeights::value`] turns into the head's output.
pub fn attend(
    kernels: &Kernels,
    mla: &Mla,
    weights: HeadWeights<'_>,
    query: &[f32],
    rows: &[f32],
    out: &mut [f32],
) {
    let width = mla.latent_width();
    let (own, shared) = query.split_at(mla.nope);
    let mut absorbed = vec![0.0; width];
    let (latent, key) = absorbed.split_at_mut(mla.kv_rank);
    kernels.bf16_columns(weights.key, mla.kv_rank, own, latent);
    key.copy_from_slice(shared);
    let mut scores = vec![0.0; rows.len() / width];
    kernels.f32_rows(rows, width, &absorbed, &mut scores);
    let scale = 1.0 / ((mla.nope + mla.rope) as f32).sqrt();
    for score in &mut scores {
        *score *= scale;
    }
    kernels.softmax(&mut scores);
    kernels.weighted_rows(&scores, rows, width, out);
}

/// The mixer of an MLA layer: `x` is `[tokens, hidden]`, and so is the result.
pub(super) fn mixer(
    context: Context<'_>,
    store: &Store,
    config: &ModelConfig,
    layer: u16,
    cache: &mut Latents,
    x: &[f32],
    tokens: usize,
) -> Result<Vec<f32>, Error> {
    let (mla, kernels) = (&config.mla, context.kernels);
    let linear = |tensor, x: &[f32]| context.linear(store, Tensor::Layer(layer, tensor), x, tokens);
    let vector = |tensor| store.vector(Tensor::Layer(layer, tensor));
    let width = mla.latent_width();

    let norm = vector(L::MlaQANorm)?;
    let latent =
        each_row(&linear(L::MlaQA, x)?, mla.q_rank, |x, out| kernels.rms_norm(x, norm, MLA_NORM_EPS, out));
    let queries = linear(L::MlaQB, &latent)?;

    let norm = vector(L::MlaKvANorm)?;
    cache.make_room(tokens, width);
    for row in linear(L::MlaKvA, x)?.chunks_exact(width) {
        let (latent, key) = row.split_at(mla.kv_rank);
        let begin = cache.rows.len();
        cache.rows.resize(begin + mla.kv_rank, 0.0);
        kernels.rms_norm(latent, norm, MLA_NORM_EPS, &mut cache.rows[begin..]);
        cache.rows.extend_from_slice(key);
    }
    let before = cache.rows.len() / width - tokens;

    let query_width = mla.nope + mla.rope;
    let head_rows = mla.nope + mla.value;
    let mut by_head = vec![0.0; mla.heads * tokens * mla.value];
    store.rows(Tensor::Layer(layer, L::MlaKvB), &|| context.observer.cancelled(), |tile| {
        context.check()?;
        let (first, heads) = (tile.first / head_rows, tile.weights.len() / (head_rows * mla.kv_rank));
        let out = by_head.chunks_exact_mut(tokens * mla.value).skip(first).take(heads).collect::<Vec<_>>();
        out.into_par_iter().enumerate().for_each(|(head, out)| {
            let weights = HeadWeights::of(tile.weights, mla, head);
            let mut mixed = vec![0.0; mla.kv_rank];
            let queries = gather(&queries, mla.heads, first + head, query_width);
            let steps = queries.chunks_exact(query_width).zip(out.chunks_exact_mut(mla.value));
            for (token, (query, out)) in steps.enumerate() {
                let rows = &cache.rows[..(before + token + 1) * width];
                attend(kernels, mla, weights, query, rows, &mut mixed);
                kernels.bf16_rows(weights.value, mla.kv_rank, &mixed, out);
            }
        });
        Ok::<(), Error>(())
    })?;
    context.check()?;
    let mut gated = scatter(&by_head, mla.heads, tokens, mla.value);
    for (a, gate) in gated.iter_mut().zip(linear(L::Gate, x)?) {
        *a *= math::sigmoid(gate);
    }
    linear(L::Output, &gated)
}
