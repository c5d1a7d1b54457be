//! The model's config: every field that the mathematics uses, required and typed.

mod fields;
mod generation;
mod parse;
mod released;

pub use generation::GenerationConfig;

/// What the released `config.json` says of the language model, held against what this program computes.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// Width of the residual stream.
    pub hidden: usize,
    /// Ids in the vocabulary.
    pub vocabulary: usize,
    /// Epsilon of the RMS norms (those inside MLA have their own).
    pub rms_eps: f32,
    /// Width of the dense feed-forward layers.
    pub dense_width: usize,
    /// The first so many layers are dense, all others have experts.
    pub dense_layers: usize,
    /// Layers between two snapshots of the residual stream.
    pub residual_block: usize,
    /// What mixes positions in each layer: one entry a layer.
    pub mixers: Vec<Mixer>,
    /// KDA layers.
    pub kda: Kda,
    /// MLA layers.
    pub mla: Mla,
    /// Expert layers.
    pub moe: Moe,
    /// The activation of every feed-forward.
    pub situ: Situ,
    /// Positions that the model was made for.
    pub context_limit: usize,
    /// End of a message, after `config.json`.
    pub eos_id: u32,
}

impl ModelConfig {
    /// Decoder layers.
    pub const fn layers(&self) -> usize {
        self.mixers.len()
    }

    /// Routed experts in all layers.
    pub const fn routed_experts(&self) -> u64 {
        (self.layers() - self.dense_layers) as u64 * self.moe.experts as u64
    }

    /// Weights of one routed expert.
    pub const fn expert_weights(&self) -> u64 {
        3 * self.moe.width as u64 * self.moe.latent as u64
    }

    /// Bytes of one routed expert: its weights in half a byte each, and a scale for each 32 of them.
    pub const fn expert_bytes(&self) -> u64 {
        self.expert_weights() / 2 + self.expert_weights() / 32
    }
}

/// What mixes positions in a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mixer {
    /// Kimi Delta Attention: a recurrent state of fixed size.
    Kda,
    /// Gated multi-head latent attention without positions.
    Mla,
}

/// Dimensions of the KDA layers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kda {
    /// Heads.
    pub heads: usize,
    /// Width of a head, of keys and values alike.
    pub head_dim: usize,
    /// Taps of the short convolution.
    pub conv: usize,
    /// The decay's logarithm lies between this and zero.
    pub gate_lower_bound: f32,
}

impl Kda {
    /// Width of all heads.
    pub const fn width(&self) -> usize {
        self.heads * self.head_dim
    }
}

/// Dimensions of the MLA layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mla {
    /// Heads.
    pub heads: usize,
    /// Rank of the queries.
    pub q_rank: usize,
    /// Rank of keys and values: the latent.
    pub kv_rank: usize,
    /// Width of a head's own part of the key.
    pub nope: usize,
    /// Width of the part of the key that all heads share. It is not rotated.
    pub rope: usize,
    /// Width of a head's value.
    pub value: usize,
}

impl Mla {
    /// Floats that each position leaves in the cache.
    pub const fn latent_width(&self) -> usize {
        self.kv_rank + self.rope
    }
}

/// Dimensions of the expert layers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moe {
    /// Routed experts in a layer.
    pub experts: usize,
    /// Of which each token wakes so many.
    pub top_k: usize,
    /// Experts that every token passes, as one feed-forward of their joint width.
    pub shared: usize,
    /// Width inside an expert.
    pub width: usize,
    /// Width that routed experts read and write.
    pub latent: usize,
    /// Factor on the routing weights.
    pub scale: f32,
}

/// The caps of the SiTU activation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Situ {
    /// Cap of the gate.
    pub beta: f32,
    /// Cap of the linear half.
    pub linear_beta: f32,
}
