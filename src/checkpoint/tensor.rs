//! Which tensors a model of a given config has: their names, types and shapes (spec, section 1.3).

use std::fmt;

use super::config::{Mixer, ModelConfig};

/// How a tensor's elements are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// Two bytes: the upper half of an f32.
    Bf16,
    /// Four bytes.
    F32,
    /// Bytes: packed nibbles, or exponents.
    U8,
}

impl Dtype {
    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            Self::Bf16 => 2,
            Self::F32 => 4,
            Self::U8 => 1,
        }
    }

    /// The name in a safetensors header.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bf16 => "BF16",
            Self::F32 => "F32",
            Self::U8 => "U8",
        }
    }
}

/// Shape of a tensor, `[out, in]` and row-major where it is a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One dimension.
    Vector(usize),
    /// One dimension of at least so many elements, of which the first so many count.
    AtLeast(usize),
    /// Rows and columns.
    Matrix(usize, usize),
    /// Channels and taps, with a dimension of one between them.
    Conv(usize, usize),
}

impl Shape {
    /// Elements; of [`Shape::AtLeast`], those that count.
    pub const fn elements(self) -> usize {
        match self {
            Self::Vector(n) | Self::AtLeast(n) => n,
            Self::Matrix(rows, columns) | Self::Conv(rows, columns) => rows * columns,
        }
    }

    /// Whether the dimensions in a header are these.
    pub(super) fn accepts(self, dims: &[u64]) -> bool {
        match (self, dims) {
            (Self::Vector(n), &[found]) => found == n as u64,
            (Self::AtLeast(n), &[found]) => found >= n as u64,
            (Self::Matrix(rows, columns), &[r, c]) | (Self::Conv(rows, columns), &[r, 1, c]) => {
                (r, c) == (rows as u64, columns as u64)
            }
            _ => false,
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vector(n) => write!(f, "[{n}]"),
            Self::AtLeast(n) => write!(f, "[{n} or more]"),
            Self::Matrix(rows, columns) => write!(f, "[{rows}, {columns}]"),
            Self::Conv(channels, taps) => write!(f, "[{channels}, 1, {taps}]"),
        }
    }
}

/// A tensor of the trunk: everything but the routed experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tensor {
    /// `[vocabulary, hidden]`, one row a token.
    Embedding,
    /// `[vocabulary, hidden]`.
    LmHead,
    /// `[hidden]`.
    FinalNorm,
    /// `[hidden]`: norm of the last residual mix.
    OutputResNorm,
    /// `[1, hidden]`: projection of the last residual mix.
    OutputResProj,
    /// A tensor of one layer, counted from zero.
    Layer(u16, LayerTensor),
}

impl Tensor {
    /// The tensors of the trunk that a model may have by its layers: each kind in each layer, whether that layer has it
    /// or not. What [`Tensor::expected`] gives nothing for is not there.
    pub fn all(config: &ModelConfig) -> impl Iterator<Item = Self> + use<> {
        let global =
            [Self::Embedding, Self::LmHead, Self::FinalNorm, Self::OutputResNorm, Self::OutputResProj];
        let layers = u16::try_from(config.layers()).unwrap_or(u16::MAX);
        let in_layer = |layer| LayerTensor::ALL.iter().map(move |&tensor| Self::Layer(layer, tensor));
        global.into_iter().chain((0..layers).flat_map(in_layer))
    }

    /// Type and shape in a model, or nothing where it has no such tensor.
    pub fn expected(self, config: &ModelConfig) -> Option<(Dtype, Shape)> {
        let hidden = config.hidden;
        Some(match self {
            Self::Embedding | Self::LmHead => (Dtype::Bf16, Shape::Matrix(config.vocabulary, hidden)),
            Self::FinalNorm | Self::OutputResNorm => (Dtype::Bf16, Shape::Vector(hidden)),
            Self::OutputResProj => (Dtype::Bf16, Shape::Matrix(1, hidden)),
            Self::Layer(layer, tensor) => return tensor.expected(config, usize::from(layer)),
        })
    }
}

