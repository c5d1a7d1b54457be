//! What keys do.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{App, Effect, Engine, Mode};
use crate::protocol::Command;
use crate::tui::commands::{self, Completion};
use crate::tui::composer::Composer;
use crate::tui::keymap::{self, Context, Found, Press};

/// Below so many columns the panel of numbers would leave too little to the conversation.
pub(crate) const STATS_FROM: u16 = 100;

impl App {
    /// Which bindings of the keymap hold, the narrowest first.
    pub(crate) fn contexts(&self) -> Vec<Context> {
        if self.help.is_some() {
            return vec![Context::Help, Context::Anywhere];
        }
        if self.sheet.is_some() {
            return vec![Context::Numbers, Context::Anywhere];
        }
        if self.palette.is_some() {
            return vec![Context::Palette, Context::Anywhere];
        }
        if let Some(contexts) = self.setup_contexts() {
            return contexts;
        }
        if self.picker.is_some() {
            return vec![Context::Sessions, Context::Anywhere];
        }
        if let Some(context) = self.mode.context() {
            return vec![context, Context::Chat, Context::Edit, Context::Anywhere];
        }
        let mut contexts = Vec::with_capacity(11);
        if self.greeting().is_some() && self.composer.text().is_empty() {
            contexts.push(Context::Greeting);
        }
        if self.alert.is_some() {
            contexts.push(Context::Alert);
        }
        if !self.completions().is_empty() {
            if self.composer.word_before().starts_with('@') {
                contexts.push(Context::Files);
            }
            contexts.push(Context::Command);
        }
        if self.composer.text().is_empty() {
            contexts.push(Context::Empty);
        }
        if !self.queue.waiting.is_empty() {
            contexts.push(Context::Queued);
        }
        if self.edited_place().is_some() {
            contexts.push(Context::Editing);
        }
        if matches!(self.engine, Engine::Failed(_)) {
            contexts.push(Context::Failed);
        }
        contexts.push(if self.running.is_some() { Context::Running } else { Context::Idle });
        contexts.extend([Context::Chat, Context::Edit, Context::Anywhere]);
        contexts
    }

    pub(super) fn key(&mut self, key: KeyEvent) -> Vec<Effect> {
        self.pressed.push(Press::of(&key));
        match self.options.keymap.find(&self.contexts(), &self.pressed) {
            Found::Run(run) => {
                self.pressed.clear();
                return run(self);
            }
            Found::Prefix => {
                self.notify(format!("{} …", keymap::label(&self.pressed)));
                return Vec::new();
            }
            Found::Nothing => {}
        }
        let pressed = std::mem::take(&mut self.pressed);
        if pressed.len() > 1 {
            self.notify(format!("{} does nothing here.", keymap::label(&pressed)));
            return Vec::new();
        }
        // AltGr comes as Ctrl and Alt together where a terminal reports it at all.
        let plain = (key.modifiers - KeyModifiers::SHIFT).is_empty()
            || key.modifiers.contains(KeyModifiers::CONTROL | KeyModifiers::ALT);
        if let KeyCode::Char(c) = key.code
            && plain
            && self.help.is_none()
            && self.sheet.is_none()
        {
            if self.palette.is_some() {
                return self.filter_palette(|filter| filter.push(c));
            }
            let mut bytes = [0; 4];
            let text = &*c.encode_utf8(&mut bytes);
            if self.picker.is_some() && self.setup_page().is_none() {
                return self.write_in_picker(text);
            }
            return self.write(|composer| composer.insert(text));
        }
        Vec::new()
    }

    /// How a person reads the key of an action.
    pub(crate) fn key_of(&self, action: &str) -> String {
        self.options.keymap.key_of(action).unwrap_or_else(|| format!("`{action}`"))
    }

    /// Sends what is written, or carries it out where it is a command.
    pub(crate) fn send(&mut self) -> Vec<Effect> {
        if commands::is_command(self.composer.text()) {
            return self.send_command();
        }
        if let Some(file) = self.chosen_completion() {
            return self.take_file(&file.text);
        }
        if self.composer.is_blank() {
            return if self.queue.waiting.is_empty() && self.offers_to_go_on() {
                self.go_on().unwrap_or_else(|why| self.told(why))
            } else {
                self.send_queued()
            };
        }
        if self.running.is_some() && !self.read_only {
            return self.enqueue();
        }
        if let Some(why) = self.cannot_ask() {
            return self.told(format!("{why} Your draft stays here."));
        }
        let draft = self.composer.take();
        let mut effects = self.remember(&draft);
        effects.extend(self.ask(draft.expanded().trim().to_owned()));
        effects
    }

    fn told(&mut self, text: String) -> Vec<Effect> {
        self.notify(text);
        Vec::new()
    }

