//! How long to wait before the next attempt.

use std::time::Duration;

/// Attempts in a row that brought nothing.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
    /// Times that the server was busy, likewise.
    refusals: u32,
    random: u64,
}

impl Backoff {
    /// `seed` sets the jitter, so that connections that failed together do not come back together.
    pub(super) const fn new(first: Duration, longest: Duration, seed: u64) -> Self {
        Self { first, longest, failures: 0, refusals: 0, random: seed | 1 }
    }

    /// There was progress: the next failure counts as the first.
    pub(super) const fn reset(&mut self) {
        self.failures = 0;
        self.refusals = 0;
    }

    /// Failures since there was progress.
    pub(super) const fn failures(&self) -> u32 {
        self.failures
    }

    /// Notes a failure and says how long to wait: twice as long each time, and anything between half of that and all.
    pub(super) fn fail(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.after(self.failures)
    }

    /// Notes that the server is busy, which is not a failure, and says how long to leave it alone.
    pub(super) fn busy(&mut self) -> Duration {
        self.refusals = self.refusals.saturating_add(1);
        self.after(self.refusals)
    }

    fn after(&mut self, times: u32) -> Duration {
        let whole = self.first.saturating_mul(1 << times.saturating_sub(1).min(20)).min(self.longest);
        whole.mul_f64(0.5 + 0.5 * self.uniform())
    }

    /// How long to wait where the server names the time: never less than that, and a little more.
    pub(super) fn told(&mut self, wait: Duration) -> Duration {
        wait + self.first.mul_f64(self.uniform())
    }

    /// Between zero and one, by xorshift.
    fn uniform(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_double_up_to_the_longest() {
        let mut backoff = Backoff::new(SECOND, SECOND * 60, 7);
        for whole in [1, 2, 4, 8, 16, 32, 60, 60] {
            let wait = backoff.fail();
            assert!(wait >= SECOND * whole / 2 && wait <= SECOND * whole, "{wait:?} of {whole}");
        }
        assert_eq!(backoff.failures(), 8);
        backoff.reset();
        assert!(backoff.fail() <= SECOND);
    }

    #[test]
    fn it_never_overflows_and_two_seeds_differ() {
        let mut a = Backoff::new(SECOND, SECOND * 300, 1);
        let mut b = Backoff::new(SECOND, SECOND * 300, 2_000_003);
        let waits: Vec<_> = (0..100).map(|_| (a.fail(), b.fail())).collect();
        assert!(waits.iter().all(|(a, b)| *a <= SECOND * 300 && *b <= SECOND * 300));
        assert!(waits.iter().any(|(a, b)| a != b));
    }

    #[test]
    fn what_the_server_says_is_the_least() {
        let mut backoff = Backoff::new(SECOND, SECOND * 60, 9);
        let wait = backoff.told(SECOND * 30);
        assert!(wait >= SECOND * 30 && wait <= SECOND * 31);
        assert!((0..9).map(|_| backoff.busy()).last().unwrap() >= SECOND * 30, "without a word it grows");
        assert_eq!(backoff.failures(), 0, "d28: none of this counts");
    }
}
