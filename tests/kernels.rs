//! Every instruction tier of this machine against the scalar reference, bit for bit.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use dormouse::kernels::{Kernels, Tier, deinterleave};
use proptest::collection::vec;
use proptest::prelude::*;

/// All tiers above the scalar one that this machine has.
fn tiers() -> impl Iterator<Item = &'static Kernels> {
    Tier::ALL.into_iter().skip(1).filter_map(Kernels::of)
}

fn scalar() -> &'static Kernels {
    Kernels::of(Tier::Scalar).unwrap()
}

/// Numbers as activations have them, and at the edges: denormals, signed zeros, huge and tiny.
fn value() -> impl Strategy<Value = f32> {
    prop_oneof![
        8 => -4.0f32..4.0,
        1 => prop::num::f32::SUBNORMAL,
        1 => Just(-0.0f32),
        1 => Just(0.0f32),
        1 => -1e30f32..1e30,
        1 => -1e-30f32..1e-30,
    ]
}

fn values(len: usize) -> impl Strategy<Value = Vec<f32>> {
    vec(value(), len)
}

/// bf16 bits of finite numbers.
fn weights(len: usize) -> impl Strategy<Value = Vec<u16>> {
    vec(any::<u16>().prop_map(|bits| if bits & 0x7f80 == 0x7f80 { bits & 0x807f } else { bits }), len)
}

/// NaNs compare equal whatever their payload: which operand's payload survives is not part of the contract.
fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| if v.is_nan() { f32::NAN.to_bits() } else { v.to_bits() }).collect()
}

/// Compares what `run` fills in under each tier with what it fills in under the scalar one.
fn same(len: usize, run: impl Fn(&'static Kernels, &mut [f32])) -> Result<(), TestCaseError> {
    let mut expected = vec![0.0; len];
    run(scalar(), &mut expected);
    for kernels in tiers() {
        let mut found = vec![0.0; len];
        run(kernels, &mut found);
        prop_assert_eq!(bits(&found), bits(&expected), "{:?}", kernels.tier());
    }
    Ok(())
}

/// A matrix in bf16 with some vectors: rows, columns, weights, vectors.
fn matrix() -> impl Strategy<Value = (usize, usize, Vec<u16>, Vec<f32>)> {
    (1usize..20, 1usize..130, 1usize..=20).prop_flat_map(|(rows, columns, vectors)| {
        (Just(rows), Just(columns), weights(rows * columns), values(vectors * columns))
    })
}

/// A packed matrix with some vectors: packed, scales, columns, vectors.
fn packed() -> impl Strategy<Value = (Vec<u8>, Vec<u8>, usize, Vec<f32>)> {
    let groups = prop_oneof![1usize..6, 15usize..19];
    (1usize..20, groups, 1usize..=20).prop_flat_map(|(rows, groups, vectors)| {
        let scales = prop_oneof![8 => 110u8..135, 1 => 0u8..3, 1 => 250u8..=255];
        (
            vec(any::<u8>(), rows * groups * 16),
            vec(scales, rows * groups),
            Just(groups * 32),
            values(vectors * groups * 32),
        )
    })
}

proptest! {
    #[test]
    fn dots_and_sums(len in 0usize..200, seed in any::<u64>()) {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            f32::from_bits(((state >> 33) as u32 & 0x8fff_ffff) | 0x3000_0000)
        };
        let (a, b): (Vec<f32>, Vec<f32>) = (0..len).map(|_| (next(), next())).unzip();
        same(2, |k, out| (out[0], out[1]) = (k.dot(&a, &b), k.sum(&a)))?;
        let words: Vec<u32> = a.iter().map(|x| x.to_bits()).collect();
        for kernels in tiers() {
            prop_assert_eq!(kernels.read(&words), scalar().read(&words));
        }
    }

    #[test]
    fn bf16_rows_and_columns((rows, columns, weights, xs) in matrix()) {
        let vectors = xs.len() / columns;
        same(rows * vectors, |k, out| k.bf16_rows(&weights, &k.vectors(&xs, columns), out))?;
        let x: Vec<f32> = xs.iter().copied().cycle().take(rows).collect();
        same(columns, |k, out| k.bf16_columns(&weights, columns, &x, out))?;
    }

    #[test]
    fn f32_rows_and_weighted_sums((rows, columns, weights, xs) in matrix()) {
        let weights: Vec<f32> = weights.iter().map(|w| f32::from_bits(u32::from(*w) << 16)).collect();
        let vectors = xs.len() / columns;
        same(rows * vectors, |k, out| k.f32_rows(&weights, &k.vectors(&xs, columns), out))?;
        // As many sums as vectors, each over some of the rows.
        let shares: Vec<f32> = xs.iter().copied().cycle().take(rows).collect();
        let of_each: Vec<&[f32]> = (0..vectors).map(|i| &shares[..(i + 1).min(rows)]).collect();
        same(vectors * columns.div_ceil(2), |k, out| k.add_weighted_rows(&of_each, &weights, columns, out))?;
        same(columns, |k, out| k.add_scaled(out, shares[0], &weights[..columns]))?;
    }

    #[test]
    fn packed_rows((packed, scales, columns, xs) in packed()) {
        let rows = scales.len() * 32 / columns;
        let vectors = xs.len() / columns;
        let mut by_group = vec![0.0; xs.len()];
        deinterleave(&xs, &mut by_group);
        same(rows * vectors, |k, out| k.mxfp4_rows(&packed, &scales, &k.vectors(&by_group, columns), out))?;
    }

    #[test]
    fn norms_softmax_and_the_activation(x in (1usize..100).prop_flat_map(values)) {
        let weight: Vec<f32> = x.iter().rev().copied().collect();
        same(x.len(), |k, out| k.rms_norm(&x, &weight, 1e-5, out))?;
        same(x.len(), |k, out| { out.copy_from_slice(&x); k.l2_norm(out, 1e-6); })?;
        same(x.len(), |k, out| { out.copy_from_slice(&x); k.softmax(out); })?;
        same(x.len(), |k, out| { out.copy_from_slice(&x); k.situ(out, &weight, 4.0, 25.0); })?;
        same(x.len(), |k, out| { out.copy_from_slice(&x); k.sigmoid(out); })?;
        same(x.len(), |k, out| { out.copy_from_slice(&x); k.gate(out, &weight); })?;
        same(x.len(), |k, out| { out.copy_from_slice(&x); k.kda_decay(out, &weight, 0.7, -5.0); })?;
        let window: Vec<f32> = (0..4).flat_map(|_| x.iter().copied()).collect();
        let taps: Vec<f32> = (0..4).flat_map(|_| weight.iter().copied()).collect();
        same(x.len(), |k, out| k.convolve(&window, &taps, out))?;
    }

    #[test]
    fn the_recurrence(
        (keys, state, q, k, decay, v) in (1usize..40, 1usize..40).prop_flat_map(|(keys, dim)| {
            (Just(keys), values(keys * dim), values(keys), values(keys), vec(0.0f32..1.0, keys), values(dim))
        }),
        beta in 0.0f32..1.0,
    ) {
        let dim = state.len() / keys;
        same(state.len() + dim, |kernels, all| {
            let (matrix, out) = all.split_at_mut(state.len());
            matrix.copy_from_slice(&state);
            kernels.kda_step(matrix, &q, &k, &v, &decay, beta, &mut vec![0.0; dim], out);
        })?;
    }
}

