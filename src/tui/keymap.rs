//! Which key does what: one table, from which keys are looked up and the footer and the help are drawn.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Send,
    Newline,
    Stop,
    Interrupt,
    EndOfInput,
    Suspend,
    Repaint,
    Complete,
    CloseHelp,
    Help,
    Stats,
    Mouse,
    FoldThinking,
    Reload,
    Up,
    Down,
    Left,
    Right,
    WordLeft,
    WordRight,
    Home,
    End,
    Backspace,
    Delete,
    KillToEnd,
    KillToStart,
    KillWord,
    Yank,
    PageUp,
    PageDown,
    ToStart,
    ToEnd,
}

/// When a binding holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    /// The help is open.
    Help,
    /// A turn runs.
    Running,
    /// The engine broke or did not load.
    Failed,
    /// A command is being typed.
    Command,
    /// Always.
    Always,
}

/// Keys that do one thing in one context, and how that is said.
pub(crate) struct Binding {
    pub(crate) context: Context,
    keys: &'static [(KeyCode, KeyModifiers)],
    pub(crate) action: Action,
    /// The keys, as a person reads them.
    pub(crate) label: &'static str,
    /// What it does, as the help says it.
    pub(crate) hint: &'static str,
    /// What it does, in as few words as the footer has room for, where the footer shows it.
    pub(crate) footer: Option<&'static str>,
}

const NONE: KeyModifiers = KeyModifiers::NONE;
const CTRL: KeyModifiers = KeyModifiers::CONTROL;
const ALT: KeyModifiers = KeyModifiers::ALT;
const SHIFT: KeyModifiers = KeyModifiers::SHIFT;

const fn bind(
    context: Context,
    keys: &'static [(KeyCode, KeyModifiers)],
    action: Action,
    label: &'static str,
    hint: &'static str,
) -> Binding {
    Binding { context, keys, action, label, hint, footer: None }
}

const fn shown(footer: &'static str, mut binding: Binding) -> Binding {
    binding.footer = Some(footer);
    binding
}

use Context::{Always, Command, Failed, Help, Running};
use KeyCode::{Char, Enter, Esc, F, Tab};

