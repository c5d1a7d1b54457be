//! Telling a connection that crawls from one that is merely not the fastest.

use std::time::Duration;

/// What the others do, as windows of all connections come in: bytes in a second.
#[derive(Debug, Default)]
pub(super) struct Typical(Option<f64>);

/// A connection that is this many times slower than is typical crawls.
const FAR: f64 = 16.0;

impl Typical {
    /// Takes in one window, and says whether it was far under what is typical.
    pub(super) fn crawls(&mut self, bytes: u64, time: Duration) -> bool {
        let seconds = time.as_secs_f64();
        if seconds <= 0.0 {
            return false;
        }
        let rate = bytes as f64 / seconds;
        let typical = self.0.unwrap_or(rate);
        let crawls = rate * FAR < typical;
        // A crawl moves the measure only a little, else it would soon be typical; but if everything slows down, that
        // is the network, and a new connection would not help.
        let weight = if crawls { 0.1 } else { 0.3 };
        self.0 = Some(typical + weight * (rate - typical));
        crawls
    }
}

/// The window of one connection: bytes and the time that they took, without pauses for a limit.
#[derive(Debug)]
pub(super) struct Window {
    length: Duration,
    bytes: u64,
    time: Duration,
}

impl Window {
    pub(super) const fn new(length: Duration) -> Self {
        Self { length, bytes: 0, time: Duration::ZERO }
    }

    /// Adds a read; gives the window's sums when it is full, and begins the next one.
    pub(super) fn add(&mut self, bytes: usize, time: Duration) -> Option<(u64, Duration)> {
        self.bytes += bytes as u64;
        self.time += time;
        if self.time < self.length {
            return None;
        }
        let full = (self.bytes, self.time);
        *self = Self::new(self.length);
        Some(full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn one_far_under_the_others_crawls() {
        let mut typical = Typical::default();
        for _ in 0..5 {
            assert!(!typical.crawls(100_000_000, SECOND));
        }
        assert!(!typical.crawls(10_000_000, SECOND), "a tenth is slow, no more");
        assert!(typical.crawls(1_000_000, SECOND));
    }

    #[test]
    fn when_all_slow_down_it_becomes_typical() {
        let mut typical = Typical::default();
        typical.crawls(100_000_000, SECOND);
        let crawls = (0..100).take_while(|_| typical.crawls(1_000_000, SECOND)).count();
        assert!((5..50).contains(&crawls), "{crawls}");
    }

    #[test]
    fn a_window_is_full_after_its_time_and_begins_anew() {
        let mut window = Window::new(SECOND);
        assert_eq!(window.add(10, SECOND / 2), None);
        assert_eq!(window.add(20, SECOND), Some((30, SECOND * 3 / 2)));
        assert_eq!(window.add(1, SECOND), Some((1, SECOND)));
    }
}
