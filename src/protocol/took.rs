//! What a turn took, in the few numbers that are worth keeping.

use serde::{Deserialize, Serialize};

/// What a turn took. Times are those of its last stretch, where it was cut and gone on with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Took {
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Of these, and of the ids generated before a cut, still in a state from an earlier turn.
    pub reused: usize,
    /// Tokens that were read before the first one was drawn: of the prompt, and of what came before a cut.
    pub read: usize,
    /// Generated tokens, those of before a cut and the one that ended the turn included.
    pub written: usize,
    /// Seconds that reading took.
    pub prefill_s: f64,
    /// Seconds from the command to the first token, where there was one.
    pub first_token_s: Option<f64>,
    /// Seconds of the tokens of the thinking, where there were any.
    pub thinking_s: Option<f64>,
    /// Passes that decoded one token: one fewer than the drawn ids, since the first comes of the prefill.
    pub decoded: usize,
    /// Seconds of these passes.
    pub decode_s: f64,
    /// Seconds of the middle one of them, by length.
    pub token_s: Option<f64>,
    /// Seconds from the command to the end.
    pub total_s: f64,
}

impl Took {
    /// Takes over the passes that decoded a token, in seconds.
    pub fn decoded(&mut self, seconds: &[f64]) {
        self.decoded = seconds.len();
        // Of none it is -0, which no reader expects.
        self.decode_s = seconds.iter().sum::<f64>() + 0.0;
        self.token_s = median(seconds);
    }

    /// Decoded tokens in a second; nothing where none was decoded.
    pub fn rate(&self) -> Option<f64> {
        (self.decode_s > 0.0).then(|| self.decoded as f64 / self.decode_s)
    }
}

/// The middle one of some numbers, by size; the larger of two.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_are_summed_up() {
        let mut took = Took::default();
        assert_eq!((took.rate(), took.token_s), (None, None));
        took.decoded(&[1.0, 9.0, 2.0]);
        assert_eq!((took.decoded, took.decode_s, took.token_s), (3, 12.0, Some(2.0)));
        assert_eq!(took.rate(), Some(0.25));
        assert_eq!(median(&[1.0, 3.0]), Some(3.0));
    }

    #[test]
    fn a_field_that_an_older_version_did_not_write_is_empty() {
        let took: Took = serde_json::from_str(r#"{"prompt":3,"total_s":1.5}"#).unwrap();
        assert_eq!(took, Took { prompt: 3, total_s: 1.5, ..Took::default() });
        let text = serde_json::to_string(&took).unwrap();
        assert_eq!(serde_json::from_str::<Took>(&text).unwrap(), took);
    }
}
