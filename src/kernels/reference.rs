//! The contract in scalar Rust.
//!
//! All is `inline(always)`, so that a wrapper with target features compiles it with these features: most functions of the
//! faster tiers are these here, and the loops are written so that the compiler finds the vectors in them. `mul_add` is
//! one instruction where the features have it, and a call to the exact routine of the C library elsewhere: slow, and
//! the same bits.
#![expect(clippy::inline_always, reason = "a tier must compile the body with its own target features")]

use super::math::{self, bf16, exp};
use super::mxfp4::{E2M1, GROUP, PACKED, scale};
use super::vectors::Vectors;

/// Partial sums of a dot product.
pub const LANES: usize = 16;

type Sums = [f32; LANES];

/// Folds the partial sums in halves.
#[inline(always)]
fn fold(mut sums: Sums) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for k in 0..half {
            sums[k] += sums[k + half];
        }
        half /= 2;
    }
    sums[0]
}

/// Dot product of two vectors of the same length.
#[inline(always)]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len(), "both vectors have the same length");
    let (a_steps, a_tail) = a.as_chunks::<LANES>();
    let (b_steps, b_tail) = b.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in a_steps.iter().zip(b_steps) {
        for k in 0..LANES {
            sums[k] = a[k].mul_add(b[k], sums[k]);
        }
    }
    for (k, (a, b)) in a_tail.iter().zip(b_tail).enumerate() {
        sums[k] = a.mul_add(*b, sums[k]);
    }
    fold(sums)
}

#[inline(always)]
fn dot_bf16(weights: &[u16], x: &[f32]) -> f32 {
    let (w_steps, w_tail) = weights.as_chunks::<LANES>();
    let (x_steps, x_tail) = x.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (w, x) in w_steps.iter().zip(x_steps) {
        for k in 0..LANES {
            sums[k] = x[k].mul_add(bf16(w[k]), sums[k]);
        }
    }
    for (k, (w, x)) in w_tail.iter().zip(x_tail).enumerate() {
        sums[k] = x.mul_add(bf16(*w), sums[k]);
    }
    fold(sums)
}

/// Rows of bf16 times vectors: `weights` is `[rows, columns]`, `out` is `[rows, vectors]`.
#[inline(always)]
pub fn bf16_rows(weights: &[u16], xs: &Vectors<'_>, out: &mut [f32]) {
    check_rows(weights.len(), xs, out);
    let columns = xs.columns();
    for (row, out) in weights.chunks_exact(columns).zip(out.chunks_exact_mut(xs.count())) {
        for (x, out) in xs.plain().chunks_exact(columns).zip(out) {
            *out = dot_bf16(row, x);
        }
    }
}

/// The same with weights in f32.
#[inline(always)]
pub fn f32_rows(weights: &[f32], xs: &Vectors<'_>, out: &mut [f32]) {
    check_rows(weights.len(), xs, out);
    let columns = xs.columns();
    for (row, out) in weights.chunks_exact(columns).zip(out.chunks_exact_mut(xs.count())) {
        for (x, out) in xs.plain().chunks_exact(columns).zip(out) {
            *out = dot(row, x);
        }
    }
}

/// Whether `weights` of a matrix are whole rows, and all shapes agree.
#[inline(always)]
pub(super) fn check_rows(weights: usize, xs: &Vectors<'_>, out: &[f32]) {
    assert!(weights.is_multiple_of(xs.columns()), "whole rows");
    assert_eq!(out.len(), weights / xs.columns() * xs.count(), "one result for each row and vector");
}

/// The same for packed rows.
#[inline(always)]
pub(super) fn check_packed_rows(packed: &[u8], scales: &[u8], xs: &Vectors<'_>, out: &[f32]) {
    assert!(xs.columns().is_multiple_of(GROUP), "whole groups");
    assert_eq!(packed.len(), scales.len() * PACKED, "one scale for each group");
    check_rows(packed.len() * 2, xs, out);
}