/// More rows than a panel has, more columns than a cut, and more vectors than a block: with what is left of each.
#[test]
#[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
fn matrices_of_several_panels_cuts_and_blocks() {
    let mut state = 7u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 8
    };
    let (rows, most) = (67, 20);
    for columns in [512, 1312, 1333] {
        let xs: Vec<f32> = (0..most * columns).map(|_| next() as f32 / (1 << 23) as f32 - 1.0).collect();
        let weights: Vec<u16> = (0..rows * columns).map(|_| (next() & 0x80ff | 0x3c00) as u16).collect();
        let wide: Vec<f32> = weights.iter().map(|w| f32::from_bits(u32::from(*w) << 16)).collect();
        let packed: Vec<u8> = (0..rows * columns / 2).map(|_| next() as u8).collect();
        let scales: Vec<u8> = (0..rows * columns / 32).map(|_| 120 + next() as u8 % 10).collect();
        for vectors in 1..=most {
            let xs = &xs[..vectors * columns];
            same(rows * vectors, |k, out| k.bf16_rows(&weights, &k.vectors(xs, columns), out)).unwrap();
            same(rows * vectors, |k, out| k.f32_rows(&wide, &k.vectors(xs, columns), out)).unwrap();
            if columns.is_multiple_of(32) {
                same(rows * vectors, |k, out| k.mxfp4_rows(&packed, &scales, &k.vectors(xs, columns), out))
                    .unwrap();
            }
        }
    }
}

/// Sums that underflow to -0 must stay it where a row ends in the middle of a step.
#[test]
fn what_fills_a_step_up_changes_no_sum() {
    for columns in [16, 48] {
        let (weights, wide) = (vec![0x0da2_u16; columns], vec![f32::from_bits(0x0da2_0000); columns]);
        for vectors in [1, 3] {
            let xs = vec![-1e-30f32; vectors * columns];
            let mut out = vec![1.0; vectors];
            scalar().bf16_rows(&weights, &scalar().vectors(&xs, columns), &mut out);
            assert_eq!(bits(&out), vec![(-0.0f32).to_bits(); vectors]);
            same(vectors, |k, out| k.bf16_rows(&weights, &k.vectors(&xs, columns), out)).unwrap();
            same(vectors, |k, out| k.f32_rows(&wide, &k.vectors(&xs, columns), out)).unwrap();
        }
    }
    for groups in [1, 17] {
        let (packed, scales, xs) = (vec![0x11; groups * 16], vec![1; groups], vec![-1e-30f32; groups * 32]);
        let mut out = [1.0];
        scalar().mxfp4_rows(&packed, &scales, &scalar().vectors(&xs, groups * 32), &mut out);
        assert_eq!(bits(&out), [(-0.0f32).to_bits()]);
        same(1, |k, out| k.mxfp4_rows(&packed, &scales, &k.vectors(&xs, groups * 32), out)).unwrap();
    }
}

#[test]
fn this_machine_has_more_than_one_tier_or_says_so() {
    let names: Vec<&str> = tiers().map(|kernels| kernels.tier().as_str()).collect();
    if names.is_empty() {
        eprintln!("no tier above the scalar one on this machine: nothing to compare");
    } else {
        eprintln!("compared with the scalar reference: {}", names.join(", "));
    }
}
