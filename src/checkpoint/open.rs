//! Opening a checkpoint, and asking it for places and bytes.

use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::config::{GenerationConfig, ModelConfig};
use super::error::{Error, file_name};
use super::index::{Extent, Index, MAX_SHARDS, Shard};
use super::tensor::{Dtype, ExpertPart, Shape, Tensor};
use super::{header, series};
use crate::sys::file::{self, Source};

/// A checkpoint in which everything is there that its config demands.
#[derive(Debug)]
pub struct Checkpoint {
    dir: PathBuf,
    config: ModelConfig,
    generation: GenerationConfig,
    shards: Vec<Source>,
    index: Index,
    tensors: u64,
}

impl Checkpoint {
    /// Name of the model's config in its folder.
    pub const CONFIG_FILE: &'static str = "config.json";

    /// Reads the configs and the header of every shard in the folder `dir`, shards side by side on the threads of the
    /// current rayon pool. No weight is read, and `model.safetensors.index.json` is not needed: the headers say more.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let config = ModelConfig::read(&dir.join(Self::CONFIG_FILE))?;
        let generation = GenerationConfig::read(dir)?;
        generation.check_ids(config.vocabulary)?;

        let paths = shard_paths(dir)?;
        let names: Vec<String> = paths.iter().map(|path| file_name(path)).collect();
        let read: Vec<Result<(Source, Shard), Error>> = paths
            .par_iter()
            .zip(&names)
            .enumerate()
            .map_init(Vec::new, |buffer, (number, (path, name))| {
                read_shard(&config, number, path, name, buffer)
            })
            .collect();
        // In the order of their names, so that the first refusal does not depend on which thread was faster.
        let (shards, parts): (Vec<Source>, Vec<Shard>) = read.into_iter().collect::<Result<_, _>>()?;

        let index = Index::join(&config, parts, &names)?;
        let census = index.census(&config);
        if census.found < census.expected {
            return Err(Error::Missing {
                dir: dir.to_owned(),
                expected: census.expected,
                found: census.found,
                tensors: census.missing,
                missing_shards: series::missing(&names),
            });
        }
        Ok(Self { dir: dir.to_owned(), config, generation, shards, index, tensors: census.found })
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What the model is like.
    pub const fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// What it recommends for sampling.
    pub const fn generation(&self) -> &GenerationConfig {
        &self.generation
    }

    /// The shards, open for positioned reads, in the order of [`Extent::shard`].
    pub fn shards(&self) -> &[Source] {
        &self.shards
    }

    /// Where a tensor of the trunk lies, or nothing where this model has no such tensor.
    pub fn locate(&self, tensor: Tensor) -> Option<Extent> {
        self.index.trunk(tensor).map(|placed| placed.extent)
    }

    /// Where an expert's tensors lie, in the order of [`ExpertPart::ALL`]. Layers are counted from zero, dense ones
    /// included; nothing where the model has no such expert.
    pub fn expert(&self, layer: usize, expert: usize) -> Option<[Extent; 6]> {
        let [a, b, c, d, e, f] =
            ExpertPart::ALL.map(|part| self.index.expert(&self.config, layer, expert, part));
        Some([a?, b?, c?, d?, e?, f?])
    }

    /// Bytes of one expert's six tensors.
    pub fn expert_bytes(&self) -> u64 {
        self.config.expert_bytes()
    }

    /// Every tensor of the trunk, those without a layer first, then layer by layer, with the type that it is stored as
    /// (KDA's output norm may be F32 or BF16, everything else is as [`Tensor::expected`] says). A shape of
    /// [`Shape::AtLeast`] may have fewer elements than the extent.
    pub fn trunk(&self) -> impl Iterator<Item = (Tensor, Dtype, Shape, Extent)> {
        Tensor::all(&self.config).filter_map(|tensor| {
            let (_, shape) = tensor.expected(&self.config)?;
            let placed = self.index.trunk(tensor)?;
            Some((tensor, placed.dtype, shape, placed.extent))
        })
    }

    /// Tensors of the language model.
    pub const fn tensors(&self) -> u64 {
        self.tensors
    }

    /// Parameters of the language model: elements of the trunk, and weights of the experts without their scales.
    pub fn parameters(&self) -> u64 {
        let trunk: u64 = self.trunk().map(|(_, dtype, _, extent)| extent.len / dtype.size() as u64).sum();
        trunk + self.config.routed_experts() * self.config.expert_weights()
    }

    /// Bytes of the language model's tensors.
    pub fn tensor_bytes(&self) -> u64 {
        let trunk: u64 = self.trunk().map(|(.., extent)| extent.len).sum();
        trunk + self.config.routed_experts() * self.config.expert_bytes()
    }

    /// Bytes of memory that the index takes.
    pub fn index_bytes(&self) -> usize {
        self.index.bytes()
    }

    /// Fills `buffer` with the bytes of `extent`, which it must be as long as.
    pub fn read(&self, extent: Extent, buffer: &mut [u8]) -> Result<(), Error> {
        let Extent { shard, offset, len } = extent;
        let refuse = |found: String| Err(Error::Read { shard, offset, wanted: len, found });
        let Some(source) = self.shards.get(usize::from(shard)) else {
            return refuse(format!("{} shards", self.shards.len()));
        };
        if buffer.len() as u64 != len {
            return refuse(format!("a buffer of {} bytes", buffer.len()));
        }
        Ok(source.read_exact_at(buffer, offset)?)
    }

    /// The released name of a tensor, for messages.
    pub fn describe(&self, tensor: Tensor) -> String {
        tensor.to_string()
    }
}

/// Opens a shard, reads its header and finds out what it holds.
fn read_shard(
    config: &ModelConfig,
    number: usize,
    path: &Path,
    name: &str,
    buffer: &mut Vec<u8>,
) -> Result<(Source, Shard), Error> {
    let source = Source::open(path)?;
    let mut shard = Shard::default();
    // `shard_paths` has seen to it that they are few.
    let number = u16::try_from(number).unwrap_or(u16::MAX);
    header::read(&source, name, buffer, |entry| shard.bind(config, (number, name), &entry))?;
    Ok((source, shard))
}

/// The shards in the folder, by name. Hidden files are none: some systems leave a `._` twin of each file.
fn shard_paths(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let list = |source| file::Error::Io { action: "list", path: dir.to_owned(), source };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(list)? {
        let path = entry.map_err(list)?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && path.extension().is_some_and(|extension| extension == "safetensors") {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(Error::NoShards { dir: dir.to_owned() });
    }
    if paths.len() > MAX_SHARDS {
        return Err(Error::TooManyShards { dir: dir.to_owned(), limit: MAX_SHARDS, found: paths.len() });
    }
    paths.sort_unstable();
    Ok(paths)
}
