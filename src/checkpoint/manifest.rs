//! Checksums of what a run reads, so that bytes that changed on the disk end a turn instead of bending it.
//!
//! A manifest holds one checksum (XXH3, 64 bits) for each routed expert over its six tensors in the order of
//! [`ExpertPart::ALL`](super::ExpertPart::ALL), for each row of the embedding, for each [`grain_rows`] rows of every
//! other matrix, and for each vector. It belongs to files, not to a folder: to names, sizes, times of change and headers of all shards
//! and to the config. It is no proof of where the bytes came from; it says that they are those of the day it was
//! written.
//!
//! # The file
//!
//! `dormouse.manifest` in the model's folder, little-endian: the magic `DORMSEAL`, a version (u32), the number of
//! checksums (u64), the identity (u64), the checksums (u64 each: the trunk in the order of
//! [`Checkpoint::trunk`], then experts by layer and number), and the XXH3 of all that (u64).

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::error::file_name;
use super::{Checkpoint, Error, LayerTensor, ModelConfig, Shape, Tensor};
use crate::sys::file;

const MAGIC: &[u8; 8] = b"DORMSEAL";
const VERSION: u32 = 1;
const HEAD: usize = 8 + 4 + 8 + 8;

/// About how many bytes of a matrix share a checksum.
const GRAIN: usize = 1 << 20;

/// Rows of a matrix that are used together: those of one head where heads are computed as a whole.
pub fn rows_together(config: &ModelConfig, tensor: Tensor) -> usize {
    match tensor {
        Tensor::Layer(_, LayerTensor::MlaKvB) => config.mla.nope + config.mla.value,
        _ => 1,
    }
}

/// Rows of a matrix that share a checksum: the smallest piece of it that can be checked alone.
pub fn grain_rows(config: &ModelConfig, tensor: Tensor, columns: usize) -> usize {
    if tensor == Tensor::Embedding {
        // It is read row by row.
        return 1;
    }
    rows_of(GRAIN, columns, rows_together(config, tensor))
}

/// Rows of bf16 that make up about `target` bytes: whole multiples of `together`.
pub fn rows_of(target: usize, columns: usize, together: usize) -> usize {
    (target / (columns * 2).max(1) / together * together).max(together)
}

/// Where a tensor's checksums stand.
#[derive(Clone, Copy, Debug)]
struct Sums {
    first: usize,
    count: usize,
    /// Bytes that share one.
    grain: usize,
    /// Rows that share one.
    rows: usize,
}

/// Checksums of one checkpoint.
#[derive(Debug)]
pub struct Manifest {
    trunk: HashMap<Tensor, Sums>,
    first_expert: usize,
    sums: Vec<u64>,
    identity: u64,
}

impl Manifest {
    /// The file's name in the model's folder.
    pub const FILE: &'static str = "dormouse.manifest";

    /// A manifest of `checkpoint` without checksums yet.
    pub fn blank(checkpoint: &Checkpoint) -> Result<Self, Error> {
        let config = checkpoint.config();
        let mut trunk = HashMap::new();
        let mut first = 0;
        for (tensor, dtype, shape, extent) in checkpoint.trunk() {
            let bytes = usize::try_from(extent.len).unwrap_or(usize::MAX);
            let (rows, grain) = match shape {
                Shape::Matrix(_, columns) => {
                    let rows = grain_rows(config, tensor, columns);
                    (rows, rows * columns * dtype.size())
                }
                Shape::Vector(_) | Shape::AtLeast(_) | Shape::Conv(..) => (1, bytes.max(1)),
            };
            let count = bytes.div_ceil(grain.max(1));
            trunk.insert(tensor, Sums { first, count, grain, rows });
            first += count;
        }
        let experts = config.layers().saturating_sub(config.dense_layers) * config.moe.experts;
        Ok(Self {
            trunk,
            first_expert: first,
            sums: vec![0; first + experts],
            identity: identity(checkpoint)?,
        })
    }

