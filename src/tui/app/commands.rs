//! What commands do.

use std::path::{Path, PathBuf};

use super::{App, Effect, Engine, Mode};
use crate::chat::{self, Form};
use crate::config::Key;
use crate::protocol::{Command, Limit, Limits, Thinking};
use crate::tui::commands::{self, Answer, Completion};
use crate::tui::files::OVER;

impl App {
    /// What the draft may become, where it is a command, or its last word, where that names a file.
    pub(crate) fn completions(&self) -> Vec<Completion> {
        if !matches!(self.mode, Mode::Write) {
            return Vec::new();
        }
        let commands = commands::completions(self, self.composer.text());
        if commands.is_empty() { self.fitting_files() } else { commands }
    }

    /// Carries the command out that is written. One that cannot be carried out stays to be tried again.
    pub(super) fn send_command(&mut self) -> Vec<Effect> {
        // What is chosen in the list is what Enter takes.
        let completions = self.completions();
        let chosen = completions.get(self.choice.min(completions.len().saturating_sub(1)));
        let text = chosen.map_or(self.composer.text(), |completion| completion.text.as_str()).to_owned();
        let written = self.composer.take();
        self.choice = 0;
        self.command(&text).unwrap_or_else(|problem| {
            self.composer.set(written);
            self.notify(problem);
            Vec::new()
        })
    }

    /// Carries out what `text` spells.
    pub(crate) fn command(&mut self, text: &str) -> Answer {
        let (entry, argument) = commands::parse(text)?;
        (entry.run)(self, argument)
    }

    /// Says how much is thought, or thinks so much.
    pub(crate) fn set_thinking(&mut self, effort: &str) -> Answer {
        if effort.is_empty() {
            let now = self.thinking.as_str();
            self.notify(format!("Thinking is {now}; /think off, low, high or max changes it."));
        } else {
            self.thinking = effort.parse::<Thinking>()?;
            self.notify(format!("Thinking is {effort} from the next message on."));
        }
        Ok(Vec::new())
    }

    /// Says how long a turn may think and answer, or sets it: `think 10m`, `answer 300`, `think off`, `off`.
    pub(crate) fn set_limit(&mut self, wish: &str) -> Answer {
        let (part, value) = wish.split_once(char::is_whitespace).map_or((wish, ""), |(a, b)| (a, b.trim()));
        let limit = match value {
            "" => None,
            "off" => Some(None),
            value => Some(Some(value.parse::<Limit>().map_err(|error| error.to_string())?)),
        };
        match (part, limit) {
            ("", _) => {}
            ("off", None) => self.limits = Limits::default(),
            ("think", Some(limit)) => self.limits.think = limit,
            ("answer", Some(limit)) => self.limits.answer = limit,
            _ => {
                return Err(
                    "/limit is followed by think or answer and 300, 10m or off; or by off.".to_owned()
                );
            }
        }
        let said = |limit: Option<Limit>| limit.map_or("without limit".to_owned(), Limit::said);
        let (think, answer) = (said(self.limits.think), said(self.limits.answer));
        let when = if part.is_empty() { "" } else { ", from the next message on" };
        self.notify(format!("Thinking: {think}. Answer: {answer}{when}."));
        Ok(Vec::new())
    }

    /// Begins a new conversation.
    pub(crate) fn new_conversation(&mut self) -> Answer {
        if self.running.is_some() {
            return Err(format!("A turn is running; {} stops it first.", self.key_of("stop")));
        }
        let kept = self.session.is_some() && !self.read_only;
        let mut effects = self.forget_conversation();
        if kept {
            self.notify("The model has forgotten all; the conversation is kept: /sessions, and Up for what you wrote.");
        }
        if matches!(self.engine, Engine::Ready(_)) {
            effects.push(Effect::Send(Command::Reset));
        }
        Ok(effects)
    }

    /// Closes the session and clears the screen; what was said stays in the session.
    pub(super) fn forget_conversation(&mut self) -> Vec<Effect> {
        self.clear_conversation();
        vec![Effect::CloseSession]
    }

    /// Says what the model is told before everything else, or tells it so from the next message on.
    pub(crate) fn set_system(&mut self, text: &str) -> Vec<Effect> {
        match text {
            "" => match &self.transcript.system {
                Some(system) => self.notify(format!("System message: {system}")),
                None => {
                    self.notify("There is no system message; /system TEXT sets one for this conversation.");
                }
            },
            "none" => {
                self.transcript.system = None;
                self.notify("No system message from the next message on.");
            }
            text => {
                self.transcript.system = Some(text.to_owned());
                self.notify("The model is told so from the next message on; /system none takes it back.");
            }
        }
        Vec::new()
    }

