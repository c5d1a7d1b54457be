//! What a sequence leaves behind for its next token.

use std::ops::Range;
use std::sync::Arc;

use crate::checkpoint::{Mixer, ModelConfig};

/// The state of one sequence: a recurrent matrix and a little history for each KDA layer, a latent for each position
/// and MLA layer.
///
/// A clone shares what both hold until one of them goes on, and then only what changes is copied, piece by piece: a head's
/// matrix as the head is computed, the last block of a cache as a row is added. So a state can be kept, or written to a
/// disk, while another token is computed from it.
#[derive(Clone, Debug)]
pub struct State {
    pub(super) layers: Vec<LayerState>,
    pub(super) len: usize,
    /// False while a pass is under way, and after one that failed.
    pub(super) whole: bool,
}

#[derive(Clone, Debug)]
pub(super) enum LayerState {
    Kda(KdaState),
    Mla(Latents),
}

/// State of a KDA layer (spec, section 4.4).
#[derive(Clone, Debug)]
pub(super) struct KdaState {
    /// `[keys, values]` for each head.
    pub(super) matrices: Vec<Arc<[f32]>>,
    /// The last `taps - 1` inputs of the convolutions of queries, keys and values: each `[taps - 1, width]`, oldest
    /// first.
    pub(super) history: [Arc<[f32]>; 3],
}

/// Cache of an MLA layer (spec, section 4.5): `[positions, latent + shared key]`, the latent normed, the key as it is.
/// It grows by blocks and not in one piece: memory is planned for the context that was asked for, and a cache that doubled
/// would take twice as much.
#[derive(Clone, Debug, Default)]
pub(super) struct Latents {
    /// Of [`BLOCK`] positions each, but for the last.
    blocks: Vec<Arc<Vec<f32>>>,
}

impl LayerState {
    pub(super) const fn kda(&mut self) -> Option<&mut KdaState> {
        match self {
            Self::Kda(state) => Some(state),
            Self::Mla(_) => None,
        }
    }

    pub(super) const fn mla(&mut self) -> Option<&mut Latents> {
        match self {
            Self::Mla(cache) => Some(cache),
            Self::Kda(_) => None,
        }
    }
}

/// The tokens of a pass that belong to one sequence, and its state in one layer. Mixers are the only part of a layer in
/// which tokens meet, and they meet those of their own sequence alone.
#[derive(Debug)]
pub(super) struct Run<'a, S> {
    pub(super) state: &'a mut S,
    /// Which of the pass's tokens; never none.
    pub(super) tokens: Range<usize>,
}

impl<S> Run<'_, S> {
    /// The rows of these tokens out of `[tokens of the pass, width]`.
    pub(super) fn rows<'v>(&self, all: &'v [f32], width: usize) -> &'v [f32] {
        &all[self.tokens.start * width..self.tokens.end * width]
    }
}

/// Positions of a block of latents.
const BLOCK: usize = 256;

impl Latents {
    /// Adds rows of `width`.
    pub(super) fn extend(&mut self, rows: &[f32], width: usize) {
        let full = BLOCK * width;
        let mut rows = rows;
        while !rows.is_empty() {
            if self.blocks.last().is_none_or(|block| block.len() == full) {
                self.blocks.push(Arc::new(Vec::with_capacity(full)));
            }
            let Some(block) = self.blocks.last_mut() else { return };
            if Arc::get_mut(block).is_none() {
                // A copy of its own, with room for all that will come.
                let mut own = Vec::with_capacity(full);
                own.extend_from_slice(block);
                *block = Arc::new(own);
            }
            let (now, later) = rows.split_at(rows.len().min(full - block.len()));
            Arc::make_mut(block).extend_from_slice(now);
            rows = later;
        }
    }

    /// All rows, in pieces.
    pub(super) fn pieces(&self) -> Vec<&[f32]> {
        self.blocks.iter().map(|block| block.as_slice()).collect()
    }
}

impl State {
    /// The state before the first token.
    pub fn new(config: &ModelConfig) -> Self {
        let kda = &config.kda;
        let history: Arc<[f32]> = Arc::from(vec![0.0; kda.conv.saturating_sub(1) * kda.width()]);
        let layer = |mixer: &Mixer| match mixer {
            Mixer::Kda => LayerState::Kda(KdaState {
                matrices: vec![Arc::from(vec![0.0; kda.head_dim * kda.head_dim]); kda.heads],
                history: [Arc::clone(&history), Arc::clone(&history), Arc::clone(&history)],
            }),
            Mixer::Mla => LayerState::Mla(Latents::default()),
        };
        Self { layers: config.mixers.iter().map(layer).collect(), len: 0, whole: true }
    }

    /// A state of the size that `positions` make, with numbers in it that no token has left there: for measuring what
    /// a token takes after so many, which does not depend on them.
    pub fn imagined(config: &ModelConfig, positions: usize) -> Self {
        let mut state = Self::new(config);
        let width = config.mla.latent_width();
        for layer in &mut state.layers {
            if let LayerState::Mla(latents) = layer {
                let row: Vec<f32> = (0..width).map(|i| (i % 31) as f32 / 16.0 - 1.0).collect();
                (0..positions).for_each(|_| latents.extend(&row, width));
            }
        }
        Self { len: positions, ..state }
    }

