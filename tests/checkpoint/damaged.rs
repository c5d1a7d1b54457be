//! Damaged copies of the tiny checkpoint: each is refused with the place, what was expected and what was found.

use serde_json::{Map, Value, json};

use crate::support::{Copy, shard};

/// A damage and what opening says of it. `…` in the message stands for anything.
type Case = (&'static str, fn(&Copy), &'static str);

/// Entry of a tensor in a header.
fn entry<'a>(header: &'a mut Map<String, Value>, name: &str) -> &'a mut Value {
    header.get_mut(name).unwrap_or_else(|| panic!("no {name}"))
}

/// The data offsets of a tensor.
fn offsets<'a>(header: &'a mut Map<String, Value>, name: &str) -> &'a mut Value {
    &mut entry(header, name)["data_offsets"]
}

const NORM_1: &str = "language_model.model.layers.1.input_layernorm.weight";
const POST_NORM_1: &str = "language_model.model.layers.1.post_attention_layernorm.weight";
const Q_1: &str = "language_model.model.layers.1.self_attn.q_proj.weight";
const GATE_1: &str = "language_model.model.layers.1.block_sparse_moe.experts.3.w1.weight_packed";

const FILES: &[Case] = &[
    (
        "shard missing",
        |copy| copy.remove(&shard(7)),
        "DIR: expected 1492 tensors of the language model, found 1368: \
         language_model.model.layers.6.input_layernorm.weight, \
         language_model.model.layers.6.post_attention_layernorm.weight, \
         language_model.model.layers.6.self_attention_res_norm.weight and 121 more missing; \
         there is no model-00007-of-000016.safetensors",
    ),
    (
        "all shards missing",
        |copy| (1..=16).for_each(|n| copy.remove(&shard(n))),
        "DIR: expected shards named *.safetensors, found none",
    ),
    (
        "shard short",
        |copy| copy.bytes(&shard(2), |file| file.truncate(400_000)),
        "model-00002-of-000016.safetensors: language_model.model.layers.1.…: \
         expected data_offsets within the 383280 bytes after the header, found […]",
    ),
    (
        "shard cut within its header",
        |copy| copy.bytes(&shard(2), |file| file.truncate(9_000)),
        "model-00002-of-000016.safetensors: length of the header: expected from 2 to 8992 bytes, found 16712",
    ),
    (
        "shard empty",
        |copy| copy.replace(&shard(2), ""),
        "model-00002-of-000016.safetensors: length of the file: expected at least 8 bytes, found 0",
    ),
    (
        "shard longer than its header says",
        |copy| copy.bytes(&shard(2), |file| file.push(0)),
        "model-00002-of-000016.safetensors: bytes after the header: \
         expected 530880, where the last tensor ends, found 530881",
    ),
    (
        "shard is a folder",
        |copy| {
            copy.remove(&shard(2));
            std::fs::create_dir(copy.path(&shard(2))).unwrap();
        },
        "cannot read DIR/model-00002-of-000016.safetensors: it is not a file",
    ),
    (
        "header length 2^60",
        |copy| copy.bytes(&shard(2), |file| file[..8].copy_from_slice(&(1_u64 << 60).to_le_bytes())),
        "model-00002-of-000016.safetensors: length of the header: \
         expected from 2 to 547592 bytes, found 1152921504606846976",
    ),
    (
        "header length 0",
        |copy| copy.bytes(&shard(2), |file| file[..8].fill(0)),
        "model-00002-of-000016.safetensors: length of the header: expected from 2 to 547592 bytes, found 0",
    ),
    (
        "header length one byte less",
        |copy| copy.bytes(&shard(1), |file| file[..8].copy_from_slice(&2000_u64.to_le_bytes())),
        "model-00001-of-000016.safetensors: language_model.…: EOF while parsing … at line 1 column …",
    ),
    (
        "broken JSON",
        |copy| {
            copy.bytes(&shard(2), |file| {
                let colon = file.windows(8).position(|window| window == b"\"shape\":").unwrap() + 7;
                file[colon] = b'}';
            });
        },
        "model-00002-of-000016.safetensors: language_model.model.layers.1.input_layernorm.weight: \
         expected `:` at line 1 column …",
    ),
    (
        "header is a list",
        |copy| copy.replace(&shard(2), [&2_u64.to_le_bytes(), b"[]".as_slice()].concat()),
        "model-00002-of-000016.safetensors: the header: invalid type: sequence, \
         expected an object with an entry for each tensor at line 1 column …",
    ),
    ("no config", |copy| copy.remove("config.json"), "cannot open DIR/config.json: …"),
    (
        "no generation config",
        |copy| copy.remove("generation_config.json"),
        "cannot open DIR/generation_config.json: …",
    ),
    (
        "config is no JSON",
        |copy| copy.replace("config.json", "{\"model_type\": \"kimi_k3\","),
        "config.json: EOF while parsing … at line 1 column 25",
    ),
    (
        "config is a list",
        |copy| copy.replace("config.json", "[]"),
        "config.json: the top level: expected an object, found []",
    ),
    (
        "config is huge",
        |copy| copy.replace("config.json", vec![b' '; (4 << 20) + 1]),
        "DIR/config.json is 4194305 bytes long, more than the 4194304 that such a file may have",
    ),
];

