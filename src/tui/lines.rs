//! The chat without a screen: one line is one message, and what comes of it is written as it comes. The same state as on
//! the screen, with the same commands; no escape code is ever written.

use std::io::{self, BufRead, IsTerminal, Write};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded, never, select, tick};

use super::app::{App, Effect, Engine, Msg};
use super::commands;
use super::outside::{Carried, Outside};
use super::signals::{self, Signal};
use super::transcript::summary;
use super::width::Cleaner;
use super::{Error, Exit, Keeper, Models, Options};
use crate::chat::Turn;
use crate::protocol::{EngineLink, Event, ExitCode, TurnId, UserError};

const NAME: &str = "lines";
/// How often notices and troubles are looked for.
const TICK: Duration = Duration::from_millis(200);

/// How the chat without a screen ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The input ended, or the user or a signal did it.
    Left(Exit),
    /// The model could not be loaded, or a turn failed: the first failure.
    Failed(UserError),
}

/// Chats in lines from standard input until it ends. Answers go to `out`, with the thinking marked before them, and all
/// else to `aside`. Ctrl-C stops a turn; where nobody types, it ends the program as well.
pub fn run_lines(
    options: Options,
    link: EngineLink,
    keeper: Option<Keeper>,
    models: Option<Box<dyn Models>>,
    out: &mut dyn Write,
    aside: &mut dyn Write,
) -> Result<Ended, Error> {
    let signals = signals::listen()?;
    let typed = io::stdin().is_terminal();
    let lines = listen()?;
    let events = link.events.clone();
    let app = App::new(options);
    let mut chat = Lines {
        app,
        outside: Outside { link, keeper, models },
        events,
        typed,
        left: None,
        failed: None,
        full: false,
        page: Page::default(),
    };
    let ended = chat.run(&lines, &signals.arrived, &mut Pens { out, aside });
    for effect in chat.app.farewell() {
        // The engine may be gone or busy: leaving does not wait for it.
        chat.carry_out(effect);
    }
    match ended {
        // Whoever read the answers has left, which is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Ended::Left(Exit::Quit)),
        Err(source) => Err(Error::Terminal { doing: "writing", source }),
        Ok(exit) => Ok(match chat.failed {
            Some(error) if exit == Exit::Quit => Ended::Failed(error),
            _ => Ended::Left(exit),
        }),
    }
}

/// Starts the thread that reads lines; its end of the channel closes with the input.
fn listen() -> Result<Receiver<String>, Error> {
    let (send, arrived) = bounded(1);
    thread::Builder::new()
        .name(NAME.to_owned())
        .spawn(move || {
            let mut stdin = io::stdin().lock();
            let mut bytes = Vec::new();
            while stdin.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
                let line = String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned();
                bytes.clear();
                if send.send(line).is_err() {
                    return;
                }
            }
        })
        .map_err(|source| Error::Thread { name: NAME, source })?;
    Ok(arrived)
}

/// Where what is said goes.
struct Pens<'a> {
    out: &'a mut dyn Write,
    aside: &'a mut dyn Write,
}

impl Pens<'_> {
    /// Tells something that is no part of the conversation.
    fn tell(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.aside, "{}", super::width::clean(text))?;
        self.aside.flush()
    }
}

struct Lines {
    app: App,
    outside: Outside,
    events: Receiver<Event>,
    /// Whether a person types.
    typed: bool,
    left: Option<Exit>,
    failed: Option<UserError>,
    /// Whether it was told that the disk is full.
    full: bool,
    page: Page,
}

