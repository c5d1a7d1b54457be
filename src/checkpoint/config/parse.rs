//! Reading `config.json` in its released, nested form (spec, section 1.2).
//!
//! Nothing has a default. A field that says how the model is computed must be there and must say what this program
//! computes; the bounds on sizes are far above the release, and low enough that no product of them overflows.

use std::ops::RangeInclusive;
use std::path::Path;

use super::fields::{Fields, document};
use super::{Kda, Mixer, Mla, ModelConfig, Moe, Situ};
use crate::checkpoint::error::Error;
use crate::sys::file;

/// Longest config file: the released one has 7,006 bytes.
pub(super) const FILE_LIMIT: u64 = 4 << 20;

const LAYERS: RangeInclusive<u64> = 1..=512;
const WIDTH: RangeInclusive<u64> = 1..=1 << 18;
const HEADS: RangeInclusive<u64> = 1..=4096;
const HEAD_DIM: RangeInclusive<u64> = 1..=4096;
const VOCABULARY: RangeInclusive<u64> = 1..=1 << 24;
const EXPERTS: RangeInclusive<u64> = 1..=4096;
const SHARED_EXPERTS: RangeInclusive<u64> = 1..=64;
const TAPS: RangeInclusive<u64> = 1..=64;
const POSITIONS: RangeInclusive<u64> = 1..=1 << 31;

/// Columns that share one scale byte (spec, section 1.4).
const GROUP: usize = 32;

const POSITIVE: &str = "a number above 0";

fn positive(value: f32) -> bool {
    value > 0.0
}

impl ModelConfig {
    /// Reads and checks a `config.json`.
    pub fn read(path: &Path) -> Result<Self, Error> {
        Self::parse(path, &file::read_small(path, FILE_LIMIT)?)
    }

    /// Checks the text of a `config.json`. `file` names it in messages.
    pub fn parse(file: &Path, text: &[u8]) -> Result<Self, Error> {
        let (file, map) = document(file, text)?;
        let root = Fields::root(&file, &map);
        root.exactly("model_type", "kimi_k3")?;
        root.exactly("tie_word_embeddings", false)?;
        let text = root.object("text_config")?;
        text.exactly("model_type", "kimi_linear")?;
        text.exactly("tie_word_embeddings", false)?;
        text.exactly("num_nextn_predict_layers", 0)?;
        text.exactly("hidden_act", "situ")?;
        quantization(&text.object("quantization_config")?)?;

        let layers = text.integer("num_hidden_layers", LAYERS)?;
        let vocabulary = text.integer("vocab_size", VOCABULARY)?;
        let linear = text.object("linear_attn_config")?;
        Ok(Self {
            hidden: text.integer("hidden_size", WIDTH)?,
            vocabulary,
            rms_eps: text
                .number("rms_norm_eps", "a number above 0 and at most 1", |eps| eps > 0.0 && eps <= 1.0)?,
            dense_width: text.integer("intermediate_size", WIDTH)?,
            dense_layers: text.integer("first_k_dense_replace", 0..=layers as u64 - 1)?,
            residual_block: text.integer("attn_res_block_size", LAYERS)?,
            mixers: mixers(&linear, layers)?,
            kda: kda(&linear)?,
            mla: mla(&text)?,
            moe: moe(&text)?,
            situ: Situ {
                beta: text.number("activation_situ_beta", POSITIVE, positive)?,
                linear_beta: text.number("activation_situ_linear_beta", POSITIVE, positive)?,
            },
            context_limit: text.integer("max_position_embeddings", POSITIONS)?,
            eos_id: eos(&root, &text, vocabulary)?,
        })
    }
}

/// The end of a message: said twice, the same both times.
fn eos(root: &Fields, text: &Fields, vocabulary: usize) -> Result<u32, Error> {
    let ids = 0..=vocabulary as u64 - 1;
    let id = text.integer("eos_token_id", ids.clone())?;
    if root.integer("eos_token_id", ids)? != id {
        return Err(root.refuse("eos_token_id", format!("{id}, as in text_config.eos_token_id")));
    }
    u32::try_from(id).ok().ok_or_else(|| text.refuse("eos_token_id", "an id of 32 bits"))
}

fn kda(linear: &Fields) -> Result<Kda, Error> {
    // The gate of a lower rank has other tensors. Where this is not said, their shapes decide.
    linear.exactly_if_there("use_full_rank_gate", true)?;
    Ok(Kda {
        heads: linear.integer("num_heads", HEADS)?,
        head_dim: linear.integer("head_dim", HEAD_DIM)?,
        conv: linear.integer("short_conv_kernel_size", TAPS)?,
        gate_lower_bound: linear.number("gate_lower_bound", "a number below 0", |bound| bound < 0.0)?,
    })
}

