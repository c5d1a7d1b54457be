//! Commands that are typed as messages. [`TABLE`] is the one place: they are found in it, completed from it and
//! explained by it.

mod table;

use super::app::{App, Effect};
pub(crate) use table::TABLE;

/// What comes of a command: what is to be done outside, or why it cannot be carried out. Then it stays in the composer
/// to be tried again.
pub(crate) type Answer = Result<Vec<Effect>, String>;

/// A command as it is typed and explained, and what it does: one row of the table.
pub(crate) struct Entry {
    /// With its slash.
    pub(crate) name: &'static str,
    /// What may follow it.
    pub(crate) takes: Takes,
    /// What it does.
    pub(crate) help: &'static str,
    /// Whether it is of no use without a screen.
    pub(crate) screen_only: bool,
    /// Does it, with what followed it, without the blanks around. What [`Takes`] rules out does not come here.
    pub(crate) run: fn(&mut App, &str) -> Answer,
}

/// What may follow a command. Nothing always may: then the command says what holds now, or does the usual.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Takes {
    /// Nothing.
    Nothing,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A text, in one line or more.
    Text {
        /// How the help writes it.
        usage: &'static str,
        /// What is offered to complete it.
        suggest: fn(&App) -> Vec<String>,
    },
}

impl Entry {
    /// What may follow, as the help writes it.
    pub(crate) fn usage(&self) -> String {
        match self.takes {
            Takes::Nothing => String::new(),
            Takes::OneOf(words) => words.join(", "),
            Takes::Text { usage, .. } => usage.to_owned(),
        }
    }

    fn suggestions(&self, app: &App) -> Vec<String> {
        match self.takes {
            Takes::Nothing => Vec::new(),
            Takes::OneOf(words) => words.iter().map(|word| (*word).to_owned()).collect(),
            Takes::Text { suggest, .. } => suggest(app),
        }
    }
}

/// Something that a draft may become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    /// The whole draft.
    pub(crate) text: String,
    /// What it does.
    pub(crate) help: &'static str,
    /// Whether more may follow.
    pub(crate) open: bool,
}

/// The name that a draft begins with, and what follows it.
fn split(draft: &str) -> (&str, &str) {
    draft.split_once(char::is_whitespace).map_or((draft, ""), |(name, rest)| (name, rest.trim()))
}

fn find(name: &str) -> Option<&'static Entry> {
    TABLE.iter().find(|entry| entry.name == name)
}

/// Whether a draft is meant as a command: a slash and then one line, or a command that takes a text of any length.
pub(crate) fn is_command(draft: &str) -> bool {
    let takes_text = || find(split(draft).0).is_some_and(|entry| matches!(entry.takes, Takes::Text { .. }));
    draft.starts_with('/') && (!draft.trim_end().contains('\n') || takes_text())
}

/// The command that a draft spells and what follows it, or what is wrong with it.
pub(crate) fn parse(draft: &str) -> Result<(&'static Entry, &str), String> {
    let (name, argument) = split(draft);
    let Some(entry) = find(name) else {
        let near = crate::config::nearest(name, TABLE.iter().map(|entry| entry.name));
        return Err(match near {
            Some(near) => format!("{name} is no command ({near}?). A space first sends it."),
            None => format!("{name} is no command; /help lists them. A space first sends it."),
        });
    };
    match entry.takes {
        Takes::Nothing if !argument.is_empty() => Err(format!("{name} stands alone")),
        Takes::OneOf(words) if !argument.is_empty() && !words.contains(&argument) => {
            Err(format!("{name} is followed by {}", words.join(", ")))
        }
        _ => Ok((entry, argument)),
    }
}

/// What a draft may become, and what that does. Where a name is complete it stands first by itself, so that Enter takes
/// no value that nobody chose.
pub(crate) fn completions(app: &App, draft: &str) -> Vec<Completion> {
    if !is_command(draft) {
        return Vec::new();
    }
    let mut out = Vec::new();
    for entry in TABLE {
        let open = !matches!(entry.takes, Takes::Nothing);
        match draft.strip_prefix(entry.name) {
            Some(rest) if rest.starts_with(' ') => {
                let value = rest.trim_start();
                let fitting: Vec<String> =
                    entry.suggestions(app).into_iter().filter(|known| known.starts_with(value)).collect();
                if value.is_empty() && !fitting.is_empty() {
                    out.push(Completion { text: entry.name.to_owned(), help: entry.help, open });
                }
                let whole = |known| format!("{} {known}", entry.name);
                out.extend(fitting.into_iter().map(|known| Completion {
                    text: whole(known),
                    help: entry.help,
                    open: false,
                }));
            }
            _ if entry.name.starts_with(draft) => {
                out.push(Completion { text: entry.name.to_owned(), help: entry.help, open });
            }
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Thinking;
    use crate::tui::Options;

    fn app() -> App {
        App::new(Options::default())
    }

    #[test]
    fn every_entry_is_found_and_takes_what_it_offers() {
        let app = app();
        for (number, entry) in TABLE.iter().enumerate() {
            assert_eq!(parse(entry.name).map(|(found, rest)| (found.name, rest)), Ok((entry.name, "")));
            for word in entry.suggestions(&app) {
                let draft = format!("{}  {word} ", entry.name);
                assert_eq!(parse(&draft).map(|(_, rest)| rest), Ok(word.as_str()), "{draft}");
            }
            assert!(TABLE[number + 1..].iter().all(|other| other.name != entry.name), "{}", entry.name);
        }
        assert_eq!(parse("/think max ").map(|(_, rest)| rest), Ok(Thinking::Max.as_str()));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let wrong = |draft: &str| parse(draft).map(|(entry, _)| entry.name).unwrap_err();
        assert!(wrong("/etc/passwd is what?").starts_with("/etc/passwd is no command; /help"));
        assert!(wrong("/thnik off").starts_with("/thnik is no command (/think?)"));
        assert_eq!(wrong("/think hard"), "/think is followed by off, low, high, max");
        assert_eq!(wrong("/quit now"), "/quit stands alone");
        // On one line of 80 columns with a margin on both sides, for a command of ordinary length.
        assert!(wrong("/temper").len() <= 78);
    }

    #[test]
    fn drafts_are_completed() {
        let app = app();
        let names = |draft: &str| {
            completions(&app, draft).into_iter().map(|completion| completion.text).collect::<Vec<_>>()
        };
        assert_eq!(names("/").len(), TABLE.len());
        assert_eq!(names("/thi"), ["/think"]);
        assert_eq!(names("/think "), ["/think", "/think off", "/think low", "/think high", "/think max"]);
        assert_eq!(names("/think h"), ["/think high"]);
        assert_eq!(names("/x"), [""; 0]);
        assert_eq!(names("hello /think"), [""; 0]);
        assert_eq!(names("/think\nno"), [""; 0]);
    }
}
