//! The whole model, layer by layer (spec, section 4.2).

use rayon::ThreadPool;

use super::linear::{Context, each_row};
use super::residual::Stream;
use super::state::LayerState;
use super::{Error, Observer, State, kda, mla, moe};
use crate::checkpoint::{LayerTensor as L, ModelConfig, Tensor};
use crate::kernels::Kernels;
use crate::store::{self, Store};

/// For which tokens of a pass the logits are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// None: more of the prompt follows.
    None,
    /// The last one.
    Last,
    /// Every one.
    All,
}

/// A model that computes.
#[derive(Debug)]
pub struct Model {
    config: ModelConfig,
    weights: Weights,
    pool: ThreadPool,
}

/// All that a pass reads.
#[derive(Debug)]
struct Weights {
    store: Store,
    kernels: &'static Kernels,
    /// For each layer the mix before its mixer and before its feed-forward: norm times projection, `[hidden]`.
    mixes: Vec<[Vec<f32>; 2]>,
    /// The same for the mix before the head.
    output_mix: Vec<f32>,
}

impl Model {
    /// A model on the weights of `store`, computed by `kernels` on the threads of `pool`.
    pub fn new(store: Store, kernels: &'static Kernels, pool: ThreadPool) -> Result<Self, store::Error> {
        let config = store.checkpoint().config().clone();
        let fold = |norm, projection| {
            let (norm, projection) = (store.vector(norm)?, store.vector(projection)?);
            // Both are bf16, so the products are exact.
            Ok::<Vec<f32>, store::Error>(norm.iter().zip(projection).map(|(n, p)| n * p).collect())
        };
        let mix =
            |layer, norm, projection| fold(Tensor::Layer(layer, norm), Tensor::Layer(layer, projection));
        let mixes = layers(&config)
            .map(|layer| {
                Ok([mix(layer, L::AttnResNorm, L::AttnResProj)?, mix(layer, L::MlpResNorm, L::MlpResProj)?])
            })
            .collect::<Result<_, store::Error>>()?;
        let output_mix = fold(Tensor::OutputResNorm, Tensor::OutputResProj)?;
        Ok(Self { config, weights: Weights { store, kernels, mixes, output_mix }, pool })
    }

    /// What the model is.
    pub const fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Its weights.
    pub const fn store(&self) -> &Store {
        &self.weights.store
    }

    /// Takes `ids` through all layers, after the positions that `state` holds, and gives their logits: nothing for
    /// [`Rows::None`], `[vocabulary]` for [`Rows::Last`], `[tokens, vocabulary]` for [`Rows::All`]. No ids give no logits.
    ///
    /// After an error the state holds half a step: it refuses to go on, and must be dropped.
    pub fn forward(
        &mut self,
        state: &mut State,
        ids: &[u32],
        rows: Rows,
        observer: &dyn Observer,
    ) -> Result<Vec<f32>, Error> {
        if !state.whole || state.layers.len() != self.config.layers() {
            return Err(Error::BrokenState);
        }
        let vocabulary = self.config.vocabulary;
        if let Some(&id) = ids.iter().find(|id| **id as usize >= vocabulary) {
            return Err(Error::Token { id, vocabulary });
        }
        let limit = self.config.context_limit;
        if ids.len() > limit.saturating_sub(state.len) {
            return Err(Error::Context { position: limit, limit });
        }
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        state.whole = false;
        let (config, weights) = (&self.config, &mut self.weights);
        let logits = self.pool.install(|| weights.forward(config, state, ids, rows, observer))?;
        state.len += ids.len();
        state.whole = true;
        Ok(logits)
    }
}

/// Numbers of the layers. The checkpoint has checked that they fit.
fn layers(config: &ModelConfig) -> impl Iterator<Item = u16> + use<> {
    0..u16::try_from(config.layers()).unwrap_or(u16::MAX)
}

impl Weights {
    fn forward(
        &mut self,
        config: &ModelConfig,
        state: &mut State,
        ids: &[u32],
        rows: Rows,
        observer: &dyn Observer,
    ) -> Result<Vec<f32>, Error> {
        let (kernels, eps, hidden) = (self.kernels, config.rms_eps, config.hidden);
        let context = Context { kernels, observer };
        let tokens = ids.len();
        self.store.begin_pass(rows != Rows::None);
        let mut embeddings = vec![0.0; tokens * hidden];
        for (id, row) in ids.iter().zip(embeddings.chunks_exact_mut(hidden)) {
            self.store.embedding(*id, row)?;
        }

        let mut stream = Stream::new(embeddings, hidden);
        for ((layer, state), [mixer_mix, ffn_mix]) in layers(config).zip(&mut state.layers).zip(&self.mixes) {
            let number = usize::from(layer);
            observer.layer(number);
            observer.store(&self.store);
            context.check()?;
            let normed = |store: &Store, x: &[f32], norm| {
                let weight = store.vector(Tensor::Layer(layer, norm))?;
                Ok::<_, Error>(each_row(x, hidden, |x, out| kernels.rms_norm(x, weight, eps, out)))
            };

            let read = stream.read(kernels, mixer_mix, eps);
            if number.is_multiple_of(config.residual_block) {
                stream.snapshot();
            }
            let x = normed(&self.store, &read, L::InputNorm)?;
            let mixed = match state {
                LayerState::Kda(state) => kda::mixer(context, &self.store, config, layer, state, &x, tokens)?,
                LayerState::Mla(cache) => mla::mixer(context, &self.store, config, layer, cache, &x, tokens)?,
            };
            observer.mixer_output(number, &mixed);
            stream.add(mixed);

            let read = stream.read(kernels, ffn_mix, eps);
            let x = normed(&self.store, &read, L::PostNorm)?;
            stream.add(if number < config.dense_layers {
                moe::dense(context, &self.store, config, layer, &x, tokens)?
            } else {
                moe::experts(context, &mut self.store, config, layer, &x, tokens)?
            });
            observer.layer_output(number, stream.running());
        }

        observer.store(&self.store);
        let wanted = match rows {
            Rows::None => return Ok(Vec::new()),
            Rows::Last => 1,
            Rows::All => tokens,
        };
        if wanted < tokens {
            stream.keep_last();
        }
        let norm = self.store.vector(Tensor::FinalNorm)?;
        let out = stream.read(kernels, &self.output_mix, eps);
        let out = each_row(&out, hidden, |x, out| kernels.rms_norm(x, norm, eps, out));
        observer.final_norm(&out);
        let logits = context.linear(&self.store, Tensor::LmHead, &out, wanted)?;
        if let Some((i, value)) = logits.iter().copied().enumerate().find(|(_, value)| !value.is_finite()) {
            let layer = config.layers().saturating_sub(1);
            return Err(Error::Logit { layer, token: i % config.vocabulary, value });
        }
        Ok(logits)
    }
}
