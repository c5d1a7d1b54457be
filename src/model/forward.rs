//! The whole model, layer by layer (spec, section 4.2).

use rayon::ThreadPool;

use super::linear::{Context, each_row};
use super::residual::Stream;
use super::state::{LayerState, Run};
use super::{Error, Observer, State, kda, mla, moe};
use crate::checkpoint::{LayerTensor as L, Mixer, ModelConfig, Tensor};
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

/// The next tokens of one sequence.
#[derive(Debug)]
pub struct Segment<'a> {
    /// What the sequence has left behind.
    pub state: &'a mut State,
    /// The ids that come after the positions of the state.
    pub ids: &'a [u32],
    /// For which of them the logits are wanted.
    pub rows: Rows,
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
        self.pass(&mut [Segment { state, ids, rows }], observer)
    }

    /// Takes several sequences through all layers in one pass, and gives their logits one after another, as
    /// [`Self::forward`] gives those of each. Every matrix is read once for all of them, and so is every expert that any
    /// of them wakes; each gets the bits that it would get alone.
    ///
    /// What cannot be computed is refused before any state is touched. After any other error all states hold half a step:
    /// they refuse to go on, and must be dropped.
    pub fn pass(&mut self, segments: &mut [Segment<'_>], observer: &dyn Observer) -> Result<Vec<f32>, Error> {
        for Segment { state, ids, .. } in &*segments {
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
        }
        let mut segments: Vec<&mut Segment<'_>> =
            segments.iter_mut().filter(|segment| !segment.ids.is_empty()).collect();
        if segments.is_empty() {
            return Ok(Vec::new());
        }
        for segment in &mut segments {
            segment.state.whole = false;
        }
        let (config, weights) = (&self.config, &mut self.weights);
        let logits = self.pool.install(|| weights.forward(config, &mut segments, observer))?;
        for Segment { state, ids, .. } in segments {
            state.len += ids.len();
            state.whole = true;
        }
        Ok(logits)
    }
}

/// Numbers of the layers. The checkpoint has checked that they fit.
fn layers(config: &ModelConfig) -> impl Iterator<Item = u16> + use<> {
    0..u16::try_from(config.layers()).unwrap_or(u16::MAX)
}

/// The parts of a pass that belong to its sequences, with their states in layer `layer`, which are of the kind that
/// `kind` finds in it.
fn runs<'a, S>(
    segments: &'a mut [&mut Segment<'_>],
    layer: usize,
    kind: impl Fn(&'a mut LayerState) -> Option<&'a mut S>,
) -> Result<Vec<Run<'a, S>>, Error> {
    let mut end = 0;
    let runs = segments.iter_mut().map(|segment| {
        let begin = end;
        end += segment.ids.len();
        let state = segment.state.layers.get_mut(layer).and_then(&kind).ok_or(Error::BrokenState)?;
        Ok(Run { state, tokens: begin..end })
    });
    runs.collect()
}

/// The tokens of a pass whose logits are wanted.
fn wanted(segments: &[&mut Segment<'_>]) -> Vec<usize> {
    let mut end = 0;
    let of_segment = |segment: &&mut Segment<'_>| {
        let begin = end;
        end += segment.ids.len();
        match segment.rows {
            Rows::None => end..end,
            Rows::Last => end - 1..end,
            Rows::All => begin..end,
        }
    };
    segments.iter().flat_map(of_segment).collect()
}

impl Weights {
    fn forward(
        &mut self,
        config: &ModelConfig,
        segments: &mut [&mut Segment<'_>],
        observer: &dyn Observer,
    ) -> Result<Vec<f32>, Error> {
        let (kernels, eps, hidden) = (self.kernels, config.rms_eps, config.hidden);
        let context = Context { kernels, observer };
        let tokens = segments.iter().map(|segment| segment.ids.len()).sum();
        let wanted = wanted(segments);
        self.store.begin_pass(!wanted.is_empty());
        let mut embeddings = vec![0.0; tokens * hidden];
        let ids = segments.iter().flat_map(|segment| segment.ids);
        for (id, row) in ids.zip(embeddings.chunks_exact_mut(hidden)) {
            self.store.embedding(*id, row)?;
        }

        let mut stream = Stream::new(embeddings, hidden);
        for ((layer, mixer), [mixer_mix, ffn_mix]) in layers(config).zip(&config.mixers).zip(&self.mixes) {
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
            let mixed = match mixer {
                Mixer::Kda => {
                    let mut runs = runs(segments, number, LayerState::kda)?;
                    kda::mixer(context, &self.store, config, layer, &mut runs, &x, tokens)?
                }
                Mixer::Mla => {
                    let mut runs = runs(segments, number, LayerState::mla)?;
                    mla::mixer(context, &self.store, config, layer, &mut runs, &x, tokens)?
                }
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
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        if wanted.len() < tokens {
            stream.keep(&wanted);
        }
        let norm = self.store.vector(Tensor::FinalNorm)?;
        let out = stream.read(kernels, &self.output_mix, eps);
        let out = each_row(&out, hidden, |x, out| kernels.rms_norm(x, norm, eps, out));
        observer.final_norm(&out);
        let logits = context.linear(&self.store, Tensor::LmHead, &out, wanted.len())?;
        if let Some((i, value)) = logits.iter().copied().enumerate().find(|(_, value)| !value.is_finite()) {
            let layer = config.layers().saturating_sub(1);
            return Err(Error::Logit { layer, token: i % config.vocabulary, value });
        }
        Ok(logits)
    }
}