const TENSORS: &[Case] = &[
    (
        "offsets out of range",
        |copy| copy.header(&shard(2), |header| *offsets(header, NORM_1) = json!([0, 600_000])),
        "model-00002-of-000016.safetensors: language_model.model.layers.1.input_layernorm.weight: \
         expected data_offsets within the 530880 bytes after the header, found [0, 600000]",
    ),
    (
        "offsets of 2^64 - 1",
        |copy| copy.header(&shard(2), |header| *offsets(header, NORM_1) = json!([u64::MAX - 256, u64::MAX])),
        "…input_layernorm.weight: expected data_offsets within the 530880 bytes after the header, \
         found [18446744073709551359, 18446744073709551615]",
    ),
    (
        "offsets backwards",
        |copy| copy.header(&shard(2), |header| *offsets(header, NORM_1) = json!([256, 0])),
        "…input_layernorm.weight: expected data_offsets within the 530880 bytes after the header, found [256, 0]",
    ),
    (
        "offsets negative",
        |copy| copy.header(&shard(2), |header| *offsets(header, NORM_1) = json!([-256, 0])),
        "…input_layernorm.weight: invalid value: integer `-256`, expected u64 at line 1 column …",
    ),
    (
        "overlapping",
        |copy| copy.header(&shard(2), |header| *offsets(header, POST_NORM_1) = json!([128, 384])),
        "model-00002-of-000016.safetensors: language_model.model.layers.1.post_attention_layernorm.weight: \
         expected data_offsets that begin at 256, where language_model.model.layers.1.input_layernorm.weight ends, \
         found an overlap at 128",
    ),
    (
        "the same bytes twice",
        |copy| copy.header(&shard(2), |header| *offsets(header, POST_NORM_1) = json!([0, 256])),
        "…post_attention_layernorm.weight: expected data_offsets that begin at 256, where …, found an overlap at 0",
    ),
    (
        "swapped between tensors of different shape",
        |copy| {
            copy.header(&shard(2), |header| {
                let norm = offsets(header, NORM_1).take();
                let q = std::mem::replace(offsets(header, Q_1), norm);
                *offsets(header, NORM_1) = q;
            });
        },
        "…input_layernorm.weight: expected 256 bytes for BF16 [128], found 32768 bytes at [1536, 34304]",
    ),
    (
        "shapes swapped with the offsets",
        |copy| {
            copy.header(&shard(2), |header| {
                let norm = entry(header, NORM_1).take();
                let q = std::mem::replace(entry(header, Q_1), norm);
                *entry(header, NORM_1) = q;
            });
        },
        "…input_layernorm.weight: expected BF16 [128], found BF16 [128, 128]",
    ),
    (
        "transposed",
        |copy| {
            copy.header(&shard(2), |header| {
                entry(header, GATE_1)["shape"] = json!([32, 96]);
            });
        },
        "model-00002-of-000016.safetensors: language_model.model.layers.1.block_sparse_moe.experts.3.w1.weight_packed: \
         expected U8 [96, 32], found U8 [32, 96]",
    ),
    (
        "wrong dtype of the same size",
        |copy| copy.header(&shard(2), |header| entry(header, Q_1)["dtype"] = json!("F16")),
        "model-00002-of-000016.safetensors: language_model.model.layers.1.self_attn.q_proj.weight: \
         expected BF16 [128, 128], found F16 [128, 128]",
    ),
    (
        "wrong dtype of an expert",
        |copy| copy.header(&shard(2), |header| entry(header, GATE_1)["dtype"] = json!("I8")),
        "…experts.3.w1.weight_packed: expected U8 [96, 32], found I8 [96, 32]",
    ),
    (
        "wrong dtype of another size",
        |copy| copy.header(&shard(2), |header| entry(header, Q_1)["dtype"] = json!("F32")),
        "…q_proj.weight: expected 65536 bytes for F32 [128, 128], found 32768 bytes at [1536, 34304]",
    ),
    (
        "unknown dtype",
        |copy| copy.header(&shard(2), |header| entry(header, Q_1)["dtype"] = json!("Q4_K")),
        "…q_proj.weight: expected a known dtype, found Q4_K",
    ),
    (
        "no dtype",
        |copy| {
            copy.header(&shard(2), |header| {
                entry(header, Q_1).as_object_mut().unwrap().remove("dtype");
            });
        },
        "…q_proj.weight: missing field `dtype` at line 1 column …",
    ),
    (
        "A_log shorter than the heads",
        |copy| {
            copy.header(&shard(2), |header| {
                entry(header, "language_model.model.layers.1.self_attn.A_log")["shape"] = json!([16, 2]);
            });
        },
        "…A_log: expected F32 [4 or more], found F32 [16, 2]",
    ),
    (
        "vision tensors are checked too",
        |copy| {
            copy.header(&shard(15), |header| {
                *offsets(header, "mm_projector.post_norm.weight") = json!([0, 255]);
            });
        },
        "model-00015-of-000016.safetensors: mm_projector.post_norm.weight: \
         expected 256 bytes for BF16 [128], found 255 bytes at [0, 255]",
    ),
    (
        "duplicate names in two shards",
        |copy| {
            let bytes = std::fs::read(copy.path(&shard(2))).unwrap();
            copy.replace("model-00017-of-000016.safetensors", bytes);
        },
        "language_model.model.layers.1.input_layernorm.weight: expected once, \
         found in model-00002-of-000016.safetensors and again in model-00017-of-000016.safetensors",
    ),
    (
        "duplicate expert in two shards",
        |copy| {
            let entry =
                format!("{{\"{GATE_1}\":{{\"dtype\":\"U8\",\"shape\":[96,32],\"data_offsets\":[0,3072]}}}}");
            let length = (entry.len() as u64).to_le_bytes();
            copy.replace("extra.safetensors", [&length, entry.as_bytes(), &[0; 3072]].concat());
        },
        "language_model.model.layers.1.block_sparse_moe.experts.3.w1.weight_packed: expected once, \
         found in extra.safetensors and again in model-00002-of-000016.safetensors",
    ),
    (
        "duplicate names in one shard",
        |copy| {
            copy.bytes(&shard(2), |file| {
                // Two names of one length: the second becomes the first.
                let text = file.clone();
                let find = |name: &str| {
                    text.windows(name.len()).position(|window| window == name.as_bytes()).unwrap()
                };
                let at = find("layers.1.self_attn.k_proj.weight");
                file[at..at + 20].copy_from_slice(b"layers.1.self_attn.q");
            });
        },
        "language_model.model.layers.1.self_attn.q_proj.weight: expected once, \
         found in model-00002-of-000016.safetensors and again in model-00002-of-000016.safetensors",
    ),
    (
        "unknown tensor",
        |copy| {
            copy.header(&shard(2), |header| {
                let value = entry(header, NORM_1).take();
                header.remove(NORM_1);
                header.insert("language_model.model.layers.1.\u{1b}]0;owned\u{7}.weight".to_owned(), value);
            });
        },
        "model-00002-of-000016.safetensors: language_model.model.layers.1.\\u{1b}]0;owned\\u{7}.weight: \
         expected a tensor of Kimi K3, found an unknown name",
    ),
    (
        "one tensor missing",
        |copy| {
            copy.header(&shard(2), |header| {
                let value = entry(header, NORM_1).take();
                header.remove(NORM_1);
                header.insert("vision_tower.instead.weight".to_owned(), value);
            });
        },
        "DIR: expected 1492 tensors of the language model, found 1491: \
         language_model.model.layers.1.input_layernorm.weight missing",
    ),
    (
        "half an expert missing",
        |copy| {
            copy.header(&shard(2), |header| {
                let value = entry(header, GATE_1).take();
                header.remove(GATE_1);
                header.insert("vision_tower.instead.weight".to_owned(), value);
            });
        },
        "DIR: expected 1492 tensors of the language model, found 1491: \
         language_model.model.layers.1.block_sparse_moe.experts.3.w1.weight_packed missing",
    ),
];

