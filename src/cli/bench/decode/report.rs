//! What came of it, for people and for scripts.

use std::fmt::Write;

use serde::Serialize;

use super::beside::{Beside, Round};
use super::{Measured, median};
use crate::cli::bench::disk::{PointObject, described};
use crate::cli::plan;
use crate::units::{Bytes, Seconds};

/// A measurement as scripts read it. Sizes are bytes.
#[derive(Serialize)]
pub(super) struct Object {
    model: String,
    threads: usize,
    tier: &'static str,
    reader: &'static str,
    checked: bool,
    prompt_tokens: usize,
    plan: plan::Object,
    prefill_s: f64,
    /// For each token.
    decode_s: Vec<f64>,
    median_s: f64,
    least_s: f64,
    most_s: f64,
    /// A token's, on average.
    bytes_per_token: BytesPerToken,
    bytes_per_s: f64,
    waited_share: f64,
    /// Seconds that threads had of a processor, a token.
    cpu_s: CpuSeconds,
    budget: u64,
    peak_rss: u64,
    disk: Option<Disk>,
}

#[derive(Serialize)]
struct BytesPerToken {
    trunk: f64,
    experts: f64,
}

#[derive(Serialize)]
struct CpuSeconds {
    /// Those that compute, or wait for something to compute.
    compute: f64,
    /// Those that read.
    read: f64,
}

#[derive(Serialize)]
struct Disk {
    /// The point whose median rate was best, as it was measured in one of its rounds.
    best: Option<PointObject>,
    /// That median.
    best_bytes_per_s: Option<f64>,
    /// Median time of the tokens over what their bytes take at this rate.
    ratio: Option<f64>,
    rounds: Vec<RoundObject>,
}

#[derive(Serialize)]
struct RoundObject {
    bytes: u64,
    seconds: f64,
    disk: PointObject,
}

impl From<&Beside> for Disk {
    fn from(beside: &Beside) -> Self {
        let round = |round: &Round| RoundObject {
            bytes: round.bytes.0,
            seconds: round.seconds,
            disk: PointObject::from(&round.disk),
        };
        Self {
            best: beside.best().map(|(_, point)| PointObject::from(point)),
            best_bytes_per_s: beside.best().map(|(rate, _)| rate.0),
            ratio: beside.ratio(),
            rounds: beside.rounds.iter().map(round).collect(),
        }
    }
}

impl From<&Measured> for Object {
    fn from(measured: &Measured) -> Self {
        let (facts, count) = (&measured.facts, measured.seconds.len().max(1) as f64);
        Self {
            model: facts.name.clone(),
            threads: facts.threads,
            tier: facts.tier,
            reader: facts.reader,
            checked: facts.checked,
            prompt_tokens: measured.prompt,
            plan: plan::Object::from(&facts.plan),
            prefill_s: measured.prefill_s,
            decode_s: measured.seconds.clone(),
            median_s: median(&measured.seconds),
            least_s: measured.least_s(),
            most_s: measured.most_s(),
            bytes_per_token: BytesPerToken {
                trunk: measured.trunk() as f64 / count,
                experts: measured.experts() as f64 / count,
            },
            bytes_per_s: measured.rate().0,
            waited_share: measured.waited().0,
            cpu_s: CpuSeconds { compute: measured.cpu.compute, read: measured.cpu.read },
            budget: facts.plan.budget.0,
            peak_rss: measured.peak_rss,
            disk: measured.disk.as_ref().map(Disk::from),
        }
    }
}

pub(super) fn text(measured: &Measured) -> String {
    let (facts, count) = (&measured.facts, measured.seconds.len());
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{name:<18}{value}");
    };
    let checked = if facts.checked { "checked" } else { "unchecked" };
    line(
        &facts.name,
        format!("{} threads, {}, {} reads, {checked}", facts.threads, facts.tier, facts.reader),
    );
    line("prompt", format!("{} tokens in {}", measured.prompt, Seconds(measured.prefill_s)));
    line(
        "a token",
        format!(
            "{} (median of {count}; {} to {})",
            Seconds(median(&measured.seconds)),
            Seconds(measured.least_s()),
            Seconds(measured.most_s())
        ),
    );
    let mean = |bytes: u64| Bytes(bytes / count.max(1) as u64);
    line(
        "  from the disk",
        format!(
            "{}: {} of the trunk, {} of experts",
            mean(measured.trunk() + measured.experts()),
            mean(measured.trunk()),
            mean(measured.experts())
        ),
    );
    line("  at", measured.rate().to_string());
    line("  waited for it", format!("{} of the time", measured.waited()));
    line(
        "  processors",
        format!("{} to compute, {} to read", Seconds(measured.cpu.compute), Seconds(measured.cpu.read)),
    );
    line("memory", format!("{} at most, of {}", Bytes(measured.peak_rss), facts.plan.budget));
    if let Some(beside) = &measured.disk {
        let best = beside.best().map(|(rate, point)| format!("{rate}, {}", described(point)));
        line("disk at best", best.unwrap_or_else(|| "none".to_owned()));
        let ratio = beside.ratio().map_or_else(
            || "nothing was read".to_owned(),
            |ratio| {
                format!(
                    "{ratio:.2} times what these bytes take at that rate, in {} turns",
                    beside.rounds.len()
                )
            },
        );
        line("  a token took", ratio);
    }
    out
}
