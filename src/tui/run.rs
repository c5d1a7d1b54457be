//! The loop: waits for whatever comes first, takes in everything that has come, draws once.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, TrySendError, after, never, select};

use super::app::{App, Effect, Msg};
use super::input::{self, Input};
use super::signals::{self, Signal};
use super::terminal::{self, Screen};
use super::theme::Theme;
use super::{Error, Exit, Keeper, Options};
use crate::protocol::{EVENTS, EngineLink, Event};

/// The least time between two frames.
const FRAME: Duration = Duration::from_millis(33);
/// The time between two frames while only the clock moves something.
const TICK: Duration = Duration::from_millis(150);

/// Shows the chat until the user leaves. Sends [`Command::Load`](crate::protocol::Command::Load) itself, so that the
/// screen is there before the model is; sends [`Command::Shutdown`](crate::protocol::Command::Shutdown) at the end.
/// The terminal is restored however this returns. What is said is written down by `keeper`, if there is one.
pub fn run(options: Options, link: EngineLink, keeper: Option<Keeper>) -> Result<Exit, Error> {
    terminal::check()?;
    let signals = signals::listen()?;
    let screen = Screen::enter()?;
    let keys = input::listen()?;
    let app = App::new(options, Theme::from_env());
    let events = link.events.clone();
    let mut chat = Chat { app, screen, link, events, keeper, left: None, stopped: false };
    let exit = chat.run(&keys, &signals.arrived);
    for effect in chat.app.farewell() {
        // The engine may be gone or busy: leaving does not wait for it.
        let _ = chat.carry_out(effect);
    }
    exit
}

struct Chat {
    app: App,
    screen: Screen,
    link: EngineLink,
    /// The engine's events; never ready once its end is closed.
    events: Receiver<Event>,
    keeper: Option<Keeper>,
    left: Option<Exit>,
    /// Whether a continue signal is due that was already acted upon.
    stopped: bool,
}

impl Chat {
    fn run(&mut self, keys: &Receiver<Input>, signals: &Receiver<Signal>) -> Result<Exit, Error> {
        self.tick()?;
        for effect in self.app.start() {
            self.carry_out(effect)?;
        }
        let mut drawn: Option<Instant> = None;
        let mut dirty = true;
        loop {
            if let Some(exit) = self.left {
                return Ok(exit);
            }
            let since = drawn.map_or(FRAME, |at| at.elapsed());
            if dirty && since >= FRAME {
                self.screen.draw(&mut self.app)?;
                drawn = Some(Instant::now());
                dirty = false;
            }
            let since = drawn.map_or(FRAME, |at| at.elapsed());
            let next = if dirty {
                after(FRAME.saturating_sub(since))
            } else if self.app.moves() {
                after(TICK.saturating_sub(since))
            } else {
                never()
            };
            let events = self.events.clone();
            select! {
                recv(keys) -> input => {
                    self.tick()?;
                    self.input(input.unwrap_or_else(|_| Input::Died("its thread has ended".to_owned())))?;
                }
                recv(events) -> event => {
                    self.tick()?;
                    self.event(event.ok())?;
                }
                recv(signals) -> signal => {
                    if let Ok(signal) = signal {
                        self.signal(signal)?;
                    }
                }
                recv(next) -> _ => self.tick()?,
            }
            // What has come meanwhile goes into the same frame; no more than the channel holds, so that a fast engine
            // cannot keep the screen from being drawn.
            for _ in 0..EVENTS {
                let Ok(event) = self.events.try_recv() else { break };
                self.event(Some(event))?;
            }
            while let Ok(input) = keys.try_recv() {
                self.input(input)?;
            }
            dirty = true;
        }
    }

    /// Tells the state what time it is, and the numbers.
    fn tick(&mut self) -> Result<(), Error> {
        let sample = self.link.telemetry.sample();
        self.update(Msg::Clock(sample))?;
        if let Some(trouble) = self.keeper.as_mut().and_then(Keeper::trouble) {
            self.app.notify(trouble);
        }
        Ok(())
    }

    fn input(&mut self, input: Input) -> Result<(), Error> {
        match input {
            Input::Key(key) => self.update(Msg::Key(key)),
            Input::Paste(text) => self.update(Msg::Paste(text)),
            Input::Wheel(notches) => self.update(Msg::Wheel(notches)),
            Input::Click => self.update(Msg::Click),
            Input::Resize => Ok(()),
            Input::Died(reason) => Err(Error::Input { reason }),
        }
    }

    fn event(&mut self, event: Option<Event>) -> Result<(), Error> {
        if let Some(event) = event {
            return self.update(Msg::Engine(event));
        }
        self.events = never();
        self.update(Msg::EngineGone)
    }

    fn signal(&mut self, signal: Signal) -> Result<(), Error> {
        match signal {
            Signal::Leave(number) => self.left = Some(Exit::Signal(number)),
            Signal::Stop => {
                self.stopped = true;
                self.screen.suspend()?;
            }
            // A stop that could not be seen coming (SIGSTOP) ends here, too.
            Signal::Continue => {
                if std::mem::take(&mut self.stopped) {
                    self.screen.repaint()?;
                } else {
                    self.screen.resume()?;
                }
            }
        }
        Ok(())
    }

    fn update(&mut self, msg: Msg) -> Result<(), Error> {
        for effect in self.app.update(msg) {
            self.carry_out(effect)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, effect: Effect) -> Result<(), Error> {
        match effect {
            Effect::Send(command) => match self.link.commands.try_send(command) {
                Ok(()) => {}
                Err(TrySendError::Full(_)) => self.update(Msg::EngineBusy)?,
                Err(TrySendError::Disconnected(_)) => self.update(Msg::EngineGone)?,
            },
            Effect::Cancel(flag) => flag.cancel(),
            Effect::Record(record) => {
                if let Some(keeper) = &mut self.keeper {
                    let digest = self.app.model_digest();
                    self.app.session = keeper.write(record, digest);
                }
            }
            Effect::CloseSession => {
                if let Some(keeper) = &mut self.keeper {
                    keeper.close();
                }
            }
            Effect::Mouse(on) => self.screen.set_mouse(on)?,
            Effect::Suspend => {
                if !signals::stop_job() {
                    self.app.notify("There is no shell to go back to.");
                }
            }
            Effect::Repaint => self.screen.repaint()?,
            Effect::Leave => self.left = Some(Exit::Quit),
        }
        Ok(())
    }
}
