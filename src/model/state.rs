//! What a sequence leaves behind for its next token.

use crate::checkpoint::{Mixer, ModelConfig};

/// The state of one sequence: a recurrent matrix and a little history for each KDA layer, a latent for each position
/// and MLA layer.
#[derive(Clone, Debug)]
pub struct State {
    pub(super) layers: Vec<LayerState>,
    pub(super) len: usize,
    /// False while a pass is under way, and after one that failed.
    pub(super) whole: bool,
}

#[derive(Clone, Debug)]
pub(super) enum LayerState {
    Kda(KdaState),
    Mla(Latents),
}

/// State of a KDA layer (spec, section 4.4).
#[derive(Clone, Debug)]
pub(super) struct KdaState {
    /// `[heads, keys, values]`.
    pub(super) matrices: Vec<f32>,
    /// The last `taps - 1` inputs of the convolutions of queries, keys and values: each `[taps - 1, width]`, oldest
    /// first.
    pub(super) history: [Vec<f32>; 3],
}

/// Cache of an MLA layer (spec, section 4.5): `[positions, latent + shared key]`, the latent normed, the key as it is.
#[derive(Clone, Debug, Default)]
pub(super) struct Latents {
    pub(super) rows: Vec<f32>,
}

/// Positions by which a cache of latents grows at once.
const GROWTH: usize = 256;

impl Latents {
    /// Makes room for `positions` more rows of `width`. Memory is planned for the context that was asked for, and a cache
    /// that doubled would take twice as much.
    pub(super) fn make_room(&mut self, positions: usize, width: usize) {
        if self.rows.capacity() - self.rows.len() < positions * width {
            self.rows.reserve_exact(positions.next_multiple_of(GROWTH) * width);
        }
    }
}

impl State {
    /// The state before the first token.
    pub fn new(config: &ModelConfig) -> Self {
        let kda = &config.kda;
        let history = vec![0.0; kda.conv.saturating_sub(1) * kda.width()];
        let layer = |mixer: &Mixer| match mixer {
            Mixer::Kda => LayerState::Kda(KdaState {
                matrices: vec![0.0; kda.width() * kda.head_dim],
                history: [history.clone(), history.clone(), history.clone()],
            }),
            Mixer::Mla => LayerState::Mla(Latents::default()),
        };
        Self { layers: config.mixers.iter().map(layer).collect(), len: 0, whole: true }
    }

    /// Positions that it holds.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it is the state before the first token.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that a state of `positions` takes.
    pub fn bytes(config: &ModelConfig, positions: usize) -> u64 {
        let kda = &config.kda;
        let floats = |mixer: &Mixer| match mixer {
            Mixer::Kda => kda.width() * (kda.head_dim + 3 * kda.conv.saturating_sub(1)),
            Mixer::Mla => config.mla.latent_width() * positions.next_multiple_of(GROWTH),
        };
        config.mixers.iter().map(|mixer| floats(mixer) as u64 * 4).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::{Kda, Mla, Moe, Situ};

    /// The released dimensions, as far as the state depends on them.
    fn released() -> ModelConfig {
        let mla = |layer: usize| layer % 4 == 3 || layer == 92;
        ModelConfig {
            hidden: 7168,
            vocabulary: 163_840,
            rms_eps: 1e-5,
            dense_width: 33_792,
            dense_layers: 1,
            residual_block: 12,
            mixers: (0..93).map(|layer| if mla(layer) { Mixer::Mla } else { Mixer::Kda }).collect(),
            kda: Kda { heads: 96, head_dim: 128, conv: 4, gate_lower_bound: -5.0 },
            mla: Mla { heads: 96, q_rank: 1536, kv_rank: 512, nope: 128, rope: 64, value: 128 },
            moe: Moe { experts: 896, top_k: 16, shared: 2, width: 3072, latent: 3584, scale: 1.0 },
            situ: Situ { beta: 4.0, linear_beta: 25.0 },
            context_limit: 1 << 20,
            eos_id: 163_586,
        }
    }

    #[test]
    fn context_costs_the_latent_of_each_mla_layer_and_nothing_else() {
        let config = released();
        let fixed = State::bytes(&config, 0);
        assert_eq!(fixed, 69 * (96 * 128 * 128 + 3 * 3 * 12_288) * 4);
        assert_eq!(State::bytes(&config, 8192) - fixed, 8192 * 24 * 576 * 4);
    }
}