/// The layer map: two lists that count from one and share out all layers.
fn mixers(linear: &Fields, layers: usize) -> Result<Vec<Mixer>, Error> {
    let mut map = vec![None; layers];
    for (key, mixer) in [("kda_layers", Mixer::Kda), ("full_attn_layers", Mixer::Mla)] {
        for layer in linear.integers(key, &(1..=layers as u64))? {
            // Counted from one, and not above `layers`: the range was checked.
            if let Some(slot) = map.get_mut(layer - 1)
                && slot.replace(mixer).is_some()
            {
                let expected = "each layer once in kda_layers or full_attn_layers";
                return Err(linear.refuse_found(key, expected, format!("layer {layer} twice")));
            }
        }
    }
    let missing = map.iter().position(Option::is_none);
    map.into_iter().collect::<Option<Vec<Mixer>>>().ok_or_else(|| {
        let expected = format!("all layers from 1 to {layers}, here or in full_attn_layers");
        linear.refuse_found(
            "kda_layers",
            expected,
            format!("no layer {}", missing.map_or(0, |layer| layer + 1)),
        )
    })
}

fn mla(text: &Fields) -> Result<Mla, Error> {
    text.exactly("mla_use_nope", true)?;
    text.exactly("mla_use_output_gate", true)?;
    let heads = text.integer("num_attention_heads", HEADS)?;
    if text.integer("num_key_value_heads", HEADS)? != heads {
        return Err(
            text.refuse("num_key_value_heads", format!("{heads}, as in text_config.num_attention_heads"))
        );
    }
    Ok(Mla {
        heads,
        q_rank: text.integer("q_lora_rank", WIDTH)?,
        kv_rank: text.integer("kv_lora_rank", WIDTH)?,
        nope: text.integer("qk_nope_head_dim", HEAD_DIM)?,
        rope: text.integer("qk_rope_head_dim", HEAD_DIM)?,
        value: text.integer("v_head_dim", HEAD_DIM)?,
    })
}

fn moe(text: &Fields) -> Result<Moe, Error> {
    text.exactly("moe_layer_freq", 1)?;
    text.exactly("latent_moe_use_norm", true)?;
    text.exactly("moe_renormalize", true)?;
    text.exactly("moe_router_activation_func", "sigmoid")?;
    text.exactly("topk_method", "noaux_tc")?;
    // With one group, choosing groups first chooses nothing: both values mean the same.
    text.boolean("use_grouped_topk")?;
    text.exactly("num_expert_group", 1)?;
    text.exactly("topk_group", 1)?;
    let experts = text.integer("num_experts", EXPERTS)?;
    Ok(Moe {
        experts,
        top_k: text.integer("num_experts_per_token", 1..=experts as u64)?,
        shared: text.integer("num_shared_experts", SHARED_EXPERTS)?,
        width: in_groups(text, "moe_intermediate_size")?,
        latent: in_groups(text, "routed_expert_hidden_size")?,
        scale: text.number("routed_scaling_factor", POSITIVE, positive)?,
    })
}

/// A width that is packed in groups along its rows.
fn in_groups(text: &Fields, key: &str) -> Result<usize, Error> {
    let width = text.integer(key, WIDTH)?;
    if width.is_multiple_of(GROUP) {
        Ok(width)
    } else {
        Err(text.refuse(key, format!("a multiple of {GROUP}, the group size of MXFP4")))
    }
}

/// Experts are packed as MXFP4 in groups of 32, everything else is not quantised (spec, section 1.4).
fn quantization(fields: &Fields) -> Result<(), Error> {
    const FORMAT: &str = "mxfp4-pack-quantized";
    fields.exactly("quant_method", "compressed-tensors")?;
    fields.exactly("format", FORMAT)?;
    fields.absent("kv_cache_scheme")?;
    let groups = fields.object("config_groups")?;
    let mut keys = groups.keys();
    let (Some(key), None) = (keys.next(), keys.next()) else {
        let found = format!("{} groups", groups.keys().count());
        return Err(fields.refuse_found("config_groups", "exactly one group", found));
    };
    let group = groups.object(key)?;
    group.exactly_if_there("format", FORMAT)?;
    group.absent("input_activations")?;
    group.absent("output_activations")?;
    let weights = group.object("weights")?;
    weights.exactly("num_bits", 4)?;
    weights.exactly("type", "float")?;
    weights.exactly("group_size", GROUP)?;
    weights.exactly("strategy", "group")?;
    weights.exactly("symmetric", true)?;
    weights.exactly("dynamic", false)?;
    // An order of the columns of its own would need a table that this program does not read.
    weights.absent("actorder")
}
