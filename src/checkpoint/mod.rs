//! A checkpoint in the released layout: safetensors shards, their index, and the model's config.
//!
//! [`Checkpoint::open`] reads `config.json` and the header of every shard once, and refuses whatever it does not
//! understand or does not find. From then on a tensor is a place ([`Extent`]), found by what it is ([`Tensor`],
//! [`ExpertPart`]) and never by its name.

mod config;
mod error;
mod header;
mod index;
mod manifest;
mod name;
mod open;
mod series;
mod tensor;

pub use config::{GenerationConfig, Kda, Mixer, Mla, ModelConfig, Moe, Situ};
pub use error::Error;
pub use index::Extent;
pub use manifest::{Manifest, grain_rows, identity, rows_of, rows_together};
pub use open::Checkpoint;
pub use tensor::{Dtype, ExpertPart, LayerTensor, Shape, Tensor};