/// Configs that are fine in themselves and do not fit the tensors.
const DISAGREEMENTS: &[Case] = &[
    (
        "fewer layers than tensors",
        |copy| {
            let mut config = crate::support::config();
            config["text_config"]["num_hidden_layers"] = json!(12);
            config["text_config"]["linear_attn_config"]["full_attn_layers"] = json!([4, 8, 12]);
            copy.replace("config.json", config.to_string());
        },
        "model-00013-of-000016.safetensors: language_model.model.layers.12.input_layernorm.weight: \
         expected a layer below 12 (config.json: text_config.num_hidden_layers), found 12",
    ),
    (
        "more layers than tensors",
        |copy| {
            let mut config = crate::support::config();
            config["text_config"]["num_hidden_layers"] = json!(14);
            config["text_config"]["linear_attn_config"]["full_attn_layers"] = json!([4, 8, 12, 13, 14]);
            copy.replace("config.json", config.to_string());
        },
        "DIR: expected 1610 tensors of the language model, found 1492: \
         language_model.model.layers.13.input_layernorm.weight, … and 115 more missing",
    ),
    (
        "fewer experts than tensors",
        |copy| copy.config("/text_config/num_experts", 15),
        "model-00002-of-000016.safetensors: language_model.model.layers.1.block_sparse_moe.gate.weight: \
         expected BF16 [15, 128], found BF16 [16, 128]",
    ),
    (
        "more experts than tensors",
        |copy| copy.config("/text_config/num_experts", 17),
        "…gate.weight: expected BF16 [17, 128], found BF16 [16, 128]",
    ),
    (
        "an expert too many, and a router to match",
        |copy| {
            copy.header(&shard(2), |header| {
                let value = entry(header, GATE_1).take();
                header.remove(GATE_1);
                header.insert(GATE_1.replace("experts.3.", "experts.16."), value);
            });
        },
        "…experts.16.w1.weight_packed: expected an expert below 16 (config.json: text_config.num_experts), found 16",
    ),
    (
        "another layer map",
        |copy| {
            let mut config = crate::support::config();
            config["text_config"]["linear_attn_config"]["full_attn_layers"] = json!([3, 8, 12, 13]);
            config["text_config"]["linear_attn_config"]["kda_layers"] = json!([1, 2, 4, 5, 6, 7, 9, 10, 11]);
            copy.replace("config.json", config.to_string());
        },
        "model-00003-of-000016.safetensors: language_model.model.layers.2.self_attn.q_proj.weight: \
         expected no such tensor in layer 2, which config.json makes one of MLA and experts, found BF16 [128, 128]",
    ),
    (
        "more dense layers",
        |copy| copy.config("/text_config/first_k_dense_replace", 2),
        "model-00002-of-000016.safetensors: language_model.model.layers.1.block_sparse_moe.gate.weight: \
         expected no such tensor in layer 1, which config.json makes one of KDA and dense, found BF16 [16, 128]",
    ),
    (
        "other heads",
        |copy| copy.config("/text_config/linear_attn_config/num_heads", 8),
        "…self_attn.q_proj.weight: expected BF16 [256, 128], found BF16 [128, 128]",
    ),
    (
        "other convolution",
        |copy| copy.config("/text_config/linear_attn_config/short_conv_kernel_size", 3),
        "…self_attn.q_conv1d.weight: expected F32 [128, 1, 3], found F32 [128, 1, 4]",
    ),
    (
        "other width of the experts",
        |copy| copy.config("/text_config/moe_intermediate_size", 64),
        "…: expected … [… 128…], found …",
    ),
    (
        "other vocabulary",
        |copy| copy.config("/text_config/vocab_size", 1024),
        "model-00014-of-000016.safetensors: language_model.model.embed_tokens.weight: \
         expected BF16 [1024, 128], found BF16 [768, 128]",
    ),
    (
        "other group size",
        |copy| {
            copy.config("/text_config/quantization_config/config_groups/group_0/weights/group_size", 16);
        },
        "config.json: text_config.quantization_config.config_groups.group_0.weights.group_size: expected 32, found 16",
    ),
    (
        "stop ids outside the vocabulary",
        |copy| copy.replace("generation_config.json", r#"{"eos_token_id": [514, 768]}"#),
        "generation_config.json: eos_token_id: expected ids below 768 (config.json: text_config.vocab_size), found 768",
    ),
];

/// Whether `text` is `pattern`, in which `…` stands for anything.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut last = "";
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        last = part;
    }
    rest.is_empty() || (pattern.ends_with('…')) || (!last.is_empty() && rest.ends_with(last))
}

