//! The tiny checkpoint in the released layout, opened, and held against another reader of its shards.

use std::collections::BTreeMap;
use std::fs;

use dormouse::checkpoint::{Checkpoint, ExpertPart, Extent, LayerTensor, Mixer, Shape, Tensor};
use safetensors::SafeTensors;

use crate::support::tiny;

#[test]
fn the_tiny_checkpoint_opens() {
    let checkpoint = Checkpoint::open(tiny()).unwrap();
    let config = checkpoint.config();
    assert_eq!(checkpoint.dir(), tiny());
    assert_eq!(config.layers(), 13);
    let mla: Vec<usize> = (0..13).filter(|&layer| config.mixers[layer] == Mixer::Mla).collect();
    assert_eq!(mla, [3, 7, 11, 12]);
    assert_eq!(checkpoint.shards().len(), 16);
    assert_eq!(checkpoint.generation().eos_ids, [514]);
    assert_eq!(checkpoint.generation().max_length, Some(4096));
    assert_eq!(checkpoint.generation().temperature, None);
    // Six tensors: two of 96 x 32 bytes, one of 64 x 48, and a scale for each 32 weights.
    assert_eq!(checkpoint.expert_bytes(), 3 * (3072 + 192));
    assert!(checkpoint.expert(0, 0).is_none(), "layer 0 is dense");
    assert!(checkpoint.expert(13, 0).is_none());
    assert!(checkpoint.expert(12, 16).is_none());
    assert!(checkpoint.locate(Tensor::Layer(0, LayerTensor::MlaQA)).is_none(), "layer 0 is KDA");
    assert!(checkpoint.locate(Tensor::Layer(13, LayerTensor::InputNorm)).is_none());
}

/// Every tensor of the language model by its released name, as the index places it.
fn places(checkpoint: &Checkpoint) -> BTreeMap<String, Extent> {
    let trunk = checkpoint.trunk().map(|(tensor, _, _, extent)| (checkpoint.describe(tensor), extent));
    let mut places: BTreeMap<String, Extent> = trunk.collect();
    for layer in 0..checkpoint.config().layers() {
        for expert in 0..checkpoint.config().moe.experts {
            let Some(parts) = checkpoint.expert(layer, expert) else { continue };
            for (part, extent) in ExpertPart::ALL.into_iter().zip(parts) {
                let part = part.suffix();
                let name =
                    format!("language_model.model.layers.{layer}.block_sparse_moe.experts.{expert}.{part}");
                places.insert(name, extent);
            }
        }
    }
    places
}

#[test]
fn every_tensor_is_where_the_safetensors_crate_finds_it() {
    let checkpoint = Checkpoint::open(tiny()).unwrap();
    let mut places = places(&checkpoint);
    assert_eq!(places.len() as u64, checkpoint.tensors());
    let (mut bytes, mut parameters) = (0, 0);
    for source in checkpoint.shards() {
        let file = fs::read(source.path()).unwrap();
        let shard = SafeTensors::deserialize(&file).unwrap();
        for (name, view) in shard.iter().filter(|(name, _)| name.starts_with("language_model.")) {
            let extent = places.remove(name).unwrap_or_else(|| panic!("{name} is bound twice or not at all"));
            let mut buffer = vec![0; usize::try_from(extent.len).unwrap()];
            checkpoint.read(extent, &mut buffer).unwrap();
            assert!(buffer == view.data(), "{name}: other bytes");
            bytes += extent.len;
            let elements = view.shape().iter().product::<usize>();
            parameters += match name {
                _ if name.ends_with("_packed") => 2 * elements,
                _ if name.ends_with("_scale") => 0,
                _ => elements,
            };
        }
    }
    assert!(places.is_empty(), "in no shard: {places:?}");
    assert_eq!(checkpoint.tensor_bytes(), bytes);
    assert_eq!(checkpoint.parameters(), parameters as u64);
}

#[test]
fn the_trunk_comes_with_types_and_shapes_of_its_bytes() {
    let checkpoint = Checkpoint::open(tiny()).unwrap();
    for (tensor, dtype, shape, extent) in checkpoint.trunk() {
        assert_eq!(checkpoint.locate(tensor), Some(extent));
        let bytes = (shape.elements() * dtype.size()) as u64;
        match shape {
            // Padded to the width of a head.
            Shape::AtLeast(4) => assert_eq!((bytes, extent.len), (16, 128)),
            _ => assert_eq!(extent.len, bytes, "{tensor}"),
        }
    }
}
