//! The user's own keys: a table for each context, and in it a key and what it does there.

use std::path::Path;

use super::{Bound, Context, Keymap, press};
use crate::config::nearest;
use crate::tui::Error;
use crate::tui::written::{self, Entry};

/// What takes a key away.
const NONE: &str = "none";
/// What every screen needs a key for.
const NEEDED: [&str; 2] = ["send", "interrupt"];

impl Keymap {
    /// The table with the user's own keys over it, as `text` has them, which was read from `path`.
    pub fn with(path: &Path, text: &str) -> Result<Self, Error> {
        let wrong = |line, problem| Error::Written { path: path.to_owned(), line, problem };
        let mut written = Vec::new();
        for entry in written::entries(path, text)? {
            written.push(Change::of(&entry).map_err(|problem| wrong(entry.line, problem))?);
        }
        let mut keymap = Self::default();
        // What takes keys away first, so that a line may give them anew wherever it stands.
        for change in &written {
            for row in keymap.bindings.iter_mut().filter(|row| row.context == change.context) {
                row.keys.retain(|keys| *keys != change.keys);
            }
        }
        for (number, change) in written.iter().enumerate() {
            for earlier in written.iter().take(number) {
                if earlier.context == change.context && earlier.keys == change.keys {
                    let problem = format!("{} is bound in line {} already", change.label(), earlier.line);
                    return Err(wrong(change.line, problem));
                }
            }
            keymap.bind(change).map_err(|problem| wrong(change.line, problem))?;
        }
        for needed in NEEDED {
            if let (None, Some(last)) = (keymap.key_of(needed), written.last()) {
                let problem = format!("no key is left for {needed}; give it one in the table chat");
                return Err(wrong(last.line, problem));
            }
        }
        Ok(keymap)
    }

    fn bind(&mut self, change: &Change) -> Result<(), String> {
        let Some(action) = change.action else { return Ok(()) };
        for row in self.bindings.iter().filter(|row| row.context == change.context) {
            let meets = |keys: &&Vec<_>| keys.starts_with(&change.keys) || change.keys.starts_with(keys);
            if let Some(keys) = row.keys.iter().find(meets) {
                return Err(format!(
                    "{} and {} ({}) begin alike: nobody could press both",
                    change.label(),
                    press::label(keys),
                    row.action
                ));
            }
        }
        let same = |row: &Bound| row.action == action;
        let here = |row: &&mut Bound| same(row) && row.context == change.context;
        if let Some(row) = self.bindings.iter_mut().find(here) {
            // The user's own key is the one that is shown.
            row.keys.insert(0, change.keys.clone());
        } else if let Some(at) = self.bindings.iter().position(same)
            && let Some(model) = self.bindings.get(at).cloned()
        {
            let row = Bound { context: change.context, keys: vec![change.keys.clone()], ..model };
            self.bindings.insert(at, row);
        }
        Ok(())
    }
}

/// What a line asks for.
struct Change {
    line: usize,
    context: Context,
    keys: Vec<press::Press>,
    /// Nothing where the keys are taken away.
    action: Option<&'static str>,
}

impl Change {
    fn of(entry: &Entry) -> Result<Self, String> {
        let context = Context::ALL.into_iter().find(|context| context.name() == entry.table);
        let names = || Context::ALL.map(Context::name);
        let context = context.ok_or_else(|| {
            if entry.table.is_empty() {
                return format!("a key belongs into one of the tables {}", names().join(", "));
            }
            unknown("context", &entry.table, &names())
        })?;
        let keys = press::sequence(&entry.name)?;
        if context.takes_text() && keys.first().is_some_and(|key| key.is_text()) {
            let label = press::label(&keys);
            return Err(format!("{label} is text there; with ctrl- or alt- before it, it can be bound"));
        }
        let actions: Vec<&'static str> = super::TABLE.iter().map(|row| row.action).collect();
        let action = match actions.iter().find(|action| **action == entry.value) {
            Some(action) => Some(*action),
            None if entry.value == NONE => None,
            None => return Err(unknown("action", &entry.value, &actions)),
        };
        Ok(Self { line: entry.line, context, keys, action })
    }

