//! AVX-512: sixteen f32 are one register.
//!
//! What this file does not define is the reference, compiled with these features: the compiler makes of it what could
//! be written by hand.

#![expect(unsafe_code, reason = "instructions of one processor, and memory that they read")]

mod mxfp4;

use std::arch::x86_64::{
    __m512, _MM_HINT_T0, _mm_add_ps, _mm_add_ss, _mm_cvtss_f32, _mm_loadu_si128, _mm_movehdup_ps,
    _mm_movehl_ps, _mm_prefetch, _mm256_add_ps, _mm256_castps256_ps128, _mm256_extractf128_ps,
    _mm256_loadu_si256, _mm512_castps512_ps256, _mm512_castsi512_ps, _mm512_cvtepu8_epi32,
    _mm512_cvtepu16_epi32, _mm512_extractf32x8_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mul_ps,
    _mm512_permutexvar_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_slli_epi32, _mm512_srli_epi32,
};

use super::blocks::{self, Job, Simd, Weights};
use super::mxfp4::{E2M1, PACKED, SCALES};
use super::reference::LANES;
pub(super) use super::reference::*;
use super::vectors::Vectors;

/// Most vectors of a block.
pub(super) const WIDEST: usize = 12;

/// Proof that the processor has what this file uses: only a function that needs it as well can make one.
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

impl Avx512 {
    #[inline]
    #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
    fn here() -> Self {
        Self(())
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(x: &[f32; LANES]) -> __m512 {
    // SAFETY: the array has sixteen f32, and the instruction asks for no alignment.
    unsafe { _mm512_loadu_ps(x.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn widen(bits: &[u16; LANES]) -> __m512 {
    // SAFETY: the array has 32 bytes, and the instruction asks for no alignment.
    let bits = unsafe { _mm256_loadu_si256(bits.as_ptr().cast()) };
    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(bits)))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn unpack(bytes: &[u8; PACKED], scale: u8) -> [__m512; 2] {
    // SAFETY: the array has 16 bytes, and the instruction asks for no alignment.
    let bytes = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
    let table = _mm512_mul_ps(load(&E2M1), _mm512_set1_ps(SCALES[usize::from(scale)]));
    // The permutation takes the lowest four bits of each index and ignores the others.
    let low = _mm512_cvtepu8_epi32(bytes);
    let high = _mm512_srli_epi32::<4>(low);
    [_mm512_permutexvar_ps(low, table), _mm512_permutexvar_ps(high, table)]
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn fold(sums: __m512) -> f32 {
    let eight = _mm256_add_ps(_mm512_castps512_ps256(sums), _mm512_extractf32x8_ps::<1>(sums));
    let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
}

#[expect(clippy::inline_always, reason = "a kernel must compile them with its own target features")]
impl Simd for Avx512 {
    type Lanes = __m512;
    const WIDEST: usize = WIDEST;

    #[inline(always)]
    fn zero(self) -> __m512 {
        // SAFETY: `self` proves the feature.
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> __m512 {
        // SAFETY: `self` proves the feature.
        unsafe { load(x) }
    }

    #[inline(always)]
    fn widen(self, bits: &[u16; LANES]) -> __m512 {
        // SAFETY: `self` proves the feature.
        unsafe { widen(bits) }
    }

    #[inline(always)]
    fn unpack(self, bytes: &[u8; PACKED], scale: u8) -> [__m512; 2] {
        // SAFETY: `self` proves the feature.
        unsafe { unpack(bytes, scale) }
    }

    #[inline(always)]
    fn mul_add(self, x: __m512, w: __m512, sum: __m512) -> __m512 {
        // SAFETY: `self` proves the feature.
        unsafe { _mm512_fmadd_ps(x, w, sum) }
    }

    #[inline(always)]
    fn fold(self, sums: __m512) -> f32 {
        // SAFETY: `self` proves the features.
        unsafe { fold(sums) }
    }

    #[inline(always)]
    fn prefetch(self, place: *const u8) {
        // SAFETY: a prefetch never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) }
    }

    /// 32 registers: 8 to 24 for sums, as many rows as leave room for their decoded weights.
    #[inline(always)]
    fn run<W: Weights>(self, job: Job<'_, W, Self>) {
        match job.vectors() {
            1 => job.run::<8, 1>(self),
            2 => job.run::<4, 2>(self),
            3 => job.run::<4, 3>(self),
            4 => job.run::<4, 4>(self),
            5 => job.run::<2, 5>(self),
            6 => job.run::<2, 6>(self),
            7 => job.run::<2, 7>(self),
            8 => job.run::<2, 8>(self),
            9 => job.run::<2, 9>(self),
            10 => job.run::<2, 10>(self),
            11 => job.run::<2, 11>(self),
            _ => job.run::<2, 12>(self),
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn bf16_rows(weights: &[u16], xs: &Vectors<'_>, out: &mut [f32]) {
    blocks::bf16_rows(Avx512::here(), weights, xs, out);
}

#[inline]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn f32_rows(weights: &[f32], xs: &Vectors<'_>, out: &mut [f32]) {
    blocks::f32_rows(Avx512::here(), weights, xs, out);
}

#[inline]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn mxfp4_rows(packed: &[u8], scales: &[u8], xs: &Vectors<'_>, out: &mut [f32]) {
    match xs.count() {
        1 => mxfp4::rows::<1>(packed, scales, xs, out),
        2 => mxfp4::rows::<2>(packed, scales, xs, out),
        3 => mxfp4::rows::<3>(packed, scales, xs, out),
        4 => mxfp4::rows::<4>(packed, scales, xs, out),
        5 => mxfp4::rows::<5>(packed, scales, xs, out),
        _ => blocks::mxfp4_rows(Avx512::here(), packed, scales, xs, out),
    }
}
