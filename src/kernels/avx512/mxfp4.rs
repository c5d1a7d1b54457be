//! An MXFP4 matrix times one vector or a few: what tokens do with their experts.
//!
//! With few vectors little makes up for the decoding of weights, so it is done with as little as can be. What is
//! multiplied, and in which order, is as everywhere.
//!
//! A register's quarters all take the 16 bytes of a group, and quarter `q` shifts its four numbers of 32 bits by `q` bytes:
//! lane `4q + d` then has byte `4d + q` lowest, without the one port that can move data between lanes. The vector is
//! put into that order before, and the sums out of it after. Scales become multipliers 16 at a time.

use std::arch::x86_64::{
    __m512, __m512i, _mm_loadu_si128, _mm512_broadcast_i32x4, _mm512_castsi512_ps, _mm512_cmpeq_epi32_mask,
    _mm512_cvtepu8_epi32, _mm512_fmadd_ps, _mm512_mask_mov_epi32, _mm512_mul_ps, _mm512_permutexvar_ps,
    _mm512_set1_epi32, _mm512_set1_ps, _mm512_setr_epi32, _mm512_setzero_ps, _mm512_slli_epi32,
    _mm512_srlv_epi32, _mm512_storeu_ps,
};
use std::array::from_fn;

use super::super::blocks::Simd;
use super::super::mxfp4::{E2M1, PACKED, scale};
use super::super::reference::{LANES, check_packed_rows};
use super::super::vectors::Vectors;
use super::{Avx512, fold, load};

/// Rows at a time. Those below are fetched meanwhile, and both have to fit beside the vector into a first-level cache that
/// may be shared with another thread.
const ROWS: usize = 4;

/// Groups whose scales become multipliers at once.
const TILE: usize = 16;

/// The scale of what fills a tile up. That of 0 would do too, but is a number that takes processors long.
const ONE: u8 = 127;

/// Groups of a line of memory.
const LINE: usize = 64 / PACKED;

/// A tile of the vectors: for each group and vector what meets the low nibbles and what meets the high ones.
#[derive(Clone)]
#[repr(align(64))]
struct Tile<const T: usize>([[[[f32; LANES]; 2]; T]; TILE]);

/// The multipliers of a tile.
#[repr(align(64))]
struct Multipliers([[f32; TILE]; ROWS]);

/// See [`mod@super::super::reference`], with `T` vectors, which are all there are.
#[inline]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
#[expect(clippy::needless_range_loop, reason = "an index is one of several arrays")]
pub(super) fn rows<const T: usize>(packed: &[u8], scales: &[u8], xs: &Vectors<'_>, out: &mut [f32]) {
    check_packed_rows(packed, scales, xs, out);
    let (nibbles, _) = packed.as_chunks::<PACKED>();
    let groups = xs.steps();
    let xs: Vec<Tile<T>> = tiles(xs);
    let (table, turn, low, high) = (load(&E2M1), turn(), low(), high());
    let (out, _) = out.as_chunks_mut::<T>();
    let last = out.len() - 1;
    for (block, out) in out.chunks_mut(ROWS).enumerate() {
        // Where rows run out the last one is repeated: it is computed again and comes to the same.
        let rows: [usize; ROWS] = from_fn(|r| (block * ROWS + r).min(last) * groups);
        let mut sums = [[_mm512_setzero_ps(); T]; ROWS];
        for (tile, xs) in xs.iter().enumerate() {
            let (first, count) = (tile * TILE, TILE.min(groups - tile * TILE));
            let padded: [_; ROWS];
            let (tile, scales): ([&[_; TILE]; ROWS], [_; ROWS]) = if count == TILE {
                (
                    rows.map(|row| whole(&nibbles[row + first..])),
                    rows.map(|row| *whole(&scales[row + first..])),
                )
            } else {
                padded = rows.map(|row| filled(&nibbles[row + first..][..count], [0; PACKED]));
                (padded.each_ref(), rows.map(|row| filled(&scales[row + first..][..count], ONE)))
            };
            let mut multipliers = Multipliers([[0.0; TILE]; ROWS]);
            for (to, scales) in multipliers.0.iter_mut().zip(&scales) {
                store(to, multipliers_of(scales));
            }
            for line in (0..TILE).step_by(LINE) {
                for tile in tile {
                    Avx512(()).prefetch(tile.as_ptr().wrapping_add(line + ROWS * groups).cast());
                }
                for g in line..line + LINE {
                    let mut weights = [[_mm512_setzero_ps(); 2]; ROWS];
                    for r in 0..ROWS {
                        let table = _mm512_mul_ps(table, _mm512_set1_ps(multipliers.0[r][g]));
                        let bytes = quarters(&tile[r][g]);
                        // The permutation takes the lowest four bits of each index and ignores the others.
                        weights[r] = [low, high]
                            .map(|shift| _mm512_permutexvar_ps(_mm512_srlv_epi32(bytes, shift), table));
                    }
                    for t in 0..T {
                        for half in 0..2 {
                            let x = load(&xs.0[g][t][half]);
                            for r in 0..ROWS {
                                sums[r][t] = _mm512_fmadd_ps(x, weights[r][half], sums[r][t]);
                            }
                        }
                    }
                }
            }
        }
        for (out, sums) in out.as_flattened_mut().iter_mut().zip(sums.as_flattened()) {
            *out = fold(_mm512_permutexvar_ps(turn, *sums));
        }
    }
}