    /// Positions that it holds.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it is the state before the first token.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether a token can be computed from it: not in the middle of a pass, nor after one that failed.
    pub const fn is_whole(&self) -> bool {
        self.whole
    }

    /// Bytes that a state of `positions` takes.
    pub fn bytes(config: &ModelConfig, positions: usize) -> u64 {
        Self::floats(config, positions.next_multiple_of(BLOCK)) * 4
    }

    /// Numbers of a state of `positions`.
    pub fn floats(config: &ModelConfig, positions: usize) -> u64 {
        let kda = &config.kda;
        let floats = |mixer: &Mixer| match mixer {
            Mixer::Kda => kda.width() * (kda.head_dim + 3 * kda.conv.saturating_sub(1)),
            Mixer::Mla => config.mla.latent_width() * positions,
        };
        config.mixers.iter().map(|mixer| floats(mixer) as u64).sum()
    }

    /// All its numbers, layer by layer and in pieces: matrices and histories of KDA, rows of MLA. Nothing of a state that
    /// was left in the middle of a pass.
    pub fn pieces(&self) -> impl Iterator<Item = &[f32]> {
        let layers = if self.whole { self.layers.as_slice() } else { &[] };
        layers.iter().flat_map(|layer| match layer {
            LayerState::Kda(KdaState { matrices, history }) => {
                matrices.iter().chain(history).map(AsRef::as_ref).collect::<Vec<&[f32]>>()
            }
            LayerState::Mla(latents) => latents.pieces(),
        })
    }

    /// A state of `positions` from its numbers: `fill` is given one piece after another, in the order of
    /// [`State::pieces`], but not in the same ones.
    pub fn from_pieces<E>(
        config: &ModelConfig,
        positions: usize,
        mut fill: impl FnMut(&mut [f32]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut state = Self::new(config);
        let width = config.mla.latent_width();
        for layer in &mut state.layers {
            match layer {
                LayerState::Kda(KdaState { matrices, history }) => {
                    for piece in matrices.iter_mut().chain(history) {
                        fill(Arc::make_mut(piece))?;
                    }
                }
                LayerState::Mla(latents) => {
                    for begin in (0..positions).step_by(BLOCK) {
                        let mut block = Vec::with_capacity(BLOCK * width);
                        block.resize(BLOCK.min(positions - begin) * width, 0.0);
                        fill(&mut block)?;
                        latents.blocks.push(Arc::new(block));
                    }
                }
            }
        }
        state.len = positions;
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_costs_the_latent_of_each_mla_layer_and_nothing_else() {
        let config = ModelConfig::released();
        let fixed = State::bytes(&config, 0);
        assert_eq!(fixed, 69 * (96 * 128 * 128 + 3 * 3 * 12_288) * 4);
        assert_eq!(State::bytes(&config, 8192) - fixed, 8192 * 24 * 576 * 4);
    }

    #[test]
    fn a_cache_grows_by_rows_and_a_clone_keeps_its_own() {
        let all: Vec<f32> = (0..3 * BLOCK * 2).map(|i| i as f32).collect();
        let whole = |latents: &Latents| latents.pieces().concat();
        let mut latents = Latents::default();
        let mut kept = Vec::new();
        let mut at = 0;
        for rows in [1, 0, 5, BLOCK - 6, 3, BLOCK + 9, BLOCK - 12] {
            latents.extend(&all[at * 2..(at + rows) * 2], 2);
            at += rows;
            kept.push((at, latents.clone()));
        }
        for (at, latents) in &kept {
            assert!(whole(latents) == all[..at * 2], "after {at} rows");
        }
        // Two that go on from one place do not see each other.
        let (at, mut other) = kept.swap_remove(2);
        other.extend(&[7.0, 7.0], 2);
        assert!(whole(&latents) == all);
        assert!(whole(&other)[at * 2..] == [7.0, 7.0]);
        assert!(latents.blocks.iter().all(|block| block.capacity() == BLOCK * 2));
    }

    #[test]
    fn a_state_comes_back_from_its_pieces() {
        let mut config = ModelConfig::released();
        config.kda.heads = 2;
        config.kda.head_dim = 4;
        let positions = BLOCK + 3;
        let mut next = 0.0;
        let mut count = |piece: &mut [f32]| {
            for value in piece {
                next += 1.0;
                *value = next;
            }
            Ok::<(), ()>(())
        };
        let state = State::from_pieces(&config, positions, &mut count).unwrap();
        let floats = state.pieces().flatten().copied();
        assert!(floats.eq((1..=State::floats(&config, positions)).map(|i| i as f32)));
        assert_eq!(state.len(), positions);
        let broken = State { whole: false, ..state };
        assert_eq!(broken.pieces().count(), 0);
        assert!(State::from_pieces(&config, 1, |_| Err(())).is_err());
    }
}
