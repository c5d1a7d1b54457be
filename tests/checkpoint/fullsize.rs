//! The release at its full size: 96 shards whose headers are real and whose weights are holes.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use dormouse::checkpoint::{Checkpoint, Dtype, ExpertPart, ModelConfig, Shape, Tensor};
use dormouse::store::Sizes;
use serde_json::{Value, json};

use crate::support::{config, tiny};

/// Bytes of all tensors in the release, and of the two shards that text does not need (spec, section 1.1).
const TOTAL_BYTES: u64 = 1_560_860_324_864;
const PROJECTOR_BYTES: u64 = 92_289_024;
const VISION_BYTES: u64 = 802_428_928;

/// Parameters of the release; those of the last two shards have two bytes each.
const TOTAL_PARAMETERS: u64 = 2_779_931_837_184;

/// The config of the release: the tiny one with the sizes of the spec, section 1.2.
pub(crate) fn released() -> Value {
    let mut config = config();
    config["eos_token_id"] = json!(163_586);
    let text = config["text_config"].as_object_mut().unwrap();
    for (key, value) in [
        ("eos_token_id", 163_586),
        ("hidden_size", 7168),
        ("num_hidden_layers", 93),
        ("vocab_size", 163_840),
        ("intermediate_size", 33_792),
        ("attn_res_block_size", 12),
        ("num_attention_heads", 96),
        ("num_key_value_heads", 96),
        ("q_lora_rank", 1536),
        ("kv_lora_rank", 512),
        ("qk_nope_head_dim", 128),
        ("qk_rope_head_dim", 64),
        ("v_head_dim", 128),
        ("num_experts", 896),
        ("num_experts_per_token", 16),
        ("moe_intermediate_size", 3072),
        ("routed_expert_hidden_size", 3584),
        ("max_position_embeddings", 1_048_576),
    ] {
        *text.get_mut(key).unwrap() = json!(value);
    }
    let linear = text.get_mut("linear_attn_config").unwrap();
    linear["num_heads"] = json!(96);
    linear["head_dim"] = json!(128);
    let mla = |layer: &u32| layer.is_multiple_of(4) || *layer == 93;
    linear["full_attn_layers"] = (1..=93).filter(mla).collect();
    linear["kda_layers"] = (1..=93).filter(|layer| !mla(layer)).collect();
    config
}

/// The header of a shard, as it grows.
#[derive(Default)]
struct Header {
    json: String,
    end: u64,
}