/// Rows of MXFP4 times vectors: `packed` is `[rows, columns / 2]`, `scales` is `[rows, columns / 32]`, `xs` are vectors
/// after [`super::deinterleave`], `out` is `[rows, vectors]`.
#[inline(always)]
pub fn mxfp4_rows(packed: &[u8], scales: &[u8], xs: &Vectors<'_>, out: &mut [f32]) {
    check_packed_rows(packed, scales, xs, out);
    let columns = xs.columns();
    let rows = packed.chunks_exact(columns / 2).zip(scales.chunks_exact(columns / GROUP));
    for ((packed, scales), out) in rows.zip(out.chunks_exact_mut(xs.count())) {
        for (x, out) in xs.plain().chunks_exact(columns).zip(out) {
            *out = dot_mxfp4(packed, scales, x);
        }
    }
}

#[inline(always)]
fn dot_mxfp4(packed: &[u8], scales: &[u8], x: &[f32]) -> f32 {
    let (groups, _) = packed.as_chunks::<PACKED>();
    let (xs, _) = x.as_chunks::<GROUP>();
    let mut sums = [0.0; LANES];
    for ((bytes, &exponent), x) in groups.iter().zip(scales).zip(xs) {
        let scale = scale(exponent);
        for k in 0..LANES {
            sums[k] = x[k].mul_add(E2M1[usize::from(bytes[k] & 15)] * scale, sums[k]);
        }
        for k in 0..LANES {
            sums[k] = x[LANES + k].mul_add(E2M1[usize::from(bytes[k] >> 4)] * scale, sums[k]);
        }
    }
    fold(sums)
}

/// A vector times rows of bf16, which is a dot product along each column: `weights` is `[rows, columns]`, `x` is
/// `[rows]`, `out` is `[columns]`. This is how queries are taken into the latent space.
#[inline(always)]
pub fn bf16_columns(weights: &[u16], columns: usize, x: &[f32], out: &mut [f32]) {
    assert!(columns > 0 && weights.len() == x.len() * columns && out.len() == columns, "shapes agree");
    // Row by row, as memory has them; the 16 sums of all columns lie in the nearest cache.
    let mut sums = vec![0.0; LANES * columns];
    for (row, (weights, x)) in weights.chunks_exact(columns).zip(x).enumerate() {
        let sums = &mut sums[row % LANES * columns..][..columns];
        for (sum, w) in sums.iter_mut().zip(weights) {
            *sum = x.mul_add(bf16(*w), *sum);
        }
    }
    let mut half = LANES / 2 * columns;
    while half >= columns {
        let (low, high) = sums.split_at_mut(half);
        for (low, high) in low.iter_mut().zip(&high[..half]) {
            *low += high;
        }
        half /= 2;
    }
    out.copy_from_slice(&sums[..columns]);
}

/// `sum + factor * x`, element by element.
#[inline(always)]
pub fn add_scaled(sum: &mut [f32], factor: f32, x: &[f32]) {
    assert_eq!(sum.len(), x.len(), "both vectors have the same length");
    for (sum, x) in sum.iter_mut().zip(x) {
        *sum = factor.mul_add(*x, *sum);
    }
}

/// Adds to weighted sums rows of `stride` elements, in rising order of rows: sum `i` of `out`, `[sums, width]`, takes as many
/// rows as `weights[i]` has weights, and the first `width` elements of each.
#[inline(always)]
pub fn add_weighted_rows(weights: &[&[f32]], rows: &[f32], stride: usize, out: &mut [f32]) {
    let width = out.len().checked_div(weights.len()).unwrap_or_default();
    assert!(width > 0 && width <= stride && out.len() == weights.len() * width, "shapes agree");
    assert!(weights.iter().all(|weights| weights.len() * stride <= rows.len()), "a row for each weight");
    // Row by row, so that each comes from memory once for all sums.
    for (i, row) in rows.chunks_exact(stride).enumerate() {
        for (weights, out) in weights.iter().zip(out.chunks_exact_mut(width)) {
            if let Some(weight) = weights.get(i) {
                add_scaled(out, *weight, &row[..width]);
            }
        }
    }
}

