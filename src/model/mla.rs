//! Gated multi-head latent attention without positions (spec, section 4.5), in the absorbed form only: queries are taken
//! into the latent space, so that the cache is the latent itself and no head's keys or values are ever expanded.

use rayon::prelude::*;

use super::kda::{gather, scatter};
use super::linear::{Context, each_row};
use super::state::{Latents, Run};
use super::{Error, MLA_NORM_EPS, Wait};
use crate::checkpoint::{LayerTensor as L, Mla, ModelConfig, Tensor};
use crate::kernels::Kernels;
use crate::store::Store;

/// Queries that go through the cache together: each of its rows comes from memory once for all of them.
const TOGETHER: usize = 12;

/// Some heads of the last `tokens` of all positions. `kv_b` holds these heads' rows of `kv_b_proj`, each `[nope, latent]`
/// for keys and `[value, latent]` for values. `queries` is `[heads, tokens, nope + rope]`, `cache` `[positions, latent +
/// rope]` in pieces of whole rows, `out` `[heads, tokens, value]`. A token attends to its own position and all before it.
pub fn attend(
    kernels: &Kernels,
    mla: &Mla,
    kv_b: &[u16],
    queries: &[f32],
    cache: &[&[f32]],
    tokens: usize,
    out: &mut [f32],
) {
    let (width, query_width) = (mla.latent_width(), mla.nope + mla.rope);
    let positions = cache.iter().map(|rows| rows.len() / width).sum::<usize>();
    let heads = || kv_b.chunks_exact((mla.nope + mla.value) * mla.kv_rank);
    let keys = heads().flat_map(|head| std::iter::repeat_n(&head[..mla.nope * mla.kv_rank], tokens));

    let count = queries.len() / query_width;
    let mut absorbed = vec![0.0; count * width];
    for ((absorbed, query), keys) in
        absorbed.chunks_exact_mut(width).zip(queries.chunks_exact(query_width)).zip(keys)
    {
        let (own, shared) = query.split_at(mla.nope);
        let (latent, key) = absorbed.split_at_mut(mla.kv_rank);
        kernels.bf16_columns(keys, mla.kv_rank, own, latent);
        key.copy_from_slice(shared);
    }

    let mut by_row = vec![0.0; positions * count];
    let (vectors, mut rest) = (kernels.vectors(&absorbed, width), by_row.as_mut_slice());
    for rows in cache {
        let (now, later) = rest.split_at_mut(rows.len() / width * count);
        kernels.f32_rows(rows, &vectors, now);
        rest = later;
    }
    let scale = 1.0 / (query_width as f32).sqrt();
    let scores: Vec<Vec<f32>> = (0..count)
        .map(|query| {
            let seen = positions - tokens + query % tokens + 1;
            let mut scores: Vec<f32> =
                by_row.iter().skip(query).step_by(count).take(seen).map(|score| score * scale).collect();
            kernels.softmax(&mut scores);
            scores
        })
        .collect();
    let mut scores: Vec<&[f32]> = scores.iter().map(Vec::as_slice).collect();
    let mut mixed = vec![0.0; count * mla.kv_rank];
    for rows in cache {
        let (now, later): (Vec<&[f32]>, _) =
            scores.iter().map(|scores| scores.split_at((rows.len() / width).min(scores.len()))).unzip();
        kernels.add_weighted_rows(&now, rows, width, &mut mixed);
        scores = later;
    }

    let mut by_value = vec![0.0; mla.value * tokens];
    let per_head = mixed.chunks_exact(tokens * mla.kv_rank).zip(out.chunks_exact_mut(tokens * mla.value));
    for ((mixed, out), head) in per_head.zip(heads()) {
        let values = &head[mla.nope * mla.kv_rank..];
        kernels.bf16_rows(values, &kernels.vectors(mixed, mla.kv_rank), &mut by_value);
        for (token, out) in out.chunks_exact_mut(mla.value).enumerate() {
            for (out, value) in out.iter_mut().zip(by_value.iter().skip(token).step_by(tokens)) {
                *out = *value;
            }
        }
    }
}

/// One sequence's part of a pass: its own queries meet its own cache.
struct Part<'a> {
    tokens: usize,
    /// `[positions, latent + shared key]`, in pieces.
    cache: Vec<&'a [f32]>,
    /// `[heads, tokens, nope + rope]`.
    queries: Vec<f32>,
    /// `[heads, tokens, value]`.
    outputs: Vec<f32>,
}

/// The mixer of an MLA layer: `x` is `[tokens, hidden]`, and so is the result.
pub(super) fn mixer(
    context: Context<'_>,
    store: &Store,
    config: &ModelConfig,
    layer: u16,
    runs: &mut [Run<'_, Latents>],
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
    let latents = each_row(&linear(L::MlaKvA, x)?, width, |row, out| {
        let ((latent, key), (normed, as_it_is)) = (row.split_at(mla.kv_rank), out.split_at_mut(mla.kv_rank));
        kernels.rms_norm(latent, norm, MLA_NORM_EPS, normed);
        as_it_is.copy_from_slice(key);
    });
    for run in &mut *runs {
        let rows = run.rows(&latents, width);
        run.state.extend(rows, width);
    }

    let query_width = mla.nope + mla.rope;
    let head_weights = (mla.nope + mla.value) * mla.kv_rank;
    let mut parts: Vec<Part<'_>> = runs
        .iter()
        .map(|run| {
            let queries = run.rows(&queries, mla.heads * query_width);
            let by_head = (0..mla.heads).flat_map(|head| gather(queries, mla.heads, head, query_width));
            let tokens = run.tokens.len();
            let outputs = vec![0.0; mla.heads * tokens * mla.value];
            Part { tokens, cache: run.state.pieces(), queries: by_head.collect(), outputs }
        })
        .collect();
    // As many heads at once as have enough queries, but some for each thread.
    let most = mla.heads.div_ceil(rayon::current_num_threads());
    store.rows(Tensor::Layer(layer, L::MlaKvB), &|| context.gives_up(Wait::Trunk), |tile| {
        context.check()?;
        let first = tile.first / (mla.nope + mla.value);
        parts.par_iter_mut().for_each(|Part { tokens, cache, queries, outputs }| {
            let tokens = *tokens;
            let at_once = TOGETHER.div_ceil(tokens).min(most);
            let queries = queries[first * tokens * query_width..].par_chunks(at_once * tokens * query_width);
            let out = outputs[first * tokens * mla.value..].par_chunks_mut(at_once * tokens * mla.value);
            let heads = tile.weights.par_chunks(at_once * head_weights);
            heads.zip(queries).zip(out).for_each(|((kv_b, queries), out)| {
                let heads = kv_b.len() / head_weights;
                let queries = &queries[..heads * tokens * query_width];
                let out = &mut out[..heads * tokens * mla.value];
                attend(kernels, mla, kv_b, queries, cache, tokens, out);
            });
        });
        Ok::<(), Error>(())
    })?;
    context.check()?;
    let mut gated: Vec<f32> = Vec::with_capacity(tokens * mla.heads * mla.value);
    for part in parts {
        gated.extend(scatter(&part.outputs, mla.heads, part.tokens, mla.value));
    }
    kernels.gate(&mut gated, &linear(L::Gate, x)?);
    linear(L::Output, &gated)
}
