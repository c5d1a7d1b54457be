//! Which key does what. [`TABLE`] is the one place: keys are looked up in it, and the footer and the help are drawn
//! from it.

mod file;
mod press;
mod table;

use super::app::{App, Effect};
pub(crate) use press::{Press, label};
pub(crate) use table::TABLE;

/// Does what a key asks for.
pub(crate) type Run = fn(&mut App) -> Vec<Effect>;

/// When a binding holds. What has the keyboard to itself, like the help, holds with [`Context::Anywhere`] alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    /// The help is open.
    Help,
    /// The palette is open.
    Palette,
    /// Words are looked for in the conversation.
    Find,
    /// A passage of the conversation is chosen.
    Browse,
    /// An earlier message is looked for.
    Recall,
    /// The name of a file is being typed, and files are offered.
    Files,
    /// The numbers fill the screen.
    Numbers,
    /// The sessions are shown to choose from.
    Sessions,
    /// A message is written anew.
    Editing,
    /// It is told why something could not be done.
    Alert,
    /// A command is being typed.
    Command,
    /// Nothing is written.
    Empty,
    /// Messages wait for a turn.
    Queued,
    /// The engine broke or did not load.
    Failed,
    /// A turn runs.
    Running,
    /// No turn runs.
    Idle,
    /// The conversation and the composer have the keyboard.
    Chat,
    /// Something is being written: a message, or the name of a folder.
    Edit,
    /// The greeting stands over an empty draft.
    Greeting,
    /// A step of setting up has the keyboard.
    Setup,
    /// A step in which something runs that can be stopped.
    Pausable,
    /// A page that is only read has it.
    Page,
    /// Whatever has the keyboard.
    Anywhere,
}

impl Context {
    /// All of them.
    const ALL: [Self; 23] = [
        Self::Help,
        Self::Sessions,
        Self::Editing,
        Self::Palette,
        Self::Alert,
        Self::Find,
        Self::Browse,
        Self::Recall,
        Self::Files,
        Self::Numbers,
        Self::Command,
        Self::Empty,
        Self::Queued,
        Self::Failed,
        Self::Running,
        Self::Idle,
        Self::Chat,
        Self::Edit,
        Self::Greeting,
        Self::Setup,
        Self::Pausable,
        Self::Page,
        Self::Anywhere,
    ];

    /// How a user's file calls it.
    const fn name(self) -> &'static str {
        match self {
            Self::Help => "help",
            Self::Palette => "palette",
            Self::Find => "find",
            Self::Browse => "browse",
            Self::Recall => "recall",
            Self::Files => "files",
            Self::Numbers => "numbers",
            Self::Sessions => "sessions",
            Self::Editing => "editing",
            Self::Alert => "alert",
            Self::Command => "command",
            Self::Empty => "empty",
            Self::Queued => "queued",
            Self::Failed => "failed",
            Self::Running => "running",
            Self::Idle => "idle",
            Self::Chat => "chat",
            Self::Edit => "edit",
            Self::Greeting => "greeting",
            Self::Setup => "setup",
            Self::Pausable => "pausable",
            Self::Page => "page",
            Self::Anywhere => "anywhere",
        }
    }

    /// Whether the conversation has the keyboard there, so that what keys do can be chosen from a list instead.
    pub(crate) const fn is_of_chat(self) -> bool {
        matches!(self, Self::Idle | Self::Chat | Self::Anywhere)
    }

    /// Whether letters are written there.
    const fn takes_text(self) -> bool {
        !matches!(
            self,
            Self::Help
                | Self::Numbers
                | Self::Browse
                | Self::Greeting
                | Self::Setup
                | Self::Pausable
                | Self::Page
        )
    }
}

/// Keys that do one thing in one context, and how that is said: one row of the table.
#[derive(Clone, Copy)]
pub(crate) struct Binding {
    pub(crate) context: Context,
    /// The name of what it does. Rows of one name do the same.
    pub(crate) action: &'static str,
    /// As [`Press::parse`] reads them; the first is the one that is shown.
    pub(crate) keys: &'static [&'static str],
    /// What it does, in as few words as the footer has room for, where the footer shows it.
    pub(crate) footer: Option<&'static str>,
    /// What it does, as the help says it; nothing where another row of the same action says it.
    pub(crate) hint: &'static str,
    pub(crate) run: Run,
}

