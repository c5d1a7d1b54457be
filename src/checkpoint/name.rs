//! The released names of tensors: read once, when a checkpoint is opened, and written into messages.

use std::fmt;

use super::tensor::{ExpertPart, LayerTensor, Tensor};

/// Where the language model's layers are.
const LAYERS: &str = "language_model.model.layers.";

/// Where a layer's routed experts are.
const EXPERTS: &str = "block_sparse_moe.experts.";

/// Parts of the release that text does not need.
const SKIPPED: [&str; 2] = ["vision_tower.", "mm_projector."];

/// The tensors that belong to no layer.
pub(super) const GLOBAL: [(Tensor, &str); 5] = [
    (Tensor::Embedding, "language_model.model.embed_tokens.weight"),
    (Tensor::LmHead, "language_model.lm_head.weight"),
    (Tensor::FinalNorm, "language_model.model.norm.weight"),
    (Tensor::OutputResNorm, "language_model.model.output_attn_res_norm.weight"),
    (Tensor::OutputResProj, "language_model.model.output_attn_res_proj.weight"),
];

/// What a name says. Layers and experts are as the name counts them, and may be more than the model has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// A tensor of no layer.
    Global(Tensor),
    /// A tensor of the trunk in a layer.
    Layer(u32, LayerTensor),
    /// A part of a routed expert of a layer.
    Expert(u32, u32, ExpertPart),
    /// A tensor that text does not need.
    Skipped,
}

impl Name {
    /// Reads a name, or nothing where it is none that is known.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let Some(rest) = name.strip_prefix(LAYERS) else {
            let global = GLOBAL.iter().find(|(_, global)| *global == name);
            let skipped = || SKIPPED.iter().any(|prefix| name.starts_with(prefix)).then_some(Self::Skipped);
            return global.map(|(tensor, _)| Self::Global(*tensor)).or_else(skipped);
        };
        let (layer, rest) = counted(rest)?;
        if let Some(rest) = rest.strip_prefix(EXPERTS) {
            let (expert, rest) = counted(rest)?;
            let part = ExpertPart::ALL.into_iter().find(|part| part.suffix() == rest)?;
            return Some(Self::Expert(layer, expert, part));
        }
        let tensor = LayerTensor::ALL.iter().find(|tensor| tensor.suffix() == rest)?;
        Some(Self::Layer(layer, *tensor))
    }
}

/// A number and the dot after it. Written in one way only: a second spelling would be a second name of one tensor.
fn counted(text: &str) -> Option<(u32, &str)> {
    let (digits, rest) = text.split_once('.')?;
    let canonical = digits.bytes().all(|b| b.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    if canonical { Some((digits.parse().ok()?, rest)) } else { None }
}

impl fmt::Display for Tensor {
    /// The released name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Layer(layer, tensor) => write!(f, "{LAYERS}{layer}.{}", tensor.suffix()),
            global => {
                f.write_str(GLOBAL.iter().find(|(tensor, _)| tensor == global).map_or("", |(_, name)| name))
            }
        }
    }
}

/// The released name of a part of a routed expert.
pub(super) fn of_expert(layer: usize, expert: usize, part: ExpertPart) -> String {
    format!("{LAYERS}{layer}.{EXPERTS}{expert}.{}", part.suffix())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_as_what_they_were_written_from() {
        for (tensor, _) in GLOBAL {
            assert_eq!(Name::parse(&tensor.to_string()), Some(Name::Global(tensor)));
        }
        for &tensor in LayerTensor::ALL {
            assert_eq!(Name::parse(&Tensor::Layer(92, tensor).to_string()), Some(Name::Layer(92, tensor)));
        }
        for part in ExpertPart::ALL {
            assert_eq!(Name::parse(&of_expert(7, 895, part)), Some(Name::Expert(7, 895, part)));
        }
        assert_eq!(Name::parse("vision_tower.encoder.final_layernorm.weight"), Some(Name::Skipped));
        assert_eq!(Name::parse("mm_projector.proj.0.weight"), Some(Name::Skipped));
    }

    #[test]
    fn other_names_and_other_spellings_are_unknown() {
        for name in [
            "",
            "language_model.model.embed_tokens.weight_scale",
            "model.embed_tokens.weight",
            "vision_towers.x",
            "language_model.model.layers.01.input_layernorm.weight",
            "language_model.model.layers.+1.input_layernorm.weight",
            "language_model.model.layers..input_layernorm.weight",
            "language_model.model.layers.4294967296.input_layernorm.weight",
            "language_model.model.layers.1.input_layernorm.bias",
            "language_model.model.layers.1.block_sparse_moe.experts.00.w1.weight_packed",
            "language_model.model.layers.1.block_sparse_moe.experts.0.w4.weight_packed",
            "language_model.model.layers.1.block_sparse_moe.experts.0.w1.weight_packed ",
        ] {
            assert_eq!(Name::parse(name), None, "{name}");
        }
    }
}
