//! The model as it was released, for those who ask what it would take before they have it.

use super::{Kda, Mixer, Mla, ModelConfig, Moe, Situ};

/// Layers of the release.
const LAYERS: usize = 93;

impl ModelConfig {
    /// What the released `config.json` says.
    pub fn released() -> Self {
        // Every fourth layer is MLA, and so is the last.
        let mixer = |layer: usize| {
            if layer.is_multiple_of(4) || layer == LAYERS { Mixer::Mla } else { Mixer::Kda }
        };
        Self {
            hidden: 7168,
            vocabulary: 163_840,
            rms_eps: 1e-5,
            dense_width: 33_792,
            dense_layers: 1,
            residual_block: 12,
            mixers: (1..=LAYERS).map(mixer).collect(),
            kda: Kda { heads: 96, head_dim: 128, conv: 4, gate_lower_bound: -5.0 },
            mla: Mla { heads: 96, q_rank: 1536, kv_rank: 512, nope: 128, rope: 64, value: 128 },
            moe: Moe { experts: 896, top_k: 16, shared: 2, width: 3072, latent: 3584, scale: 1.0 },
            situ: Situ { beta: 4.0, linear_beta: 25.0 },
            context_limit: 1_048_576,
            eos_id: 163_586,
        }
    }
}
