//! What is left of a turn's limits.

use std::time::Duration;

use crate::protocol::{Channel, Limit, Limits, Reached};

/// What a turn has used of its limits, and these.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Allowance {
    limits: Limits,
    thinking: Used,
    answer: Used,
}

#[derive(Clone, Copy, Debug, Default)]
struct Used {
    tokens: usize,
    time: Duration,
}

impl Used {
    fn is_all(&self, limit: Limit) -> bool {
        match limit {
            Limit::Tokens(most) => self.tokens >= most,
            Limit::Seconds(most) => self.time >= Duration::from_secs(most),
        }
    }
}

impl Allowance {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Counts a token whose text belongs to `channel`, and the time of the pass that it comes of.
    pub(super) fn count(&mut self, channel: Channel, took: Duration) {
        let used = match channel {
            Channel::Thinking => &mut self.thinking,
            Channel::Answer => &mut self.answer,
            Channel::Tools | Channel::Between => return,
        };
        used.tokens += 1;
        used.time += took;
    }

    /// Which limit keeps the turn from going on in the channel `next`, if one does. A part that has just ended is not
    /// held up any more.
    pub(super) fn reached(&self, next: Channel) -> Option<Reached> {
        match next {
            Channel::Thinking => {
                self.limits.think.filter(|limit| self.thinking.is_all(*limit)).map(Reached::Think)
            }
            Channel::Answer => {
                self.limits.answer.filter(|limit| self.answer.is_all(*limit)).map(Reached::Answer)
            }
            Channel::Tools | Channel::Between => None,
        }
    }

    /// Seconds of the thinking, where there was any.
    pub(super) fn thinking_s(&self) -> Option<f64> {
        (self.thinking.tokens > 0).then_some(self.thinking.time.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn each_part_has_its_own_limit_and_what_is_over_is_free() {
        let limits = Limits { think: Some(Limit::Tokens(2)), answer: Some(Limit::Seconds(3)) };
        let mut allowance = Allowance::new(limits);
        assert_eq!(allowance.thinking_s(), None);
        allowance.count(Channel::Thinking, SECOND);
        assert_eq!(allowance.reached(Channel::Thinking), None);
        allowance.count(Channel::Thinking, SECOND);
        assert_eq!(allowance.reached(Channel::Thinking), Some(Reached::Think(Limit::Tokens(2))));
        assert_eq!(allowance.thinking_s(), Some(2.0));
        // The second token closed the thinking: nothing is held up.
        assert_eq!(allowance.reached(Channel::Between), None);
        allowance.count(Channel::Between, 9 * SECOND);
        for _ in 0..2 {
            allowance.count(Channel::Answer, SECOND);
            assert_eq!(allowance.reached(Channel::Answer), None);
        }
        allowance.count(Channel::Answer, SECOND);
        assert_eq!(allowance.reached(Channel::Answer), Some(Reached::Answer(Limit::Seconds(3))));
        assert_eq!(allowance.reached(Channel::Tools), None);
    }

    #[test]
    fn without_limits_nothing_is_reached() {
        let mut allowance = Allowance::new(Limits::default());
        for _ in 0..1000 {
            allowance.count(Channel::Answer, SECOND);
        }
        assert_eq!(allowance.reached(Channel::Answer), None);
    }
}