/// Sum with [`LANES`] partial sums, folded like a dot product.
#[inline(always)]
pub fn sum(x: &[f32]) -> f32 {
    let (steps, tail) = x.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for x in steps {
        for k in 0..LANES {
            sums[k] += x[k];
        }
    }
    for (k, x) in tail.iter().enumerate() {
        sums[k] += x;
    }
    fold(sums)
}

/// Adds words up, from eight places of memory in turn: what a kernel could reach that had nothing to compute. Words beyond
/// the last whole line of each place are left out.
#[inline(always)]
pub fn read(words: &[u32]) -> u32 {
    const PLACES: usize = 8;
    let (lines, _) = words.as_chunks::<LANES>();
    let length = lines.len() / PLACES;
    let mut sums = [[0u32; LANES]; PLACES];
    for i in 0..length {
        for place in 0..PLACES {
            for k in 0..LANES {
                sums[place][k] = sums[place][k].wrapping_add(lines[place * length + i][k]);
            }
        }
    }
    sums.as_flattened().iter().fold(0, |sum, part| sum.wrapping_add(*part))
}

/// One step of the KDA recurrence for one head (spec, section 4.4). `state` is `[keys, values]`; `q`, `k` and `decay`
/// are `[keys]`; `v`, `error` (scratch) and `out` are `[values]`.
///
/// Each row decays first, the prediction error is taken with the decayed state, and the output is read after the
/// update. Sums along keys go up from the first key.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "these are the operands of the recurrence")]
pub fn kda_step(
    state: &mut [f32],
    q: &[f32],
    k: &[f32],
    v: &[f32],
    decay: &[f32],
    beta: f32,
    error: &mut [f32],
    out: &mut [f32],
) {
    let (keys, values) = (k.len(), v.len());
    assert!(
        values > 0 && state.len() == keys * values && q.len() == keys && decay.len() == keys,
        "shapes agree"
    );
    assert!(error.len() == values && out.len() == values, "shapes agree");
    out.fill(0.0);
    for ((row, decay), k) in state.chunks_exact_mut(values).zip(decay).zip(k) {
        for (s, predicted) in row.iter_mut().zip(out.iter_mut()) {
            *s *= *decay;
            *predicted = k.mul_add(*s, *predicted);
        }
    }
    for ((error, v), predicted) in error.iter_mut().zip(v).zip(out.iter_mut()) {
        *error = beta * (v - *predicted);
        *predicted = 0.0;
    }
    for ((row, q), k) in state.chunks_exact_mut(values).zip(q).zip(k) {
        for ((s, error), out) in row.iter_mut().zip(error.iter()).zip(out.iter_mut()) {
            *s = k.mul_add(*error, *s);
            *out = q.mul_add(*s, *out);
        }
    }
}

/// Softmax in place: `e^(x - max) / sum`. An empty slice stays empty.
#[inline(always)]
pub fn softmax(x: &mut [f32]) {
    let (steps, tail) = x.as_chunks::<LANES>();
    let mut most = [f32::NEG_INFINITY; LANES];
    for x in steps {
        for k in 0..LANES {
            most[k] = if x[k] > most[k] { x[k] } else { most[k] };
        }
    }
    let most = most.iter().chain(tail).copied().fold(f32::NEG_INFINITY, f32::max);
    for x in x.iter_mut() {
        *x = exp(*x - most);
    }
    let total = sum(x);
    for x in x {
        *x /= total;
    }
}

/// `sigmoid(x)` in place.
#[inline(always)]
pub fn sigmoid(x: &mut [f32]) {
    for x in x {
        *x = math::sigmoid(*x);
    }
}

/// `x * sigmoid(gate)` in place.
#[inline(always)]
pub fn gate(x: &mut [f32], gates: &[f32]) {
    assert_eq!(x.len(), gates.len(), "one gate for each number");
    for (x, gate) in x.iter_mut().zip(gates) {
        *x *= math::sigmoid(*gate);
    }
}

