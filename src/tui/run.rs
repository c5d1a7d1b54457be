//! The loop: waits for whatever comes first, takes in everything that has come, draws once.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, after, never, select};
use signal_hook::consts::{SIGINT, SIGQUIT};

use super::app::{App, Effect, Msg, Told};
use super::clerk::{Clerk, Job};
use super::clipboard::{self, Way};
use super::counter::{self, Ask, Counted};
use super::csv;
use super::editor::Editing;
use super::input::{self, Input, Pause};
use super::library::Reply;
use super::outside::{Carried, Outside};
use super::signals::{self, Signal};
use super::terminal::{self, Screen};
use super::{Error, Exit, Keeper, Models, Options, numbers, past};
use crate::protocol::{EVENTS, EngineLink, Event};
use crate::setup::wizard::{Hands, News};

/// The least time between two frames.
const FRAME: Duration = Duration::from_millis(33);
/// The time between two frames while only the clock moves something.
const TICK: Duration = Duration::from_millis(150);
/// The time between two samples of the costs of layers: there are a hundred of them.
const LAYERS: Duration = Duration::from_millis(500);

/// How often it is looked whether the user's editor was left.
const LOOK: Duration = Duration::from_millis(50);

/// Shows the chat until the user leaves. Sends [`Command::Load`](crate::protocol::Command::Load) itself, so that the
/// screen is there before the model is; sends [`Command::Shutdown`](crate::protocol::Command::Shutdown) at the end.
/// The terminal is restored however this returns. What is said is written down by `keeper`, and other models are found by
/// `models`, if there are such.
pub fn run(
    mut options: Options,
    link: EngineLink,
    keeper: Option<Keeper>,
    models: Option<Box<dyn Models>>,
) -> Result<Exit, Error> {
    terminal::check()?;
    let signals = signals::listen()?;
    let screen = Screen::enter()?;
    let (keys, pause) = input::listen()?;
    let (asks, counted) = counter::start()?;
    if let Some(files) = options.files.as_ref().filter(|_| options.earlier.is_empty()) {
        options.earlier = past::read(&files.history);
    }
    let clerk = Clerk::start(options.files.clone())?;
    let (hands, told) = match options.setup.clone() {
        Some(setup) => {
            let (hands, told) = Hands::new(setup.fetch, setup.subject, setup.paths);
            (Some(hands), told)
        }
        None => (None, never()),
    };
    let app = App::new(options);
    let events = link.events.clone();
    let mut chat = Chat {
        app,
        screen,
        outside: Outside { link, keeper, models },
        events,
        asks,
        counted,
        clerk,
        pause,
        editing: None,
        layers_at: None,
        left: None,
        stopped: false,
        hands,
    };
    let exit = chat.run(&keys, &signals.arrived, &told);
    for effect in chat.app.farewell() {
        // The engine may be gone or busy: leaving does not wait for it.
        let _ = chat.carry_out(effect);
    }
    exit
}

struct Chat {
    app: App,
    screen: Screen,
    outside: Outside,
    /// The engine's events; never ready once its end is closed.
    events: Receiver<Event>,
    /// To the thread that counts tokens.
    asks: Sender<Ask>,
    /// From it; never ready once it has died.
    counted: Receiver<Counted>,
    clerk: Clerk,
    pause: Pause,
    /// The user's editor, which has the terminal while it runs.
    editing: Option<Editing>,
    /// When the costs of layers were sampled last.
    layers_at: Option<Instant>,
    left: Option<Exit>,
    /// Whether a continue signal is due that was already acted upon.
    stopped: bool,
    /// They bring a download to its end when they go, which takes a moment: after the screen.
    hands: Option<Hands>,
}