fn check(cases: &[Case]) {
    for (what, damage, message) in cases {
        let copy = Copy::new();
        copy.open().unwrap_or_else(|error| panic!("{what}: the copy was damaged before: {error}"));
        damage(&copy);
        let found = copy.refusal();
        assert!(matches(message, &found), "{what}\n expected {message}\n found    {found}");
        assert!(!found.contains(char::is_control), "{what}: {found:?}");
        assert!(!copy.open().unwrap_err().hint().is_empty(), "{what}: no way out");
    }
}

#[test]
fn damaged_files_are_refused() {
    check(FILES);
}

#[test]
fn damaged_headers_are_refused() {
    check(TENSORS);
}

#[test]
fn configs_that_do_not_fit_the_tensors_are_refused() {
    check(DISAGREEMENTS);
}

#[test]
fn the_output_norm_of_kda_may_be_stored_like_the_other_norms() {
    use dormouse::checkpoint::{Dtype, LayerTensor, Tensor};

    const NORM: &str = "language_model.model.layers.1.self_attn.o_norm.weight";
    let copy = Copy::new();
    copy.header(&shard(2), |header| {
        // The bytes that are left over go to a tensor that nothing reads.
        let [begin, end] = serde_json::from_value(offsets(header, NORM).clone()).unwrap();
        let middle: u64 = u64::midpoint(begin, end);
        *entry(header, NORM) = json!({"dtype": "BF16", "shape": [32], "data_offsets": [begin, middle]});
        let rest = json!({"dtype": "U8", "shape": [64], "data_offsets": [middle, end]});
        header.insert("vision_tower.rest".to_owned(), rest);
    });
    let checkpoint = copy.open().unwrap();
    let of_layer = |layer| {
        let wanted = Tensor::Layer(layer, LayerTensor::KdaONorm);
        let found = checkpoint.trunk().find(|(tensor, ..)| *tensor == wanted);
        found.map(|(_, dtype, _, extent)| (dtype, extent.len))
    };
    assert_eq!(of_layer(0), Some((Dtype::F32, 128)));
    assert_eq!(of_layer(1), Some((Dtype::Bf16, 64)));
}

