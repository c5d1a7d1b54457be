//! Rows times vectors in blocks that stay in registers, written once for all instruction sets.
//!
//! A block is a few rows by a few vectors. Each of its dot products keeps its 16 sums in a register, a weight is
//! decoded once for all vectors of the block, and a part of a vector is loaded once for all its rows. With one vector
//! memory is the limit. With many it is arithmetic, as long as the vectors come from the nearest cache: so they are cut
//! along the columns, and the sums of a cut are put aside until the next one's turn.
#![expect(clippy::inline_always, reason = "a tier must compile the body with its own target features")]

use std::ops::Range;

use super::mxfp4::PACKED;
use super::reference::{LANES, check_packed_rows, check_rows};
use super::vectors::{STEP, Vectors};

/// Bytes of a cut of the vectors of one block: they stay in the first-level cache while many rows pass by.
const NEAR: usize = 24 << 10;

/// Rows that pass by: their weights and sums stay in the second-level cache.
const PANEL: usize = 64;

/// Sixteen numbers at a time, as one instruction set has them. Whoever holds a value runs where the set exists.
pub(super) trait Simd: Copy {
    /// Sixteen f32.
    type Lanes: Copy;
    /// Most vectors of a block.
    const WIDEST: usize;

    fn zero(self) -> Self::Lanes;
    fn load(self, x: &[f32; LANES]) -> Self::Lanes;
    /// Sixteen bf16 as f32.
    fn widen(self, bits: &[u16; LANES]) -> Self::Lanes;
    /// The values of the low nibbles and of the high ones, under the scale of a byte.
    fn unpack(self, bytes: &[u8; PACKED], scale: u8) -> [Self::Lanes; 2];
    /// `x * w + sum`, rounded once.
    fn mul_add(self, x: Self::Lanes, w: Self::Lanes, sum: Self::Lanes) -> Self::Lanes;
    /// Folds in halves.
    fn fold(self, sums: Self::Lanes) -> f32;
    /// Asks for a line of memory ahead of time. Any address will do.
    fn prefetch(self, place: *const u8);
    /// Runs a job in blocks of the size that suits the set.
    fn run<W: Weights>(self, job: Job<'_, W, Self>);
}

/// A matrix in the form in which it is stored.
pub(super) trait Weights: Copy {
    type Row: Copy;
    /// Lines of memory, which are 64 bytes each, that so many steps take.
    const LINES: usize;
    const STEPS: usize;

    fn row(self, row: usize) -> Self::Row;
    /// Steps of a row that are not cut short by its end.
    fn whole_steps(self) -> usize;
    /// The weights of a whole step: of its first 16 multiplications and of the other 16.
    fn decode<S: Simd>(simd: S, row: Self::Row, step: usize) -> [S::Lanes; 2];
    /// Those of the step that is cut short, and zeros.
    fn decode_rest<S: Simd>(simd: S, row: Self::Row) -> [S::Lanes; 2];
    /// Where a step lies that is `rows` rows below this one.
    fn below(self, row: Self::Row, step: usize, rows: usize) -> *const u8;
}

/// Some rows times the vectors of one block, along one cut of the columns.
pub(super) struct Job<'a, W, S: Simd> {
    weights: W,
    rows: Range<usize>,
    steps: Range<usize>,
    /// `[steps, vectors, STEP]`.
    xs: &'a [f32],
    /// `[rows, vectors]`.
    sums: &'a mut [S::Lanes],
    /// Whether `sums` holds those of an earlier cut.
    resumed: bool,
}

