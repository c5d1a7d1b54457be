//! Numbers as the screen says them, beside the units that the whole program shares.

use crate::units::Seconds;

/// `12 345`: digits in groups of three, by a space, which no country reads as a decimal mark.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// `2.78 T`, `40.2 M`: a large number by its size.
pub(crate) fn magnitude(number: u64) -> String {
    const NAMES: [(f64, &str); 4] = [(1e12, " T"), (1e9, " B"), (1e6, " M"), (1e3, " k")];
    let value = number as f64;
    let (scale, name) = NAMES.into_iter().find(|(scale, _)| value >= *scale).unwrap_or((1.0, ""));
    let scaled = value / scale;
    if name.is_empty() || scaled >= 99.95 {
        format!("{scaled:.0}{name}")
    } else if scaled >= 9.995 {
        format!("{scaled:.1}{name}")
    } else {
        format!("{scaled:.2}{name}")
    }
}

/// `1 word`, `12 words`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// `about 4 min`: a duration that is only guessed.
pub(crate) fn about(seconds: f64) -> String {
    let text = rough(seconds);
    if seconds < 0.95 { text } else { format!("about {text}") }
}

/// `4 min`, `1 h 40 min`: the same, without digits that would claim more.
pub(crate) fn rough(seconds: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a saturated cast of a non-negative number still prints"
    )]
    let rounded = |value: f64| value.max(0.0).round() as u64;
    if seconds < 0.95 {
        "less than 1 s".to_owned()
    } else if seconds < 59.5 {
        format!("{} s", rounded(seconds))
    } else if seconds < 3570.0 {
        format!("{} min", rounded(seconds / 60.0))
    } else if seconds < 86_400.0 {
        // In steps of five minutes from an hour on.
        let minutes = rounded(seconds / 300.0) * 5;
        match minutes % 60 {
            0 => format!("{} h", minutes / 60),
            rest => format!("{} h {rest:02} min", minutes / 60),
        }
    } else {
        format!("{:.1} days", seconds / 86_400.0)
    }
}

/// Tokens in a second as a person says it: `12.3 tok/s`, but `8.20 s/token` where a token takes longer than a second.
pub(crate) fn speed(tokens_per_second: f64) -> String {
    if tokens_per_second >= 99.95 {
        format!("{tokens_per_second:.0} tok/s")
    } else if tokens_per_second >= 1.0 {
        format!("{tokens_per_second:.1} tok/s")
    } else if tokens_per_second > 0.0 {
        format!("{}/token", Seconds(1.0 / tokens_per_second))
    } else {
        "–".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1 000");
        assert_eq!(grouped(1_234_567), "1 234 567");
        assert_eq!(magnitude(2_780_000_000_000), "2.78 T");
        assert_eq!(magnitude(40_210_000), "40.2 M");
        assert_eq!(magnitude(12), "12");
        assert_eq!(counted(1, "word"), "1 word");
        assert_eq!(counted(0, "word"), "0 words");
        assert_eq!(speed(123.4), "123 tok/s");
        assert_eq!(speed(12.34), "12.3 tok/s");
        assert_eq!(speed(0.1), "10 s/token");
        assert_eq!(speed(0.0), "–");
        for (seconds, text) in [
            (0.2, "less than 1 s"),
            (8.4, "8 s"),
            (59.4, "59 s"),
            (59.6, "1 min"),
            (250.0, "4 min"),
            (3569.0, "59 min"),
            (3571.0, "1 h"),
            (6000.0, "1 h 40 min"),
            (90_000.0, "1.0 days"),
        ] {
            assert_eq!(rough(seconds), text);
        }
        assert_eq!(about(250.0), "about 4 min");
        assert_eq!(about(0.2), "less than 1 s");
    }
}
