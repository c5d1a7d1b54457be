//! A bound on the rate of all connections together.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A token bucket that may go into debt: who took too much waits until it is paid.
#[derive(Debug)]
struct Bucket {
    /// Bytes in a second.
    rate: f64,
    /// Bytes that may be had at once; negative while there is debt.
    level: f64,
    at: Duration,
}

impl Bucket {
    fn new(rate: u64) -> Self {
        Self { rate: rate.max(1) as f64, level: 0.0, at: Duration::ZERO }
    }

    /// Takes `bytes` at the time `now`, and says how long to wait before more are taken.
    fn take(&mut self, bytes: usize, now: Duration) -> Duration {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.at = self.at.max(now);
        // A tenth of a second may be saved up, so that a late thread does not lower the rate.
        self.level = (self.level + passed * self.rate).min(self.rate / 10.0);
        self.level -= bytes as f64;
        Duration::from_secs_f64((-self.level / self.rate).max(0.0))
    }
}

/// The bound, shared by all connections; or none.
#[derive(Debug)]
pub(super) struct Limiter {
    bucket: Option<Mutex<Bucket>>,
    began: Instant,
    /// Bytes that a connection should ask for at once.
    chunk: usize,
}

impl Limiter {
    /// At most `chunk` bytes at once, and at most `rate` of them in a second.
    pub(super) fn new(rate: Option<u64>, chunk: usize) -> Self {
        // A twentieth of a second at a time keeps the flow even.
        let share = |rate: u64| usize::try_from(rate / 20).unwrap_or(usize::MAX).max(1024);
        Self {
            bucket: rate.map(|rate| Mutex::new(Bucket::new(rate))),
            began: Instant::now(),
            chunk: rate.map_or(chunk, |rate| share(rate).min(chunk)),
        }
    }

    pub(super) const fn chunk(&self) -> usize {
        self.chunk
    }

    /// Says that `bytes` came, and how long to wait before reading more.
    pub(super) fn took(&self, bytes: usize) -> Duration {
        match &self.bucket {
            None => Duration::ZERO,
            Some(bucket) => {
                let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
                bucket.take(bytes, self.began.elapsed())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_holds_over_time_for_several_takers() {
        let mut bucket = Bucket::new(1000);
        let mut now = Duration::ZERO;
        let mut total = 0;
        while now < Duration::from_secs(100) {
            // Two connections, each of which waits for what its own taking cost.
            let first = bucket.take(50, now);
            let second = bucket.take(70, now);
            total += 120;
            assert!(second >= first);
            now += second.max(Duration::from_millis(1));
        }
        assert!((99_000..101_000).contains(&total), "{total}");
    }

    #[test]
    fn idle_time_is_not_saved_up() {
        let mut bucket = Bucket::new(1000);
        bucket.take(10, Duration::from_hours(1));
        let wait = bucket.take(1000, Duration::from_hours(1));
        assert!(wait > Duration::from_millis(800), "{wait:?}");
    }

    #[test]
    fn without_a_bound_nobody_waits() {
        let limiter = Limiter::new(None, 4096);
        assert_eq!((limiter.took(1 << 40), limiter.chunk()), (Duration::ZERO, 4096));
        assert_eq!(Limiter::new(Some(1 << 30), 4096).chunk(), 4096);
    }
}
