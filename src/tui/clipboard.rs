//! The terminal's clipboard.
//!
//! A program asks for it with OSC 52 and never hears whether the terminal obeyed. Where it is known not to, and where
//! the text is too long for it, the copy is written to a file; where it may or may not, to both.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Bytes that terminals take at least: encoded, they are the 100,000 of xterm less the sequence around them.
const MOST: usize = 74_994;

/// Where a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Terminal,
    File,
    Both,
}

/// The way for a text of so many bytes, by what the environment tells of the terminal.
pub(super) fn way(len: usize, variable: impl Fn(&str) -> Option<String>) -> Way {
    let is = |name: &str, known: &[&str]| variable(name).is_some_and(|value| known.contains(&value.as_str()));
    // VTE takes it from version 0.76 on.
    let old_vte = variable("VTE_VERSION")
        .and_then(|value| value.parse().ok())
        .is_some_and(|version: u32| version < 7600);
    if len > MOST
        || is("TERM", &["linux", "vt100", "vt220", "ansi"])
        || is("TERM_PROGRAM", &["Apple_Terminal"])
        || old_vte
    {
        return Way::File;
    }
    // These stand between, and by default keep it to themselves.
    let between = variable("TMUX").is_some_and(|value| !value.is_empty())
        || variable("STY").is_some_and(|value| !value.is_empty());
    if between { Way::Both } else { Way::Terminal }
}

/// What asks the terminal to put a text into its clipboard.
pub(super) fn sequence(text: &str) -> String {
    format!("\x1b]52;c;{}\x1b\\", STANDARD.encode(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_does_not_take_goes_to_a_file() {
        let told = |len, set: &[(&str, &str)]| {
            way(len, |name| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            })
        };
        let xterm = ("TERM", "xterm-256color");
        assert_eq!(told(10, &[xterm]), Way::Terminal);
        assert_eq!(told(MOST + 1, &[xterm]), Way::File);
        assert_eq!(told(10, &[("TERM", "linux")]), Way::File);
        assert_eq!(told(10, &[xterm, ("TERM_PROGRAM", "Apple_Terminal")]), Way::File);
        assert_eq!(told(10, &[xterm, ("VTE_VERSION", "6800")]), Way::File);
        assert_eq!(told(10, &[xterm, ("VTE_VERSION", "7800")]), Way::Terminal);
        assert_eq!(told(10, &[("TERM", "tmux-256color"), ("TMUX", "/tmp/x,1,0")]), Way::Both);
    }

    #[test]
    fn the_longest_text_fits_into_what_terminals_take() {
        assert_eq!(sequence("hi"), "\x1b]52;c;aGk=\x1b\\");
        assert!(sequence(&"x".repeat(MOST)).len() <= 100_001);
    }
}
