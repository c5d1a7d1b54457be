//! `dormouse bench decode`: how fast the model decodes, and what it waits for.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use crossbeam_channel::RecvTimeoutError;
use serde::Serialize;

use super::disk::{PointObject, described, remember, set_disk, shards, sweep};
use crate::cli::args::{BenchDecode, Common};
use crate::cli::progress::Progress;
use crate::cli::run::{engine_left, send};
use crate::cli::settings::{self, Resolved};
use crate::cli::{Done, no_resource, output, plan};
use crate::engine;
use crate::protocol::{
    CancelFlag, Command, EngineLink, Event, ExitCode, Finish, Limits, ModelFacts, Outcome, Prompt, Sampling,
    Settings, TokenCost, TurnId, TurnRequest, UserError,
};
use crate::setup::disk::Sweep;
use crate::sys::memory;
use crate::sys::signals::StopSignal;
use crate::units::{Bytes, Percent, Rate, Seconds};

/// Tokens of the prompt.
const PROMPT: u32 = 16;
/// How long a signal may wait to be seen.
const POLL: Duration = Duration::from_millis(20);
/// Seconds that a look at the disk takes.
const DISK_SECONDS: f64 = 10.0;
/// A run that waits for less of its time than this shows how fast weights are multiplied.
const COMPUTE_BOUND: f64 = 0.05;

/// Loads the model, reads a prompt that is always the same, and decodes tokens greedily.
pub(in crate::cli) fn decode(common: &Common, args: &BenchDecode) -> Result<Done, UserError> {
    let resolved = settings::resolve(common)?;
    let stop = StopSignal::watch(ExitCode::Stopped as u8).map_err(|error| no_resource("signals", &error))?;
    let mut bench = Bench { stop, progress: Progress::new() };
    let ended = bench.run(&resolved, args);
    bench.progress.finish();
    let Some(result) = ended? else { return Ok(Done::Stopped) };
    if args.json {
        output::print_json(&Object::from(&result))?;
    } else {
        output::print(&text(&result))?;
    }
    if let Some(sweep) = &result.disk {
        remember(&resolved, |rates| set_disk(rates, &result.model, sweep))?;
    }
    if let Some(rate) = result.compute_rate() {
        remember(&resolved, |rates| rates.set_compute(rate))?;
    }
    Ok(Done::Well)
}

/// What was measured.
struct Measured {
    model: PathBuf,
    facts: Box<ModelFacts>,
    prefill_s: f64,
    seconds: Vec<f64>,
    tokens: Vec<TokenCost>,
    peak_rss: u64,
    disk: Option<Sweep>,
}

struct Bench {
    stop: StopSignal,
    progress: Progress,
}

