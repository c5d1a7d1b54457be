//! How the engine's numbers move: rates over the last seconds, and how long nothing has moved at all.

use std::collections::VecDeque;

use crate::protocol::{Rates, Sample};
use crate::units::Rate;

/// Seconds between two samples that are kept.
const STEP_S: f64 = 0.5;
/// Samples that are kept: the last half minute.
const KEPT: usize = 60;
/// Seconds over which a rate is taken.
const WINDOW_S: f64 = 3.0;

/// The last samples.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pulse {
    now: Sample,
    kept: VecDeque<Sample>,
    moved_at: f64,
    phase_at: f64,
}

impl Pulse {
    /// Takes a sample in.
    pub(crate) fn observe(&mut self, sample: &Sample) {
        let moving = |s: &Sample| {
            (
                s.phase,
                s.turn,
                s.tokens,
                s.prompt_done,
                s.layer,
                s.load_done,
                (s.landed_bytes, s.pieces),
                s.pass_began_ns,
            )
        };
        if moving(sample) != moving(&self.now) {
            self.moved_at = sample.at;
        }
        if (sample.phase, sample.turn) != (self.now.phase, self.now.turn) {
            self.phase_at = sample.at;
        }
        if self.kept.back().is_none_or(|last| sample.at - last.at >= STEP_S) {
            if self.kept.len() == KEPT {
                self.kept.pop_front();
            }
            self.kept.push_back(*sample);
        }
        self.now = *sample;
    }

    /// The newest sample.
    pub(crate) const fn now(&self) -> &Sample {
        &self.now
    }

    /// Whatever happened lately counts as just now: a turn begins.
    pub(crate) const fn stir(&mut self) {
        self.moved_at = self.now.at;
    }

    /// Seconds since any of the numbers moved.
    pub(crate) const fn still_s(&self) -> f64 {
        (self.now.at - self.moved_at).max(0.0)
    }

    /// Seconds since the phase began.
    pub(crate) const fn phase_s(&self) -> f64 {
        (self.now.at - self.phase_at).max(0.0)
    }

    /// How much of the prompt is read, by passes and layers.
    pub(crate) fn prefill_share(&self) -> f64 {
        let s = &self.now;
        if s.chunks == 0 || s.layers == 0 {
            return 0.0;
        }
        let done = s.chunk.saturating_sub(1) as f64 + s.layer as f64 / s.layers as f64;
        (done / s.chunks as f64).min(1.0)
    }

    /// Seconds until the prompt is read, if all of it takes as long as what was read; nothing at its very beginning.
    pub(crate) fn prefill_left_s(&self) -> Option<f64> {
        let share = self.prefill_share();
        (share >= 0.01).then(|| self.phase_s() * (1.0 - share) / share)
    }

    /// Rates over the last seconds.
    pub(crate) fn rates(&self) -> Rates {
        let earlier =
            self.kept.iter().rev().find(|s| self.now.at - s.at >= WINDOW_S).or_else(|| self.kept.front());
        Rates::between(earlier.unwrap_or(&self.now), &self.now)
    }

    /// Tokens in a second: over the last seconds where there are enough of them, else by the last token alone.
    pub(crate) fn tokens_per_second(&self) -> Option<f64> {
        let rate = self.rates().tokens_per_second;
        if rate * WINDOW_S >= 3.0 {
            Some(rate)
        } else if self.now.last_token_ns > 0 && self.now.tokens > 1 {
            Some(1e9 / self.now.last_token_ns as f64)
        } else {
            None
        }
    }

    /// What loading reads in a second.
    pub(crate) fn load_rate(&self) -> Rate {
        let earlier =
            self.kept.iter().rev().find(|s| self.now.at - s.at >= WINDOW_S).or_else(|| self.kept.front());
        let Some(earlier) = earlier else { return Rate(0.0) };
        let bytes = self.now.load_done.saturating_sub(earlier.load_done);
        Rate::of(crate::units::Bytes(bytes), self.now.at - earlier.at)
    }

    /// Disk rates between the samples that are kept, oldest first.
    pub(crate) fn disk_history(&self) -> impl DoubleEndedIterator<Item = f64> + '_ {
        self.kept
            .iter()
            .zip(self.kept.iter().skip(1))
            .map(|(earlier, later)| Rates::between(earlier, later).disk.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: f64, tokens: u64) -> Sample {
        Sample {
            at,
            turn: 1,
            tokens,
            landed_bytes: tokens * 100,
            last_token_ns: 500_000_000,
            ..Sample::default()
        }
    }

    #[test]
    fn many_tokens_are_averaged_and_few_are_taken_one_by_one() {
        let mut pulse = Pulse::default();
        for step in 0..20 {
            pulse.observe(&sample(f64::from(step) * 0.5, u64::try_from(step).unwrap() * 5));
        }
        assert!((pulse.tokens_per_second().unwrap() - 10.0).abs() < 1e-9);
        assert!((pulse.rates().disk.0 - 1000.0).abs() < 1e-9);
        assert_eq!(pulse.disk_history().count(), 19);
        pulse.observe(&sample(100.0, 96));
        assert_eq!(pulse.tokens_per_second(), Some(2.0));
    }

    #[test]
    fn stillness_is_noticed_and_ends() {
        let mut pulse = Pulse::default();
        pulse.observe(&sample(1.0, 1));
        pulse.observe(&sample(9.0, 1));
        assert!((pulse.still_s() - 8.0).abs() < 1e-9);
        pulse.observe(&Sample { layer: 1, ..sample(9.5, 1) });
        assert!(pulse.still_s() < 1e-9);
    }

    #[test]
    fn a_prompt_is_read_by_passes_and_layers() {
        let mut pulse = Pulse::default();
        let reading = |at, chunk, layer| Sample {
            at,
            turn: 1,
            phase: crate::protocol::Phase::Prefill,
            chunks: 4,
            chunk,
            layer,
            layers: 10,
            ..Sample::default()
        };
        pulse.observe(&reading(5.0, 1, 0));
        assert_eq!(pulse.prefill_left_s(), None);
        pulse.observe(&reading(15.0, 2, 0));
        assert!((pulse.prefill_share() - 0.25).abs() < 1e-9);
        assert!((pulse.prefill_left_s().unwrap() - 30.0).abs() < 1e-9);
        pulse.observe(&reading(25.0, 3, 5));
        assert!((pulse.prefill_share() - 0.625).abs() < 1e-9);
        assert!((pulse.prefill_left_s().unwrap() - 12.0).abs() < 1e-9);
    }

    #[test]
    fn memory_of_samples_is_bounded() {
        let mut pulse = Pulse::default();
        for step in 0..1000 {
            pulse.observe(&sample(f64::from(step), 0));
        }
        assert_eq!(pulse.kept.len(), KEPT);
    }
}
