//! Each operator against its fixture, on every instruction tier of the machine.

use dormouse::checkpoint::{Mla, Moe};
use dormouse::kernels::{GROUP, Kernels, Mxfp4, deinterleave};
use dormouse::model::{L2_NORM_EPS, MLA_NORM_EPS, kda, mla, moe, residual};

use crate::fixture::{Fixture, Outputs};
use crate::tiny;

/// One test for each fixture, and a list of those that have one.
macro_rules! operators {
    ($($name:ident),* $(,)?) => {
        const TESTED: &[&str] = &[$(stringify!($name)),*];
        mod tested {
            $(#[test]
            fn $name() {
                super::on_every_tier(stringify!($name), super::$name);
            })*
        }
    };
}

operators! {
    rms_norm, rms_norm_mla, l2_norm, softmax, situ, kda_short_conv, kda_gate, kda_recurrence, kda_output_norm,
    mla_attention, router, mxfp4_decode, mxfp4_decode_extremes, mxfp4_matvec, residual_mix,
}

fn on_every_tier(name: &str, run: fn(&Fixture, &'static Kernels) -> Outputs) {
    let fixture = Fixture::read(name);
    for tier in tiny::tiers() {
        let outputs = run(&fixture, Kernels::of(tier).unwrap());
        fixture.judge(&outputs).unwrap_or_else(|fault| panic!("{}: {fault}", tier.as_str()));
    }
}

#[test]
fn no_fixture_is_forgotten() {
    let tested = TESTED.iter().chain(crate::layers::TESTED).map(|name| (*name).to_owned()).collect();
    assert_eq!(Fixture::names(), tested);
}

/// `rows` through a function that fills in one row, as one output.
fn by_row(rows: &[f32], width: usize, mut run: impl FnMut(&[f32], &mut [f32])) -> Vec<f32> {
    let mut out = vec![0.0; rows.len()];
    for (row, out) in rows.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
        run(row, out);
    }
    out
}

fn norm(fixture: &Fixture, kernels: &Kernels, eps: f32) -> Outputs {
    let (x, weight) = (fixture.f32s("x"), fixture.f32s("weight"));
    Outputs::from([("y", by_row(&x, weight.len(), |x, out| kernels.rms_norm(x, &weight, eps, out)))])
}

fn rms_norm(fixture: &Fixture, kernels: &'static Kernels) -> Outputs {
    norm(fixture, kernels, fixture.number("eps"))
}

fn rms_norm_mla(fixture: &Fixture, kernels: &'static Kernels) -> Outputs {
    norm(fixture, kernels, MLA_NORM_EPS)
}

fn l2_norm(fixture: &Fixture, kernels: &'static Kernels) -> Outputs {
    let mut x = fixture.f32s("x");
    x.chunks_exact_mut(fixture.dim("x", 1)).for_each(|x| kernels.l2_norm(x, L2_NORM_EPS));
    Outputs::from([("y", x)])
}

fn softmax(fixture: &Fixture, kernels: &'static Kernels) -> Outputs {
    let mut x = fixture.f32s("x");
    x.chunks_exact_mut(fixture.dim("x", 1)).for_each(|x| kernels.softmax(x));
    Outputs::from([("y", x)])
}

fn situ(fixture: &Fixture, kernels: &'static Kernels) -> Outputs {
    let mut gates = fixture.f32s("gate");
    kernels.situ(&mut gates, &fixture.f32s("up"), fixture.number("beta"), fixture.number("linear_beta"));
    Outputs::from([("y", gates)])
}

/// In two parts, so that the history has something to do.
fn kda_short_conv(fixture: &Fixture, kernels: &'static Kernels) -> Outputs {
    let (u, weight) = (fixture.f32s("u"), fixture.f32s("weight"));
    let (width, taps) = (fixture.dim("weight", 0), fixture.dim("weight", 1));
    let mut history = vec![0.0; (taps - 1) * width];
    let (first, second) = u.split_at(2 * width);
    let mut y = kda::short_convolution(kernels, first, &mut history, &weight, taps);
    y.extend(kda::short_convolution(kernels, second, &mut history, &weight, taps));
    assert_eq!(history, u[u.len() - history.len()..]);
    Outputs::from([("y", y)])
}

