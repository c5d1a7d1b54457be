//! Vectors that a matrix is multiplied with.

use std::borrow::Cow;
use std::ops::Range;

use super::reference::LANES;

/// Columns of a step: a group of MXFP4, or two multiplications for each of the 16 sums.
pub(super) const STEP: usize = 2 * LANES;

/// Bytes of a line of memory. What lies across two of them takes twice as long to load.
const LINE: usize = 64;

/// Some vectors of the same length, laid out as the kernels of one tier read them. Made by [`super::Kernels::vectors`]
/// once, for all threads and tiles of a matrix.
#[derive(Clone, Debug)]
pub struct Vectors<'a> {
    values: Cow<'a, [f32]>,
    /// Where they begin in `values`: at the beginning of a line, where they were laid out.
    begin: usize,
    columns: usize,
    count: usize,
    /// Most vectors of a block; nothing where vectors lie one after the other.
    widest: Option<usize>,
}

impl<'a> Vectors<'a> {
    /// Lays `xs`, `[vectors, columns]`, out in blocks of at most `widest` vectors.
    pub(super) fn new(xs: &'a [f32], columns: usize, widest: Option<usize>) -> Self {
        assert!(columns > 0 && !xs.is_empty() && xs.len().is_multiple_of(columns), "whole vectors");
        let count = xs.len() / columns;
        let mut vectors = Self { values: Cow::Borrowed(xs), begin: 0, columns, count, widest };
        // A single vector of whole steps lies as it is read, whatever the tier.
        if widest.is_some() && (count > 1 || !columns.is_multiple_of(STEP)) {
            let (values, begin) = vectors.by_step();
            (vectors.values, vectors.begin) = (Cow::Owned(values), begin);
        }
        vectors
    }

    /// The blocks one after the other, each `[steps, vectors, STEP]`, and where they begin. What lies beyond the columns is
    /// -0: weights are zero there, and -0 is what can be added to any sum, even to -0, without a change.
    fn by_step(&self) -> (Vec<f32>, usize) {
        const SLACK: usize = LINE / size_of::<f32>() - 1;
        let mut values = vec![-0.0; self.count * self.steps() * STEP + SLACK];
        let begin = values.as_ptr().align_offset(LINE).min(SLACK);
        let out = &mut values[begin..];
        for block in self.blocks() {
            let out = &mut out[block.start * self.steps() * STEP..block.end * self.steps() * STEP];
            let xs =
                self.values[block.start * self.columns..block.end * self.columns].chunks_exact(self.columns);
            for (t, x) in xs.enumerate() {
                for (step, x) in x.chunks(STEP).enumerate() {
                    out[(step * block.len() + t) * STEP..][..x.len()].copy_from_slice(x);
                }
            }
        }
        (values, begin)
    }

    /// Length of each.
    pub const fn columns(&self) -> usize {
        self.columns
    }

    /// How many there are, at least one.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Steps of each, the last one filled up.
    pub(super) const fn steps(&self) -> usize {
        self.columns.div_ceil(STEP)
    }

    /// Which vectors make up a block. Sizes differ by one at most.
    pub(super) fn blocks(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let count = self.count;
        let blocks = self.widest.map_or(1, |widest| count.div_ceil(widest));
        (0..blocks).map(move |i| count * i / blocks..count * (i + 1) / blocks)
    }

    /// The vectors of a block, `[steps, vectors, STEP]`, from step `first` on.
    #[inline]
    pub(super) fn block(&self, block: &Range<usize>, first: usize) -> &[f32] {
        let (begin, end) = (block.start * self.steps(), block.end * self.steps());
        &self.values[self.begin..][(begin + first * block.len()) * STEP..end * STEP]
    }

    /// All of them, `[vectors, columns]`.
    #[inline]
    pub(super) fn plain(&self) -> &[f32] {
        assert!(self.values.len() == self.count * self.columns && self.fits(None), "laid out for this tier");
        &self.values
    }

    /// Whether kernels whose blocks are `widest` vectors at most can read them.
    #[inline]
    pub(super) fn fits(&self, widest: Option<usize>) -> bool {
        self.widest == widest || matches!(self.values, Cow::Borrowed(_)) && self.count == 1
    }
}
