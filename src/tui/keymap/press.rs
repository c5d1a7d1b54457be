//! A key as it is pressed, written in a file, and shown.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A key with the modifiers that are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Press {
    code: KeyCode,
    modifiers: KeyModifiers,
}

/// Keys that have a name: as written, and as shown.
const NAMED: [(&str, &str, KeyCode); 16] = [
    ("enter", "Enter", KeyCode::Enter),
    ("esc", "Esc", KeyCode::Esc),
    ("tab", "Tab", KeyCode::Tab),
    ("backtab", "Shift-Tab", KeyCode::BackTab),
    ("space", "Space", KeyCode::Char(' ')),
    ("backspace", "Backspace", KeyCode::Backspace),
    ("delete", "Delete", KeyCode::Delete),
    ("insert", "Insert", KeyCode::Insert),
    ("up", "Up", KeyCode::Up),
    ("down", "Down", KeyCode::Down),
    ("left", "Left", KeyCode::Left),
    ("right", "Right", KeyCode::Right),
    ("home", "Home", KeyCode::Home),
    ("end", "End", KeyCode::End),
    ("pgup", "PgUp", KeyCode::PageUp),
    ("pgdn", "PgDn", KeyCode::PageDown),
];

/// The modifiers, as written and as shown, in the order in which they are shown.
const MODIFIERS: [(&str, &str, KeyModifiers); 3] = [
    ("ctrl", "Ctrl", KeyModifiers::CONTROL),
    ("alt", "Alt", KeyModifiers::ALT),
    ("shift", "Shift", KeyModifiers::SHIFT),
];

impl Press {
    /// The key of an event. Terminals tell of Shift beside a capital letter, or do not: the letter says it already.
    pub(crate) fn of(event: &KeyEvent) -> Self {
        Self { code: event.code, modifiers: event.modifiers }.normal()
    }

    /// A key as it is written: `ctrl-t`, `alt-enter`, `f1`, `?`. Small and capital letters are the same but in a key
    /// that is one letter.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let unknown = || {
            let named: Vec<&str> = NAMED.iter().map(|(name, _, _)| *name).collect();
            let base = text.rsplit('-').next().unwrap_or(text);
            let near = crate::config::nearest(base, named.iter().copied());
            format!(
                "`{}` is no key{}; keys are written like ctrl-t, alt-enter, f1",
                text.escape_debug(),
                near.map_or(String::new(), |name| format!(" (is {name} meant?)"))
            )
        };
        let mut rest = text;
        let mut modifiers = KeyModifiers::NONE;
        'more: loop {
            for (name, _, modifier) in MODIFIERS {
                let (head, tail) = rest.split_at_checked(name.len()).unwrap_or_default();
                // A hyphen with nothing behind it is the key.
                if let Some(after) = tail.strip_prefix('-').filter(|after| !after.is_empty())
                    && head.eq_ignore_ascii_case(name)
                {
                    modifiers |= modifier;
                    rest = after;
                    continue 'more;
                }
            }
            break;
        }
        let mut letters = rest.chars();
        let code = match (letters.next(), letters.next()) {
            (Some(letter), None) if !letter.is_control() && !letter.is_whitespace() => KeyCode::Char(letter),
            _ => {
                let function = || {
                    let number = rest.strip_prefix(['f', 'F'])?.parse::<u8>().ok()?;
                    (1..=24).contains(&number).then_some(KeyCode::F(number))
                };
                let named = NAMED.iter().find(|(name, _, _)| rest.eq_ignore_ascii_case(name));
                named.map(|(_, _, code)| *code).or_else(function).ok_or_else(unknown)?
            }
        };
        Ok(Self { code, modifiers }.normal())
    }

    /// Whether it writes something.
    pub(crate) fn is_text(self) -> bool {
        matches!(self.code, KeyCode::Char(_)) && self.modifiers.is_empty()
    }

    /// The key as a person reads it.
    pub(crate) fn label(self) -> String {
        let mut out = String::new();
        for (_, name, modifier) in MODIFIERS {
            if self.modifiers.contains(modifier) {
                out.push_str(name);
                out.push('-');
            }
        }
        match (NAMED.iter().find(|(_, _, code)| *code == self.code), self.code) {
            (Some((_, name, _)), _) => out.push_str(name),
            (None, KeyCode::F(number)) => out.extend(["F", &number.to_string()]),
            // Beside a modifier a letter is shown as it stands on the key.
            (None, KeyCode::Char(letter)) if !self.modifiers.is_empty() => out.extend(letter.to_uppercase()),
            (None, KeyCode::Char(letter)) => out.push(letter),
            (None, other) => out.push_str(&other.to_string()),
        }
        out
    }

    fn normal(self) -> Self {
        let Self { code, mut modifiers } = self;
        let code = match code {
            KeyCode::Char(letter) if modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => {
                KeyCode::Char(letter.to_ascii_lowercase())
            }
            KeyCode::Char(_) | KeyCode::BackTab => {
                modifiers -= KeyModifiers::SHIFT;
                code
            }
            KeyCode::Tab if modifiers.contains(KeyModifiers::SHIFT) => {
                modifiers -= KeyModifiers::SHIFT;
                KeyCode::BackTab
            }
            other => other,
        };
        Self { code, modifiers }
    }
}