macro_rules! layer_tensors {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// A tensor of the trunk in one layer.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum LayerTensor { $($(#[$doc])* $variant,)* }

        impl LayerTensor {
            /// Every one of them; which a layer has depends on its kind: see [`LayerTensor::expected`].
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name after `language_model.model.layers.N.`.
            pub const fn suffix(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

layer_tensors! {
    /// Before the mixer.
    InputNorm = "input_layernorm.weight",
    /// Before the feed-forward.
    PostNorm = "post_attention_layernorm.weight",
    /// Residual mix before the mixer.
    AttnResNorm = "self_attention_res_norm.weight",
    /// Residual mix before the mixer.
    AttnResProj = "self_attention_res_proj.weight",
    /// Residual mix before the feed-forward.
    MlpResNorm = "mlp_res_norm.weight",
    /// Residual mix before the feed-forward.
    MlpResProj = "mlp_res_proj.weight",
    /// KDA queries.
    KdaQ = "self_attn.q_proj.weight",
    /// KDA keys.
    KdaK = "self_attn.k_proj.weight",
    /// KDA values.
    KdaV = "self_attn.v_proj.weight",
    /// Short convolution of the queries.
    KdaConvQ = "self_attn.q_conv1d.weight",
    /// Short convolution of the keys.
    KdaConvK = "self_attn.k_conv1d.weight",
    /// Short convolution of the values.
    KdaConvV = "self_attn.v_conv1d.weight",
    /// Decay rate, one for each head; may be padded.
    KdaALog = "self_attn.A_log",
    /// Bias of the decay, one for each channel.
    KdaDtBias = "self_attn.dt_bias",
    /// Decay, down to the head's width.
    KdaFA = "self_attn.f_a_proj.weight",
    /// Decay, up to all heads.
    KdaFB = "self_attn.f_b_proj.weight",
    /// Write strength, one for each head.
    KdaB = "self_attn.b_proj.weight",
    /// Norm of the output, shared by the heads.
    KdaONorm = "self_attn.o_norm.weight",
    /// MLA queries, down.
    MlaQA = "self_attn.q_a_proj.weight",
    /// Norm of the queries' latent.
    MlaQANorm = "self_attn.q_a_layernorm.weight",
    /// MLA queries, up.
    MlaQB = "self_attn.q_b_proj.weight",
    /// Latent of keys and values, and the shared part of the key.
    MlaKvA = "self_attn.kv_a_proj_with_mqa.weight",
    /// Norm of the latent.
    MlaKvANorm = "self_attn.kv_a_layernorm.weight",
    /// Keys and values of each head out of the latent.
    MlaKvB = "self_attn.kv_b_proj.weight",
    /// Output gate of either mixer.
    Gate = "self_attn.g_proj.weight",
    /// Output projection of either mixer.
    Output = "self_attn.o_proj.weight",
    /// Dense feed-forward, gate.
    DenseGate = "mlp.gate_proj.weight",
    /// Dense feed-forward, linear half.
    DenseUp = "mlp.up_proj.weight",
    /// Dense feed-forward, down.
    DenseDown = "mlp.down_proj.weight",
    /// Router.
    Router = "block_sparse_moe.gate.weight",
    /// Bias of the router's selection.
    RouterBias = "block_sparse_moe.gate.e_score_correction_bias",
    /// Down to the experts' latent.
    LatentDown = "block_sparse_moe.routed_expert_down_proj.weight",
    /// Norm of the experts' sum.
    LatentNorm = "block_sparse_moe.routed_expert_norm.weight",
    /// Up from the experts' latent.
    LatentUp = "block_sparse_moe.routed_expert_up_proj.weight",
    /// Shared experts, gate.
    SharedGate = "block_sparse_moe.shared_experts.gate_proj.weight",
    /// Shared experts, linear half.
    SharedUp = "block_sparse_moe.shared_experts.up_proj.weight",
    /// Shared experts, down.
    SharedDown = "block_sparse_moe.shared_experts.down_proj.weight",
}

impl LayerTensor {
    /// Whether a checkpoint may also store it as BF16 where [`LayerTensor::expected`] says F32: the release keeps this
    /// norm in F32 and all others in BF16, and copies that treat all norms alike lose nothing but digits.
    pub(super) const fn may_be_bf16(self) -> bool {
        matches!(self, Self::KdaONorm)
    }

    /// Type and shape in layer `layer` of a model, or nothing where that layer has no such tensor.
    pub fn expected(self, config: &ModelConfig, layer: usize) -> Option<(Dtype, Shape)> {
        use Shape::{AtLeast, Conv, Matrix, Vector};
        let (h, kda, mla, moe) = (config.hidden, &config.kda, &config.mla, &config.moe);
        let mixer = *config.mixers.get(layer)?;
        let dense = layer < config.dense_layers;
        let kda_only = |shape| (mixer == Mixer::Kda).then_some(shape);
        let mla_only = |shape| (mixer == Mixer::Mla).then_some(shape);
        let dense_only = |shape| dense.then_some(shape);
        let moe_only = |shape| (!dense).then_some(shape);
        let mixed = match mixer {
            Mixer::Kda => kda.width(),
            Mixer::Mla => mla.heads * mla.value,
        };
        let bf16 = |shape: Option<Shape>| shape.map(|shape| (Dtype::Bf16, shape));
        let f32 = |shape: Option<Shape>| shape.map(|shape| (Dtype::F32, shape));
        match self {
            Self::InputNorm | Self::PostNorm | Self::AttnResNorm | Self::MlpResNorm => bf16(Some(Vector(h))),
            Self::AttnResProj | Self::MlpResProj => bf16(Some(Matrix(1, h))),
            Self::KdaQ | Self::KdaK | Self::KdaV => bf16(kda_only(Matrix(kda.width(), h))),
            Self::KdaConvQ | Self::KdaConvK | Self::KdaConvV => f32(kda_only(Conv(kda.width(), kda.conv))),
            Self::KdaALog => f32(kda_only(AtLeast(kda.heads))),
            Self::KdaDtBias => f32(kda_only(Vector(kda.width()))),
            Self::KdaFA => bf16(kda_only(Matrix(kda.head_dim, h))),
            Self::KdaFB => bf16(kda_only(Matrix(kda.width(), kda.head_dim))),
            Self::KdaB => bf16(kda_only(Matrix(kda.heads, h))),
            Self::KdaONorm => f32(kda_only(Vector(kda.head_dim))),
            Self::MlaQA => bf16(mla_only(Matrix(mla.q_rank, h))),
            Self::MlaQANorm => bf16(mla_only(Vector(mla.q_rank))),
            Self::MlaQB => bf16(mla_only(Matrix(mla.heads * (mla.nope + mla.rope), mla.q_rank))),
            Self::MlaKvA => bf16(mla_only(Matrix(mla.latent_width(), h))),
            Self::MlaKvANorm => bf16(mla_only(Vector(mla.kv_rank))),
            Self::MlaKvB => bf16(mla_only(Matrix(mla.heads * (mla.nope + mla.value), mla.kv_rank))),
            Self::Gate => bf16(Some(Matrix(mixed, h))),
            Self::Output => bf16(Some(Matrix(h, mixed))),
            Self::DenseGate | Self::DenseUp => bf16(dense_only(Matrix(config.dense_width, h))),
            Self::DenseDown => bf16(dense_only(Matrix(h, config.dense_width))),
            Self::Router => bf16(moe_only(Matrix(moe.experts, h))),
            Self::RouterBias => f32(moe_only(Vector(moe.experts))),
            Self::LatentDown => bf16(moe_only(Matrix(moe.latent, h))),
            Self::LatentNorm => bf16(moe_only(Vector(moe.latent))),
            Self::LatentUp => bf16(moe_only(Matrix(h, moe.latent))),
            Self::SharedGate | Self::SharedUp => bf16(moe_only(Matrix(moe.shared * moe.width, h))),
            Self::SharedDown => bf16(moe_only(Matrix(h, moe.shared * moe.width))),
        }
    }
}

/// One of the six tensors of a routed expert, in the order in which the expert's bytes are handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ExpertPart {
    /// Gate, `[width, latent / 2]`.
    GatePacked,
    /// Gate, `[width, latent / 32]`.
    GateScale,
    /// Down, `[latent, width / 2]`.
    DownPacked,
    /// Down, `[latent, width / 32]`.
    DownScale,
    /// Linear half, `[width, latent / 2]`.
    UpPacked,
    /// Linear half, `[width, latent / 32]`.
    UpScale,
}

impl ExpertPart {
    /// All six.
    pub const ALL: [Self; 6] =
        [Self::GatePacked, Self::GateScale, Self::DownPacked, Self::DownScale, Self::UpPacked, Self::UpScale];

    /// The name after `block_sparse_moe.experts.E.`.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::GatePacked => "w1.weight_packed",
            Self::GateScale => "w1.weight_scale",
            Self::DownPacked => "w2.weight_packed",
            Self::DownScale => "w2.weight_scale",
            Self::UpPacked => "w3.weight_packed",
            Self::UpScale => "w3.weight_scale",
        }
    }

    /// Rows and columns, in bytes.
    pub const fn shape(self, config: &ModelConfig) -> (usize, usize) {
        let moe = &config.moe;
        match self {
            Self::GatePacked | Self::UpPacked => (moe.width, moe.latent / 2),
            Self::GateScale | Self::UpScale => (moe.width, moe.latent / 32),
            Self::DownPacked => (moe.latent, moe.width / 2),
            Self::DownScale => (moe.latent, moe.width / 32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Dimensions in headers.
    type Dims = &'static [&'static [u64]];

    #[test]
    fn shapes_accept_their_dimensions_and_no_others() {
        let cases: [(Shape, &str, Dims, Dims); 4] = [
            (Shape::Vector(4), "[4]", &[&[4]], &[&[3], &[5], &[4, 1], &[1, 4], &[]]),
            (Shape::AtLeast(4), "[4 or more]", &[&[4], &[5], &[128]], &[&[3], &[4, 1], &[]]),
            (Shape::Matrix(2, 3), "[2, 3]", &[&[2, 3]], &[&[3, 2], &[6], &[2, 1, 3], &[2, 3, 1], &[]]),
            (Shape::Conv(2, 3), "[2, 1, 3]", &[&[2, 1, 3]], &[&[2, 3], &[2, 2, 3], &[3, 1, 2], &[6], &[]]),
        ];
        for (shape, text, right, wrong) in cases {
            assert_eq!(shape.to_string(), text);
            for dims in right {
                assert!(shape.accepts(dims), "{shape} {dims:?}");
            }
            for dims in wrong {
                assert!(!shape.accepts(dims), "{shape} {dims:?}");
            }
        }
    }
}