#[test]
fn a_shard_cut_while_open_is_an_error_that_names_it() {
    use dormouse::checkpoint::{ExpertPart, Tensor};

    let copy = Copy::new();
    copy.bytes(&shard(14), |_| {});
    let checkpoint = copy.open().unwrap();
    let extent = checkpoint.locate(Tensor::LmHead).unwrap();
    let mut buffer = vec![0; usize::try_from(extent.len).unwrap()];
    checkpoint.read(extent, &mut buffer).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(copy.path(&shard(14))).unwrap();
    file.set_len(extent.offset + 100).unwrap();
    let message = checkpoint.read(extent, &mut buffer).unwrap_err().to_string();
    let wanted = format!("ends early: wanted 196608 bytes at offset {}, got 100", extent.offset);
    assert!(message.contains("model-00014-of-000016.safetensors") && message.contains(&wanted), "{message}");

    // Not the caller's buffer, not a shard of this checkpoint: refused, not panicked over.
    let [gate, ..] = checkpoint.expert(1, 0).unwrap();
    assert_eq!(gate.len, 3072, "{:?}", ExpertPart::ALL);
    let message = checkpoint.read(gate, &mut buffer).unwrap_err().to_string();
    assert!(message.contains("3072 bytes") && message.contains("a buffer of 196608 bytes"), "{message}");
    let nowhere = dormouse::checkpoint::Extent { shard: 16, ..extent };
    let message = checkpoint.read(nowhere, &mut buffer).unwrap_err().to_string();
    assert!(message.contains("shard 16 does not fit 16 shards"), "{message}");
}