impl Bench {
    /// Nothing where the user stopped it.
    fn run(&mut self, resolved: &Resolved, args: &BenchDecode) -> Result<Option<Measured>, UserError> {
        // A token that was computed before would not be measured.
        let settings = Settings { states: None, ..resolved.settings()? };
        let model = settings.model.clone();
        let link = engine::spawn().map_err(|error| no_resource("a thread for the engine", &error))?;
        send(&link, Command::Load(settings))?;
        let Some(facts) = self.loaded(&link)? else { return Ok(None) };
        // Ids from all over the vocabulary, none of them drawn.
        let vocabulary = u32::try_from(facts.vocabulary).unwrap_or(u32::MAX).max(1);
        let mut ids: Vec<u32> = (0..PROMPT).map(|i| i.wrapping_mul(2_654_435_761) % vocabulary).collect();
        let mut measured = Measured {
            model,
            facts,
            prefill_s: 0.0,
            seconds: Vec::new(),
            tokens: Vec::new(),
            peak_rss: 0,
            disk: None,
        };
        // A stop id ends a turn; the next one goes on from the state that it left.
        for turn in 1.. {
            let left = args.tokens.saturating_sub(measured.seconds.len());
            if left == 0 {
                break;
            }
            // One more than passes: the first token of a turn comes of its prompt.
            let Some(outcome) = self.turn(&link, TurnId(turn), &ids, left + 1)? else { return Ok(None) };
            if turn == 1 {
                measured.prefill_s = outcome.took.prefill_s;
            }
            if outcome.finish == Finish::Length && outcome.decode_s.len() < left {
                let detail = format!("{} tokens do not fit into its context", args.tokens);
                return Err(UserError::new(ExitCode::Usage, "The context is full", detail)
                    .with_hint("Ask for fewer --tokens, or for more --context."));
            }
            measured.seconds.extend(outcome.decode_s);
            measured.tokens.extend(outcome.tokens);
            ids.extend(outcome.ids);
        }
        measured.peak_rss = memory::process().peak;
        if args.disk {
            // Afterwards, since its buffers are not the model's, and with the model out of the way.
            self.unload(&link)?;
            match sweep(&shards(&measured.model)?, DISK_SECONDS, &self.stop, &mut self.progress) {
                Ok(sweep) => measured.disk = Some(sweep),
                Err(error) if error.code == ExitCode::Stopped => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(measured))
    }

    /// Waits until the engine has given everything back.
    fn unload(&mut self, link: &EngineLink) -> Result<(), UserError> {
        send(link, Command::Shutdown)?;
        while !matches!(self.next_event(link)?, Some(Event::Stopped)) {}
        Ok(())
    }

    fn loaded(&mut self, link: &EngineLink) -> Result<Option<Box<ModelFacts>>, UserError> {
        loop {
            match self.next_event(link)? {
                Some(Event::Ready(facts)) => return Ok(Some(facts)),
                Some(Event::Failed(error)) => return Err(error),
                _ if self.stop.is_set() => return Ok(None),
                _ => {}
            }
        }
    }

    /// One turn to its end; nothing where the user stopped it.
    fn turn(
        &mut self,
        link: &EngineLink,
        turn: TurnId,
        ids: &[u32],
        most: usize,
    ) -> Result<Option<Outcome>, UserError> {
        let cancel = CancelFlag::default();
        let request = TurnRequest {
            turn,
            prompt: Prompt::Ids(ids.to_vec()),
            generated: Vec::new(),
            sampling: Sampling { temperature: Some(0.0), top_p: None, seed: Some(0) },
            max_tokens: Some(most),
            limits: Limits::default(),
            allowed_from: 0,
            prefill_chunk: None,
            logits: false,
            cancel: cancel.clone(),
        };
        send(link, Command::Generate(Box::new(request)))?;
        loop {
            if self.stop.is_set() {
                cancel.cancel();
            }
            match self.next_event(link)? {
                Some(Event::Finished { outcome, .. }) => {
                    return match (outcome.finish, &outcome.error) {
                        (Finish::Stop | Finish::Length, _) => Ok(Some(*outcome)),
                        (Finish::Cancelled, _) => Ok(None),
                        (Finish::Error, Some(error)) => Err(error.clone()),
                        (Finish::Error, None) => Err(engine_left()),
                    };
                }
                Some(Event::Failed(error)) => return Err(error),
                _ => {}
            }
        }
    }

    fn next_event(&mut self, link: &EngineLink) -> Result<Option<Event>, UserError> {
        self.progress.tick(&link.telemetry);
        match link.events.recv_timeout(POLL) {
            Ok(event) => Ok(Some(event)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(engine_left()),
        }
    }
}

impl Measured {
    fn total_s(&self) -> f64 {
        self.seconds.iter().sum()
    }

    fn least_s(&self) -> f64 {
        self.seconds.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn most_s(&self) -> f64 {
        self.seconds.iter().copied().fold(0.0, f64::max)
    }

    fn trunk(&self) -> u64 {
        self.tokens.iter().map(|token| token.trunk).sum()
    }

    fn experts(&self) -> u64 {
        self.tokens.iter().map(|token| token.experts).sum()
    }

    fn waited_s(&self) -> f64 {
        self.tokens.iter().map(|token| token.waited_s).sum()
    }

    /// What went by in waits for the disk.
    fn waited(&self) -> Percent {
        Percent(if self.total_s() > 0.0 { self.waited_s() / self.total_s() } else { 0.0 })
    }

    fn rate(&self) -> Rate {
        Rate::of(Bytes(self.trunk() + self.experts()), self.total_s())
    }

    /// How fast weights were multiplied, where that is what the time went into.
    fn compute_rate(&self) -> Option<Rate> {
        let touched = self.facts.plan.token_touched.0.checked_mul(self.seconds.len() as u64)?;
        (self.waited().0 < COMPUTE_BOUND && self.total_s() > 0.0)
            .then(|| Rate::of(Bytes(touched), self.total_s()))
    }

    /// Time, in times of what the disk takes at its best for the same bytes; nothing where none were read.
    fn ratio(&self) -> Option<f64> {
        let best = self.disk.as_ref()?.best(None)?.rate();
        let floor = best.seconds(Bytes(self.trunk() + self.experts()))?;
        (floor > 0.0).then(|| self.total_s() / floor)
    }
}

/// The one in the middle, or between the two there; 0 of none.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.get(sorted.len() / 2);
    let lower = sorted.len().checked_sub(1).and_then(|last| sorted.get(last / 2));
    lower.zip(upper).map_or(0.0, |(lower, upper)| f64::midpoint(*lower, *upper))
}

/// A measurement as scripts read it. Sizes are bytes.
#[derive(Serialize)]
struct Object {
    model: String,
    threads: usize,
    tier: &'static str,
    reader: &'static str,
    checked: bool,
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
struct Disk {
    best: Option<PointObject>,
    /// Time of all tokens over what their bytes take at the best rate.
    ratio: Option<f64>,
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
            budget: facts.plan.budget.0,
            peak_rss: measured.peak_rss,
            disk: measured
                .disk
                .as_ref()
                .map(|disk| Disk { best: disk.best(None).map(PointObject::from), ratio: measured.ratio() }),
        }
    }
}

fn text(measured: &Measured) -> String {
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
    line("prompt", format!("{PROMPT} tokens in {}", Seconds(measured.prefill_s)));
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
    line("memory", format!("{} at most, of {}", Bytes(measured.peak_rss), facts.plan.budget));
    if let Some(disk) = &measured.disk {
        line("disk at best", disk.best(None).map_or_else(|| "none".to_owned(), described));
        let ratio = measured.ratio().map_or_else(
            || "nothing was read".to_owned(),
            |ratio| format!("{ratio:.2} times what these bytes take at that rate"),
        );
        line("  a token took", ratio);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_of_one_or_of_two() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-12);
        assert!(median(&[]) < 1e-12);
    }
}