    /// Stops what runs, else clears what is written, else leaves.
    pub(crate) fn interrupt(&mut self) -> Vec<Effect> {
        match &self.running {
            Some(running) if !running.stopping => return self.stop(),
            Some(_) => {
                self.impatience += 1;
                if self.impatience > 1 {
                    return vec![Effect::Leave];
                }
                let key = self.key_of("interrupt");
                self.notify(format!("Stopping; {key} once more leaves without waiting for it."));
                return Vec::new();
            }
            None => {}
        }
        if self.help.take().is_some() || self.sheet.take().is_some() || self.picker.take().is_some() {
            return Vec::new();
        }
        if !matches!(self.mode, Mode::Write) {
            return self.back();
        }
        if self.edited_place().is_some() {
            return self.leave_edit();
        }
        if self.composer.text().is_empty() {
            return vec![Effect::Leave];
        }
        self.edit(|_| {});
        let draft = self.composer.take();
        self.notify("The draft was put aside; Up brings it back.");
        self.remember(&draft)
    }

    /// Deletes after the caret, or leaves where nothing is written.
    pub(crate) fn end_of_input(&mut self) -> Vec<Effect> {
        if !self.composer.text().is_empty() || !matches!(self.mode, Mode::Write) {
            self.edit(Composer::delete_next);
        } else if self.running.is_none() {
            return vec![Effect::Leave];
        }
        Vec::new()
    }

    /// Loads the model again.
    pub(crate) fn reload(&mut self) -> Vec<Effect> {
        self.engine = Engine::Loading;
        vec![Effect::Send(Command::Load(self.options.settings.clone()))]
    }

    /// Takes the mouse, or gives it back.
    pub(crate) fn toggle_mouse(&mut self) -> Vec<Effect> {
        self.mouse = !self.mouse;
        let key = self.key_of("mouse");
        self.notify(if self.mouse {
            "The wheel scrolls the conversation; Shift and drag selects text.".to_owned()
        } else {
            format!("The mouse is the terminal's now: drag selects text; {key} takes the wheel back.")
        });
        vec![Effect::Mouse(self.mouse)]
    }

    /// Shows or hides the panel of numbers.
    pub(crate) fn toggle_stats(&mut self) -> Vec<Effect> {
        self.remembered.panel = !self.remembered.panel;
        if self.remembered.panel && self.columns < STATS_FROM {
            self.notify(format!(
                "The panel appears from {STATS_FROM} columns on; there are {}.",
                self.columns
            ));
        }
        vec![Effect::Switched(self.remembered)]
    }

    /// What is chosen of that which the draft may become.
    fn chosen_completion(&self) -> Option<Completion> {
        let mut completions = self.completions();
        let last = completions.len().checked_sub(1)?;
        Some(completions.swap_remove(self.choice.min(last)))
    }

    /// Takes the chosen completion into the draft; the next one where the chosen one stands there already.
    pub(crate) fn complete(&mut self) -> Vec<Effect> {
        let completions = self.completions();
        let chosen = self.choice.min(completions.len().saturating_sub(1));
        let written = self.composer.text();
        let completion = match completions.get(chosen) {
            Some(same) if same.open && written.ends_with(' ') && same.text == written.trim_end() => {
                completions.get(chosen + 1)
            }
            other => other,
        };
        if let Some(completion) = completion {
            if completion.text.starts_with('@') {
                let file = completion.text.clone();
                return self.take_file(&file);
            }
            let text =
                if completion.open { format!("{} ", completion.text) } else { completion.text.clone() };
            self.edit(|composer| composer.set(text));
        }
        Vec::new()
    }

    /// Puts away what could not be done.
    pub(crate) fn close_alert(&mut self) -> Vec<Effect> {
        self.alert = None;
        Vec::new()
    }

    /// Opens the help.
    pub(crate) fn open_help(&mut self) -> Vec<Effect> {
        self.help = Some(0);
        Vec::new()
    }

    /// Closes the help.
    pub(crate) fn close_help(&mut self) -> Vec<Effect> {
        self.help = None;
        Vec::new()
    }

    /// Scrolls the help by rows; negative is up.
    pub(crate) fn scroll_help(&mut self, rows: isize) -> Vec<Effect> {
        if let Some(top) = &mut self.help {
            *top = top.saturating_add_signed(rows);
        }
        Vec::new()
    }

    /// One completion, one row or one message up.
    pub(crate) fn up(&mut self) -> Vec<Effect> {
        if self.completions().len() > 1 {
            self.choice = self.choice.saturating_sub(1);
        } else if !self.composer.up()
            && let Some(draft) = self.history.earlier(self.composer.draft())
        {
            self.composer.set(draft.clone());
        }
        Vec::new()
    }

    /// One completion, one row or one message down.
    pub(crate) fn down(&mut self) -> Vec<Effect> {
        let completions = self.completions().len();
        if completions > 1 {
            self.choice = (self.choice + 1).min(completions - 1);
        } else if !self.composer.down()
            && let Some(draft) = self.history.later()
        {
            self.composer.set(draft);
        }
        Vec::new()
    }

    /// Scrolls the conversation by screens; negative is up.
    pub(crate) fn page(&mut self, pages: isize) -> Vec<Effect> {
        self.scrollback.page(pages);
        Vec::new()
    }

    /// Goes to the first row of the conversation.
    pub(crate) fn go_to_start(&mut self) -> Vec<Effect> {
        self.scrollback.go_to_start();
        Vec::new()
    }

    /// Goes to the last row of the conversation.
    pub(crate) fn go_to_end(&mut self) -> Vec<Effect> {
        self.scrollback.go_to_end();
        Vec::new()
    }
}