/// Keys that are pressed one after the other: `ctrl-x ctrl-e`.
pub(crate) fn sequence(text: &str) -> Result<Vec<Press>, String> {
    let keys: Vec<Press> = text.split_whitespace().map(Press::parse).collect::<Result<_, _>>()?;
    if keys.is_empty() { Err("no key is named".to_owned()) } else { Ok(keys) }
}

/// Such keys as a person reads them.
pub(crate) fn label(keys: &[Press]) -> String {
    keys.iter().map(|key| key.label()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_and_shown() {
        for (written, shown) in [
            ("ctrl-t", "Ctrl-T"),
            ("Ctrl-T", "Ctrl-T"),
            ("alt-enter", "Alt-Enter"),
            ("shift-ctrl-left", "Ctrl-Shift-Left"),
            ("f12", "F12"),
            ("?", "?"),
            ("Q", "Q"),
            ("-", "-"),
            ("ctrl--", "Ctrl--"),
            ("shift-tab", "Shift-Tab"),
            ("ctrl-space", "Ctrl-Space"),
            ("pgup", "PgUp"),
            ("ä", "ä"),
        ] {
            let press = Press::parse(written).unwrap();
            assert_eq!(press.label(), shown);
            assert_eq!(Press::parse(&press.label()), Ok(press), "what is shown can be written");
        }
        assert_eq!(label(&sequence("ctrl-x ctrl-e").unwrap()), "Ctrl-X Ctrl-E");
        for wrong in ["", " ", "ctrl-", "f0", "f25", "hyper-x", "ctrl-alt", "entr", "\u{1b}"] {
            assert!(Press::parse(wrong).is_err(), "{wrong:?}");
        }
        assert!(Press::parse("ctrl-entr").unwrap_err().contains("is enter meant?"));
        assert!(!Press::parse("\u{1b}").unwrap_err().contains('\u{1b}'));
        assert!(sequence("  ").is_err());
    }

    #[test]
    fn terminals_that_tell_more_or_less_mean_the_same_key() {
        let event = |code, modifiers| Press::of(&KeyEvent::new(code, modifiers));
        let (ctrl, shift) = (KeyModifiers::CONTROL, KeyModifiers::SHIFT);
        assert_eq!(event(KeyCode::Char('?'), shift), Press::parse("?").unwrap());
        assert_eq!(event(KeyCode::Char('T'), ctrl), Press::parse("ctrl-t").unwrap());
        assert_eq!(event(KeyCode::BackTab, shift), Press::parse("shift-tab").unwrap());
        assert_eq!(event(KeyCode::Tab, shift), Press::parse("shift-tab").unwrap());
        assert_ne!(event(KeyCode::Enter, shift), Press::parse("enter").unwrap());
    }
}
