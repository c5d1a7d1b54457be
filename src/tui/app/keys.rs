//! What keys do.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{App, Effect, Engine};
use crate::protocol::Command;
use crate::tui::commands;
use crate::tui::composer::Composer;
use crate::tui::keymap::{self, Action};

/// Below so many columns the panel of numbers would leave too little to the conversation.
pub(crate) const STATS_FROM: u16 = 100;

impl App {
    pub(super) fn key(&mut self, key: KeyEvent) -> Vec<Effect> {
        if let Some(action) = keymap::find(&self.contexts(), &key) {
            return self.act(action);
        }
        // AltGr comes as Ctrl and Alt together where a terminal reports it at all.
        let plain = (key.modifiers - KeyModifiers::SHIFT).is_empty()
            || key.modifiers.contains(KeyModifiers::CONTROL | KeyModifiers::ALT);
        if let KeyCode::Char(c) = key.code
            && plain
            && self.help.is_none()
        {
            let mut bytes = [0; 4];
            self.edit(|composer| composer.insert(c.encode_utf8(&mut bytes)));
        }
        Vec::new()
    }

    fn act(&mut self, action: Action) -> Vec<Effect> {
        if self.help.is_some() && !works_in_help(action) {
            return Vec::new();
        }
        match action {
            Action::Send => return self.send(),
            Action::Stop => return self.stop(),
            Action::Interrupt => return self.interrupt(),
            Action::EndOfInput => {
                if !self.composer.text().is_empty() {
                    self.edit(Composer::delete_next);
                } else if self.running.is_none() {
                    return vec![Effect::Leave];
                }
            }
            Action::Suspend => return vec![Effect::Suspend],
            Action::Repaint => return vec![Effect::Repaint],
            Action::Reload => return self.reload(),
            Action::Mouse => return self.toggle_mouse(),
            Action::Complete => self.complete(),
            Action::CloseHelp => self.help = None,
            Action::Help => self.help = if self.help.is_some() { None } else { Some(0) },
            Action::Stats => self.toggle_stats(),
            Action::FoldThinking => self.fold_thinking(),
            Action::Up => self.up(),
            Action::Down => self.down(),
            Action::PageUp => self.page(-1),
            Action::PageDown => self.page(1),
            Action::ToStart => self.scrollback.go_to_start(),
            Action::ToEnd => self.scrollback.go_to_end(),
            Action::Left => self.composer.left(),
            Action::Right => self.composer.right(),
            Action::WordLeft => self.composer.word_left(),
            Action::WordRight => self.composer.word_right(),
            Action::Home => self.composer.home(),
            Action::End => self.composer.end(),
            Action::Newline => self.edit(|composer| composer.insert("\n")),
            Action::Backspace => self.edit(Composer::backspace),
            Action::Delete => self.edit(Composer::delete_next),
            Action::KillToEnd => self.edit(Composer::kill_to_end),
            Action::KillToStart => self.edit(Composer::kill_to_start),
            Action::KillWord => self.edit(Composer::kill_word),
            Action::Yank => self.edit(Composer::yank),
        }
        Vec::new()
    }

    fn send(&mut self) -> Vec<Effect> {
        if commands::is_command(self.composer.text()) {
            return self.send_command();
        }
        if self.composer.is_blank() {
            return Vec::new();
        }
        if self.running.is_some() {
            self.notify("A turn is running; Esc stops it. Your draft stays here.");
            return Vec::new();
        }
        match self.engine {
            Engine::Ready(_) => {
                let text = self.composer.take();
                self.begin(text.trim().to_owned())
            }
            Engine::Loading => {
                self.notify("The model is still loading. Your draft stays here.");
                Vec::new()
            }
            Engine::Failed(_) => {
                self.notify("The engine is not running; Ctrl-R loads it again. Your draft stays here.");
                Vec::new()
            }
            Engine::Gone => {
                self.notify("The engine has left; leave with Ctrl-C and start again.");
                Vec::new()
            }
        }
    }

    fn send_command(&mut self) -> Vec<Effect> {
        // What is chosen in the list is what Enter takes.
        let completions = self.completions();
        let chosen = completions.get(self.choice.min(completions.len().saturating_sub(1)));
        let command = commands::parse(chosen.map_or(self.composer.text(), |(text, _)| text));
        match command {
            Ok(command) => {
                let kept = self.composer.take();
                self.choice = 0;
                let done = self.run(command);
                // A command that could not be carried out stays to be tried again.
                if done.is_none() {
                    self.composer.set(kept);
                }
                done.unwrap_or_default()
            }
            Err(error) => {
                self.notify(error);
                Vec::new()
            }
        }
    }

