//! `dormouse bench kernels`: how fast the arithmetic is, beside how fast memory can be read.

use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;

use rayon::prelude::*;
use serde::Serialize;

use crate::cli::args::BenchKernels;
use crate::cli::{Done, no_resource, output};
use crate::engine::sampler::{self, Sampler};
use crate::kernels::{GROUP, Kernels};
use crate::protocol::{ExitCode, Sampling, UserError};
use crate::sys::signals::StopSignal;
use crate::sys::{cpu, memory};
use crate::units::{Bytes, Percent};

/// Bytes of weights, where memory allows: more than any cache holds.
const MOST: u64 = 512 << 20;
/// Columns of the released model's trunk and of its experts.
const COLUMNS: usize = 7168;
const PACKED_COLUMNS: usize = 3584;
/// Rows for products with many vectors, which arithmetic bounds.
const FEW_ROWS: usize = 2048;
/// Vectors of a prefill, and of a group of heads that goes through the latent cache.
const MANY: usize = 64;
const GROUPED: usize = 12;
/// Width of a row of the latent cache, and of what is mixed of it.
const CACHED: usize = 576;
const LATENT: usize = 512;
/// Heads, and the width of one.
const HEADS: usize = 96;
const HEAD: usize = 128;
/// Ids of the vocabulary.
const VOCABULARY: usize = 163_840;
/// Numbers in the widest activation.
const ACTIVATIONS: usize = 33_792;
/// Measures all kernels on one thread and on all, and the read limit with them.
pub(in crate::cli) fn kernels(args: &BenchKernels) -> Result<Done, UserError> {
    let stop = StopSignal::watch(ExitCode::Stopped as u8).map_err(|error| no_resource("signals", &error))?;
    let kernels = Kernels::detect()
        .map_err(|error| UserError::new(ExitCode::Usage, "Bad settings", error.to_string()))?;
    let operands = Operands::new(memory::machine().available);
    let sampling = Sampling { seed: Some(1), ..Sampling::default() };
    let sampler = Sampler::new(sampling, sampler::defaults(None, None))?;
    let bench = Bench { kernels, sampler, repeats: args.repeats, operands };
    let mut threads = vec![1, cpu::physical_cores()];
    threads.dedup();
    let mut lines = Vec::new();
    for threads in threads {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(|error| {
            UserError::new(ExitCode::Resources, "Threads cannot be had", error.to_string())
        })?;
        if !pool.install(|| bench.all(threads, &stop, &mut lines)) {
            return Ok(Done::Stopped);
        }
    }
    let result = Object {
        tier: kernels.tier().as_str(),
        weight_bytes: bench.operands.weights.len() as u64 * 4,
        repeats: bench.repeats,
        kernels: lines,
    };
    if args.json {
        output::print_json(&result)?;
    } else {
        output::print(&text(&result))?;
    }
    Ok(Done::Well)
}

/// What is multiplied. The same bits serve as weights in f32, bf16 and MXFP4: all are finite in each of them.
struct Operands {
    weights: Vec<u32>,
    scales: Vec<u8>,
    /// `[MANY, COLUMNS]`.
    vectors: Vec<f32>,
}

impl Operands {
    fn new(available: u64) -> Self {
        // Enough for the products with few rows in any case.
        let bytes = MOST.min(available / 4).max((FEW_ROWS * COLUMNS * 2) as u64);
        let words = usize::try_from(bytes / 4).unwrap_or(usize::MAX) / COLUMNS * COLUMNS;
        // Both halves are numbers near 1/100, of either sign, with some bits of noise.
        let noise = |i: usize| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let weight = |i: usize| 0x3c00_3c00 | u32::try_from(noise(i) & 0x80ff_80ff).unwrap_or_default();
        Self {
            weights: (0..words).into_par_iter().map(weight).collect(),
            scales: (118..126).cycle().take(words * 4 / (GROUP / 2)).collect(),
            vectors: (0..MANY * COLUMNS).map(|i| (i * 37 % 101) as f32 / 50.0 - 1.0).collect(),
        }
    }

    fn bf16(&self) -> &[u16] {
        bytemuck::cast_slice(&self.weights)
    }