impl Chat {
    fn run(
        &mut self,
        keys: &Receiver<Input>,
        signals: &Receiver<Signal>,
        told: &Receiver<News>,
    ) -> Result<Exit, Error> {
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
            if let Some(written) = self.editing.as_mut().and_then(Editing::done) {
                self.editing = None;
                self.pause.end();
                self.screen.resume()?;
                self.update(Msg::Edited(written))?;
            }
            if dirty && since >= FRAME && self.editing.is_none() {
                self.screen.draw(&mut self.app)?;
                drawn = Some(Instant::now());
                dirty = false;
            }
            let since = drawn.map_or(FRAME, |at| at.elapsed());
            let next = if self.editing.is_some() {
                after(LOOK)
            } else if dirty {
                after(FRAME.saturating_sub(since))
            } else if self.app.moves() {
                after(TICK.saturating_sub(since))
            } else {
                never()
            };
            let (events, counted) = (self.events.clone(), self.counted.clone());
            let answers = self.clerk.answers.clone();
            let library = self.outside.keeper.as_ref().and_then(|keeper| keeper.others.as_ref());
            let replies = library.map_or_else(never, |library| library.replies.clone());
            select! {
                recv(keys) -> input => {
                    self.tick()?;
                    self.input(input.unwrap_or_else(|_| Input::Died("its thread has ended".to_owned())))?;
                }
                recv(events) -> event => {
                    self.tick()?;
                    self.event(event.ok())?;
                }
                recv(answers) -> answer => {
                    self.tick()?;
                    if let Ok(answer) = answer {
                        self.update(answer)?;
                    }
                }
                recv(signals) -> signal => {
                    if let Ok(signal) = signal {
                        self.signal(signal)?;
                    }
                }
                recv(told) -> news => {
                    self.tick()?;
                    if let Ok(news) = news {
                        self.update(Msg::Setup(news))?;
                    }
                }
                recv(counted) -> counted => {
                    match counted {
                        Ok(counted) => self.update(Msg::Counted(counted))?,
                        Err(_died) => self.counted = never(),
                    }
                }
                recv(replies) -> reply => {
                    self.tick()?;
                    self.reply(reply.ok())?;
                }
                recv(next) -> _ => self.tick()?,
            }
            // What has come meanwhile goes into the same frame; no more than the channel holds, so that a fast engine
            // cannot keep the screen from being drawn.
            for _ in 0..EVENTS {
                let Ok(event) = self.events.try_recv() else { break };
                self.event(Some(event))?;
            }
            while let Ok(news) = told.try_recv() {
                self.update(Msg::Setup(news))?;
            }
            while let Ok(input) = keys.try_recv() {
                self.input(input)?;
            }
            dirty = true;
        }
    }

    /// Tells the state what time it is, and the numbers.
    fn tick(&mut self) -> Result<(), Error> {
        for news in self.outside.look(&mut self.app) {
            self.update(news)?;
        }
        if self.app.shows_layers() && self.layers_at.is_none_or(|at| at.elapsed() >= LAYERS) {
            self.layers_at = Some(Instant::now());
            self.update(Msg::Layers(self.outside.link.telemetry.layer_costs()))?;
        }
        Ok(())
    }

    fn input(&mut self, input: Input) -> Result<(), Error> {
        match input {
            Input::Key(key) => self.update(Msg::Key(key)),
            Input::Paste(text) => self.update(Msg::Paste(text)),
            Input::Wheel(notches) => self.update(Msg::Wheel(notches)),
            Input::Click => self.update(Msg::Click),
            Input::Focus(focused) => self.update(Msg::Focus(focused)),
            Input::Resize => Ok(()),
            Input::Background(rgb) => self.update(Msg::Background(rgb)),
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

    fn reply(&mut self, reply: Option<Reply>) -> Result<(), Error> {
        let Some(reply) = reply else {
            // Its end of the channel would be ready for ever.
            if let Some(keeper) = &mut self.outside.keeper {
                keeper.others = None;
            }
            let why = "The sessions cannot be read any more: their thread has ended.".to_owned();
            return self.update(Msg::Sessions(Told::Refused(why)));
        };
        let told = match reply {
            Reply::Listed(rows) => Told::Listed(rows),
            Reply::Refused(why) => Told::Refused(why),
            Reply::Opened(opening, journal) => {
                // The user may have turned to something else meanwhile.
                if !self.app.awaits(&opening.id) {
                    return Ok(());
                }
                if let Some(keeper) = &mut self.outside.keeper {
                    keeper.turn_to(opening.id.clone(), journal);
                }
                Told::Opened(opening)
            }
        };
        self.update(Msg::Sessions(told))
    }

    fn signal(&mut self, signal: Signal) -> Result<(), Error> {
        match signal {
            // The keys of the terminal are the editor's while it runs.
            Signal::Leave(SIGINT | SIGQUIT) | Signal::Continue if self.editing.is_some() => {}
            Signal::Stop if self.editing.is_some() => signals::stop_here(),
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
        let effect = match self.outside.carry_out(effect, &mut self.app) {
            Carried::Out => return Ok(()),
            Carried::With(msg) => return self.update(msg),
            Carried::Not(effect) => effect,
        };
        match effect {
            // A thread that has died counts nothing; everything else goes on.
            Effect::Count(ask) => drop(self.asks.send(ask)),
            Effect::Sessions(ask) => {
                if let Some(library) = self.outside.keeper.as_ref().and_then(|keeper| keeper.others.as_ref())
                {
                    library.ask(ask);
                } else {
                    let why = "No sessions are kept here.".to_owned();
                    self.update(Msg::Sessions(Told::Refused(why)))?;
                }
            }
            Effect::Remember(text) => {
                self.clerk.give(Job::Remember(text));
            }
            Effect::Copy(text) => self.copy(text)?,
            Effect::List(word) => {
                self.clerk.give(Job::List(word));
            }
            Effect::Attach(word) => {
                if !self.clerk.give(Job::Attach(word)) {
                    self.app.notify("The disk does not answer: the file was not read.");
                }
            }
            Effect::Edit(draft) => self.edit(&draft)?,
            Effect::Setup(order) => {
                // Orders for others have been taken out before.
                let _ = self.hands.as_mut().and_then(|hands| hands.carry_out(order));
            }
            Effect::Announce(text) => Screen::announce(&text)?,
            Effect::WriteTable { name, text } => {
                let said = match csv::write(name, &text) {
                    Ok(path) => format!("Written to {}", path.display()),
                    Err(error) => format!("The table cannot be written here: {error}"),
                };
                self.app.notify(said);
            }
            Effect::AskBackground => Screen::ask(input::ASK_BACKGROUND)?,
            Effect::Mouse(on) => self.screen.set_mouse(on)?,
            Effect::Suspend => {
                if !signals::stop_job() {
                    self.app.notify("There is no shell to go back to.");
                }
            }
            Effect::Repaint => self.screen.repaint()?,
            Effect::Leave => self.left = Some(Exit::Quit),
            // These need no screen, and were carried out before.
            Effect::Send(_)
            | Effect::Cancel(_)
            | Effect::Pause(..)
            | Effect::Record(_)
            | Effect::CloseSession
            | Effect::Model(..)
            | Effect::FindModel(_)
            | Effect::Write { .. }
            | Effect::Switched(_)
            | Effect::Configure(..) => {}
        }
        Ok(())
    }

    fn copy(&mut self, text: String) -> Result<(), Error> {
        let way = clipboard::way(text.len(), |name| std::env::var(name).ok());
        let count = numbers::counted(text.chars().count() as u64, "character");
        if way != Way::File {
            Screen::copy(&text)?;
        }
        let told = match way {
            Way::Terminal => return self.update(Msg::Told(format!("Copied {count}."))),
            Way::Both => format!("Copied {count}; also to"),
            Way::File => format!("Copied {count} to"),
        };
        if !self.clerk.give(Job::Keep { text, told }) {
            self.app.notify("The disk does not answer: nothing was copied.");
        }
        Ok(())
    }

    fn edit(&mut self, draft: &str) -> Result<(), Error> {
        let Some(file) = self.app.options.files.as_ref().map(|files| files.draft.clone()) else {
            return self.update(Msg::Edited(Err("there is no folder for it".to_owned())));
        };
        if !self.pause.begin() {
            return self.update(Msg::Edited(Err("the keyboard is busy".to_owned())));
        }
        Screen::leave()?;
        match Editing::start(file, draft) {
            Ok(editing) => self.editing = Some(editing),
            Err(reason) => {
                self.pause.end();
                self.screen.resume()?;
                self.update(Msg::Edited(Err(reason)))?;
            }
        }
        Ok(())
    }
}
