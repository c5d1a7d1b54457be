//! The terminal, as far as its environment tells.

use super::{Check, Status, Subject};

/// The least that the chat's screen is laid out for.
const SMALL: (u16, u16) = (80, 24);

/// A terminal that could show the chat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terminal {
    /// Columns and rows, where they can be told.
    pub size: Option<(u16, u16)>,
    /// What it is called: `TERM`.
    pub name: String,
    /// What it says of its colours: `COLORTERM`.
    pub colours: String,
    /// Whether colours are not wanted: `NO_COLOR`.
    pub no_colour: bool,
    /// The character set: the first of `LC_ALL`, `LC_CTYPE` and `LANG` that is set.
    pub locale: String,
    /// The program that it runs in, if it is one that divides terminals: `tmux`, `screen`.
    pub within: Option<&'static str>,
}

impl Terminal {
    /// What the environment says, as `variable` finds it, of a terminal of this size.
    pub fn of(size: Option<(u16, u16)>, variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let name = set("TERM").unwrap_or_default();
        let within = if set("TMUX").is_some() {
            Some("tmux")
        } else if set("STY").is_some() {
            Some("screen")
        } else {
            None
        };
        Self {
            size,
            colours: set("COLORTERM").unwrap_or_default(),
            no_colour: set("NO_COLOR").is_some(),
            locale: ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default(),
            within,
            name,
        }
    }

    fn has_unicode(&self) -> bool {
        let locale = self.locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    }

    fn colours(&self) -> &'static str {
        if self.no_colour {
            "no colours, as NO_COLOR asks"
        } else if matches!(self.colours.as_str(), "truecolor" | "24bit") {
            "16 million colours"
        } else if self.name.contains("256color") {
            "256 colours"
        } else {
            "16 colours"
        }
    }
}

/// Whether the chat can be shown.
pub(super) fn terminal(subject: &Subject) -> Check {
    const NAME: &str = "terminal";
    let Some(terminal) = &subject.terminal else {
        let finding = "none here: the chat needs one, `dormouse run` does not";
        return Check::ok(NAME, finding);
    };
    if matches!(terminal.name.as_str(), "" | "dumb") {
        let named = if terminal.name.is_empty() { "TERM is not set" } else { "TERM is dumb" };
        let advice = "Use a terminal that can move its cursor, or `dormouse run`.";
        return Check::warn(NAME, named, advice);
    }
    let mut advice = Vec::new();
    let size = match terminal.size {
        Some((columns, rows)) => {
            if columns < SMALL.0 || rows < SMALL.1 {
                advice.push("The screen shows everything from 80 columns by 24 rows on.");
            }
            format!("{columns} by {rows}")
        }
        None => "of unknown size".to_owned(),
    };
    let unicode = if terminal.has_unicode() {
        "Unicode"
    } else {
        advice.push("Set LANG to a UTF-8 locale like C.UTF-8, or characters may look broken.");
        "no Unicode by its locale"
    };
    let within = match terminal.within {
        Some("tmux") => {
            advice.push("For the clipboard in tmux: set -g set-clipboard on. For Shift-Enter: set -s extended-keys on.");
            ", in tmux"
        }
        Some(_) => {
            advice.push("Screen knows no bracketed paste: pasted line feeds may send. tmux does better.");
            ", in screen"
        }
        None => "",
    };
    let paste = if terminal.name == "linux" {
        advice.push("The console knows no bracketed paste: pasted line feeds send.");
        "no bracketed paste"
    } else {
        "bracketed paste is asked for"
    };
    let finding = format!(
        "{} {size}{within}: {}, {unicode}, {paste}",
        terminal.name.escape_debug(),
        terminal.colours()
    );
    let only_tmux = terminal.within == Some("tmux") && advice.len() == 1;
    let status = if advice.is_empty() || only_tmux { Status::Ok } else { Status::Warn };
    Check::new(NAME, status, finding, advice.join(" "))
}
