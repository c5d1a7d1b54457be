//! Where every tensor of the language model lies: dense tables, addressed by what a tensor is.
//!
//! A checkpoint of full size has 497,220 tensors, nearly all of them parts of routed experts. Of those a place is eight
//! bytes, shard and offset; their lengths follow from the config.

use super::config::{Mixer, ModelConfig};
use super::error::{Error, shown};
use super::header::Entry;
use super::name::{self, GLOBAL, Name};
use super::tensor::{Dtype, ExpertPart, LayerTensor, Shape, Tensor};

/// A range of bytes in a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Index of the shard.
    pub shard: u16,
    /// Where it begins in the shard's file.
    pub offset: u64,
    /// Its bytes.
    pub len: u64,
}

/// A tensor of the trunk, found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) dtype: Dtype,
    pub(super) extent: Extent,
}

/// Shard and offset in eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spot(u64);

impl Spot {
    /// Bits of the offset: files of up to 256 TiB.
    const OFFSET_BITS: u32 = 48;
    /// No place: its shard would be far above [`MAX_SHARDS`].
    const NONE: Self = Self(u64::MAX);

    /// Nothing where the offset is too large.
    fn new(shard: u16, offset: u64) -> Option<Self> {
        (offset >> Self::OFFSET_BITS == 0).then_some(Self(u64::from(shard) << Self::OFFSET_BITS | offset))
    }

    fn get(self) -> Option<(u16, u64)> {
        let shard = u16::try_from(self.0 >> Self::OFFSET_BITS).ok()?;
        (self != Self::NONE).then_some((shard, self.0 & ((1 << Self::OFFSET_BITS) - 1)))
    }
}

/// Most shards of a checkpoint.
pub(super) const MAX_SHARDS: usize = 4096;

/// The tables.
#[derive(Debug)]
pub(super) struct Index {
    trunk: Box<[Option<Placed>]>,
    experts: Box<[Spot]>,
}

const PARTS: usize = ExpertPart::ALL.len();

/// What one shard holds of the language model.
#[derive(Default)]
pub(super) struct Shard {
    trunk: Vec<(Tensor, Placed)>,
    /// Slot in the table of the experts, and place.
    experts: Vec<(u32, Spot)>,
}

impl Shard {
    /// Finds out what a tensor is, and holds its type and shape against the config. `shard` is index and name.
    pub(super) fn bind(
        &mut self,
        config: &ModelConfig,
        shard: (u16, &str),
        entry: &Entry<'_>,
    ) -> Result<(), Error> {
        let (index, file) = shard;
        let refuse = |expected: String, found: String| {
            Err(Error::Tensor { shard: file.to_owned(), tensor: shown(entry.name), expected, found })
        };
        let beyond = |what: &str, count: usize, field: &str, found: u32| {
            refuse(format!("{what} below {count} (config.json: text_config.{field})"), found.to_string())
        };
        let Some(name) = Name::parse(entry.name) else {
            return refuse("a tensor of Kimi K3".to_owned(), "an unknown name".to_owned());
        };
        let trunk = |tensor: Tensor| {
            tensor.expected(config).map(|(dtype, shape)| (Slot::Trunk(tensor), dtype, shape))
        };
        let expected = match name {
            Name::Skipped => return Ok(()),
            Name::Layer(layer, _) | Name::Expert(layer, ..) if layer as usize >= config.layers() => {
                return beyond("a layer", config.layers(), "num_hidden_layers", layer);
            }
            Name::Expert(_, expert, _) if expert as usize >= config.moe.experts => {
                return beyond("an expert", config.moe.experts, "num_experts", expert);
            }
            Name::Expert(layer, expert, part) => {
                let (rows, columns) = part.shape(config);
                let slot = expert_slot(config, layer as usize, expert as usize, part);
                slot.map(|slot| (Slot::Expert(slot), Dtype::U8, Shape::Matrix(rows, columns)))
            }
            Name::Layer(layer, tensor) => {
                u16::try_from(layer).ok().and_then(|layer| trunk(Tensor::Layer(layer, tensor)))
            }
            Name::Global(tensor) => trunk(tensor),
        };
        let found = || format!("{} {:?}", entry.dtype, entry.shape);
        let Some((slot, dtype, shape)) = expected else {
            return refuse(unlike(config, name), found());
        };
        let narrow = matches!(slot, Slot::Trunk(Tensor::Layer(_, tensor)) if tensor.may_be_bf16());
        let dtype = if narrow && entry.dtype == Dtype::Bf16.as_str() { Dtype::Bf16 } else { dtype };
        if entry.dtype != dtype.as_str() || !shape.accepts(entry.shape) {
            return refuse(format!("{} {shape}", dtype.as_str()), found());
        }
        match slot {
            Slot::Trunk(tensor) => {
                let extent = Extent { shard: index, offset: entry.offset, len: entry.len };
                self.trunk.push((tensor, Placed { dtype, extent }));
            }
            Slot::Expert(slot) => match Spot::new(index, entry.offset) {
                Some(spot) => self.experts.push((slot, spot)),
                None => return refuse("an offset below 2^48".to_owned(), entry.offset.to_string()),
            },
        }
        Ok(())
    }
}

