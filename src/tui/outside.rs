//! What both chats, on the screen and in lines, have outside of it: the engine, the session that is written, the models
//! that there are.

use crossbeam_channel::TrySendError;

use super::app::{App, Effect, Msg};
use super::{Keeper, Models, files};
use crate::config;
use crate::protocol::EngineLink;

/// What became of an effect.
pub(super) enum Carried {
    /// It is done.
    Out,
    /// It is done, and this came of it.
    With(Msg),
    /// It needs more than there is here.
    Not(Effect),
}

pub(super) struct Outside {
    pub(super) link: EngineLink,
    pub(super) keeper: Option<Keeper>,
    pub(super) models: Option<Box<dyn Models>>,
}

impl Outside {
    /// What time it is, with the numbers, and what has changed about the session's disk.
    pub(super) fn look(&mut self, app: &mut App) -> Vec<Msg> {
        let mut news = vec![Msg::Clock(Box::new(self.link.telemetry.sample()))];
        let missing = self.keeper.as_ref().and_then(Keeper::missing);
        if missing != app.disk_full {
            news.push(Msg::Disk(missing));
        }
        if let Some(trouble) = self.keeper.as_mut().and_then(Keeper::trouble) {
            app.notify(trouble);
        }
        news
    }

    /// Does what can be done without a screen.
    pub(super) fn carry_out(&mut self, effect: Effect, app: &mut App) -> Carried {
        match effect {
            Effect::Send(command) => match self.link.commands.try_send(command) {
                Ok(()) => {}
                Err(TrySendError::Full(_)) => return Carried::With(Msg::EngineBusy),
                Err(TrySendError::Disconnected(_)) => return Carried::With(Msg::EngineGone),
            },
            Effect::Cancel(flag) => flag.cancel(),
            Effect::Pause(flag, pause) => flag.set(pause),
            Effect::Record(record) => {
                if let Some(keeper) = &mut self.keeper {
                    let digest = app.model_digest();
                    // A session that is only read has no journal, and keeps its name.
                    if let Some(id) = keeper.write(record, digest) {
                        app.session = Some(id);
                    }
                }
            }
            Effect::CloseSession => {
                if let Some(keeper) = &mut self.keeper {
                    keeper.close();
                }
            }
            Effect::Model(folder, name) => {
                if let Some(keeper) = &mut self.keeper {
                    keeper.change_model(folder, name);
                }
            }
            Effect::FindModel(name) => {
                if let Some(models) = &self.models {
                    return Carried::With(Msg::Model(models.find(&name)));
                }
            }
            Effect::Write { path, text, over } => {
                return Carried::With(Msg::Written(files::write(&path, &text, over)));
            }
            Effect::Switched(remembered) => {
                if let Some(path) = &app.options.remember_at
                    && let Err(error) = remembered.write(path)
                {
                    app.notify(format!("This is forgotten when you leave: {error}"));
                }
            }
            Effect::Configure(key, value) => {
                let write = |path| config::set(path, key, &value, |_| Ok::<(), config::Error>(()));
                if let Some(path) = &app.options.config
                    && let Err(error) = write(path)
                {
                    app.notify(format!("This is forgotten when you leave: {error}"));
                }
            }
            other => return Carried::Not(other),
        }
        Carried::Out
    }
}