    fn f32(&self) -> &[f32] {
        bytemuck::cast_slice(&self.weights)
    }
}

/// A kernel, its times, and the bytes and multiplications of a pass.
type Measured = (&'static str, Spread, f64, f64);

struct Bench {
    kernels: &'static Kernels,
    sampler: Sampler,
    repeats: usize,
    operands: Operands,
}

impl Bench {
    /// Every kernel on the threads of the current pool. `false` if it was stopped.
    fn all(&self, threads: usize, stop: &StopSignal, lines: &mut Vec<Line>) -> bool {
        let limit = Spread::of((0..self.repeats).map(|_| self.read()).map(|limit| (limit, limit)).unzip());
        lines.push(limit.line("read limit", threads, self.weight_bytes(), 0.0, self.weight_bytes()));
        let measures: [fn(&Self) -> Measured; 11] = [
            |bench| bench.bf16("bf16 matrix x 1 vector", 1, usize::MAX),
            |bench| bench.mxfp4("MXFP4 matrix x 1 vector", 1, usize::MAX),
            |bench| bench.bf16("bf16 matrix x 64 vectors", MANY, FEW_ROWS),
            |bench| bench.mxfp4("MXFP4 matrix x 64 vectors", MANY, 2 * FEW_ROWS),
            Self::latent_scores,
            Self::latent_mix,
            Self::query_to_latent,
            Self::recurrence,
            Self::situ,
            Self::softmax,
            Self::sampling,
        ];
        for measure in measures {
            if stop.is_set() {
                return false;
            }
            let (kernel, seconds, bytes, macs) = measure(self);
            lines.push(seconds.line(kernel, threads, bytes, macs, self.weight_bytes()));
        }
        true
    }

    fn weight_bytes(&self) -> f64 {
        self.operands.weights.len() as f64 * 4.0
    }

    /// Runs `pass` once to warm up, then as often as asked for, and reads all weights before each: others use the machine
    /// as well, and a share of the limit says something only if both were measured in the same moments.
    fn time(&self, mut pass: impl FnMut()) -> Spread {
        pass();
        let repeat = |_| {
            let limit = self.read();
            let began = Instant::now();
            pass();
            (began.elapsed().as_secs_f64(), limit)
        };
        Spread::of((0..self.repeats).map(repeat).unzip())
    }

    /// Reads all weights and does next to nothing with them: seconds.
    fn read(&self) -> f64 {
        let words = &self.operands.weights;
        let began = Instant::now();
        let parts = words.par_chunks(range(words.len()));
        black_box(parts.map(|part| self.kernels.read(part)).reduce(|| 0, u32::wrapping_add));
        began.elapsed().as_secs_f64()
    }

    fn bf16(&self, name: &'static str, vectors: usize, most: usize) -> Measured {
        let rows = (self.operands.bf16().len() / COLUMNS).min(most);
        let weights = &self.operands.bf16()[..rows * COLUMNS];
        let xs = self.kernels.vectors(&self.operands.vectors[..vectors * COLUMNS], COLUMNS);
        let (mut out, range) = (vec![0.0; rows * vectors], range(rows));
        let seconds = self.time(|| {
            let parts = out.par_chunks_mut(range * vectors).zip(weights.par_chunks(range * COLUMNS));
            parts.for_each(|(out, weights)| self.kernels.bf16_rows(weights, &xs, out));
        });
        (name, seconds, (weights.len() * 2) as f64, (weights.len() * vectors) as f64)
    }

    fn mxfp4(&self, name: &'static str, vectors: usize, most: usize) -> Measured {
        let bytes: &[u8] = bytemuck::cast_slice(&self.operands.weights);
        let (packed_row, scale_row) = (PACKED_COLUMNS / 2, PACKED_COLUMNS / GROUP);
        let rows = (bytes.len() / packed_row).min(most);
        let (packed, scales) = (&bytes[..rows * packed_row], &self.operands.scales[..rows * scale_row]);
        let xs = self.kernels.vectors(&self.operands.vectors[..vectors * PACKED_COLUMNS], PACKED_COLUMNS);
        let (mut out, range) = (vec![0.0; rows * vectors], range(rows));
        let seconds = self.time(|| {
            let parts = packed.par_chunks(range * packed_row).zip(scales.par_chunks(range * scale_row));
            out.par_chunks_mut(range * vectors)
                .zip(parts)
                .for_each(|(out, (packed, scales))| self.kernels.mxfp4_rows(packed, scales, &xs, out));
        });
        (name, seconds, (packed.len() + scales.len()) as f64, (packed.len() * 2 * vectors) as f64)
    }

    /// Scores of some heads over a long cache.
    fn latent_scores(&self) -> Measured {
        let rows = self.operands.f32().len() / CACHED;
        let cache = &self.operands.f32()[..rows * CACHED];
        let xs = self.kernels.vectors(&self.operands.vectors[..GROUPED * CACHED], CACHED);
        let (mut out, range) = (vec![0.0; rows * GROUPED], range(rows));
        let seconds = self.time(|| {
            let parts = out.par_chunks_mut(range * GROUPED).zip(cache.par_chunks(range * CACHED));
            parts.for_each(|(out, cache)| self.kernels.f32_rows(cache, &xs, out));
        });
        ("latent scores of 12 heads", seconds, (cache.len() * 4) as f64, (cache.len() * GROUPED) as f64)
    }

    /// Weighted sums of some heads over a long cache; each thread has a part of the cache of its own.
    fn latent_mix(&self) -> Measured {
        let rows = self.operands.f32().len() / CACHED;
        let cache = &self.operands.f32()[..rows * CACHED];
        let range = range(rows);
        let weights = vec![0.5; range];
        let seconds = self.time(|| {
            cache.par_chunks(range * CACHED).for_each(|cache| {
                let weights = [&weights[..cache.len() / CACHED]; GROUPED];
                let mut out = vec![0.0; GROUPED * LATENT];
                self.kernels.add_weighted_rows(&weights, cache, CACHED, &mut out);
                black_box(out);
            });
        });
        ("latent mix of 12 heads", seconds, (cache.len() * 4) as f64, (rows * LATENT * GROUPED) as f64)
    }

    /// Queries of all heads into the latent space, for many layers.
    fn query_to_latent(&self) -> Measured {
        let weights = self.operands.bf16();
        let matrix = HEAD * LATENT;
        let seconds = self.time(|| {
            weights.par_chunks_exact(matrix).for_each(|weights| {
                let mut out = [0.0; LATENT];
                self.kernels.bf16_columns(weights, LATENT, &self.operands.vectors[..HEAD], &mut out);
                black_box(out);
            });
        });
        let weights = (weights.len() / matrix * matrix) as f64;
        ("query to latent", seconds, weights * 2.0, weights)
    }

    /// One token through the states of many heads, which are read and written.
    fn recurrence(&self) -> Measured {
        let heads = 10 * HEADS;
        let mut states = vec![0.1f32; heads * HEAD * HEAD];
        let [q, k, v] = [0, 1, 2].map(|i| &self.operands.vectors[i * HEAD..(i + 1) * HEAD]);
        let decay = [0.9; HEAD];
        let seconds = self.time(|| {
            states.par_chunks_mut(HEAD * HEAD).for_each(|state| {
                let (mut error, mut out) = ([0.0; HEAD], [0.0; HEAD]);
                self.kernels.kda_step(state, q, k, v, &decay, 0.5, &mut error, &mut out);
                black_box(out);
            });
        });
        let numbers = states.len() as f64;
        ("KDA recurrence", seconds, numbers * 8.0, numbers * 3.0)
    }

    fn situ(&self) -> Measured {
        let mut gates = self.operands.vectors[..ACTIVATIONS].to_vec();
        let range = range(ACTIVATIONS);
        let seconds = self.time(|| {
            let parts = gates.par_chunks_mut(range).zip(self.operands.vectors.par_chunks(range));
            parts.for_each(|(gates, ups)| {
                // Else they would shrink from repeat to repeat.
                gates.copy_from_slice(&ups[..gates.len()]);
                self.kernels.situ(gates, &ups[..gates.len()], 4.0, 25.0);
            });
        });
        ("SiTU", seconds, (ACTIVATIONS * 12) as f64, 0.0)
    }

    fn softmax(&self) -> Measured {
        let mut scores = self.operands.vectors.clone();
        let seconds = self.time(|| {
            scores.par_chunks_exact_mut(COLUMNS).for_each(|scores| self.kernels.softmax(scores));
        });
        ("softmax", seconds, (scores.len() * 8) as f64, 0.0)
    }

    /// A token drawn of the whole vocabulary, with the released model's settings. It is not split over threads.
    fn sampling(&self) -> Measured {
        let logits: Vec<f32> = (0..VOCABULARY).map(|i| (i * 7919 % VOCABULARY) as f32 * 2e-4).collect();
        let mut step = 0;
        let seconds = self.time(|| {
            step += 1;
            let _ = black_box(self.sampler.draw(&logits, step));
        });
        ("sampling", seconds, (VOCABULARY * 4) as f64, 0.0)
    }
}

/// Rows of one of several parts for each thread.
fn range(rows: usize) -> usize {
    rows.div_ceil(rayon::current_num_threads() * 4).next_multiple_of(8)
}

/// Seconds of several repeats.
#[derive(Clone, Copy)]
struct Spread {
    least: f64,
    median: f64,
    most: f64,
    /// Median of what it took to read all weights in the same moments.
    limit: f64,
}

impl Spread {
    /// Of the times of a kernel and of the readings before it, as many of each.
    fn of((mut seconds, mut limits): (Vec<f64>, Vec<f64>)) -> Self {
        seconds.sort_unstable_by(f64::total_cmp);
        limits.sort_unstable_by(f64::total_cmp);
        let middle = |sorted: &[f64]| sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN);
        let end = |last: Option<&f64>| last.copied().unwrap_or(f64::NAN);
        Self {
            least: end(seconds.first()),
            median: middle(&seconds),
            most: end(seconds.last()),
            limit: middle(&limits),
        }
    }

    fn rates(self, amount: f64) -> Rates {
        let rate = |seconds: f64| amount / seconds / 1e9;
        Rates { median: rate(self.median), least: rate(self.most), most: rate(self.least) }
    }

    fn line(self, kernel: &'static str, threads: usize, bytes: f64, macs: f64, read: f64) -> Line {
        let limit = read / self.limit / 1e9;
        Line {
            kernel,
            threads,
            gb_s: self.rates(bytes),
            gmac_s: (macs > 0.0).then(|| self.rates(macs)),
            read_limit_gb_s: limit,
            of_read_limit: bytes / self.median / 1e9 / limit,
        }
    }
}

