//! The model is exchanged, or loaded with other memory. Until the new one is there the old one can come back.

use super::{App, Effect, Engine};
use crate::config::Preset;
use crate::protocol::{Command, ModelFacts, UserError};
use crate::tui::Options;
use crate::tui::commands::Answer;
use crate::tui::models::Model;
use crate::units::Bytes;

/// A model that is being loaded in place of another.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    new: Model,
    /// What the engine said of the old one.
    before: Box<ModelFacts>,
}

impl App {
    /// Says which model it is, or asks for another.
    pub(crate) fn set_model(&mut self, name: &str) -> Answer {
        if name.is_empty() {
            let folder = self.options.settings.model.display().to_string();
            self.notify(format!("The model is {}, in {folder}.", self.options.model_label));
            return Ok(Vec::new());
        }
        self.free_to_load()?;
        Ok(vec![Effect::FindModel(name.to_owned())])
    }

    /// Says how much memory the engine may use, or loads the model with another budget.
    pub(crate) fn set_memory(&mut self, size: &str) -> Answer {
        if size.is_empty() {
            let now = self.pulse.now();
            let asked = self.options.settings.memory.map_or("as much as was free", |_| "as asked for");
            self.notify(format!(
                "Memory: {} of {} used, {asked}. /memory 24GiB or a preset changes it.",
                Bytes(now.rss),
                Bytes(now.budget)
            ));
            return Ok(Vec::new());
        }
        self.free_to_load()?;
        let memory = match size.parse::<Preset>() {
            Ok(preset) => preset.memory(),
            Err(_no_preset) => Some(size.parse::<Bytes>().map_err(|problem| format!("{size}: {problem}"))?),
        };
        let mut new = self.model();
        new.settings.memory = memory;
        Ok(self.exchange(new))
    }

    fn free_to_load(&self) -> Result<(), String> {
        self.wants_no_turn()?;
        match self.engine {
            Engine::Ready(_) | Engine::Failed(_) => Ok(()),
            Engine::Loading => Err("A model is being loaded; try again when it is there.".to_owned()),
            Engine::Gone => Err("The engine has left; leave and start again.".to_owned()),
        }
    }

    /// A model was found, or why none was.
    pub(super) fn found_model(&mut self, found: Result<Model, UserError>) -> Vec<Effect> {
        match found {
            // The memory that was chosen is that of the machine, whatever the model.
            Ok(mut new) => {
                new.settings.memory = self.options.settings.memory;
                if self.free_to_load().is_ok() { self.exchange(new) } else { Vec::new() }
            }
            Err(error) => {
                self.alert = Some(error);
                Vec::new()
            }
        }
    }

    fn exchange(&mut self, new: Model) -> Vec<Effect> {
        self.alert = None;
        let load = Effect::Send(Command::Load(new.settings.clone()));
        match std::mem::replace(&mut self.engine, Engine::Loading) {
            Engine::Ready(before) => self.exchange = Some(Exchange { new, before }),
            // There is nothing to come back to.
            _ => self.take_model(new),
        }
        vec![load]
    }

    /// A model is there.
    pub(super) fn loaded(&mut self, facts: Box<ModelFacts>) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let Some(Exchange { new, before }) = self.exchange.take() {
            if new.settings.model == self.options.settings.model {
                self.notify(format!(
                    "Memory: {} in all, {} of it read into memory.",
                    facts.plan.budget, facts.resident
                ));
            } else {
                self.notify(format!("The model is {} now.", new.label));
                effects.push(Effect::Model(new.folder.clone().into(), new.name.clone()));
            }
            self.take_model(new);
            if facts.digest != before.digest {
                effects.extend(self.forget_conversation());
            }
        }
        self.engine = Engine::Ready(facts);
        self.forecast.forget();
        effects
    }

    /// The model that is shown.
    fn model(&self) -> Model {
        let Options { settings, model_label, demo, suggestions, .. } = self.options.clone();
        Model { settings, label: model_label, demo, suggestions, ..Model::default() }
    }

    fn take_model(&mut self, new: Model) {
        self.options.settings = new.settings;
        self.options.model_label = new.label;
        self.options.demo = new.demo;
        self.options.suggestions = new.suggestions;
    }

    /// The engine would not even begin: the old model is as it was.
    pub(super) fn refused(&mut self, error: UserError) -> Vec<Effect> {
        if let Some(Exchange { before, .. }) = self.exchange.take() {
            self.engine = Engine::Ready(before);
            self.alert = Some(error);
            return Vec::new();
        }
        self.load_failed(error)
    }

    /// Loading failed. Where it was to take the place of another model, that one is loaded again.
    pub(super) fn load_failed(&mut self, error: UserError) -> Vec<Effect> {
        if self.exchange.take().is_some() {
            self.alert = Some(error);
            self.engine = Engine::Loading;
            return vec![Effect::Send(Command::Load(self.options.settings.clone()))];
        }
        let mut effects = self.fail_running(&error);
        effects.extend(self.trial_failed(&error));
        self.engine = Engine::Failed(error);
        effects
    }
}
