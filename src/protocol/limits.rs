//! How long a turn may think and answer.

use std::fmt;
use std::str::FromStr;

/// The most of one part of a turn. Parses `300`, `300 tokens`, `90s`, `10m`, `1h30m`; prints the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// So many tokens: the same ones every time.
    Tokens(usize),
    /// So many seconds. The token during which they end is the last.
    Seconds(u64),
}

/// The limits of a turn; a part without one goes on until the model ends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Of its thinking.
    pub think: Option<Limit>,
    /// Of its answer.
    pub answer: Option<Limit>,
}

impl Limits {
    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.think.is_none() && self.answer.is_none()
    }
}

/// The text is not a limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not a limit: write it like 300 (tokens), 90s, 10m or 1h30m")]
pub struct ParseLimitError {
    found: String,
}

impl FromStr for Limit {
    type Err = ParseLimitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseLimitError { found: text.to_owned() };
        let trimmed = text.trim();
        let plain = trimmed.strip_suffix("tokens").or_else(|| trimmed.strip_suffix("token"));
        if let Ok(tokens) = plain.unwrap_or(trimmed).trim_end().parse::<usize>() {
            return if tokens > 0 { Ok(Self::Tokens(tokens)) } else { Err(error()) };
        }
        let mut seconds = 0_u64;
        let mut rest = trimmed;
        // Each unit once, the larger before the smaller.
        let mut units = [('h', 3600), ('m', 60), ('s', 1)].into_iter();
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(error)?;
            let (number, after) = rest.split_at(digits);
            let unit = after.chars().next().ok_or_else(error)?;
            let (_, factor) = units.find(|(name, _)| *name == unit).ok_or_else(error)?;
            let part = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
            seconds = part.and_then(|part| seconds.checked_add(part)).ok_or_else(error)?;
            rest = after.get(unit.len_utf8()..).unwrap_or_default();
        }
        if seconds > 0 { Ok(Self::Seconds(seconds)) } else { Err(error()) }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Tokens(tokens) => write!(f, "{tokens}"),
            Self::Seconds(seconds) => {
                for (amount, unit) in [(seconds / 3600, 'h'), (seconds / 60 % 60, 'm'), (seconds % 60, 's')] {
                    if amount > 0 {
                        write!(f, "{amount}{unit}")?;
                    }
                }
                Ok(())
            }
        }
    }
}

impl Limit {
    /// As a person says it: `300 tokens`, `1h30m`.
    pub fn said(self) -> String {
        match self {
            Self::Tokens(1) => "1 token".to_owned(),
            Self::Tokens(tokens) => format!("{tokens} tokens"),
            Self::Seconds(_) => self.to_string(),
        }
    }
}

/// Which limit ended a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// The most tokens of the whole turn.
    Tokens(usize),
    /// That of the thinking.
    Think(Limit),
    /// That of the answer.
    Answer(Limit),
    /// The context is full.
    Context,
}

impl fmt::Display for Reached {
    /// In words that [`str::parse`] reads back: `tokens 7`, `think 10m`, `answer 300`, `context`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tokens(most) => write!(f, "tokens {most}"),
            Self::Think(limit) => write!(f, "think {limit}"),
            Self::Answer(limit) => write!(f, "answer {limit}"),
            Self::Context => f.write_str("context"),
        }
    }
}

impl FromStr for Reached {
    type Err = ParseLimitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseLimitError { found: text.to_owned() };
        match text.split_once(' ') {
            None if text == "context" => Ok(Self::Context),
            Some(("tokens", most)) => most.parse().map(Self::Tokens).map_err(|_unread| error()),
            Some(("think", limit)) => limit.parse().map(Self::Think),
            Some(("answer", limit)) => limit.parse().map(Self::Answer),
            _ => Err(error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_they_are_typed_and_print_so_that_they_are_read_again() {
        for (text, limit, printed) in [
            ("300", Limit::Tokens(300), "300"),
            (" 300 tokens ", Limit::Tokens(300), "300"),
            ("1token", Limit::Tokens(1), "1"),
            ("10m", Limit::Seconds(600), "10m"),
            ("90s", Limit::Seconds(90), "1m30s"),
            ("1h30m", Limit::Seconds(5400), "1h30m"),
            ("2h5s", Limit::Seconds(7205), "2h5s"),
        ] {
            assert_eq!(text.parse(), Ok(limit), "{text}");
            assert_eq!(limit.to_string(), printed);
            assert_eq!(printed.parse(), Ok(limit));
        }
        assert_eq!(Limit::Tokens(300).said(), "300 tokens");
        assert_eq!(Limit::Seconds(600).said(), "10m");
    }

    #[test]
    fn what_is_no_limit_is_refused_and_named() {
        for text in ["", "0", "0m", "-3", "m", "10 m", "5m1h", "1h1h", "3d", "1.5m", "99999999999999999999h"]
        {
            let error = text.parse::<Limit>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn what_was_reached_comes_back() {
        for reached in [
            Reached::Tokens(7),
            Reached::Think(Limit::Seconds(600)),
            Reached::Answer(Limit::Tokens(300)),
            Reached::Context,
        ] {
            assert_eq!(reached.to_string().parse(), Ok(reached));
        }
        for text in ["", "tokens", "tokens x", "context 1", "sleep 3"] {
            assert!(text.parse::<Reached>().is_err(), "{text}");
        }
    }
}
