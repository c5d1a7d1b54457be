//! Feed-forward layers (spec, section 4.6): one dense, all others a router, its experts in a latent of their own, and the
//! shared experts.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::linear::{Context, each_row};
use super::{Error, Wait};
use crate::checkpoint::{ExpertPart, LayerTensor as L, ModelConfig, Moe, Tensor};
use crate::kernels::{Mxfp4, deinterleave, math};
use crate::store::{Expert, Store};

/// An expert that a token wakes, and the weight of its output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Its number in the layer.
    pub expert: usize,
    /// Its share.
    pub weight: f32,
}

/// The router's choice for one token, in rising order of experts: the `top_k` largest of score plus bias (the lower
/// number wins a tie), weighted by their scores without the bias. `logits` and `bias` are `[experts]`.
pub fn route(logits: &[f32], bias: &[f32], moe: &Moe) -> Vec<Choice> {
    let scores: Vec<f32> = logits.iter().map(|logit| math::sigmoid(*logit)).collect();
    let biased = |expert: usize| scores[expert] + bias[expert];
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| biased(*b).total_cmp(&biased(*a)).then(a.cmp(b)));
    order.truncate(moe.top_k);
    order.sort_unstable();
    let total: f32 = order.iter().map(|expert| scores[*expert]).sum();
    let weight = |expert: usize| scores[expert] / (total + 1e-20) * moe.scale;
    order.into_iter().map(|expert| Choice { expert, weight: weight(expert) }).collect()
}

/// The dense feed-forward, or the shared experts: `x` is `[tokens, hidden]`, and so is the result.
fn gated(
    context: Context<'_>,
    store: &Store,
    config: &ModelConfig,
    layer: u16,
    [gate, up, down]: [L; 3],
    x: &[f32],
    tokens: usize,
) -> Result<Vec<f32>, Error> {
    let linear = |tensor, x: &[f32]| context.linear(store, Tensor::Layer(layer, tensor), x, tokens);
    let mut gates = linear(gate, x)?;
    context.situ(config, &mut gates, &linear(up, x)?);
    linear(down, &gates)
}

/// The dense feed-forward layer.
pub(super) fn dense(
    context: Context<'_>,
    store: &Store,
    config: &ModelConfig,
    layer: u16,
    x: &[f32],
    tokens: usize,
) -> Result<Vec<f32>, Error> {
    gated(context, store, config, layer, [L::DenseGate, L::DenseUp, L::DenseDown], x, tokens)
}

/// The expert layer: `x` is `[tokens, hidden]`, and so is the result.
pub(super) fn experts(
    context: Context<'_>,
    store: &mut Store,
    config: &ModelConfig,
    layer: u16,
    x: &[f32],
    tokens: usize,
) -> Result<Vec<f32>, Error> {
    let (moe, kernels) = (&config.moe, context.kernels);
    let tensor = |t| Tensor::Layer(layer, t);

    let logits = context.linear(store, tensor(L::Router), x, tokens)?;
    if let Some((i, value)) = logits.iter().copied().enumerate().find(|(_, value)| !value.is_finite()) {
        return Err(Error::Router { layer: usize::from(layer), expert: i % moe.experts, value });
    }
    let bias = store.vector(tensor(L::RouterBias))?;
    let choices: Vec<Vec<Choice>> =
        logits.chunks_exact(moe.experts).map(|logits| route(logits, bias, moe)).collect();

    // Expert by expert, so that each is read once for all tokens of the pass. While they come from the disk, the shared
    // experts and the latent are computed.
    let mut woken: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    for (token, choices) in choices.iter().enumerate() {
        for (rank, choice) in choices.iter().enumerate() {
            woken.entry(choice.expert).or_default().push((token, rank));
        }
    }
    store.wake(usize::from(layer), &woken.keys().copied().collect::<Vec<_>>())?;
    let latent = context.linear(store, tensor(L::LatentDown), x, tokens)?;
    let latent = each_row(&latent, moe.latent, deinterleave);
    let shared =
        gated(context, store, config, layer, [L::SharedGate, L::SharedUp, L::SharedDown], x, tokens)?;

    // `[tokens, top_k, latent]`: experts are computed as they land, and summed in an order that does not depend on it.
    let mut outputs = vec![0.0; tokens * moe.top_k * moe.latent];
    loop {
        let landed = store.next_experts(&|| context.gives_up(Wait::Experts))?;
        if landed.is_empty() {
            break;
        }
        // Whole experts go to threads. Where there are fewer than threads, their rows are split as well.
        let results = landed.par_iter().map(|expert| {
            context.check()?;
            let Some(uses) = woken.get(&expert.number) else { return Ok((&[][..], Vec::new())) };
            let input = |(token, _): &(usize, usize)| &latent[token * moe.latent..(token + 1) * moe.latent];
            let inputs: Vec<f32> = uses.iter().flat_map(input).copied().collect();
            Ok((uses.as_slice(), expert_outputs(context, config, layer, *expert, &inputs)?))
        });
        for (uses, results) in results.collect::<Result<Vec<_>, Error>>()? {
            for ((token, rank), result) in uses.iter().zip(results.chunks_exact(moe.latent)) {
                let begin = (token * moe.top_k + rank) * moe.latent;
                outputs[begin..begin + moe.latent].copy_from_slice(result);
            }
        }
    }
    // For each token the sum goes up by the number of the expert.
    let mut sums = vec![0.0; tokens * moe.latent];
    sums.par_chunks_exact_mut(moe.latent).zip(&choices).enumerate().for_each(|(token, (sum, choices))| {
        let outputs = outputs[token * moe.top_k * moe.latent..].chunks_exact(moe.latent);
        for (choice, output) in choices.iter().zip(outputs) {
            kernels.add_scaled(sum, choice.weight, output);
        }
    });

    let norm = store.vector(tensor(L::LatentNorm))?;
    let normed = each_row(&sums, moe.latent, |x, out| kernels.rms_norm(x, norm, config.rms_eps, out));
    let mut out = context.linear(store, tensor(L::LatentUp), &normed, tokens)?;
    for (out, shared) in out.iter_mut().zip(shared) {
        *out += shared;
    }
    Ok(out)
}

/// One expert on `inputs` (`[tokens, latent]`, de-interleaved): `[tokens, latent]`.
fn expert_outputs(
    context: Context<'_>,
    config: &ModelConfig,
    layer: u16,
    expert: Expert<'_>,
    inputs: &[f32],
) -> Result<Vec<f32>, Error> {
    let moe = &config.moe;
    let matrix = |packed, scale, columns| {
        Mxfp4::new(expert.part(packed), expert.part(scale), columns)
            .map_err(|source| Error::Shape { layer: usize::from(layer), source })
    };
    let gate = matrix(ExpertPart::GatePacked, ExpertPart::GateScale, moe.latent)?;
    let up = matrix(ExpertPart::UpPacked, ExpertPart::UpScale, moe.latent)?;
    let down = matrix(ExpertPart::DownPacked, ExpertPart::DownScale, moe.width)?;
    let xs = context.kernels.vectors(inputs, moe.latent);
    let mut gates = context.packed(&gate, &xs);
    context.situ(config, &mut gates, &context.packed(&up, &xs));
    let gates = each_row(&gates, moe.width, deinterleave);
    Ok(context.packed(&down, &context.kernels.vectors(&gates, moe.width)))
}