/// What a shard's tensor is bound to.
enum Slot {
    Trunk(Tensor),
    Expert(u32),
}

/// What a layer is like, where a tensor is not like it.
fn unlike(config: &ModelConfig, name: Name) -> String {
    let (Name::Layer(layer, _) | Name::Expert(layer, ..)) = name else { return "no such tensor".to_owned() };
    let mixer = match config.mixers.get(layer as usize) {
        Some(Mixer::Kda) => "KDA",
        Some(Mixer::Mla) => "MLA",
        None => "no",
    };
    let feed_forward = if (layer as usize) < config.dense_layers { "dense" } else { "experts" };
    format!("no such tensor in layer {layer}, which config.json makes one of {mixer} and {feed_forward}")
}

/// Slot of a trunk tensor. Every layer has a slot for every kind, used or not: they are few.
fn trunk_slot(tensor: Tensor) -> usize {
    match tensor {
        Tensor::Embedding => 0,
        Tensor::LmHead => 1,
        Tensor::FinalNorm => 2,
        Tensor::OutputResNorm => 3,
        Tensor::OutputResProj => 4,
        Tensor::Layer(layer, tensor) => {
            GLOBAL.len() + usize::from(layer) * LayerTensor::ALL.len() + tensor as usize
        }
    }
}

/// Slot of a part of an expert, or nothing where the model has no such expert.
fn expert_slot(config: &ModelConfig, layer: usize, expert: usize, part: ExpertPart) -> Option<u32> {
    let row = layer.checked_sub(config.dense_layers)?;
    if layer >= config.layers() || expert >= config.moe.experts {
        return None;
    }
    u32::try_from((row * config.moe.experts + expert) * PARTS + part as usize).ok()
}

impl Index {
    /// Joins what the shards hold. `names` are theirs, for messages.
    pub(super) fn join(config: &ModelConfig, shards: Vec<Shard>, names: &[String]) -> Result<Self, Error> {
        let layers = config.layers();
        let experts = (layers - config.dense_layers) * config.moe.experts * PARTS;
        let mut index = Self {
            trunk: vec![None; GLOBAL.len() + layers * LayerTensor::ALL.len()].into(),
            experts: vec![Spot::NONE; experts].into(),
        };
        let name = |shard: u16| names.get(usize::from(shard)).cloned().unwrap_or_default();
        for shard in shards {
            for (tensor, placed) in shard.trunk {
                let Some(slot) = index.trunk.get_mut(trunk_slot(tensor)) else { continue };
                if let Some(before) = slot.replace(placed) {
                    let (first, second) = (name(before.extent.shard), name(placed.extent.shard));
                    return Err(Error::Duplicate { tensor: tensor.to_string(), first, second });
                }
            }
            for (number, spot) in shard.experts {
                let Some(slot) = index.experts.get_mut(number as usize) else { continue };
                let before = std::mem::replace(slot, spot);
                if let Some(((first, _), (second, _))) = before.get().zip(spot.get()) {
                    let tensor = expert_name(config, number as usize);
                    return Err(Error::Duplicate { tensor, first: name(first), second: name(second) });
                }
            }
        }
        Ok(index)
    }

