//! The terminal's answer to the question of what colour stands behind the text.
//!
//! It comes between the keys, whenever the terminal likes, and looks like keys itself: Alt-], then letters, then Ctrl-G
//! or Alt-\. So it is told apart as keys are read, and nobody waits for it.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Asks for it (OSC 11). A terminal that does not know the question says nothing.
pub(in crate::tui) const QUESTION: &str = "\x1b]11;?\x07";

/// What an answer begins with, after Alt-].
const HEAD: &str = "11;rgb";
/// No answer is longer.
const LONGEST: usize = 32;

/// Whether the keys so far are an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// They may become one.
    Maybe,
    /// They are none.
    No,
    /// They are one: red, green and blue from 0 to 1.
    Answer([f32; 3]),
}

/// Whether an answer may begin with this key.
pub(super) fn begins(key: &KeyEvent) -> bool {
    key.code == KeyCode::Char(']') && key.modifiers == KeyModifiers::ALT
}

/// What `keys` are, of which the first begins an answer.
pub(super) fn judge(keys: &[KeyEvent]) -> Verdict {
    let mut text = String::new();
    for key in keys.iter().skip(1) {
        match (key.code, key.modifiers) {
            (KeyCode::Char('g'), KeyModifiers::CONTROL) | (KeyCode::Char('\\'), KeyModifiers::ALT) => {
                return colour(&text).map_or(Verdict::No, Verdict::Answer);
            }
            (KeyCode::Char(letter), modifiers) if (modifiers - KeyModifiers::SHIFT).is_empty() => {
                text.push(letter);
            }
            _ => return Verdict::No,
        }
    }
    let alike = if text.len() < HEAD.len() { HEAD.starts_with(&text) } else { text.starts_with(HEAD) };
    if alike && text.len() <= LONGEST { Verdict::Maybe } else { Verdict::No }
}

/// `11;rgb:1e1e/1e1e/1e1e`: one to four hexadecimal digits for each.
fn colour(text: &str) -> Option<[f32; 3]> {
    let (kind, values) = text.strip_prefix(HEAD)?.split_once(':')?;
    let mut shares = values.split('/').map(|digits| {
        let most = 16_u32
            .checked_pow(u32::try_from(digits.len()).ok().filter(|count| (1..=4).contains(count))?)?
            - 1;
        let value = u32::from_str_radix(digits, 16).ok()?;
        Some(value as f32 / most as f32)
    });
    let rgb = [shares.next()??, shares.next()??, shares.next()??];
    // Some tell of transparency as well.
    let rest = shares.count();
    (rest == usize::from(kind == "a") && matches!(kind, "" | "a")).then_some(rgb)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_read() {
        assert_eq!(colour("11;rgb:ffff/0000/ffff"), Some([1.0, 0.0, 1.0]));
        assert_eq!(colour("11;rgb:F/0/f"), Some([1.0, 0.0, 1.0]));
        assert_eq!(colour("11;rgba:00/00/ff/80"), Some([0.0, 0.0, 1.0]));
        for wrong in [
            "",
            "11;rgb:",
            "11;rgb:ff/ff",
            "11;rgb:ff/ff/ff/ff",
            "11;rgb:gg/00/00",
            "11;rgb:fffff/0/0",
            "12;rgb:0/0/0",
        ] {
            assert_eq!(colour(wrong), None, "{wrong}");
        }
    }
}
