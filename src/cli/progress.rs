//! What a headless run tells the person who waits: one line on standard error, and only where that is a terminal.

use std::io::{IsTerminal, Write, stderr, stdout};
use std::time::{Duration, Instant};

use super::output::clean;
use crate::protocol::{Phase, Telemetry};
use crate::units::{Bytes, Percent, Seconds};

const EVERY: Duration = Duration::from_millis(200);

/// A line that is drawn over itself.
#[derive(Debug)]
pub(super) struct Progress {
    enabled: bool,
    drawn: Option<Instant>,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { enabled: stderr().is_terminal(), drawn: None }
    }

    /// Whether a person reads along.
    pub(super) const fn is_watched(&self) -> bool {
        self.enabled
    }

    /// Draws the engine's numbers anew, if it is time to.
    pub(super) fn tick(&mut self, telemetry: &Telemetry) {
        self.draw(|| line(telemetry));
    }

    /// Draws a line anew, if it is time to.
    pub(super) fn draw(&mut self, line: impl FnOnce() -> String) {
        if self.enabled && self.drawn.is_none_or(|drawn| drawn.elapsed() >= EVERY) {
            self.drawn = Some(Instant::now());
            // A terminal that went away needs no progress.
            let _ = write!(stderr(), "\r\x1b[K{}", line());
        }
    }

    /// Writes a line that stays, for whoever watches.
    pub(super) fn note(&mut self, text: &str) {
        if self.enabled {
            let _ = writeln!(stderr(), "\r\x1b[K{text}");
        }
    }

    /// Writes a line that stays, whoever reads it.
    pub(super) fn line(&mut self, text: &str) {
        if self.drawn.take().is_some() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
        let _ = writeln!(stderr(), "{}", clean(text));
    }

    /// Text of the answer is about to be written. On a shared terminal the line makes way for good.
    pub(super) fn before_text(&mut self) {
        if self.enabled && stdout().is_terminal() {
            self.finish();
        }
    }

    /// Wipes the line for good.
    pub(super) fn finish(&mut self) {
        if self.drawn.take().is_some() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
        self.enabled = false;
    }
}

fn line(telemetry: &Telemetry) -> String {
    let sample = telemetry.sample();
    match sample.phase {
        Phase::Empty | Phase::Loading => {
            let (done, total) = (Bytes(sample.load_done), Bytes(sample.load_total));
            format!("loading: {done} of {total}, {}", Percent::of(done.0, total.0))
        }
        Phase::Idle => String::new(),
        Phase::Prefill => format!(
            "reading the prompt: {} of {} tokens, layer {} of {}",
            sample.prompt_done,
            sample.prompt_total,
            sample.layer + 1,
            sample.layers
        ),
        Phase::Decode => format!(
            "{} tokens, the last in {}, layer {} of {}",
            sample.tokens,
            Seconds(sample.last_token_ns as f64 * 1e-9),
            sample.layer + 1,
            sample.layers
        ),
    }
}