impl Header {
    fn push(&mut self, name: &str, dtype: Dtype, dims: &[usize]) {
        let begin = self.end;
        self.end += (dims.iter().product::<usize>() * dtype.size()) as u64;
        let first = if self.json.is_empty() { "{" } else { "," };
        let (dtype, end) = (dtype.as_str(), self.end);
        let entry = format!(r#"{{"dtype":"{dtype}","shape":{dims:?},"data_offsets":[{begin},{end}]}}"#);
        self.json.extend([first, "\"", name, "\":", &entry]);
    }

    fn trunk(&mut self, config: &ModelConfig, tensor: Tensor) {
        let Some((dtype, shape)) = tensor.expected(config) else { return };
        let dims = match shape {
            Shape::Vector(n) => vec![n],
            // The release pads 96 heads to 128.
            Shape::AtLeast(n) => vec![n.next_power_of_two()],
            Shape::Matrix(rows, columns) => vec![rows, columns],
            Shape::Conv(channels, taps) => vec![channels, 1, taps],
        };
        self.push(&tensor.to_string(), dtype, &dims);
    }

    /// Writes the shard and gives its tensors' bytes.
    fn write(mut self, path: &Path) -> u64 {
        self.json.push('}');
        let mut file = File::create(path).unwrap();
        file.write_all(&(self.json.len() as u64).to_le_bytes()).unwrap();
        file.write_all(self.json.as_bytes()).unwrap();
        file.set_len(8 + self.json.len() as u64 + self.end).unwrap();
        self.end
    }
}

/// Writes the release into `dir` and gives the bytes of each shard's tensors.
fn write(config: &ModelConfig, dir: &Path) -> Vec<u64> {
    let path = |number: usize| dir.join(format!("model-{number:05}-of-000096.safetensors"));
    let mut bytes = Vec::new();
    for layer in 0..config.layers() {
        let mut header = Header::default();
        let here = |tensor: &Tensor| matches!(tensor, Tensor::Layer(l, _) if usize::from(*l) == layer);
        Tensor::all(config).filter(here).for_each(|tensor| header.trunk(config, tensor));
        if layer >= config.dense_layers {
            for expert in 0..config.moe.experts {
                for part in ExpertPart::ALL {
                    let (rows, columns) = part.shape(config);
                    let (prefix, part) = ("block_sparse_moe.experts", part.suffix());
                    let name = format!("language_model.model.layers.{layer}.{prefix}.{expert}.{part}");
                    header.push(&name, Dtype::U8, &[rows, columns]);
                }
            }
        }
        bytes.push(header.write(&path(layer + 1)));
    }
    let mut header = Header::default();
    let global = |tensor: &Tensor| !matches!(tensor, Tensor::Layer(..));
    Tensor::all(config).filter(global).for_each(|tensor| header.trunk(config, tensor));
    bytes.push(header.write(&path(94)));
    for (number, name, len) in
        [(95, "mm_projector.proj.0.weight", PROJECTOR_BYTES), (96, "vision_tower.wqkv.weight", VISION_BYTES)]
    {
        let mut header = Header::default();
        header.push(name, Dtype::Bf16, &[usize::try_from(len / 2).unwrap()]);
        bytes.push(header.write(&path(number)));
    }
    bytes
}

#[cfg(unix)] // Elsewhere 1.56 TB of holes may take 1.56 TB.
#[test]
fn the_release_opens_into_a_small_index_with_the_totals_of_the_spec() {
    let dir = tempfile::tempdir().unwrap();
    let text = released().to_string();
    fs::write(dir.path().join("config.json"), &text).unwrap();
    fs::copy(tiny().join("generation_config.json"), dir.path().join("generation_config.json")).unwrap();
    let config = ModelConfig::parse(Path::new("config.json"), text.as_bytes()).unwrap();
    let bytes = write(&config, dir.path());

    // Spec, section 1.1.
    assert_eq!(bytes[0], 2_341_213_184);
    assert_eq!(bytes.iter().filter(|&&bytes| bytes == 16_990_092_800).count(), 68);
    assert_eq!(bytes.iter().filter(|&&bytes| bytes == 16_566_684_160).count(), 24);
    assert_eq!(bytes[93], 4_697_663_488);
    assert_eq!(bytes.iter().sum::<u64>(), TOTAL_BYTES);

    let checkpoint = Checkpoint::open(dir.path()).unwrap();
    let text_bytes = TOTAL_BYTES - PROJECTOR_BYTES - VISION_BYTES;
    assert_eq!(checkpoint.tensor_bytes(), text_bytes);
    assert_eq!(checkpoint.parameters(), TOTAL_PARAMETERS - u64::midpoint(PROJECTOR_BYTES, VISION_BYTES));
    assert_eq!(checkpoint.expert_bytes(), 17_547_264);
    // 497,220 in the release, of which 3 in the projector and 165 in the vision tower.
    assert_eq!(checkpoint.tensors(), 497_220 - 168);
    assert_eq!(config.routed_experts() * 6, 494_592);
    let count = |dtype| checkpoint.trunk().filter(|(_, found, ..)| *found == dtype).count();
    assert_eq!((count(Dtype::Bf16), count(Dtype::F32)), (2122 - 168, 506));

    // At most 60 bytes a tensor are asked for. This index has about 8; twice that would be a mistake.
    let each = checkpoint.index_bytes() as u64 / checkpoint.tensors();
    assert!(each <= 16, "{each} bytes a tensor");

    // What the program knows of the release before it has it.
    assert_eq!(config, ModelConfig::released());
    let (known, found) = (Sizes::released(), Sizes::of(&checkpoint));
    assert_eq!(Sizes { tiled: found.tiled, ..known }, found);
    for ((all, largest), (known_all, known_largest)) in found.tiled.into_iter().zip(known.tiled) {
        assert!(all.abs_diff(known_all) < all / 100 && largest.abs_diff(known_largest) < largest / 4);
    }

    let [gate, .., up_scale] = checkpoint.expert(92, 895).unwrap();
    assert_eq!(usize::from(gate.shard), 92);
    assert_eq!(gate.len, 3072 * 1792);
    assert_eq!(
        up_scale.offset + up_scale.len,
        checkpoint.shards()[92].len(),
        "the last expert ends its shard"
    );
}
