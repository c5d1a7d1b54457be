//! Sizes, rates and shares: parsed and printed in one way everywhere.

use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

/// A number of bytes. Prints in binary units (`2.3 GiB`), parses `24GiB`, `24G`, `8GB`, `512 MiB`, `4096`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// The text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not a size: {problem}; write it like 24GiB, 8GB or 512MiB")]
pub struct ParseBytesError {
    found: String,
    problem: &'static str,
}

const UNITS: [(&str, u64); 12] = [
    ("b", 1),
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("kb", 1_000),
    ("m", 1 << 20),
    ("mib", 1 << 20),
    ("mb", 1_000_000),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("gb", 1_000_000_000),
    ("tib", 1 << 40),
    ("tb", 1_000_000_000_000),
];

impl FromStr for Bytes {
    type Err = ParseBytesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |problem| ParseBytesError { found: text.to_owned(), problem };
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        if number.is_empty() {
            return Err(error("it does not start with a number"));
        }
        let unit = unit.trim().to_ascii_lowercase();
        let factor = if unit.is_empty() {
            1
        } else {
            UNITS
                .iter()
                .find(|(name, _)| *name == unit)
                .map(|(_, factor)| *factor)
                .ok_or_else(|| error("the unit is unknown"))?
        };
        let bytes = if let Ok(whole) = number.parse::<u64>() {
            whole.checked_mul(factor).ok_or_else(|| error("it is too large"))?
        } else {
            let value = number.parse::<f64>().ok().ok_or_else(|| error("the number is malformed"))?;
            let bytes = value * factor as f64;
            // 2^63 as the bound: far above any machine, far below where the cast would saturate.
            if !(0.0..9.2e18).contains(&bytes) {
                return Err(error("it is too large"));
            }
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the range was checked"
            )]
            let bytes = bytes as u64;
            bytes
        };
        Ok(Self(bytes))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = scaled(self.0 as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"]);
        f.pad(&text)
    }
}

/// Bytes in a second. Prints in decimal units, as disks are sold: `3.2 GB/s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Rate(pub f64);

impl Rate {
    /// The rate of `bytes` in `seconds`; nothing moved in no time is a rate of zero.
    pub fn of(bytes: Bytes, seconds: f64) -> Self {
        if seconds > 0.0 { Self(bytes.0 as f64 / seconds) } else { Self(0.0) }
    }
}

impl Rate {
    /// Seconds that `bytes` take at this rate; nothing where it is zero.
    pub fn seconds(self, bytes: Bytes) -> Option<f64> {
        (self.0 > 0.0).then(|| bytes.0 as f64 / self.0)
    }

    /// Whole bytes in a second.
    pub fn whole(self) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a cast that saturates: no rate is negative or near the largest number"
        )]
        let whole = self.0.round() as u64;
        whole
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = scaled(self.0, 1000.0, &["B/s", "kB/s", "MB/s", "GB/s", "TB/s"]);
        f.pad(&text)
    }
}

/// A share of a whole, held as a fraction of one. Prints as `63 %`; a share of nothing prints as `–`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Percent(pub f64);

impl Percent {
    /// `part` of `whole`; not a number where `whole` is zero.
    pub fn of(part: u64, whole: u64) -> Self {
        if whole == 0 { Self(f64::NAN) } else { Self(part as f64 / whole as f64) }
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_nan() { f.pad("–") } else { f.pad(&format!("{:.0} %", self.0 * 100.0)) }
    }
}

/// A duration as a person says it: `0.42 s`, `12 s`, `3 min 05 s`, `2 h 10 min`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Seconds(pub f64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = self.0.max(0.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "non-negative; a saturated cast still prints"
        )]
        let whole = s.round() as u64;
        let text = if s < 9.995 {
            format!("{s:.2} s")
        } else if whole < 60 {
            format!("{whole} s")
        } else if whole < 3600 {
            format!("{} min {:02} s", whole / 60, whole % 60)
        } else {
            format!("{} h {:02} min", whole / 3600, whole % 3600 / 60)
        };
        f.pad(&text)
    }
}

/// A day, held as seconds since 1970 began (UTC). Prints as `2026-11-30`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(pub u64);

impl Day {
    /// Today, as the machine's clock says.
    pub fn today() -> Self {
        Self(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const CYCLE: u64 = 146_097;
        let leap =
            |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        // The calendar repeats after 400 years.
        let days = self.0 / 86_400;
        let (mut year, mut day) = (1970 + days / CYCLE * 400, days % CYCLE);
        while day >= 365 + u64::from(leap(year)) {
            day -= 365 + u64::from(leap(year));
            year += 1;
        }
        let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let mut month = 1;
        for length in lengths {
            if day < length {
                break;
            }
            day -= length;
            month += 1;
        }
        f.pad(&format!("{year:04}-{month:02}-{:02}", day + 1))
    }
}

/// `value` in the largest unit that leaves it at one or more, with three significant digits.
fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut unit = 0;
    // 999.5 would print as 1000 of the smaller unit.
    while value >= step * 0.9995 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let name = units.get(unit).copied().unwrap_or_default();
    if unit == 0 || value >= 99.95 {
        format!("{value:.0} {name}")
    } else if value >= 9.995 {
        format!("{value:.1} {name}")
    } else {
        format!("{value:.2} {name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse_in_both_systems() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("24GiB", 24 << 30),
            ("24 gib", 24 << 30),
            ("24G", 24 << 30),
            ("8GB", 8_000_000_000),
            ("1.5MiB", 3 << 19),
            (" 512k ", 512 << 10),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_and_named() {
        for text in [
            "",
            "nan",
            "inf",
            "-1",
            "GiB",
            "1..5",
            "12parsecs",
            "99999999999999999999",
            "20000000TiB",
            "1.9e3",
        ] {
            let error = text.parse::<Bytes>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn numbers_print_with_three_digits() {
        assert_eq!(Bytes(0).to_string(), "0 B");
        assert_eq!(Bytes(1023).to_string(), "1023 B");
        assert_eq!(Bytes(1024).to_string(), "1.00 KiB");
        assert_eq!(Bytes(17_547_264).to_string(), "16.7 MiB");
        assert_eq!(Rate(3_200_000_000.0).to_string(), "3.20 GB/s");
        assert_eq!(Percent::of(1, 3).to_string(), "33 %");
        assert_eq!(Percent::of(0, 0).to_string(), "–");
        assert_eq!(Seconds(0.4217).to_string(), "0.42 s");
        assert_eq!(Seconds(185.2).to_string(), "3 min 05 s");
        for (seconds, day) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_796_083_199, "2026-11-30"),
            (1_796_083_200, "2026-12-01"),
            (4_102_444_800, "2100-01-01"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(Day(seconds).to_string(), day);
        }
        assert_eq!(Seconds(7801.0).to_string(), "2 h 10 min");
    }
}