fn kda_gate(fixture: &Fixture, kernels: &'static Kernels) -> Outputs {
    let (a_log, bias) = (fixture.f32s("a_log"), fixture.f32s("dt_bias"));
    let mut decay = fixture.f32s("f");
    let (dim, bound) = (fixture.size("head_dim"), fixture.number("lower_bound"));
    kda::decay(kernels, &mut decay, &a_log, &bias, dim, bound);
    let log_decay = decay.iter().map(|decay| decay.ln()).collect();
    Outputs::from([("decay", decay), ("log_decay", log_decay)])
}

fn kda_recurrence(fixture: &Fixture, kernels: &'static Kernels) -> Outputs {
    let (heads, dim) = (fixture.size("heads"), fixture.size("head_dim"));
    let tokens = fixture.dim("q", 0);
    let of_head = |name: &str, head: usize, width: usize| -> Vec<f32> {
        let all = fixture.f32s(name);
        all.chunks_exact(heads * width)
            .flat_map(|row| row[head * width..(head + 1) * width].to_vec())
            .collect()
    };
    let (mut out, mut states) = (vec![0.0; tokens * heads * dim], Vec::new());
    for head in 0..heads {
        let [q, k, v, decay] = ["q", "k", "v", "decay"].map(|name| of_head(name, head, dim));
        let beta = of_head("beta", head, 1);
        let input = kda::HeadInput { q: &q, k: &k, v: &v, decay: &decay, beta: &beta };
        let (mut state, mut of_this) = (vec![0.0; dim * dim], vec![0.0; tokens * dim]);
        kda::recur(kernels, &mut state, input, dim, &mut of_this);
        states.extend(state);
        for (out, of_this) in out.chunks_exact_mut(heads * dim).zip(of_this.chunks_exact(dim)) {
            out[head * dim..(head + 1) * dim].copy_from_slice(of_this);
        }
    }
    Outputs::from([("out", out), ("state", states)])
}

fn kda_output_norm(fixture: &Fixture, kernels: &'static Kernels) -> Outputs {
    let (mut o, weight, gate) = (fixture.f32s("o"), fixture.f32s("weight"), fixture.f32s("gate"));
    let dim = fixture.size("head_dim");
    for (o, gate) in o.chunks_exact_mut(dim).zip(gate.chunks_exact(dim)) {
        kda::gated_norm(kernels, o, &weight, gate, fixture.number("eps"));
    }
    Outputs::from([("y", o)])
}

fn mla_attention(fixture: &Fixture, kernels: &'static Kernels) -> Outputs {
    let size = |name| fixture.size(name);
    let dims = Mla {
        heads: size("heads"),
        q_rank: 0,
        kv_rank: size("rank"),
        nope: size("nope"),
        rope: size("rope"),
        value: size("value"),
    };
    let (q, kv_b) = (fixture.f32s("q"), fixture.bf16s("kv_b"));
    let (latent, shared) = (fixture.f32s("latent"), fixture.f32s("shared"));
    let rows: Vec<f32> = latent
        .chunks_exact(dims.kv_rank)
        .zip(shared.chunks_exact(dims.rope))
        .flat_map(|(latent, shared)| [latent, shared].concat())
        .collect();
    let (tokens, query_width) = (rows.len() / dims.latent_width(), dims.nope + dims.rope);
    let mut out = vec![0.0; dims.heads * tokens * dims.value];
    let queries = turned(&q, dims.heads, query_width);
    mla::attend(kernels, &dims, &kv_b, &queries, &[&rows], tokens, &mut out);
    Outputs::from([("y", turned(&out, tokens, dims.value))])
}

/// `[rows, columns, width]` to `[columns, rows, width]`.
fn turned(all: &[f32], columns: usize, width: usize) -> Vec<f32> {
    let part = |column: usize| all.chunks_exact(width).skip(column).step_by(columns).flatten().copied();
    (0..columns).flat_map(part).collect()
}