impl Lines {
    fn run(
        &mut self,
        lines: &Receiver<String>,
        signals: &Receiver<Signal>,
        pens: &mut Pens<'_>,
    ) -> io::Result<Exit> {
        for effect in self.app.start() {
            self.carry_out(effect);
        }
        let ticks = tick(TICK);
        let mut asked = false;
        loop {
            self.show(pens)?;
            if let Some(exit) = self.left {
                return Ok(exit);
            }
            let free = self.app.running.is_none() && matches!(self.app.engine, Engine::Ready(_));
            if free && self.typed && !asked {
                write!(pens.out, "> ")?;
                pens.out.flush()?;
            }
            asked = free;
            // A line is only taken when it can be answered: what a script pipes in waits in the pipe.
            let next = if free { lines.clone() } else { never() };
            let events = self.events.clone();
            select! {
                recv(next) -> line => match line {
                    Ok(line) => {
                        asked = false;
                        self.line(&line, pens)?;
                    }
                    Err(_end) => {
                        if self.typed {
                            writeln!(pens.out)?;
                        }
                        self.left = Some(Exit::Quit);
                    }
                },
                recv(events) -> event => match event {
                    Ok(event) => self.update(Msg::Engine(event)),
                    Err(_gone) => {
                        self.events = never();
                        self.update(Msg::EngineGone);
                    }
                },
                recv(signals) -> signal => if let Ok(signal) = signal {
                    self.signal(signal);
                },
                recv(ticks) -> _ => self.look(),
            }
        }
    }

    fn line(&mut self, line: &str, pens: &mut Pens<'_>) -> io::Result<()> {
        self.look();
        if line.trim().is_empty() {
            return Ok(());
        }
        let effects = if commands::is_command(line) {
            let needs_screen = commands::parse(line).is_ok_and(|(entry, _)| entry.screen_only);
            let answer = if needs_screen {
                Err("That command needs the screen.".to_owned())
            } else {
                self.app.command(line)
            };
            match answer {
                Ok(effects) => effects,
                Err(problem) => return pens.tell(&problem),
            }
        } else {
            self.app.composer.set(line);
            self.app.send()
        };
        for effect in effects {
            self.carry_out(effect);
        }
        if self.app.help.take().is_some() {
            for entry in commands::TABLE.iter().filter(|entry| !entry.screen_only) {
                let usage = entry.usage();
                let usage = if usage.is_empty() { usage } else { format!(": {usage}") };
                pens.tell(&format!("{:13} {}{usage}", entry.name, entry.help))?;
            }
        }
        Ok(())
    }

    fn signal(&mut self, signal: Signal) {
        match signal {
            Signal::Leave(number) if number == signal_hook::consts::SIGINT && self.app.running.is_some() => {
                for effect in self.app.stop() {
                    self.carry_out(effect);
                }
                if !self.typed {
                    self.left = Some(Exit::Signal(number));
                }
            }
            Signal::Leave(number) => self.left = Some(Exit::Signal(number)),
            // Nothing of the terminal was changed.
            Signal::Stop => drop(signal_hook::low_level::raise(signal_hook::consts::SIGSTOP)),
            Signal::Continue => {}
        }
    }

    /// Writes what is new.
    fn show(&mut self, pens: &mut Pens<'_>) -> io::Result<()> {
        let mut failed = None;
        // Turns of before are not told again.
        if let Some(turn) = self.app.transcript.turns().last()
            && (self.app.running.is_some() || self.page.open)
        {
            self.page.show(turn, pens)?;
            failed = turn.outcome.as_ref().and_then(|outcome| outcome.error.clone());
        }
        if failed.is_some() {
            self.fail(failed.as_ref());
        }
        let full = self.app.disk_full.is_some();
        if let Some(told) = self.app.disk_told().filter(|_| !self.full) {
            pens.tell(&told)?;
        } else if self.full && !full {
            pens.tell("There is room on the disk again.")?;
        }
        self.full = full;
        if let Some(notice) = self.app.notice.take() {
            pens.tell(&notice.text)?;
        }
        if let Some(error) = self.app.alert.take() {
            pens.tell(&error.to_string())?;
        }
        match &self.app.engine {
            Engine::Failed(error) => {
                let error = error.clone();
                self.fail(Some(&error));
                self.left = Some(Exit::Quit);
            }
            Engine::Gone => {
                self.fail(None);
                self.left = Some(Exit::Quit);
            }
            Engine::Loading | Engine::Ready(_) => {}
        }
        Ok(())
    }

    /// Keeps the first failure for the end. Where a person reads along, a turn that failed is one among others.
    fn fail(&mut self, error: Option<&UserError>) {
        let engine = !matches!(self.app.engine, Engine::Ready(_) | Engine::Loading);
        if engine || !self.typed {
            let unknown = || UserError::new(ExitCode::Invalid, "The engine has left", "its thread has ended");
            let error = error.cloned().unwrap_or_else(unknown);
            self.failed.get_or_insert(error);
        }
    }

