//! Every field of the configs: removed, of the wrong type, out of range. Made from one list.

use std::path::Path;

use dormouse::checkpoint::{GenerationConfig, Mixer, ModelConfig};
use serde_json::{Value, json};

use crate::fullsize::released;
use crate::support::{Copy, config};

/// What may stand in a field, and with it what may not.
enum Kind {
    /// An integer from the first to the last.
    Integer(u64, u64),
    /// A number that is none of these.
    Number(&'static [f64]),
    /// True or false.
    Boolean,
    /// This value alone.
    Only(Value),
    /// An object with more fields.
    Object,
    /// Layers counted from one.
    Layers,
}

use Kind::{Boolean, Integer, Layers, Number, Object, Only};

const WIDTH: Kind = Integer(1, 1 << 18);
const HEADS: Kind = Integer(1, 4096);
const NOT_POSITIVE: &[f64] = &[0.0, -1.0, 1e39, 1e-46];

/// Required fields of the tiny checkpoint's config, by path.
fn required() -> Vec<(&'static str, Kind)> {
    let text = [
        ("hidden_size", WIDTH),
        ("num_hidden_layers", Integer(1, 512)),
        ("vocab_size", Integer(1, 1 << 24)),
        ("rms_norm_eps", Number(&[0.0, -1e-5, 1.5, 1e39, 1e-46])),
        ("intermediate_size", WIDTH),
        ("first_k_dense_replace", Integer(0, 12)),
        ("moe_layer_freq", Only(json!(1))),
        ("hidden_act", Only(json!("situ"))),
        ("activation_situ_beta", Number(NOT_POSITIVE)),
        ("activation_situ_linear_beta", Number(NOT_POSITIVE)),
        ("attn_res_block_size", Integer(1, 512)),
        ("num_attention_heads", HEADS),
        ("num_key_value_heads", HEADS),
        ("q_lora_rank", WIDTH),
        ("kv_lora_rank", WIDTH),
        ("qk_nope_head_dim", HEADS),
        ("qk_rope_head_dim", HEADS),
        ("v_head_dim", HEADS),
        ("mla_use_nope", Only(json!(true))),
        ("mla_use_output_gate", Only(json!(true))),
        ("num_experts", Integer(1, 4096)),
        ("num_experts_per_token", Integer(1, 16)),
        ("num_shared_experts", Integer(1, 64)),
        ("moe_intermediate_size", WIDTH),
        ("routed_expert_hidden_size", WIDTH),
        ("latent_moe_use_norm", Only(json!(true))),
        ("moe_renormalize", Only(json!(true))),
        ("moe_router_activation_func", Only(json!("sigmoid"))),
        ("routed_scaling_factor", Number(NOT_POSITIVE)),
        ("topk_method", Only(json!("noaux_tc"))),
        ("use_grouped_topk", Boolean),
        ("num_expert_group", Only(json!(1))),
        ("topk_group", Only(json!(1))),
        ("num_nextn_predict_layers", Only(json!(0))),
        ("tie_word_embeddings", Only(json!(false))),
        ("max_position_embeddings", Integer(1, 1 << 31)),
        ("eos_token_id", Integer(0, 767)),
        ("model_type", Only(json!("kimi_linear"))),
        ("linear_attn_config", Object),
        ("linear_attn_config.num_heads", HEADS),
        ("linear_attn_config.head_dim", HEADS),
        ("linear_attn_config.short_conv_kernel_size", Integer(1, 64)),
        ("linear_attn_config.gate_lower_bound", Number(&[0.0, 5.0, -1e39])),
        ("linear_attn_config.kda_layers", Layers),
        ("linear_attn_config.full_attn_layers", Layers),
        ("quantization_config", Object),
        ("quantization_config.quant_method", Only(json!("compressed-tensors"))),
        ("quantization_config.format", Only(json!("mxfp4-pack-quantized"))),
        ("quantization_config.config_groups", Object),
        ("quantization_config.config_groups.group_0.weights", Object),
        ("quantization_config.config_groups.group_0.weights.num_bits", Only(json!(4))),
        ("quantization_config.config_groups.group_0.weights.type", Only(json!("float"))),
        ("quantization_config.config_groups.group_0.weights.group_size", Only(json!(32))),
        ("quantization_config.config_groups.group_0.weights.strategy", Only(json!("group"))),
        ("quantization_config.config_groups.group_0.weights.symmetric", Only(json!(true))),
        ("quantization_config.config_groups.group_0.weights.dynamic", Only(json!(false))),
    ];
    let top = [
        ("model_type", Only(json!("kimi_k3"))),
        ("tie_word_embeddings", Only(json!(false))),
        ("eos_token_id", Integer(0, 767)),
        ("text_config", Object),
    ];
    let text =
        text.into_iter().map(|(field, kind)| (format!("text_config.{field}").leak() as &'static str, kind));
    text.chain(top).collect()
}

impl Kind {
    /// Values that must be refused.
    fn wrong(&self) -> Vec<Value> {
        let mut wrong = match self {
            Integer(first, last) => {
                let mut wrong = vec![
                    json!(last + 1),
                    json!(-1),
                    json!(u64::MAX),
                    json!(2.0),
                    json!(1.5),
                    json!("1"),
                    json!(true),
                ];
                wrong.extend(first.checked_sub(1).map(|below| json!(below)));
                wrong
            }
            Number(out) => {
                out.iter().map(|&number| json!(number)).chain([json!("1.0"), json!(true)]).collect()
            }
            Boolean => vec![json!(1), json!("true")],
            Only(Value::Bool(only)) => vec![json!(!only), json!(u8::from(*only)), json!(only.to_string())],
            Only(Value::Number(only)) => {
                let only = only.as_u64().unwrap();
                vec![json!(only + 1), json!(only as f64), json!(only.to_string())]
            }
            Only(Value::String(only)) => {
                vec![json!(only.to_uppercase()), json!(""), json!("softmax"), json!(1)]
            }
            Only(_) | Object => vec![json!([]), json!("x"), json!(1)],
            Layers => vec![json!({}), json!([0]), json!([14]), json!(["1"]), json!([1.5]), json!([-1])],
        };
        wrong.push(Value::Null);
        wrong
    }
}

fn parse(config: &Value) -> Result<ModelConfig, String> {
    ModelConfig::parse(Path::new("/models/tiny/config.json"), config.to_string().as_bytes())
        .map_err(|error| error.to_string())
}

fn pointer(field: &str) -> String {
    format!("/{}", field.replace('.', "/"))
}

/// The config with a field taken out.
fn without(field: &str) -> Value {
    let mut config = config();
    let (parent, key) = field.rsplit_once('.').unwrap_or(("", field));
    let parent = if parent.is_empty() { &mut config } else { config.pointer_mut(&pointer(parent)).unwrap() };
    assert!(parent.as_object_mut().unwrap().shift_remove(key).is_some(), "no {field}");
    config
}

/// The config with a field changed.
fn with(field: &str, value: Value) -> Value {
    let mut config = config();
    *config.pointer_mut(&pointer(field)).unwrap_or_else(|| panic!("no {field}")) = value;
    config
}

/// The config with a field added in an object.
fn with_new(object: &str, key: &str, value: Value) -> Value {
    let mut config = config();
    config.pointer_mut(&pointer(object)).unwrap()[key] = value;
    config
}

#[test]
fn a_required_field_removed_is_named() {
    for (field, _) in required() {
        let message = parse(&without(field)).expect_err(field);
        assert!(message.starts_with(&format!("config.json: {field}: expected ")), "{message}");
        assert!(message.ends_with(", found nothing"), "{message}");
    }
}

#[test]
fn a_field_of_the_wrong_type_or_out_of_range_is_named_with_what_it_holds() {
    for (field, kind) in required() {
        for wrong in kind.wrong() {
            // As it is read: the last digit of a float may change on its way through the file.
            let wrong: Value = serde_json::from_str(&wrong.to_string()).unwrap();
            let message = parse(&with(field, wrong.clone())).expect_err(&format!("{field} as {wrong}"));
            assert!(
                message.starts_with(&format!("config.json: {field}: expected ")),
                "{field} as {wrong}: {message}"
            );
            let shown = match (&kind, &wrong) {
                // The one entry of the list that is wrong.
                (Layers, Value::Array(list)) => list[0].to_string(),
                _ => wrong.to_string(),
            };
            assert!(message.ends_with(&format!(", found {shown}")), "{field} as {wrong}: {message}");
        }
    }
}

#[test]
fn the_same_refusal_comes_out_of_opening_the_folder() {
    let copy = Copy::new();
    copy.config("/text_config/num_experts_per_token", 0);
    let expected =
        "config.json: text_config.num_experts_per_token: expected an integer from 1 to 16, found 0";
    assert_eq!(copy.refusal(), expected);
}

#[test]
fn fields_that_depend_on_each_other_are_held_against_each_other() {
    const LINEAR: &str = "text_config.linear_attn_config";
    const GROUP: &str = "text_config.quantization_config.config_groups.group_0";
    let mut two_groups = config();
    let groups = two_groups.pointer_mut("/text_config/quantization_config/config_groups").unwrap();
    groups["group_1"] = groups["group_0"].clone();
    let cases = [
        (
            with("text_config.num_key_value_heads", json!(2)),
            "text_config.num_key_value_heads: expected 4, as in text_config.num_attention_heads, found 2",
        ),
        (
            with("eos_token_id", json!(3)),
            "eos_token_id: expected 514, as in text_config.eos_token_id, found 3",
        ),
        (
            with("text_config.moe_intermediate_size", json!(80)),
            "text_config.moe_intermediate_size: expected a multiple of 32, the group size of MXFP4, found 80",
        ),
        (
            with("text_config.routed_expert_hidden_size", json!(16)),
            "text_config.routed_expert_hidden_size: expected a multiple of 32, the group size of MXFP4, found 16",
        ),
        (
            with("text_config.linear_attn_config.full_attn_layers", json!([4, 8, 12])),
            "text_config.linear_attn_config.kda_layers: expected all layers from 1 to 13, here or in full_attn_layers, found no layer 13",
        ),
        (
            with("text_config.linear_attn_config.full_attn_layers", json!([4, 8, 11, 12, 13])),
            "text_config.linear_attn_config.full_attn_layers: expected each layer once in kda_layers or full_attn_layers, found layer 11 twice",
        ),
        (
            with("text_config.linear_attn_config.full_attn_layers", json!([4, 8, 12, 12, 13])),
            "text_config.linear_attn_config.full_attn_layers: expected each layer once in kda_layers or full_attn_layers, found layer 12 twice",
        ),
        (
            with("text_config.linear_attn_config.use_full_rank_gate", json!(false)),
            "text_config.linear_attn_config.use_full_rank_gate: expected true, found false",
        ),
        (
            with("text_config.linear_attn_config.use_full_rank_gate", Value::Null),
            "text_config.linear_attn_config.use_full_rank_gate: expected true, found null",
        ),
        (
            with_new(LINEAR, "use_full_rank_gate", json!(0)),
            "text_config.linear_attn_config.use_full_rank_gate: expected true, found 0",
        ),
        (
            two_groups,
            "text_config.quantization_config.config_groups: expected exactly one group, found 2 groups",
        ),
        (
            with("text_config.quantization_config.config_groups", json!({})),
            "text_config.quantization_config.config_groups: expected exactly one group, found 0 groups",
        ),
        (
            with("text_config.quantization_config.kv_cache_scheme", json!({"num_bits": 8})),
            "text_config.quantization_config.kv_cache_scheme: expected null, or no such field, found {\"num_bits\":8}",
        ),
        (
            with_new(GROUP, "input_activations", json!({"num_bits": 8})),
            "text_config.quantization_config.config_groups.group_0.input_activations: expected null, or no such field, found {\"num_bits\":8}",
        ),
        (
            with_new(GROUP, "format", json!("pack-quantized")),
            "text_config.quantization_config.config_groups.group_0.format: expected \"mxfp4-pack-quantized\", found \"pack-quantized\"",
        ),
        (
            with("model_type", json!("kimi_k2\u{1b}[2J")),
            "model_type: expected \"kimi_k3\", found \"kimi_k2\\u001b[2J\"",
        ),
    ];
    for (config, expected) in cases {
        let message = parse(&config).expect_err(expected);
        assert_eq!(message, format!("config.json: {expected}"));
    }
}

#[test]
fn what_may_be_absent_may_be_absent() {
    for field in [
        "text_config.linear_attn_config.use_full_rank_gate",
        "text_config.quantization_config.kv_cache_scheme",
        "text_config.quantization_config.config_groups.group_0.format",
        "text_config.quantization_config.config_groups.group_0.input_activations",
        "text_config.quantization_config.config_groups.group_0.weights.actorder",
        "text_config.temperature",
        "vision_config",
    ] {
        assert_eq!(parse(&without(field)), parse(&config()), "{field}");
    }
    // One group makes both the same.
    assert_eq!(parse(&with("text_config.use_grouped_topk", json!(false))), parse(&config()));
}

#[test]
fn the_released_config_is_read_as_the_spec_has_it() {
    let config = parse(&released()).unwrap();
    assert_eq!((config.hidden, config.vocabulary, config.layers()), (7168, 163_840, 93));
    let mla: Vec<usize> = (0..93).filter(|&layer| config.mixers[layer] == Mixer::Mla).collect();
    assert_eq!(mla.len(), 24);
    assert_eq!((mla[0], mla[1], mla[22], mla[23]), (3, 7, 91, 92));
    assert_eq!(config.mla.latent_width(), 576);
    assert_eq!(config.kda.width(), 12_288);
    assert_eq!((config.moe.experts, config.moe.top_k, config.moe.shared), (896, 16, 2));
    assert_eq!(config.rms_eps.to_bits(), 1e-5_f32.to_bits());
    assert_eq!(
        (config.situ.beta.to_bits(), config.situ.linear_beta.to_bits()),
        (4_f32.to_bits(), 25_f32.to_bits())
    );
    assert_eq!(config.kda.gate_lower_bound.to_bits(), (-5_f32).to_bits());
    assert_eq!((config.context_limit, config.eos_id), (1_048_576, 163_586));
}

#[test]
fn generation_fields_are_optional_and_checked() {
    let parse = |text: &str| {
        GenerationConfig::parse(Path::new("generation_config.json"), text.as_bytes())
            .map_err(|error| error.to_string())
    };
    assert_eq!(parse("{}").unwrap(), GenerationConfig::default());
    assert_eq!(parse(r#"{"temperature": null, "eos_token_id": null}"#).unwrap(), GenerationConfig::default());
    let all = parse(
        r#"{"temperature": 0.4, "top_p": 1, "do_sample": true, "eos_token_id": [3, 5], "max_length": 9}"#,
    );
    let expected = GenerationConfig {
        temperature: Some(0.4),
        top_p: Some(1.0),
        do_sample: Some(true),
        eos_ids: vec![3, 5],
        max_length: Some(9),
    };
    assert_eq!(all.unwrap(), expected);
    assert_eq!(parse(r#"{"eos_token_id": 163586}"#).unwrap().eos_ids, [163_586]);
    for (text, expected) in [
        (r#"{"temperature": -0.1}"#, "temperature: expected a number from 0 to 100, found -0.1"),
        (r#"{"temperature": "hot"}"#, "temperature: expected a number from 0 to 100, found \"hot\""),
        (r#"{"top_p": 0}"#, "top_p: expected a number above 0 and at most 1, found 0"),
        (r#"{"top_p": 1.01}"#, "top_p: expected a number above 0 and at most 1, found 1.01"),
        (r#"{"do_sample": 1}"#, "do_sample: expected true or false, found 1"),
        (r#"{"eos_token_id": -1}"#, "eos_token_id: expected a token id or a list of them, found -1"),
        (r#"{"eos_token_id": [1, "2"]}"#, "eos_token_id: expected a token id or a list of them, found \"2\""),
        (
            r#"{"eos_token_id": 4294967296}"#,
            "eos_token_id: expected a token id or a list of them, found 4294967296",
        ),
        (r#"{"max_length": 0}"#, "max_length: expected an integer from 1 to 2147483648, found 0"),
    ] {
        assert_eq!(parse(text).unwrap_err(), format!("generation_config.json: {expected}"));
    }
}