    /// Says how freely tokens are drawn, or draws them so.
    pub(crate) fn set_temperature(&mut self, value: &str) -> Answer {
        let asked = &mut self.options.sampling.temperature;
        match value {
            "" => {
                let now = match (*asked, &self.engine) {
                    (Some(now), _) => now.to_string(),
                    (None, Engine::Ready(facts)) => format!("{}, the model's own", facts.temperature),
                    (None, _) => "the model's own".to_owned(),
                };
                self.notify(format!(
                    "Temperature: {now}. /temperature 0.7 changes it, 0 always takes the likeliest."
                ));
            }
            "default" => {
                *asked = None;
                self.notify("Tokens are drawn as the model's makers advise from the next message on.");
            }
            value => {
                let number = value.parse::<f32>().ok().filter(|number| number.is_finite() && *number >= 0.0);
                let number = number.ok_or("A temperature is a number from 0 on, like 0.7, or `default`.")?;
                *asked = Some(number);
                self.notify(format!("Temperature is {number} from the next message on."));
            }
        }
        Ok(Vec::new())
    }

    /// Says where random numbers begin, or begins them there.
    pub(crate) fn set_seed(&mut self, value: &str) -> Answer {
        match value {
            "" => {
                let now = self
                    .options
                    .sampling
                    .seed
                    .map_or("another for each message".to_owned(), |seed| seed.to_string());
                self.notify(format!("Seed: {now}. /seed 7 draws alike again, /seed random does not."));
            }
            "random" => {
                self.options.sampling.seed = None;
                self.notify("Each message has a seed of its own from now on.");
            }
            value => {
                let seed =
                    value.parse::<u64>().map_err(|_no| "A seed is a whole number, like 7, or `random`.")?;
                self.options.sampling.seed = Some(seed);
                self.notify(format!("The seed is {seed} from the next message on."));
            }
        }
        Ok(Vec::new())
    }

    /// Says which theme it is, or shows another.
    pub(crate) fn set_theme(&mut self, name: &str) -> Answer {
        if name.is_empty() {
            let themes = &self.options.themes;
            self.notify(format!(
                "The theme is {}; there are {}.",
                themes.chosen(),
                themes.names().join(", ")
            ));
            return Ok(Vec::new());
        }
        self.options.themes.choose(name)?;
        self.theme = self.options.themes.theme();
        self.notify(format!("The theme is {name}, also at the next start."));
        let mut effects = vec![Effect::Configure(Key::Theme, name.to_owned())];
        if self.options.themes.follows_terminal() {
            effects.push(Effect::AskBackground);
        }
        Ok(effects)
    }

    /// Writes the conversation to a file, in the form that its name tells of.
    pub(crate) fn save(&mut self, argument: &str) -> Answer {
        let (over, path) = over(argument);
        if path.is_empty() {
            return Err("/save is followed by the name of a file, like ~/dormice.md".to_owned());
        }
        let form = |form: &Form| Path::new(path).extension().is_some_and(|end| end == form.extension());
        let form = Form::ALL.into_iter().find(form).unwrap_or(Form::Markdown);
        self.write_out(form, PathBuf::from(path), over)
    }

    /// Writes the conversation to a file in the form that is asked for; markdown, if none is.
    pub(crate) fn export(&mut self, argument: &str) -> Answer {
        let (over, rest) = over(argument);
        let (word, path) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let (form, path) = match word.parse::<Form>() {
            Ok(form) => (form, path.trim()),
            Err(_) if rest.is_empty() => (Form::Markdown, ""),
            // Every path has a point or a slash in it; a word without is a slip.
            Err(_) if word.contains(['.', '/']) => (Form::Markdown, rest),
            Err(problem) => return Err(problem),
        };
        let path = if path.is_empty() {
            let name = self.session.as_deref().unwrap_or("conversation");
            PathBuf::from(format!("dormouse-{name}.{}", form.extension()))
        } else {
            PathBuf::from(path)
        };
        self.write_out(form, path, over)
    }

    fn write_out(&mut self, form: Form, path: PathBuf, over: bool) -> Answer {
        let Some(first) = self.transcript.turns().first() else {
            return Err("There is nothing to write yet.".to_owned());
        };
        let title = first.user.lines().next().unwrap_or_default().trim();
        let text = chat::export(&self.transcript, title, form);
        Ok(vec![Effect::Write { path, text, over }])
    }
}

/// Whether what is there may be replaced, and the rest.
fn over(argument: &str) -> (bool, &str) {
    match argument.strip_prefix(OVER) {
        Some(rest) if rest.is_empty() || rest.starts_with(char::is_whitespace) => (true, rest.trim()),
        _ => (false, argument),
    }
}