/// All bindings; those of a narrower context come first.
pub(crate) const TABLE: &[Binding] = &[
    shown(
        "close",
        bind(
            Help,
            &[(Esc, NONE), (Char('q'), NONE), (Enter, NONE), (F(1), NONE)],
            Action::CloseHelp,
            "Esc",
            "close the help",
        ),
    ),
    shown("scroll", bind(Help, &[(KeyCode::Up, NONE)], Action::Up, "Up", "scroll the help up")),
    bind(Help, &[(KeyCode::Down, NONE)], Action::Down, "Down", "scroll the help down"),
    shown("stop", bind(Running, &[(Esc, NONE)], Action::Stop, "Esc", "stop the turn; what was said stays")),
    shown(
        "load again",
        bind(Failed, &[(Char('r'), CTRL)], Action::Reload, "Ctrl-R", "load the model again after a failure"),
    ),
    shown("complete", bind(Command, &[(Tab, NONE)], Action::Complete, "Tab", "complete a command")),
    shown("send", bind(Always, &[(Enter, NONE)], Action::Send, "Enter", "send the message")),
    shown(
        "new line",
        bind(
            Always,
            &[(Enter, ALT), (Enter, SHIFT), (Enter, CTRL), (Char('j'), CTRL)],
            Action::Newline,
            "Alt-Enter",
            "new line; so do Shift-Enter and Ctrl-J",
        ),
    ),
    shown(
        "thinking",
        bind(Always, &[(Char('t'), CTRL)], Action::FoldThinking, "Ctrl-T", "show or hide the thinking"),
    ),
    shown("help", bind(Always, &[(F(1), NONE)], Action::Help, "F1", "show this help")),
    shown(
        "quit",
        bind(Always, &[(Char('c'), CTRL)], Action::Interrupt, "Ctrl-C", "stop a turn, clear the draft, quit"),
    ),
    shown("stats", bind(Always, &[(F(2), NONE)], Action::Stats, "F2", "show or hide the panel of numbers")),
    shown(
        "scroll",
        bind(Always, &[(KeyCode::PageUp, NONE)], Action::PageUp, "PgUp", "scroll up; the wheel does too"),
    ),
    bind(Always, &[(KeyCode::PageDown, NONE)], Action::PageDown, "PgDn", "scroll down"),
    bind(Always, &[(KeyCode::Home, CTRL)], Action::ToStart, "Ctrl-Home", "go to the beginning"),
    bind(Always, &[(KeyCode::End, CTRL)], Action::ToEnd, "Ctrl-End", "go to the end"),
    bind(Always, &[(F(3), NONE)], Action::Mouse, "F3", "wheel scrolls here, or the terminal selects"),
    bind(
        Always,
        &[(Char('d'), CTRL)],
        Action::EndOfInput,
        "Ctrl-D",
        "delete, or quit where nothing is written",
    ),
    bind(Always, &[(Char('z'), CTRL)], Action::Suspend, "Ctrl-Z", "to the shell; `fg` comes back"),
    bind(Always, &[(Char('l'), CTRL)], Action::Repaint, "Ctrl-L", "draw the screen anew"),
    bind(Always, &[(KeyCode::Up, NONE)], Action::Up, "Up", "row up; from the first one to earlier messages"),
    bind(
        Always,
        &[(KeyCode::Down, NONE)],
        Action::Down,
        "Down",
        "row down; from the last one to later messages",
    ),
    bind(Always, &[(KeyCode::Left, NONE), (Char('b'), CTRL)], Action::Left, "Left", "character left"),
    bind(Always, &[(KeyCode::Right, NONE), (Char('f'), CTRL)], Action::Right, "Right", "character right"),
    bind(
        Always,
        &[(KeyCode::Left, CTRL), (KeyCode::Left, ALT), (Char('b'), ALT)],
        Action::WordLeft,
        "Ctrl-Left",
        "word left",
    ),
    bind(
        Always,
        &[(KeyCode::Right, CTRL), (KeyCode::Right, ALT), (Char('f'), ALT)],
        Action::WordRight,
        "Ctrl-Right",
        "word right",
    ),
    bind(
        Always,
        &[(KeyCode::Home, NONE), (Char('a'), CTRL)],
        Action::Home,
        "Ctrl-A",
        "beginning of the line",
    ),
    bind(Always, &[(KeyCode::End, NONE), (Char('e'), CTRL)], Action::End, "Ctrl-E", "end of the line"),
    bind(Always, &[(Char('k'), CTRL)], Action::KillToEnd, "Ctrl-K", "cut to the end of the line"),
    bind(Always, &[(Char('u'), CTRL)], Action::KillToStart, "Ctrl-U", "cut to its beginning"),
    bind(
        Always,
        &[(Char('w'), CTRL), (KeyCode::Backspace, ALT), (KeyCode::Backspace, CTRL)],
        Action::KillWord,
        "Ctrl-W",
        "cut a word",
    ),
    bind(Always, &[(Char('y'), CTRL)], Action::Yank, "Ctrl-Y", "put back what was cut"),
    bind(
        Always,
        &[(KeyCode::Backspace, NONE), (KeyCode::Backspace, SHIFT), (Char('h'), CTRL)],
        Action::Backspace,
        "Backspace",
        "delete before the caret",
    ),
    bind(Always, &[(KeyCode::Delete, NONE)], Action::Delete, "Delete", "delete after the caret"),
];

/// What `key` does where `contexts` hold.
pub(crate) fn find(contexts: &[Context], key: &KeyEvent) -> Option<Action> {
    let fits = |binding: &&Binding| {
        (binding.context == Always || contexts.contains(&binding.context))
            && binding.keys.contains(&(key.code, key.modifiers))
    };
    TABLE.iter().find(fits).map(|binding| binding.action)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_bound_twice_in_one_context() {
        for (number, binding) in TABLE.iter().enumerate() {
            for other in &TABLE[number + 1..] {
                let shared = binding.keys.iter().find(|key| other.keys.contains(key));
                assert!(binding.context != other.context || shared.is_none(), "{shared:?}");
            }
        }
    }

    #[test]
    fn a_narrow_context_wins() {
        let escape = KeyEvent::new(Esc, NONE);
        assert_eq!(find(&[], &escape), None);
        assert_eq!(find(&[Running], &escape), Some(Action::Stop));
        assert_eq!(find(&[Help, Running], &escape), Some(Action::CloseHelp));
    }
}