    fn label(&self) -> String {
        press::label(&self.keys)
    }
}

/// Names the nearest of those that are known, else all.
fn unknown(what: &str, word: &str, known: &[&str]) -> String {
    let word = word.escape_debug();
    if let Some(near) = nearest(&word.to_string(), known.iter().copied()) {
        return format!("`{word}` is no {what}; is `{near}` meant?");
    }
    let mut known = known.to_vec();
    known.dedup();
    format!("`{word}` is no {what}; known are {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::Found;
    use super::*;

    fn with(text: &str) -> Result<Keymap, String> {
        Keymap::with(Path::new("keymap.toml"), text).map_err(|error| error.to_string())
    }

    fn action(keymap: &Keymap, context: Context, keys: &str) -> Option<&'static str> {
        let Found::Run(run) = keymap.find(&[context], &press::sequence(keys).unwrap()) else { return None };
        keymap.bindings.iter().find(|row| std::ptr::fn_addr_eq(row.run, run)).map(|row| row.action)
    }

    #[test]
    fn the_users_keys_come_first_and_the_rest_stays() {
        let keymap =
            with("[chat]\n'ctrl-g g' = 'to-start'\n'F5' = 'fold-thinking'\n'ctrl-t' = 'none'\n").unwrap();
        assert_eq!(action(&keymap, Context::Chat, "ctrl-g g"), Some("to-start"));
        assert_eq!(action(&keymap, Context::Chat, "ctrl-home"), Some("to-start"));
        assert_eq!(action(&keymap, Context::Chat, "ctrl-t"), None);
        assert_eq!(keymap.key_of("fold-thinking").as_deref(), Some("F5"));
        assert!(matches!(keymap.find(&[Context::Chat], &press::sequence("ctrl-g").unwrap()), Found::Prefix));
        // Enter makes a line, and another key sends.
        let keymap =
            with("[idle]\n'enter' = 'new-line'\n[chat]\n'ctrl-s' = 'send'\n'enter' = 'new-line'\n").unwrap();
        assert_eq!(action(&keymap, Context::Idle, "enter"), Some("new-line"));
        assert_eq!(keymap.key_of("send").as_deref(), Some("Ctrl-S"));
        assert!(with("").is_ok());
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_and_what_may_be_meant() {
        let wrong = |text: &str| with(text).map(|_| ()).unwrap_err();
        for (text, problem) in [
            ("[chat]\n'ctrl-s' = 'sned'\n", "keymap.toml, line 2: `sned` is no action; is `send` meant?"),
            ("[caht]\n\n'ctrl-s' = 'send'\n", "keymap.toml, line 3: `caht` is no context; is `chat` meant?"),
            (
                "[chat]\n'ctrl-entr' = 'send'\n",
                "keymap.toml, line 2: `ctrl-entr` is no key (is enter meant?)",
            ),
            (
                "[chat]\n'ctrl-s' = 'send'\n'Ctrl-S' = 'help'\n",
                "keymap.toml, line 3: Ctrl-S is bound in line 2 already",
            ),
            (
                "[chat]\n'f5 x' = 'send'\n'f5' = 'help'\n",
                "keymap.toml, line 3: F5 and F5 x (send) begin alike",
            ),
            ("[chat]\n'x' = 'send'\n", "keymap.toml, line 2: x is text there"),
            ("'ctrl-s' = 'send'\n", "keymap.toml, line 1: a key belongs into one of the tables"),
            (
                "[idle]\nenter = 'none'\n[chat]\nenter = 'none'\n",
                "keymap.toml, line 4: no key is left for send",
            ),
        ] {
            assert!(wrong(text).starts_with(problem), "{text}: {}", wrong(text));
        }
    }
}