    /// Carries a command out; `None` where it cannot be now.
    fn run(&mut self, command: commands::Command) -> Option<Vec<Effect>> {
        match command {
            commands::Command::Help => self.help = Some(0),
            commands::Command::Stats => self.toggle_stats(),
            commands::Command::Mouse => return Some(self.toggle_mouse()),
            commands::Command::Quit => return Some(vec![Effect::Leave]),
            commands::Command::Think(None) => {
                self.notify(format!(
                    "Thinking is {}; /think off, low, high or max changes it.",
                    self.thinking.as_str()
                ));
            }
            commands::Command::Think(Some(thinking)) => {
                self.thinking = thinking;
                self.notify(format!("Thinking is {} from the next message on.", thinking.as_str()));
            }
            commands::Command::New => {
                if self.running.is_some() {
                    self.notify("A turn is running; Esc stops it first.");
                    return None;
                }
                self.transcript = crate::chat::Transcript::default();
                self.facts.clear();
                self.scrollback.clear();
                self.session = None;
                let mut effects = vec![Effect::CloseSession];
                if matches!(self.engine, Engine::Ready(_)) {
                    effects.push(Effect::Send(Command::Reset));
                }
                return Some(effects);
            }
        }
        Some(Vec::new())
    }

    /// Ctrl-C: stops what runs, else clears what is written, else leaves.
    fn interrupt(&mut self) -> Vec<Effect> {
        match &self.running {
            Some(running) if !running.stopping => return self.stop(),
            Some(_) => {
                self.impatience += 1;
                if self.impatience > 1 {
                    return vec![Effect::Leave];
                }
                self.notify("Stopping; Ctrl-C once more leaves without waiting for it.");
                return Vec::new();
            }
            None => {}
        }
        if self.help.take().is_some() {
            return Vec::new();
        }
        if self.composer.text().is_empty() {
            return vec![Effect::Leave];
        }
        self.edit(|_| {});
        let draft = self.composer.take();
        self.history.keep(&draft);
        self.notify("The draft was put aside; Up brings it back.");
        Vec::new()
    }

    fn reload(&mut self) -> Vec<Effect> {
        self.engine = Engine::Loading;
        vec![Effect::Send(Command::Load(self.options.settings.clone()))]
    }

    fn toggle_mouse(&mut self) -> Vec<Effect> {
        self.mouse = !self.mouse;
        self.notify(if self.mouse {
            "The wheel scrolls the conversation; Shift and drag selects text."
        } else {
            "The mouse is the terminal's now: drag selects text; F3 takes the wheel back."
        });
        vec![Effect::Mouse(self.mouse)]
    }

    fn toggle_stats(&mut self) {
        self.stats = !self.stats;
        if self.stats && self.columns < STATS_FROM {
            self.notify(format!(
                "The panel appears from {STATS_FROM} columns on; there are {}.",
                self.columns
            ));
        }
    }

    /// Shows all thinking, or hides all: whichever changes what the newest turn shows.
    fn fold_thinking(&mut self) {
        let shown = self.show_thinking.unwrap_or_else(|| {
            let newest = self.transcript.turns().last();
            newest.is_some_and(|turn| {
                turn.is_thinking_unfinished()
                    || (turn.is_running() && turn.answer.is_empty() && turn.tool_calls.is_empty())
            })
        });
        self.show_thinking = Some(!shown);
    }

    fn complete(&mut self) {
        let completions = self.completions();
        if let Some((text, _)) = completions.get(self.choice.min(completions.len().saturating_sub(1))) {
            let open = commands::TABLE.iter().any(|entry| entry.name == text && !entry.values.is_empty());
            let text = if open { format!("{text} ") } else { text.clone() };
            self.edit(|composer| composer.set(text));
        }
    }

    fn up(&mut self) {
        if let Some(top) = &mut self.help {
            *top = top.saturating_sub(1);
        } else if self.completions().len() > 1 {
            self.choice = self.choice.saturating_sub(1);
        } else if !self.composer.up()
            && let Some(text) = self.history.earlier(self.composer.text())
        {
            self.composer.set(text);
        }
    }

    fn down(&mut self) {
        let completions = self.completions().len();
        if let Some(top) = &mut self.help {
            *top = top.saturating_add(1);
        } else if completions > 1 {
            self.choice = (self.choice + 1).min(completions - 1);
        } else if !self.composer.down()
            && let Some(text) = self.history.later()
        {
            self.composer.set(text);
        }
    }

    fn page(&mut self, pages: isize) {
        match &mut self.help {
            Some(top) => *top = top.saturating_add_signed(pages.saturating_mul(10)),
            None => self.scrollback.page(pages),
        }
    }
}

const fn works_in_help(action: Action) -> bool {
    matches!(
        action,
        Action::CloseHelp
            | Action::Help
            | Action::Interrupt
            | Action::Suspend
            | Action::Repaint
            | Action::Up
            | Action::Down
            | Action::PageUp
            | Action::PageDown
            | Action::Stats
            | Action::Mouse
    )
}
