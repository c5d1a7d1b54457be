//! AVX2 with FMA: sixteen f32 are two registers.
//!
//! What this file does not define is the reference, compiled with these features.

#![expect(unsafe_code, reason = "instructions of one processor, and memory that they read")]

use std::arch::x86_64::{
    __m256, __m256i, _MM_HINT_T0, _mm_add_ps, _mm_add_ss, _mm_cvtss_f32, _mm_loadu_si128, _mm_movehdup_ps,
    _mm_movehl_ps, _mm_prefetch, _mm_unpackhi_epi64, _mm256_add_ps, _mm256_and_ps, _mm256_castps256_ps128,
    _mm256_castsi256_ps, _mm256_cvtepu8_epi32, _mm256_cvtepu16_epi32, _mm256_extractf128_ps, _mm256_fmadd_ps,
    _mm256_loadu_ps, _mm256_permutevar8x32_ps, _mm256_set1_ps, _mm256_setzero_ps, _mm256_slli_epi32,
    _mm256_srli_epi32, _mm256_xor_ps,
};

use super::blocks::{self, Job, Simd, Weights};
use super::mxfp4::{PACKED, SIZES};
use super::reference::LANES;
pub(super) use super::reference::*;
use super::vectors::Vectors;

/// Most vectors of a block.
pub(super) const WIDEST: usize = 6;

/// Proof that the processor has what this file uses: only a function that needs it as well can make one.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

impl Avx2 {
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn here() -> Self {
        Self(())
    }
}

type Lanes = [__m256; 2];

#[inline]
#[target_feature(enable = "avx2")]
fn load_half(x: &[f32; LANES / 2]) -> __m256 {
    // SAFETY: the array has eight f32, and the instruction asks for no alignment.
    unsafe { _mm256_loadu_ps(x.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(x: &[f32; LANES]) -> Lanes {
    let (halves, _) = x.as_chunks();
    [load_half(&halves[0]), load_half(&halves[1])]
}

#[inline]
#[target_feature(enable = "avx2")]
fn widen_half(bits: &[u16; LANES / 2]) -> __m256 {
    // SAFETY: the array has 16 bytes, and the instruction asks for no alignment.
    let bits = unsafe { _mm_loadu_si128(bits.as_ptr().cast()) };
    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(bits)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn widen(bits: &[u16; LANES]) -> Lanes {
    let (halves, _) = bits.as_chunks();
    [widen_half(&halves[0]), widen_half(&halves[1])]
}

/// Looks nibbles up, which are the lowest four bits of each index: the size in the first half of the table, the sign on
/// top of it.
#[inline]
#[target_feature(enable = "avx2")]
fn look_up(table: __m256, nibbles: __m256i) -> __m256 {
    let size = _mm256_permutevar8x32_ps(table, nibbles);
    let sign = _mm256_and_ps(_mm256_castsi256_ps(_mm256_slli_epi32::<28>(nibbles)), _mm256_set1_ps(-0.0));
    _mm256_xor_ps(size, sign)
}

#[inline]
#[target_feature(enable = "avx2")]
fn unpack(bytes: &[u8; PACKED], scale: u8) -> [Lanes; 2] {
    // SAFETY: the array has 16 bytes, and the instruction asks for no alignment.
    let bytes = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
    let table = load_half(&SIZES[usize::from(scale)].0);
    let low = [_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_unpackhi_epi64(bytes, bytes))];
    let high = [_mm256_srli_epi32::<4>(low[0]), _mm256_srli_epi32::<4>(low[1])];
    [[look_up(table, low[0]), look_up(table, low[1])], [look_up(table, high[0]), look_up(table, high[1])]]
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn mul_add(x: Lanes, w: Lanes, sum: Lanes) -> Lanes {
    [_mm256_fmadd_ps(x[0], w[0], sum[0]), _mm256_fmadd_ps(x[1], w[1], sum[1])]
}

#[inline]
#[target_feature(enable = "avx2")]
fn fold(sums: Lanes) -> f32 {
    let eight = _mm256_add_ps(sums[0], sums[1]);
    let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
}

#[expect(clippy::inline_always, reason = "a kernel must compile them with its own target features")]
impl Simd for Avx2 {
    type Lanes = Lanes;
    const WIDEST: usize = WIDEST;

    #[inline(always)]
    fn zero(self) -> Lanes {
        // SAFETY: `self` proves the feature.
        [unsafe { _mm256_setzero_ps() }; 2]
    }

    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Lanes {
        // SAFETY: `self` proves the feature.
        unsafe { load(x) }
    }

    #[inline(always)]
    fn widen(self, bits: &[u16; LANES]) -> Lanes {
        // SAFETY: `self` proves the feature.
        unsafe { widen(bits) }
    }

    #[inline(always)]
    fn unpack(self, bytes: &[u8; PACKED], scale: u8) -> [Lanes; 2] {
        // SAFETY: `self` proves the feature.
        unsafe { unpack(bytes, scale) }
    }

    #[inline(always)]
    fn mul_add(self, x: Lanes, w: Lanes, sum: Lanes) -> Lanes {
        // SAFETY: `self` proves the features.
        unsafe { mul_add(x, w, sum) }
    }

    #[inline(always)]
    fn fold(self, sums: Lanes) -> f32 {
        // SAFETY: `self` proves the feature.
        unsafe { fold(sums) }
    }

    #[inline(always)]
    fn prefetch(self, place: *const u8) {
        // SAFETY: a prefetch never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) }
    }

    /// 16 registers: 8 to 12 for sums, the others for weights and vectors on their way.
    #[inline(always)]
    fn run<W: Weights>(self, job: Job<'_, W, Self>) {
        match job.vectors() {
            1 => job.run::<4, 1>(self),
            2 => job.run::<2, 2>(self),
            3 => job.run::<1, 3>(self),
            4 => job.run::<1, 4>(self),
            5 => job.run::<1, 5>(self),
            _ => job.run::<1, 6>(self),
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn bf16_rows(weights: &[u16], xs: &Vectors<'_>, out: &mut [f32]) {
    blocks::bf16_rows(Avx2::here(), weights, xs, out);
}

#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn f32_rows(weights: &[f32], xs: &Vectors<'_>, out: &mut [f32]) {
    blocks::f32_rows(Avx2::here(), weights, xs, out);
}

#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn mxfp4_rows(packed: &[u8], scales: &[u8], xs: &Vectors<'_>, out: &mut [f32]) {
    blocks::mxfp4_rows(Avx2::here(), packed, scales, xs, out);
}
