//! `dormouse bench context`: what a token takes after many others, and the memory of its state.

use std::fmt::Write;

use serde::Serialize;

use super::decode::median;
use crate::cli::args::{BenchContext, Common};
use crate::cli::{Done, no_resource, output, settings};
use crate::engine::context::{self, Spent};
use crate::protocol::{ExitCode, UserError};
use crate::sys::signals::StopSignal;
use crate::units::{Bytes, Seconds};

/// Measures a few tokens after each count of positions.
pub(in crate::cli) fn context(common: &Common, args: &BenchContext) -> Result<Done, UserError> {
    let resolved = settings::resolve(common)?;
    let stop = StopSignal::watch(ExitCode::Stopped as u8).map_err(|error| no_resource("signals", &error))?;
    let mut settings = resolved.settings()?;
    let most = args.positions.iter().copied().max().unwrap_or(0);
    settings.context = settings.context.or(Some(most.saturating_add(args.tokens.saturating_mul(2))));
    let (facts, spent) = context::measure(&settings, &args.positions, args.tokens, &|| stop.is_set())?;
    if stop.is_set() {
        return Ok(Done::Stopped);
    }
    let points = spent.iter().map(Point::from).collect();
    let object = Object { model: facts.name, threads: facts.threads, tier: facts.tier, points };
    if args.json {
        output::print_json(&object)?;
    } else {
        output::print(&text(&object))?;
    }
    Ok(Done::Well)
}

#[derive(Serialize)]
struct Object {
    model: String,
    threads: usize,
    tier: &'static str,
    points: Vec<Point>,
}

#[derive(Serialize)]
struct Point {
    /// Before the first token.
    positions: usize,
    median_s: f64,
    seconds: Vec<f64>,
    state_bytes: u64,
}

impl From<&Spent> for Point {
    fn from(spent: &Spent) -> Self {
        Self {
            positions: spent.positions,
            median_s: median(&spent.seconds),
            seconds: spent.seconds.clone(),
            state_bytes: spent.state.0,
        }
    }
}

fn text(object: &Object) -> String {
    let mut out = format!("{}, {} threads, {}\n\n", object.model, object.threads, object.tier);
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{:>10}{:>12}{:>12}", "positions", "a token", "state");
    for point in &object.points {
        let (took, state) = (Seconds(point.median_s).to_string(), Bytes(point.state_bytes).to_string());
        let _ = writeln!(out, "{:>10}{took:>12}{state:>12}", point.positions);
    }
    out
}
