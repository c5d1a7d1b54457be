//! Commands that are typed as messages: one table, from which they are parsed, completed and explained.

use crate::protocol::Thinking;

/// What a command asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Show the keys and commands.
    Help,
    /// Forget the conversation.
    New,
    /// Say how much is thought, or think so much.
    Think(Option<Thinking>),
    /// Show or hide the panel of numbers.
    Stats,
    /// Take or give back the mouse.
    Mouse,
    /// Leave.
    Quit,
}

/// A command as it is typed and explained.
pub(crate) struct Entry {
    /// With its slash.
    pub(crate) name: &'static str,
    /// What may follow.
    pub(crate) values: &'static [&'static str],
    /// What it does.
    pub(crate) help: &'static str,
    make: fn(Option<&str>) -> Option<Command>,
}

const THINKING: [&str; 4] =
    [Thinking::Off.as_str(), Thinking::Low.as_str(), Thinking::High.as_str(), Thinking::Max.as_str()];

/// All of them.
pub(crate) const TABLE: [Entry; 6] = [
    Entry { name: "/help", values: &[], help: "show keys and commands", make: |_| Some(Command::Help) },
    Entry { name: "/new", values: &[], help: "start a new conversation", make: |_| Some(Command::New) },
    Entry {
        name: "/think",
        values: &THINKING,
        help: "how much to think before answering",
        make: |value| match value {
            None => Some(Command::Think(None)),
            Some(value) => value.parse().ok().map(|value| Command::Think(Some(value))),
        },
    },
    Entry {
        name: "/stats",
        values: &[],
        help: "show or hide the panel of numbers",
        make: |_| Some(Command::Stats),
    },
    Entry {
        name: "/mouse",
        values: &[],
        help: "wheel scrolls here, or the terminal selects",
        make: |_| Some(Command::Mouse),
    },
    Entry { name: "/quit", values: &[], help: "leave", make: |_| Some(Command::Quit) },
];

/// Whether a draft is meant as a command: a slash and then one line.
pub(crate) fn is_command(draft: &str) -> bool {
    draft.starts_with('/') && !draft.trim_end().contains('\n')
}

/// The command that a draft spells, or what is wrong with it.
pub(crate) fn parse(draft: &str) -> Result<Command, String> {
    let mut words = draft.split_whitespace();
    let name = words.next().unwrap_or_default();
    let value = words.next();
    let Some(entry) = TABLE.iter().find(|entry| entry.name == name) else {
        return Err(format!("{name} is no command; /help lists them. A space first sends it as text."));
    };
    let wrong = || {
        if entry.values.is_empty() {
            format!("{name} stands alone")
        } else {
            format!("{name} is followed by {}", entry.values.join(", "))
        }
    };
    if words.next().is_some() || (value.is_some() && entry.values.is_empty()) {
        return Err(wrong());
    }
    (entry.make)(value).ok_or_else(wrong)
}

/// What a draft may become, and what that does.
pub(crate) fn completions(draft: &str) -> Vec<(String, &'static str)> {
    if !is_command(draft) {
        return Vec::new();
    }
    let mut out = Vec::new();
    for entry in &TABLE {
        match draft.strip_prefix(entry.name) {
            Some(rest) if rest.starts_with(' ') => {
                let value = rest.trim_start();
                let fitting = entry.values.iter().filter(|known| known.starts_with(value));
                out.extend(fitting.map(|known| (format!("{} {known}", entry.name), entry.help)));
            }
            _ if entry.name.starts_with(draft) => out.push((entry.name.to_owned(), entry.help)),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_parses_as_itself() {
        for entry in &TABLE {
            assert!(parse(entry.name).is_ok(), "{}", entry.name);
            for value in entry.values {
                assert!(parse(&format!("{} {value}", entry.name)).is_ok(), "{} {value}", entry.name);
            }
        }
        assert_eq!(parse("/think max "), Ok(Command::Think(Some(Thinking::Max))));
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(parse("/etc/passwd is what?").unwrap_err().starts_with("/etc/passwd is no command"));
        assert_eq!(parse("/think hard").unwrap_err(), "/think is followed by off, low, high, max");
        assert_eq!(parse("/quit now").unwrap_err(), "/quit stands alone");
        // On one line of 80 columns with a margin on both sides, for a command of ordinary length.
        assert!(parse("/temper").unwrap_err().len() <= 78);
    }

    #[test]
    fn drafts_are_completed() {
        let names = |draft: &str| completions(draft).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names("/").len(), TABLE.len());
        assert_eq!(names("/t"), ["/think"]);
        assert_eq!(names("/think "), ["/think off", "/think low", "/think high", "/think max"]);
        assert_eq!(names("/think h"), ["/think high"]);
        assert_eq!(names("/x"), [""; 0]);
        assert_eq!(names("hello /think"), [""; 0]);
        assert_eq!(names("/think\nno"), [""; 0]);
    }
}
