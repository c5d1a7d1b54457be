//! `dormouse bench decode`: how fast the model decodes, and what it waits for.

mod beside;
mod report;

use std::path::PathBuf;
use std::time::Duration;

use crossbeam_channel::RecvTimeoutError;

use self::beside::Beside;
use super::disk::{remember, set_disk, shards};
use crate::cli::args::{BenchDecode, Common};
use crate::cli::progress::Progress;
use crate::cli::run::{engine_left, send};
use crate::cli::settings::{self, Resolved};
use crate::cli::{Done, no_resource, output};
use crate::engine;
use crate::protocol::{
    CancelFlag, Command, EngineLink, Event, ExitCode, Finish, ModelFacts, Outcome, Prompt, Settings,
    TokenCost, TurnId, TurnRequest, UserError,
};
use crate::sys::signals::StopSignal;
use crate::sys::{memory, process};
use crate::units::{Bytes, Percent, Rate};

/// How long a signal may wait to be seen.
const POLL: Duration = Duration::from_millis(20);
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
        output::print_json(&report::Object::from(&result))?;
    } else {
        output::print(&report::text(&result))?;
    }
    if let Some(beside) = &result.disk {
        remember(&resolved, |rates| set_disk(rates, &result.model, &beside.sweep))?;
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
    /// Tokens of the prompt.
    prompt: usize,
    prefill_s: f64,
    seconds: Vec<f64>,
    tokens: Vec<TokenCost>,
    /// For a token.
    cpu: Cpu,
    peak_rss: u64,
    disk: Option<Beside>,
}

/// Seconds that threads had of a processor: those that compute or wait to, and those that read.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    compute: f64,
    read: f64,
}

impl Cpu {
    fn now() -> Self {
        let threads = process::thread_seconds();
        let of = |prefixes: &[&str]| {
            let is_one = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
            threads.iter().filter(|(name, _)| is_one(name)).map(|(_, seconds)| seconds).sum()
        };
        Self { compute: of(&["engine", "cpu-"]), read: of(&["io-"]) }
    }

    /// What came to it since then, for each of so many passes.
    fn since(self, before: Self, passes: usize) -> Self {
        let each = |now: f64, before: f64| (now - before) / passes.max(1) as f64;
        Self { compute: each(self.compute, before.compute), read: each(self.read, before.read) }
    }
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
        let id = |i: u32| i.wrapping_mul(2_654_435_761) % vocabulary;
        let mut ids: Vec<u32> = (0..).map(id).take(args.prompt).collect();
        let mut measured = Measured {
            model,
            facts,
            prompt: args.prompt,
            prefill_s: 0.0,
            seconds: Vec::new(),
            tokens: Vec::new(),
            cpu: Cpu::default(),
            peak_rss: 0,
            disk: None,
        };
        if args.warm {
            if self.turn(&link, TurnId(0), &ids, 1)?.is_none() {
                return Ok(None);
            }
            send(&link, Command::Reset)?;
        }
        let Some(outcome) = self.turn(&link, TurnId(1), &ids, 1)? else { return Ok(None) };
        measured.prefill_s = outcome.took.prefill_s;
        ids.extend(outcome.ids);
        let (mut passes, before) = (0, Cpu::now());
        // A stop id ends a turn; the next one goes on from the state that it left.
        for turn in 2.. {
            let left = args.tokens.saturating_sub(measured.seconds.len());
            if left == 0 {
                break;
            }
            // One more than passes: the first token of a turn comes of its prompt.
            let Some(outcome) = self.turn(&link, TurnId(turn), &ids, left + 1)? else { return Ok(None) };
            if outcome.finish == Finish::Length && outcome.decode_s.len() < left {
                let detail = format!("{} tokens do not fit into its context", args.tokens);
                return Err(UserError::new(ExitCode::Usage, "The context is full", detail)
                    .with_hint("Ask for fewer --tokens, or for more --context."));
            }
            passes += 1 + outcome.decode_s.len();
            measured.seconds.extend(outcome.decode_s);
            measured.tokens.extend(outcome.tokens);
            ids.extend(outcome.ids);
        }
        measured.cpu = Cpu::now().since(before, passes);
        measured.peak_rss = memory::process().peak;
        if args.disk {
            match self.beside(&link, &measured, &mut ids, args.tokens) {
                Ok(beside) => measured.disk = beside,
                Err(error) if error.code == ExitCode::Stopped => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(measured))
    }

    fn loaded(&mut self, link: &EngineLink) -> Result<Option<Box<ModelFacts>>, UserError> {
        loop {
            match self.next_event(link)? {
                Some(Event::Ready(facts)) => return Ok(Some(facts)),
                Some(Event::Failed(error) | Event::Refused(error)) => return Err(error),
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
        let request = TurnRequest::greedy(turn, Prompt::Ids(ids.to_vec()), most, cancel.clone());
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
                Some(Event::Failed(error) | Event::Refused(error)) => return Err(error),
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
}

/// The one in the middle, or between the two there; 0 of none.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.get(sorted.len() / 2);
    let lower = sorted.len().checked_sub(1).and_then(|last| sorted.get(last / 2));
    lower.zip(upper).map_or(0.0, |(lower, upper)| f64::midpoint(*lower, *upper))
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