/// The vectors in the order of lanes, filled up with -0: weights are zero there, and -0 is what can be added to any sum,
/// even to -0, without a change.
#[inline]
#[target_feature(enable = "avx512f")]
fn tiles<const T: usize>(xs: &Vectors<'_>) -> Vec<Tile<T>> {
    let turn = turn();
    let (halves, _) = xs.block(&(0..T), 0).as_chunks::<LANES>();
    let mut tiles = vec![Tile([[[[-0.0; LANES]; 2]; T]; TILE]); xs.steps().div_ceil(TILE)];
    for (to, from) in
        tiles.iter_mut().flat_map(|tile| tile.0.as_flattened_mut().as_flattened_mut()).zip(halves)
    {
        store(to, _mm512_permutexvar_ps(turn, load(from)));
    }
    tiles
}

/// A tile that begins here.
fn whole<T>(groups: &[T]) -> &[T; TILE] {
    &groups.as_chunks().0[0]
}

/// A tile of fewer groups, filled up.
fn filled<T: Copy>(groups: &[T], with: T) -> [T; TILE] {
    let mut tile = [with; TILE];
    tile[..groups.len()].copy_from_slice(groups);
    tile
}

/// What scale bytes stand for; see [`scale`].
#[inline]
#[target_feature(enable = "avx512f")]
fn multipliers_of(scales: &[u8; TILE]) -> __m512 {
    // SAFETY: the array has 16 bytes, and the instruction asks for no alignment.
    let bytes = _mm512_cvtepu8_epi32(unsafe { _mm_loadu_si128(scales.as_ptr().cast()) });
    let bits = _mm512_slli_epi32::<23>(bytes);
    let is = |byte: u8| _mm512_cmpeq_epi32_mask(bytes, _mm512_set1_epi32(i32::from(byte)));
    let as_bits = |byte: u8| _mm512_set1_epi32(scale(byte).to_bits().cast_signed());
    let bits = _mm512_mask_mov_epi32(bits, is(0), as_bits(0));
    _mm512_castsi512_ps(_mm512_mask_mov_epi32(bits, is(255), as_bits(255)))
}

/// The bytes in each quarter.
#[inline]
#[target_feature(enable = "avx512f")]
fn quarters(bytes: &[u8; PACKED]) -> __m512i {
    // SAFETY: the array has 16 bytes, and the instruction asks for no alignment.
    _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) })
}

/// Which place each lane takes what it holds from; a second time, and all is back in place.
#[inline]
#[target_feature(enable = "avx512f")]
fn turn() -> __m512i {
    _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)
}

/// How far the low nibble of a lane's byte is from the lowest bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn low() -> __m512i {
    _mm512_setr_epi32(0, 0, 0, 0, 8, 8, 8, 8, 16, 16, 16, 16, 24, 24, 24, 24)
}

/// The same of the high nibble.
#[inline]
#[target_feature(enable = "avx512f")]
fn high() -> __m512i {
    _mm512_setr_epi32(4, 4, 4, 4, 12, 12, 12, 12, 20, 20, 20, 20, 28, 28, 28, 28)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(to: &mut [f32; LANES], lanes: __m512) {
    // SAFETY: the array has room for sixteen f32, and the instruction asks for no alignment.
    unsafe { _mm512_storeu_ps(to.as_mut_ptr(), lanes) }
}