/// A row of the table with its keys as they are.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) context: Context,
    pub(crate) action: &'static str,
    /// Each is pressed one after the other.
    pub(crate) keys: Vec<Vec<Press>>,
    pub(crate) footer: Option<&'static str>,
    pub(crate) hint: &'static str,
    run: Run,
}

/// What keys mean that were pressed one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    /// This.
    Run(Run),
    /// The beginning of something.
    Prefix,
    /// Nothing.
    Nothing,
}

/// All bindings that hold for this user.
#[derive(Clone, Debug)]
pub struct Keymap {
    bindings: Vec<Bound>,
}

impl Bound {
    /// Does it.
    pub(crate) const fn run(&self) -> Run {
        self.run
    }
}

impl Default for Keymap {
    fn default() -> Self {
        let bound = |row: &Binding| Bound {
            context: row.context,
            action: row.action,
            // A test holds that all can be read.
            keys: row.keys.iter().filter_map(|keys| press::sequence(keys).ok()).collect(),
            footer: row.footer,
            hint: row.hint,
            run: row.run,
        };
        Self { bindings: TABLE.iter().map(bound).collect() }
    }
}

impl Keymap {
    /// All rows, in the order in which the help and the footer show them.
    pub(crate) fn bindings(&self) -> &[Bound] {
        &self.bindings
    }

    /// What `pressed` means where `contexts` hold, the narrowest of them first.
    pub(crate) fn find(&self, contexts: &[Context], pressed: &[Press]) -> Found {
        let mut found = Found::Nothing;
        for context in contexts {
            for row in self.bindings.iter().filter(|row| row.context == *context) {
                if row.keys.iter().any(|keys| keys == pressed) {
                    // A longer one of a narrower context may still come.
                    return if matches!(found, Found::Prefix) { found } else { Found::Run(row.run) };
                }
                if row.keys.iter().any(|keys| keys.starts_with(pressed)) {
                    found = Found::Prefix;
                }
            }
        }
        found
    }

    /// How a person reads the first key of an action; nothing where it has none.
    pub(crate) fn key_of(&self, action: &str) -> Option<String> {
        let keys = self.bindings.iter().filter(|row| row.action == action).find_map(|row| row.keys.first());
        keys.map(|keys| label(keys))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pressed(keys: &str) -> Vec<Press> {
        press::sequence(keys).unwrap()
    }

    #[test]
    fn every_key_of_the_table_can_be_read_and_none_is_bound_twice_in_one_context() {
        let mut seen: Vec<(Context, Vec<Press>)> = Vec::new();
        for row in TABLE {
            assert!(!row.keys.is_empty(), "{}", row.action);
            for keys in row.keys {
                let keys = press::sequence(keys).unwrap();
                for (_, other) in seen.iter().filter(|(context, _)| *context == row.context) {
                    assert!(
                        !other.starts_with(&keys) && !keys.starts_with(other),
                        "{}: {keys:?}",
                        row.action
                    );
                }
                seen.push((row.context, keys));
            }
        }
    }

    #[test]
    fn every_action_is_explained_once_for_each_thing_that_it_does() {
        for row in TABLE {
            let explained = TABLE.iter().filter(|other| other.action == row.action && !other.hint.is_empty());
            assert_eq!(explained.count(), 1, "{}", row.action);
            assert!(row.action.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", row.action);
        }
    }

    #[test]
    fn a_narrow_context_wins() {
        use Context::{Anywhere, Chat, Help, Running};
        let keymap = Keymap::default();
        let runs = |contexts: &[Context], keys: &str| {
            let Found::Run(run) = keymap.find(contexts, &pressed(keys)) else { return None };
            let row = keymap.bindings.iter().find(|row| std::ptr::fn_addr_eq(row.run, run));
            row.map(|row| row.action)
        };
        assert_eq!(runs(&[Chat, Anywhere], "esc"), None);
        assert_eq!(runs(&[Running, Chat, Anywhere], "esc"), Some("stop"));
        assert_eq!(runs(&[Help, Anywhere], "esc"), Some("close-help"));
        assert_eq!(keymap.key_of("new-line").as_deref(), Some("Alt-Enter"));
        assert_eq!(keymap.key_of("nothing"), None);
    }
}