fn router(fixture: &Fixture, _: &'static Kernels) -> Outputs {
    let (scores, bias) = (fixture.f32s("scores"), fixture.f32s("bias"));
    let (experts, top_k) = (fixture.size("experts"), fixture.size("top_k"));
    let dims = Moe { experts, top_k, shared: 0, width: 0, latent: 0, scale: fixture.number("scale") };
    let weights = by_row(&scores, experts, |scores, out| {
        let choices = moe::route(scores, &bias, &dims);
        assert_eq!(choices.len(), top_k);
        for choice in choices {
            assert_eq!(out[choice.expert].to_bits(), 0, "an expert was chosen twice");
            out[choice.expert] = choice.weight;
        }
    });
    Outputs::from([("weights", weights)])
}

fn mxfp4_decode(fixture: &Fixture, _: &'static Kernels) -> Outputs {
    let (packed, scales) = (fixture.bytes("packed"), fixture.bytes("scale"));
    let matrix = Mxfp4::new(&packed, &scales, fixture.dim("packed", 1) * 2).unwrap();
    Outputs::from([("w", matrix.decode())])
}

/// By the kernel itself this time: each column times a one.
fn mxfp4_decode_extremes(fixture: &Fixture, kernels: &'static Kernels) -> Outputs {
    let decoded = mxfp4_decode(fixture, kernels);
    let (packed, scales) = (fixture.bytes("packed"), fixture.bytes("scale"));
    let columns = scales.len() * GROUP;
    for (column, expected) in decoded["w"].iter().enumerate() {
        let (mut x, mut by_group, mut out) = (vec![0.0; columns], vec![0.0; columns], [0.0]);
        x[column] = 1.0;
        deinterleave(&x, &mut by_group);
        kernels.mxfp4_rows(&packed, &scales, &kernels.vectors(&by_group, columns), &mut out);
        assert!((out[0] - expected).abs() == 0.0, "column {column}: {} and {expected}", out[0]);
    }
    decoded
}

fn mxfp4_matvec(fixture: &Fixture, kernels: &'static Kernels) -> Outputs {
    let (packed, scales, x) = (fixture.bytes("packed"), fixture.bytes("scale"), fixture.f32s("x"));
    let (rows, columns, vectors) = (fixture.dim("packed", 0), fixture.dim("x", 1), fixture.dim("x", 0));
    let by_group = by_row(&x, columns, deinterleave);
    let mut out = vec![0.0; rows * vectors];
    let matrix = Mxfp4::new(&packed, &scales, columns).unwrap();
    kernels.mxfp4(&matrix, 0, &kernels.vectors(&by_group, columns), &mut out);
    // From [rows, vectors] to the fixture's [vectors, rows].
    let y = (0..vectors).flat_map(|vector| out.iter().skip(vector).step_by(vectors).copied()).collect();
    Outputs::from([("y", y)])
}

fn residual_mix(fixture: &Fixture, kernels: &'static Kernels) -> Outputs {
    let (sources, norm, proj) = (fixture.f32s("sources"), fixture.f32s("norm"), fixture.f32s("proj"));
    let (tokens, hidden) = (fixture.dim("sources", 1), fixture.dim("sources", 2));
    let fold: Vec<f32> = norm.iter().zip(&proj).map(|(norm, proj)| norm * proj).collect();
    let mut y = vec![0.0; tokens * hidden];
    for (token, out) in y.chunks_exact_mut(hidden).enumerate() {
        let of_token = |source: &'_ [f32]| -> Vec<f32> { source[token * hidden..][..hidden].to_vec() };
        let sources: Vec<Vec<f32>> = sources.chunks_exact(tokens * hidden).map(of_token).collect();
        let sources: Vec<&[f32]> = sources.iter().map(Vec::as_slice).collect();
        residual::mix(kernels, &sources, &fold, fixture.number("eps"), out);
    }
    Outputs::from([("y", y)])
}
