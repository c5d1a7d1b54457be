//! The palette: all commands and all that keys do, found by a few letters.

use super::{App, Effect};
use crate::tui::commands::{self, Takes};
use crate::tui::keymap::{self, Run};

/// What a fit by the help costs more than one by the name.
const BY_HELP: usize = 30;

/// The palette while it is open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Palette {
    /// What is typed to find something.
    pub(crate) filter: String,
    /// Which of those that fit is chosen.
    choice: usize,
}

/// Something that can be done.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// Its command or its key.
    pub(crate) label: String,
    /// What it does.
    pub(crate) help: &'static str,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Command(&'static str, bool),
    Action(Run),
}

impl App {
    /// Opens the palette.
    pub(crate) fn open_palette(&mut self) -> Vec<Effect> {
        self.palette = Some(Palette::default());
        Vec::new()
    }

    /// Closes it.
    pub(crate) fn close_palette(&mut self) -> Vec<Effect> {
        self.palette = None;
        Vec::new()
    }

    /// Changes what is looked for.
    pub(crate) fn filter_palette(&mut self, change: impl FnOnce(&mut String)) -> Vec<Effect> {
        if let Some(palette) = &mut self.palette {
            change(&mut palette.filter);
            palette.choice = 0;
        }
        Vec::new()
    }

    /// Chooses another; negative is up.
    pub(crate) fn choose_in_palette(&mut self, rows: isize) -> Vec<Effect> {
        let last = self.palette_items().len().saturating_sub(1);
        let now = self.palette_choice();
        if let Some(palette) = &mut self.palette {
            palette.choice = now.saturating_add_signed(rows).min(last);
        }
        Vec::new()
    }

    /// Does what is chosen. A command that more may follow is put into the composer.
    pub(crate) fn run_from_palette(&mut self) -> Vec<Effect> {
        let item = self.palette_items().into_iter().nth(self.palette_choice());
        self.palette = None;
        match item.map(|item| item.what) {
            None => Vec::new(),
            Some(What::Action(run)) => run(self),
            Some(What::Command(name, true)) => {
                let draft = self.composer.take();
                self.history.keep(&draft);
                self.edit(|composer| composer.set(format!("{name} ")));
                Vec::new()
            }
            Some(What::Command(name, false)) => self.command(name).unwrap_or_else(|problem| {
                self.notify(problem);
                Vec::new()
            }),
        }
    }

    /// Which of the items is chosen.
    pub(crate) fn palette_choice(&self) -> usize {
        self.palette.as_ref().map_or(0, |palette| palette.choice)
    }

    /// What fits what is typed, the best first.
    pub(crate) fn palette_items(&self) -> Vec<Item> {
        let Some(palette) = &self.palette else { return Vec::new() };
        let commands = commands::TABLE.iter().map(|entry| {
            let open = !matches!(entry.takes, Takes::Nothing);
            Item { label: entry.name.to_owned(), help: entry.help, what: What::Command(entry.name, open) }
        });
        let offered = |row: &&keymap::Bound| row.context.is_of_chat() && !row.hint.is_empty();
        let actions = self.options.keymap.bindings().iter().filter(offered).map(|row| {
            let label = row.keys.first().map_or(String::new(), |keys| keymap::label(keys));
            Item { label, help: row.hint, what: What::Action(row.run()) }
        });
        let mut found: Vec<(usize, Item)> = commands
            .chain(actions)
            .filter_map(|item| Some((item_cost(&palette.filter, &item.label, item.help)?, item)))
            .collect();
        // Stable: those that fit alike stay in the order of the tables.
        found.sort_by_key(|(cost, _)| *cost);
        found.into_iter().map(|(_, item)| item).collect()
    }
}

/// How badly `typed` fits something by its name, or worse by its key and what is said of it.
fn item_cost(typed: &str, label: &str, help: &str) -> Option<usize> {
    let by_name = label.starts_with('/').then(|| cost(typed, label)).flatten();
    by_name.or_else(|| Some(cost(typed, &format!("{label} {help}"))? + BY_HELP))
}

/// How badly `typed` fits `text`: its letters must come in this order, and cost more the farther they are from each
/// other, but for those that begin a word. Blanks and case do not matter.
fn cost(typed: &str, text: &str) -> Option<usize> {
    let text: Vec<char> = text.to_lowercase().chars().collect();
    let typed: Vec<char> = typed.to_lowercase().chars().filter(|c| !c.is_whitespace()).collect();
    let Some(first) = typed.first() else { return Some(0) };
    let from = |start: usize| {
        let (mut at, mut cost) = (start, 0);
        for letter in &typed {
            let gap = text.get(at..)?.iter().position(|c| c == letter)?;
            let begins = (at + gap)
                .checked_sub(1)
                .is_none_or(|before| !text.get(before).is_some_and(|c| c.is_alphanumeric()));
            cost += if begins { gap.min(1) } else { gap * 2 };
            at += gap + 1;
        }
        // A match at the beginning of a word is what somebody means.
        let inside = start > 0 && text.get(start - 1).is_some_and(|c| c.is_alphanumeric());
        Some(cost + usize::from(inside) * 5)
    };
    let starts = text.iter().enumerate().filter(|(_, c)| *c == first);
    starts.filter_map(|(start, _)| from(start)).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_in_order_fit_and_words_fit_best() {
        assert_eq!(cost("", "anything"), Some(0));
        assert_eq!(cost("xyz", "/theme how the screen looks"), None);
        assert_eq!(cost("the", "/theme how the screen looks"), Some(0));
        assert!(cost("hts", "/theme how the screen looks") < cost("eee", "/theme how the screen looks"));
        assert!(cost("Screen", "draw the screen anew") < cost("screen", "discreet nights"));
        // Who types a name means what has it.
        assert!(item_cost("mem", "/memory", "how much") < item_cost("mem", "/model", "memory of the model"));
    }
}