/// SiTU-GLU (spec, section 4.6) of gates and their linear halves, into `gates`.
#[inline(always)]
pub fn situ(gates: &mut [f32], ups: &[f32], beta: f32, linear_beta: f32) {
    assert_eq!(gates.len(), ups.len(), "one linear half for each gate");
    for (gate, up) in gates.iter_mut().zip(ups) {
        *gate = math::situ(*gate, *up, beta, linear_beta);
    }
}

/// The factors by which the state of one KDA head decays (spec, section 4.4), in place of `f`:
/// `exp(bound * sigmoid(rate * (f + bias)))`.
#[inline(always)]
pub fn kda_decay(f: &mut [f32], bias: &[f32], rate: f32, bound: f32) {
    assert_eq!(f.len(), bias.len(), "one bias for each channel");
    for (f, bias) in f.iter_mut().zip(bias) {
        *f = exp(bound * math::sigmoid(rate * (*f + bias)));
    }
}

/// One token's depthwise convolution with SiLU after it: `inputs` is `[taps, channels]`, oldest first, `weights` is
/// `[channels, taps]`.
#[inline(always)]
pub fn convolve(inputs: &[f32], weights: &[f32], out: &mut [f32]) {
    let channels = out.len();
    assert!(
        channels > 0 && inputs.len() == weights.len() && inputs.len().is_multiple_of(channels),
        "shapes agree"
    );
    let taps = inputs.len() / channels;
    out.fill(0.0);
    for (tap, inputs) in inputs.chunks_exact(channels).enumerate() {
        for (channel, (out, input)) in out.iter_mut().zip(inputs).enumerate() {
            *out = weights[channel * taps + tap].mul_add(*input, *out);
        }
    }
    for out in out {
        *out = math::silu(*out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The contract once more, as plainly as it can be said.
    fn plain_dot(a: &[f32], b: &[f32]) -> f32 {
        let mut s = [0.0f32; 16];
        for i in 0..a.len() {
            s[i % 16] = a[i].mul_add(b[i], s[i % 16]);
        }
        let e: Vec<f32> = (0..8).map(|k| s[k] + s[k + 8]).collect();
        let f: Vec<f32> = (0..4).map(|k| e[k] + e[k + 4]).collect();
        (f[0] + f[2]) + (f[1] + f[3])
    }

    fn noise(n: usize, seed: u32) -> Vec<f32> {
        let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..n).map(|_| next()).collect()
    }

    #[test]
    fn a_dot_has_sixteen_sums_folded_in_halves() {
        for n in 0..70 {
            let (a, b) = (noise(n, 1), noise(n, 2));
            assert_eq!(dot(&a, &b).to_bits(), plain_dot(&a, &b).to_bits(), "length {n}");
        }
    }

    #[test]
    fn columns_are_dots_along_the_rows() {
        for (rows, columns) in [(1, 1), (24, 48), (17, 33), (128, 16), (5, 100)] {
            let weights: Vec<u16> =
                noise(rows * columns, 3).iter().map(|w| (w.to_bits() >> 16) as u16).collect();
            let x = noise(rows, 4);
            let mut out = vec![0.0; columns];
            bf16_columns(&weights, columns, &x, &mut out);
            for (c, out) in out.iter().enumerate() {
                let column: Vec<f32> = (0..rows).map(|r| bf16(weights[r * columns + c])).collect();
                assert_eq!(
                    out.to_bits(),
                    plain_dot(&x, &column).to_bits(),
                    "column {c} of {rows} x {columns}"
                );
            }
        }
    }

    #[test]
    fn many_vectors_give_the_bits_of_each_alone() {
        let (rows, columns, vectors) = (7, 45, 5);
        let weights: Vec<u16> = noise(rows * columns, 5).iter().map(|w| (w.to_bits() >> 16) as u16).collect();
        let xs = noise(vectors * columns, 6);
        let mut all = vec![0.0; rows * vectors];
        bf16_rows(&weights, &Vectors::new(&xs, columns, None), &mut all);
        for (t, x) in xs.chunks(columns).enumerate() {
            let mut one = vec![0.0; rows];
            bf16_rows(&weights, &Vectors::new(x, columns, None), &mut one);
            for r in 0..rows {
                assert_eq!(one[r].to_bits(), all[r * vectors + t].to_bits());
            }
        }
    }

    /// S05: over many steps whose decays multiply up to `e^-1000` and more, the state stays what exact arithmetic has. What
    /// is computed with products of decays over a whole chunk, and divides by them, loses all digits here.
    #[test]
    fn s05_the_recurrence_holds_with_decays_as_large_as_real_ones() {
        let (dim, steps) = (32, 400);
        let mut state = vec![0.0f32; dim * dim];
        let mut exact = vec![0.0f64; dim * dim];
        let (mut error, mut out) = (vec![0.0; dim], vec![0.0; dim]);
        let scaled = |seed: usize, norm: f32| {
            let x = noise(dim, u32::try_from(seed).unwrap());
            let length = x.iter().map(|x| x * x).sum::<f32>().sqrt();
            x.iter().map(|x| x * norm / length).collect::<Vec<f32>>()
        };
        for step in 0..steps {
            let (q, k) = (scaled(4 * step, 1.0), scaled(4 * step + 1, 1.0));
            let v = scaled(4 * step + 2, 17.0);
            // Some channels forget at once, some hardly at all, and which they are changes.
            let mut decay: Vec<f32> =
                noise(dim, u32::try_from(4 * step + 3).unwrap()).iter().map(|f| f * 17.0).collect();
            kda_decay(&mut decay, &vec![0.0; dim], 1.0, -5.0);
            let beta = 0.9;
            kda_step(&mut state, &q, &k, &v, &decay, beta, &mut error, &mut out);

            let wide = f64::from;
            for (i, row) in exact.chunks_mut(dim).enumerate() {
                for s in row {
                    *s *= wide(decay[i]);
                }
            }
            let read = |exact: &[f64], by: &[f32], j: usize| -> f64 {
                (0..dim).map(|i| wide(by[i]) * exact[i * dim + j]).sum()
            };
            let wrong: Vec<f64> = (0..dim).map(|j| wide(beta) * (wide(v[j]) - read(&exact, &k, j))).collect();
            for i in 0..dim {
                for j in 0..dim {
                    exact[i * dim + j] += wide(k[i]) * wrong[j];
                }
            }
            let expected: Vec<f64> = (0..dim).map(|j| read(&exact, &q, j)).collect();
            let length = expected.iter().map(|x| x * x).sum::<f64>().sqrt();
            let off = out.iter().zip(&expected).map(|(a, b)| (wide(*a) - b).powi(2)).sum::<f64>().sqrt();
            assert!(off <= 1e-5 * length.max(1.0), "step {step}: {off:e} of {length}");
        }
    }

    #[test]
    fn a_packed_row_goes_evens_first() {
        use super::super::{Mxfp4, deinterleave};
        let packed: Vec<u8> = (0..32u8).map(|i| i.wrapping_mul(37).wrapping_add(11)).collect();
        let matrix = Mxfp4::new(&packed, &[120, 131], 64).unwrap();
        let x = noise(64, 7);
        let mut by_group = vec![0.0; 64];
        deinterleave(&x, &mut by_group);
        let mut out = [0.0];
        mxfp4_rows(matrix.packed(), matrix.scales(), &Vectors::new(&by_group, 64, None), &mut out);
        let order = |v: &[f32]| -> Vec<f32> {
            let group = |g: &[f32]| {
                g.iter().step_by(2).chain(g.iter().skip(1).step_by(2)).copied().collect::<Vec<_>>()
            };
            v.chunks(32).flat_map(group).collect()
        };
        let exact = plain_dot(&order(&x), &order(&matrix.decode()));
        assert_eq!(out[0].to_bits(), exact.to_bits());
    }
}
