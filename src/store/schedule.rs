//! In which order a pass reads the trunk, and in which pieces.
//!
//! A pass over the layers asks for the same matrices in the same order every time, so what comes next is known, across
//! tensors, layers and tokens. This order stands here once; a test of the model fails when it and the forward pass
//! disagree.

use std::collections::HashMap;
use std::ops::Range;

use crate::checkpoint::{
    Checkpoint, Dtype, Extent, LayerTensor, Mixer, ModelConfig, Shape, Tensor, grain_rows, rows_of,
    rows_together,
};

/// How a trunk tensor is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// bf16, `[rows, columns]`, as stored, in tiles.
    Matrix { rows: usize, columns: usize },
    /// f32, of so many elements, always in memory.
    Vector(usize),
    /// Rows are read one at a time and not kept.
    OnDemand,
}

impl Form {
    pub(super) fn of(tensor: Tensor, dtype: Dtype, shape: Shape) -> Self {
        use LayerTensor::{AttnResProj, MlpResProj};
        match (tensor, dtype, shape) {
            (Tensor::Embedding, ..) => Self::OnDemand,
            // These are matrices of one row on disk, and vectors to those who use them.
            (
                Tensor::OutputResProj | Tensor::Layer(_, AttnResProj | MlpResProj),
                _,
                Shape::Matrix(rows, columns),
            ) => Self::Vector(rows * columns),
            (_, Dtype::Bf16, Shape::Matrix(rows, columns)) => Self::Matrix { rows, columns },
            (_, _, Shape::Matrix(rows, columns) | Shape::Conv(rows, columns)) => Self::Vector(rows * columns),
            (_, _, Shape::Vector(len) | Shape::AtLeast(len)) => Self::Vector(len),
        }
    }
}

/// Some rows of a matrix of the trunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    pub(super) tensor: Tensor,
    pub(super) first: usize,
    pub(super) columns: usize,
    pub(super) extent: Extent,
}

/// All tiles, in the order in which a pass reads them.
#[derive(Debug)]
pub(super) struct Schedule {
    pub(super) tiles: Vec<Tile>,
    ranges: HashMap<Tensor, Range<usize>>,
}

impl Schedule {
    /// Cuts every matrix into tiles of about `target` bytes. With a manifest they are whole grains, so that each can be
    /// checked on its own.
    pub(super) fn new(checkpoint: &Checkpoint, target: usize, checked: bool) -> Self {
        let config = checkpoint.config();
        let found: HashMap<Tensor, (Form, Extent)> = checkpoint
            .trunk()
            .map(|(tensor, dtype, shape, extent)| (tensor, (Form::of(tensor, dtype, shape), extent)))
            .collect();
        let mut schedule = Self { tiles: Vec::new(), ranges: HashMap::new() };
        for tensor in order(config) {
            let Some((Form::Matrix { rows, columns }, extent)) = found.get(&tensor) else { continue };
            let begin = schedule.tiles.len();
            let (rows, columns) = (*rows, *columns);
            let together =
                if checked { grain_rows(config, tensor, columns) } else { rows_together(config, tensor) };
            let step = rows_of(target, columns, together);
            for first in (0..rows).step_by(step) {
                let tile_rows = step.min(rows - first);
                let extent = Extent {
                    shard: extent.shard,
                    offset: extent.offset + (first * columns * 2) as u64,
                    len: (tile_rows * columns * 2) as u64,
                };
                schedule.tiles.push(Tile { tensor, first, columns, extent });
            }
            schedule.ranges.insert(tensor, begin..schedule.tiles.len());
        }
        schedule
    }

    /// Which tiles make up a matrix.
    pub(super) fn tiles_of(&self, tensor: Tensor) -> Option<Range<usize>> {
        self.ranges.get(&tensor).cloned()
    }

    /// Bytes of the largest tile.
    pub(super) fn largest(&self) -> usize {
        self.tiles.iter().map(Tile::bytes).max().unwrap_or(0)
    }
}

impl Tile {
    pub(super) fn bytes(&self) -> usize {
        usize::try_from(self.extent.len).unwrap_or(usize::MAX)
    }
}

/// The matrices of the trunk in the order in which the forward pass asks for them.
fn order(config: &ModelConfig) -> Vec<Tensor> {
    use LayerTensor as L;
    const KDA: &[L] = &[L::KdaQ, L::KdaK, L::KdaV, L::KdaFA, L::KdaFB, L::KdaB, L::Gate, L::Output];
    const MLA: &[L] = &[L::MlaQA, L::MlaQB, L::MlaKvA, L::MlaKvB, L::Gate, L::Output];
    const DENSE: &[L] = &[L::DenseGate, L::DenseUp, L::DenseDown];
    const EXPERTS: &[L] = &[L::Router, L::LatentDown, L::SharedGate, L::SharedUp, L::SharedDown, L::LatentUp];
    let mut order = Vec::new();
    for (layer, mixer) in (0..).zip(&config.mixers) {
        let mixer = match mixer {
            Mixer::Kda => KDA,
            Mixer::Mla => MLA,
        };
        let ffn = if usize::from(layer) < config.dense_layers { DENSE } else { EXPERTS };
        order.extend(mixer.iter().chain(ffn).map(|tensor| Tensor::Layer(layer, *tensor)));
    }
    order.push(Tensor::LmHead);
    order
}