impl<W: Weights, S: Simd> Job<'_, W, S> {
    /// Vectors of the block, at most [`Simd::WIDEST`].
    #[inline(always)]
    pub(super) const fn vectors(&self) -> usize {
        self.sums.len() / (self.rows.end - self.rows.start)
    }

    /// Does it in blocks of `R` rows and `T` vectors, which are all there are.
    #[inline(always)]
    pub(super) fn run<const R: usize, const T: usize>(self, simd: S) {
        let Self { weights, rows, steps, xs, sums, resumed } = self;
        let (xs, _) = xs.as_chunks::<STEP>().0.as_chunks::<T>();
        // A step that is not whole is kept out of the loop, whose registers it would cost.
        let (whole, rest) = xs[..steps.len()].split_at(weights.whole_steps().min(steps.end) - steps.start);
        let (sums, _) = sums.as_chunks_mut::<T>();
        for first in (0..rows.len()).step_by(R) {
            // Where rows run out the last one is repeated: it is computed again and comes to the same.
            let mut at = [0; R];
            let mut matrix = [weights.row(rows.start + first); R];
            let mut block = [[simd.zero(); T]; R];
            for r in 0..R {
                at[r] = (first + r).min(rows.len() - 1);
                matrix[r] = weights.row(rows.start + at[r]);
                if resumed {
                    block[r] = sums[at[r]];
                }
            }
            for (step, xs) in steps.clone().zip(whole) {
                if step.is_multiple_of(W::STEPS) {
                    // Rows may be too short, and cuts are, for the processor to see where they lead.
                    for row in matrix {
                        let below = weights.below(row, step, R);
                        for line in 0..W::LINES {
                            simd.prefetch(below.wrapping_add(line * 64));
                        }
                    }
                }
                for half in 0..2 {
                    let mut decoded = [simd.zero(); R];
                    for r in 0..R {
                        decoded[r] = W::decode(simd, matrix[r], step)[half];
                    }
                    multiply_add(simd, &decoded, xs, half, &mut block);
                }
            }
            if let Some(xs) = rest.first() {
                for half in 0..2 {
                    let mut decoded = [simd.zero(); R];
                    for r in 0..R {
                        decoded[r] = W::decode_rest(simd, matrix[r])[half];
                    }
                    multiply_add(simd, &decoded, xs, half, &mut block);
                }
            }
            for r in 0..R {
                sums[at[r]] = block[r];
            }
        }
    }
}

/// A half step of a block: sixteen columns. Half by half, fewer decoded weights lie in registers at a time.
#[inline(always)]
fn multiply_add<S: Simd, const R: usize, const T: usize>(
    simd: S,
    weights: &[S::Lanes; R],
    xs: &[[f32; STEP]; T],
    half: usize,
    sums: &mut [[S::Lanes; T]; R],
) {
    for t in 0..T {
        let (halves, _) = xs[t].as_chunks::<LANES>();
        let x = simd.load(&halves[half]);
        for r in 0..R {
            sums[r][t] = simd.mul_add(x, weights[r], sums[r][t]);
        }
    }
}

/// A whole matrix times all vectors, into `out`, `[rows, vectors]`.
#[inline(always)]
fn multiply<W: Weights, S: Simd>(simd: S, weights: W, xs: &Vectors<'_>, out: &mut [f32]) {
    assert!(xs.fits(Some(S::WIDEST)), "laid out for this tier");
    let (vectors, steps) = (xs.count(), xs.steps());
    let rows = out.len() / vectors;
    let widest = vectors.min(S::WIDEST);
    let cut = if vectors == 1 { steps } else { NEAR / (size_of::<f32>() * STEP * widest) };
    let panel = PANEL.min(rows);
    let mut sums = vec![simd.zero(); panel * vectors];
    for first in (0..rows).step_by(panel) {
        let rows = first..rows.min(first + panel);
        // A cut of the panel meets all blocks before the next one comes from memory.
        for begin in (0..steps).step_by(cut) {
            for block in xs.blocks() {
                simd.run(Job {
                    weights,
                    rows: rows.clone(),
                    steps: begin..steps.min(begin + cut),
                    xs: xs.block(&block, begin),
                    sums: &mut sums[block.start * panel..][..rows.len() * block.len()],
                    resumed: begin > 0,
                });
            }
        }
        for block in xs.blocks() {
            let sums = &sums[block.start * panel..][..rows.len() * block.len()];
            for (row, sums) in rows.clone().zip(sums.chunks_exact(block.len())) {
                let out = &mut out[row * vectors..][block.clone()];
                for (out, sums) in out.iter_mut().zip(sums) {
                    *out = simd.fold(*sums);
                }
            }
        }
    }
}

/// A number that is a weight by itself.
trait Element: Copy + Default {
    fn lanes<S: Simd>(simd: S, weights: &[Self; LANES]) -> S::Lanes;
}

impl Element for u16 {
    #[inline(always)]
    fn lanes<S: Simd>(simd: S, weights: &[Self; LANES]) -> S::Lanes {
        simd.widen(weights)
    }
}

impl Element for f32 {
    #[inline(always)]
    fn lanes<S: Simd>(simd: S, weights: &[Self; LANES]) -> S::Lanes {
        simd.load(weights)
    }
}