    /// The manifest in the checkpoint's folder, or nothing where there is none. One that belongs to other files, or is
    /// damaged, is an error: to run unchecked is the user's choice.
    pub fn read(checkpoint: &Checkpoint) -> Result<Option<Self>, Error> {
        let path = Self::path(checkpoint);
        let mut manifest = Self::blank(checkpoint)?;
        let expected = HEAD + manifest.sums.len() * 8 + 8;
        let bytes = match file::read_small(&path, expected as u64) {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let refuse = |expected: &str, found: &str| {
            Err(Error::Manifest {
                path: path.clone(),
                expected: expected.to_owned(),
                found: found.to_owned(),
            })
        };
        if bytes.len() != expected {
            return refuse(&format!("{expected} bytes"), &format!("{} bytes", bytes.len()));
        }
        let (body, tail) = bytes.split_at(bytes.len() - 8);
        if tail != xxh3_64(body).to_le_bytes() {
            return refuse("a file whose last eight bytes are its own checksum", "one that was damaged");
        }
        let (head, sums) = body.split_at(HEAD);
        if !head.starts_with(MAGIC) || head.get(8..12) != Some(&VERSION.to_le_bytes()) {
            return refuse("a manifest of version 1", "something else");
        }
        if head.get(20..28) != Some(&manifest.identity.to_le_bytes()) {
            return refuse(
                "the model's files as they were when it was written",
                "files that have changed since",
            );
        }
        for (sum, bytes) in manifest.sums.iter_mut().zip(sums.as_chunks::<8>().0) {
            *sum = u64::from_le_bytes(*bytes);
        }
        Ok(Some(manifest))
    }

    /// Writes it into the checkpoint's folder, whole or not at all.
    pub fn write(&self, checkpoint: &Checkpoint) -> Result<PathBuf, Error> {
        let path = Self::path(checkpoint);
        let mut bytes = Vec::with_capacity(HEAD + self.sums.len() * 8 + 8);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((self.sums.len() as u64).to_le_bytes());
        bytes.extend(self.identity.to_le_bytes());
        bytes.extend(self.sums.iter().flat_map(|sum| sum.to_le_bytes()));
        bytes.extend(xxh3_64(&bytes).to_le_bytes());
        let temporary = path.with_extension(format!("manifest.{}", std::process::id()));
        let written = write_and_sync(&temporary, &bytes).and_then(|()| std::fs::rename(&temporary, &path));
        written.map_err(|source| {
            let _ = std::fs::remove_file(&temporary);
            file::Error::Io { action: "write", path: path.clone(), source }
        })?;
        Ok(path)
    }

    fn path(checkpoint: &Checkpoint) -> PathBuf {
        checkpoint.dir().join(Self::FILE)
    }

    /// Whether it still belongs to the files of `checkpoint`.
    pub fn is_current(&self, checkpoint: &Checkpoint) -> Result<bool, Error> {
        Ok(identity(checkpoint)? == self.identity)
    }

    /// Takes down rows of a matrix from `first_row` on, or a whole vector.
    pub fn seal_rows(&mut self, tensor: Tensor, first_row: usize, bytes: &[u8]) {
        let Some(sums) = self.trunk.get(&tensor).copied() else { return };
        for (i, grain) in bytes.chunks(sums.grain).enumerate() {
            let sum = self.sums.get_mut(sums.first + first_row / sums.rows + i);
            if let Some(sum) = sum {
                *sum = xxh3_64(grain);
            }
        }
    }

    /// Takes down an expert.
    pub fn seal_expert(&mut self, checkpoint: &Checkpoint, layer: usize, expert: usize, parts: &[&[u8]]) {
        let place = self.expert_place(checkpoint, layer, expert);
        if let Some(sum) = place.and_then(|place| self.sums.get_mut(place)) {
            *sum = checksum(parts);
        }
    }

    /// Checks rows of a matrix from `first_row` on, a multiple of [`grain_rows`], or a whole vector.
    pub fn check_rows(
        &self,
        checkpoint: &Checkpoint,
        tensor: Tensor,
        first_row: usize,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let Some(sums) = self.trunk.get(&tensor) else { return Ok(()) };
        for (i, grain) in bytes.chunks(sums.grain).enumerate() {
            let number = first_row / sums.rows + i;
            let expected = (number < sums.count).then(|| self.sums.get(sums.first + number)).flatten();
            if expected != Some(&xxh3_64(grain)) {
                let extent = checkpoint.locate(tensor);
                let offset = extent.map_or(0, |extent| extent.offset + (number * sums.grain) as u64);
                return Err(Error::Altered {
                    shard: shard_name(checkpoint, extent.map(|extent| extent.shard)),
                    what: checkpoint.describe(tensor),
                    offset,
                    len: grain.len(),
                });
            }
        }
        Ok(())
    }

    /// Checks an expert, given all its bytes in one part or in six.
    pub fn check_expert(
        &self,
        checkpoint: &Checkpoint,
        layer: usize,
        expert: usize,
        parts: &[&[u8]],
    ) -> Result<(), Error> {
        let expected = self.expert_place(checkpoint, layer, expert).and_then(|place| self.sums.get(place));
        if expected == Some(&checksum(parts)) {
            return Ok(());
        }
        let extent = checkpoint.expert(layer, expert).map(|[first, ..]| first);
        Err(Error::Altered {
            shard: shard_name(checkpoint, extent.map(|extent| extent.shard)),
            what: format!("expert {expert} of layer {layer}"),
            offset: extent.map_or(0, |extent| extent.offset),
            len: parts.iter().map(|part| part.len()).sum(),
        })
    }

    fn expert_place(&self, checkpoint: &Checkpoint, layer: usize, expert: usize) -> Option<usize> {
        let config = checkpoint.config();
        let layer = layer.checked_sub(config.dense_layers)?;
        (expert < config.moe.experts).then_some(self.first_expert + layer * config.moe.experts + expert)
    }
}

fn checksum(parts: &[&[u8]]) -> u64 {
    match parts {
        [whole] => xxh3_64(whole),
        parts => {
            let mut hash = Xxh3::new();
            for part in parts {
                hash.update(part);
            }
            hash.digest()
        }
    }
}

fn shard_name(checkpoint: &Checkpoint, shard: Option<u16>) -> String {
    let source = shard.and_then(|shard| checkpoint.shards().get(usize::from(shard)));
    source.map_or_else(|| "an unknown shard".to_owned(), |source| file_name(source.path()))
}

/// A digest of the names, sizes, times of change and headers of all shards, and of the config: of these very files, as
/// long as nobody changes one and hides it.
pub fn identity(checkpoint: &Checkpoint) -> Result<u64, Error> {
    let mut hash = Xxh3::new();
    hash.update(&checkpoint.headers_digest().to_le_bytes());
    for source in checkpoint.shards() {
        hash.update(file_name(source.path()).as_bytes());
        hash.update(&source.len().to_le_bytes());
        let changed = std::fs::metadata(source.path()).and_then(|metadata| metadata.modified());
        let changed = changed.map_err(|error| file::Error::Io {
            action: "look at",
            path: source.path().to_owned(),
            source: error,
        })?;
        let nanos = changed.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        hash.update(&nanos.to_le_bytes());
    }
    Ok(hash.digest())
}

fn write_and_sync(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = std::fs::File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