    fn update(&mut self, msg: Msg) {
        for effect in self.app.update(msg) {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match self.outside.carry_out(effect, &mut self.app) {
            Carried::With(msg) => self.update(msg),
            Carried::Not(Effect::Leave) => self.left = Some(Exit::Quit),
            // Of the screen.
            Carried::Out | Carried::Not(_) => {}
        }
    }

    /// Tells the state what time it is, and what has changed on the disk.
    fn look(&mut self) {
        for news in self.outside.look(&mut self.app) {
            self.update(news);
        }
    }
}

/// How far the newest turn is written.
#[derive(Debug, Default)]
struct Page {
    turn: Option<TurnId>,
    thinking: usize,
    answer: usize,
    calls: usize,
    cleaner: Cleaner,
    /// Whether its end is still to come.
    open: bool,
    /// Whether the last line was begun.
    within: bool,
}

impl Page {
    fn show(&mut self, turn: &Turn, pens: &mut Pens<'_>) -> io::Result<()> {
        if self.turn != Some(turn.id) {
            *self = Self { turn: Some(turn.id), ..Self::default() };
        }
        self.open = true;
        let thinking = turn.thinking.get(self.thinking..).unwrap_or_default();
        if !thinking.is_empty() {
            self.thinking = turn.thinking.len();
            self.put(thinking, "| ", pens)?;
        }
        let answer = turn.answer.get(self.answer..).unwrap_or_default();
        if !answer.is_empty() {
            if self.answer == 0 && self.thinking > 0 {
                self.end_line(pens)?;
                writeln!(pens.out)?;
            }
            self.answer = turn.answer.len();
            self.put(answer, "", pens)?;
        }
        for call in turn.tool_calls.iter().skip(self.calls) {
            self.end_line(pens)?;
            pens.tell(&format!("(the model tried to call {})", call.name))?;
        }
        self.calls = turn.tool_calls.len();
        if let Some(outcome) = &turn.outcome {
            self.end_line(pens)?;
            self.open = false;
            if let Some(error) = &outcome.error {
                pens.tell(&format!("error: {error}"))?;
            }
            pens.tell(&format!("({})", summary(outcome).join(" · ")))?;
        }
        pens.out.flush()
    }

    /// Writes text of which each line has a mark before it.
    fn put(&mut self, raw: &str, mark: &str, pens: &mut Pens<'_>) -> io::Result<()> {
        let mut text = String::new();
        self.cleaner.push(raw, &mut text);
        for piece in text.split_inclusive('\n') {
            if !self.within {
                write!(pens.out, "{mark}")?;
            }
            write!(pens.out, "{piece}")?;
            self.within = !piece.ends_with('\n');
        }
        Ok(())
    }

    fn end_line(&mut self, pens: &mut Pens<'_>) -> io::Result<()> {
        if std::mem::take(&mut self.within) { writeln!(pens.out) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::Transcript;
    use crate::protocol::{Finish, Outcome, Part, Took};

    #[test]
    fn pieces_become_marked_lines_without_a_code() {
        let (mut out, mut aside) = (Vec::new(), Vec::new());
        let mut pens = Pens { out: &mut out, aside: &mut aside };
        let mut page = Page::default();
        let mut transcript = Transcript::default();
        let turn = TurnId(1);
        transcript.begin(turn, "Hi".to_owned());
        for part in [
            Part::Thinking("A gree".to_owned()),
            Part::Thinking("ting.\nEasy.".to_owned()),
            Part::Answer("He\u{1b}]52;c;".to_owned()),
            Part::Answer("aGk=\u{7}llo\n\u{9b}31mthere\u{1b}[0m".to_owned()),
        ] {
            transcript.push(turn, part);
            page.show(&transcript.turns()[0], &mut pens).unwrap();
        }
        transcript.finish(
            turn,
            Outcome {
                ids: vec![1; 9],
                took: Took { total_s: 2.0, ..Took::default() },
                ..Outcome::new(Finish::Cancelled)
            },
        );
        page.show(&transcript.turns()[0], &mut pens).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "| A greeting.\n| Easy.\n\nHello\nthere\n");
        assert_eq!(String::from_utf8(aside).unwrap(), "(stopped by you · 9 out · 2.00 s)\n");
        assert!(!page.open);
    }
}