    /// Tensors that the config demands and that are here, and the first names of those that are not.
    pub(super) fn census(&self, config: &ModelConfig) -> Census {
        let mut census = Census::default();
        for tensor in Tensor::all(config).filter(|tensor| tensor.expected(config).is_some()) {
            census.count(self.trunk(tensor).is_some(), || tensor.to_string());
        }
        for (number, spot) in self.experts.iter().enumerate() {
            census.count(spot.get().is_some(), || expert_name(config, number));
        }
        census
    }

    /// A tensor of the trunk.
    pub(super) fn trunk(&self, tensor: Tensor) -> Option<Placed> {
        self.trunk.get(trunk_slot(tensor)).copied().flatten()
    }

    /// A part of a routed expert.
    pub(super) fn expert(
        &self,
        config: &ModelConfig,
        layer: usize,
        expert: usize,
        part: ExpertPart,
    ) -> Option<Extent> {
        let slot = expert_slot(config, layer, expert, part)?;
        let (shard, offset) = self.experts.get(slot as usize)?.get()?;
        let (rows, columns) = part.shape(config);
        Some(Extent { shard, offset, len: (rows * columns) as u64 })
    }

    /// Bytes that the tables take.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.trunk) + size_of_val(&*self.experts)
    }
}

/// The released name of the part in slot `number`.
fn expert_name(config: &ModelConfig, number: usize) -> String {
    let (row, part) = (number / PARTS, number % PARTS);
    let (layer, expert) = (config.dense_layers + row / config.moe.experts, row % config.moe.experts);
    ExpertPart::ALL.get(part).map(|&part| name::of_expert(layer, expert, part)).unwrap_or_default()
}

/// Missing tensors that a message names.
const NAMED: usize = 3;

/// A count of tensors.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Census {
    pub(super) expected: u64,
    pub(super) found: u64,
    pub(super) missing: Vec<String>,
}

impl Census {
    fn count(&mut self, found: bool, name: impl FnOnce() -> String) {
        self.expected += 1;
        if found {
            self.found += 1;
        } else if self.missing.len() < NAMED {
            self.missing.push(name());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;

    use super::*;

    fn tiny() -> ModelConfig {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tiny/config.json");
        ModelConfig::read(Path::new(path)).unwrap()
    }

    #[test]
    fn a_spot_holds_every_shard_and_offset_in_eight_bytes() {
        let last_shard = u16::try_from(MAX_SHARDS - 1).unwrap();
        for shard in [0, 1, last_shard] {
            for offset in [0, 1, (1 << 48) - 1] {
                assert_eq!(Spot::new(shard, offset).unwrap().get(), Some((shard, offset)));
            }
        }
        assert_eq!(Spot::new(0, 1 << 48), None);
        assert_eq!(Spot::NONE.get(), None);
        assert_eq!(size_of::<Spot>(), 8);
    }

    #[test]
    fn no_two_tensors_share_a_slot_and_slots_know_their_names() {
        let config = tiny();
        let trunk: HashSet<usize> = Tensor::all(&config).map(trunk_slot).collect();
        let count = GLOBAL.len() + config.layers() * LayerTensor::ALL.len();
        assert_eq!((trunk.len(), trunk.iter().max()), (count, Some(&(count - 1))));

        let mut next = 0;
        for layer in 1..13 {
            for expert in 0..16 {
                for part in ExpertPart::ALL {
                    let slot = expert_slot(&config, layer, expert, part).unwrap();
                    assert_eq!(slot, next);
                    assert_eq!(expert_name(&config, slot as usize), name::of_expert(layer, expert, part));
                    next += 1;
                }
            }
        }
        for (layer, expert) in [(0, 0), (13, 0), (1, 16), (usize::MAX, 0)] {
            assert_eq!(expert_slot(&config, layer, expert, ExpertPart::UpScale), None);
        }
    }

    #[test]
    fn an_empty_index_misses_everything_and_names_the_first() {
        let config = tiny();
        let index = Index::join(&config, vec![Shard::default()], &["s".to_owned()]).unwrap();
        let census = index.census(&config);
        assert_eq!((census.expected, census.found), (1492, 0));
        let expected = [
            "language_model.model.embed_tokens.weight",
            "language_model.lm_head.weight",
            "language_model.model.norm.weight",
        ];
        assert_eq!(census.missing, expected);
    }
}
