//! The tiny checkpoint in the released layout, opened.

use std::path::Path;

use dormouse::checkpoint::{Checkpoint, LayerTensor, Mixer, Tensor};

/// The tiny checkpoint.
pub(crate) fn tiny() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tiny"))
}

#[test]
fn every_tensor_of_the_tiny_checkpoint_is_found() {
    let checkpoint = Checkpoint::open(tiny()).unwrap();
    let config = checkpoint.config();
    assert_eq!(config.layers(), 13);
    assert_eq!(config.mixers[3], Mixer::Mla);
    assert_eq!(config.mixers[12], Mixer::Mla);
    assert_eq!(config.mixers.iter().filter(|&&mixer| mixer == Mixer::Kda).count(), 9);
    assert_eq!(checkpoint.shards().len(), 16);
    assert_eq!(checkpoint.generation().eos_ids, [514]);
    assert_eq!(checkpoint.generation().max_length, Some(4096));
    assert_eq!(checkpoint.generation().temperature, None);
    // 1510 tensors, of which 18 belong to the vision part.
    assert_eq!(checkpoint.tensors(), 1492);
    assert_eq!(checkpoint.trunk().count() as u64 + config.routed_experts() * 6, 1492);
    assert_eq!(checkpoint.expert_bytes(), 9792);
    assert!(checkpoint.expert(0, 0).is_none(), "layer 0 is dense");
    assert!(checkpoint.expert(13, 0).is_none());
    assert!(checkpoint.expert(12, 16).is_none());
    assert!(checkpoint.locate(Tensor::Layer(0, LayerTensor::MlaQA)).is_none(), "layer 0 is KDA");
    assert!(checkpoint.locate(Tensor::Layer(13, LayerTensor::InputNorm)).is_none());
}