#[derive(Clone, Copy)]
struct Plain<'a, E> {
    weights: &'a [E],
    columns: usize,
}

impl<'a, E: Element> Weights for Plain<'a, E> {
    /// Whole steps, and what is left.
    type Row = (&'a [[E; STEP]], &'a [E]);
    const LINES: usize = size_of::<[E; STEP]>() / 64;
    const STEPS: usize = 1;

    #[inline(always)]
    fn row(self, row: usize) -> Self::Row {
        self.weights[row * self.columns..][..self.columns].as_chunks()
    }

    #[inline(always)]
    fn whole_steps(self) -> usize {
        self.columns / STEP
    }

    #[inline(always)]
    fn decode<S: Simd>(simd: S, (whole, _): Self::Row, step: usize) -> [S::Lanes; 2] {
        lanes(simd, &whole[step])
    }

    #[inline(always)]
    fn decode_rest<S: Simd>(simd: S, (_, rest): Self::Row) -> [S::Lanes; 2] {
        let mut padded = [E::default(); STEP];
        padded[..rest.len()].copy_from_slice(rest);
        lanes(simd, &padded)
    }

    #[inline(always)]
    fn below(self, (whole, _): Self::Row, step: usize, rows: usize) -> *const u8 {
        whole.as_ptr().wrapping_add(step).cast::<E>().wrapping_add(rows * self.columns).cast()
    }
}

#[inline(always)]
fn lanes<E: Element, S: Simd>(simd: S, weights: &[E; STEP]) -> [S::Lanes; 2] {
    let (halves, _) = weights.as_chunks::<LANES>();
    [E::lanes(simd, &halves[0]), E::lanes(simd, &halves[1])]
}

#[derive(Clone, Copy)]
struct Packed<'a> {
    nibbles: &'a [[u8; PACKED]],
    scales: &'a [u8],
    groups: usize,
}

impl<'a> Weights for Packed<'a> {
    /// Groups, and their scales.
    type Row = (&'a [[u8; PACKED]], &'a [u8]);
    const LINES: usize = 1;
    const STEPS: usize = 64 / PACKED;

    #[inline(always)]
    fn row(self, row: usize) -> Self::Row {
        let groups = row * self.groups..(row + 1) * self.groups;
        (&self.nibbles[groups.clone()], &self.scales[groups])
    }

    /// Rows of MXFP4 are whole groups, so there is no other step.
    #[inline(always)]
    fn whole_steps(self) -> usize {
        self.groups
    }

    #[inline(always)]
    fn decode<S: Simd>(simd: S, (nibbles, scales): Self::Row, step: usize) -> [S::Lanes; 2] {
        simd.unpack(&nibbles[step], scales[step])
    }

    #[inline(always)]
    fn decode_rest<S: Simd>(simd: S, _: Self::Row) -> [S::Lanes; 2] {
        [simd.zero(); 2]
    }

    #[inline(always)]
    fn below(self, (nibbles, _): Self::Row, step: usize, rows: usize) -> *const u8 {
        nibbles.as_ptr().wrapping_add(step + rows * self.groups).cast()
    }
}

/// See [`super::reference::bf16_rows`].
#[inline(always)]
pub(super) fn bf16_rows<S: Simd>(simd: S, weights: &[u16], xs: &Vectors<'_>, out: &mut [f32]) {
    check_rows(weights.len(), xs, out);
    multiply(simd, Plain { weights, columns: xs.columns() }, xs, out);
}

/// See [`super::reference::f32_rows`].
#[inline(always)]
pub(super) fn f32_rows<S: Simd>(simd: S, weights: &[f32], xs: &Vectors<'_>, out: &mut [f32]) {
    check_rows(weights.len(), xs, out);
    multiply(simd, Plain { weights, columns: xs.columns() }, xs, out);
}

/// See [`super::reference::mxfp4_rows`].
#[inline(always)]
pub(super) fn mxfp4_rows<S: Simd>(simd: S, packed: &[u8], scales: &[u8], xs: &Vectors<'_>, out: &mut [f32]) {
    check_packed_rows(packed, scales, xs, out);
    let (nibbles, _) = packed.as_chunks();
    multiply(simd, Packed { nibbles, scales, groups: xs.steps() }, xs, out);
}