/// Thousands of millions in a second.
#[derive(Serialize)]
struct Rates {
    median: f64,
    least: f64,
    most: f64,
}

#[derive(Serialize)]
struct Line {
    kernel: &'static str,
    threads: usize,
    /// Bytes that must be read, and those that must be written.
    gb_s: Rates,
    /// Multiplications with an addition each, where that is what is done.
    gmac_s: Option<Rates>,
    /// What as many threads read in the same moments, and the share of it, as far as bytes go.
    read_limit_gb_s: f64,
    of_read_limit: f64,
}

#[derive(Serialize)]
struct Object {
    tier: &'static str,
    weight_bytes: u64,
    repeats: usize,
    kernels: Vec<Line>,
}

fn text(result: &Object) -> String {
    let mut text = format!(
        "{}, {} of weights, median of {} (least to most)\n\n{:26} {:>7} {:>22} {:>6} {:>22}\n",
        result.tier,
        Bytes(result.weight_bytes),
        result.repeats,
        "kernel",
        "threads",
        "GB/s",
        "limit",
        "GMAC/s"
    );
    let rates = |rates: &Rates| format!("{:.1} ({:.1} to {:.1})", rates.median, rates.least, rates.most);
    for line in &result.kernels {
        let share = Percent(line.of_read_limit).to_string();
        let macs = line.gmac_s.as_ref().map(rates).unwrap_or_default();
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{:26} {:>7} {:>22} {share:>6} {macs:>22}",
            line.kernel,
            line.threads,
            rates(&line.gb_s)
        );
    }
    text
}
