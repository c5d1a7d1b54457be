//! The thread that reads keys.
//!
//! It is left behind when the screen is left; the end of the program ends it. While another program has the terminal
//! it reads nothing, so that it takes no key from it.

mod background;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseEventKind};

use self::background::Verdict;
use super::Error;

pub(super) use self::background::QUESTION as ASK_BACKGROUND;

const NAME: &str = "input";
/// How often it looks whether it is to pause.
const LOOK: Duration = Duration::from_millis(100);
/// Keys that come faster than this were not typed one by one.
const BURST: Duration = Duration::from_millis(8);
/// The pieces of a terminal's answer come closer together than this.
const ANSWER: Duration = Duration::from_millis(40);

/// What came from the terminal.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Input {
    /// A key was pressed.
    Key(KeyEvent),
    /// Text came in one piece.
    Paste(String),
    /// The wheel was turned by a notch; negative is up.
    Wheel(isize),
    /// A button of the mouse was pressed.
    Click,
    /// The terminal has got the keyboard, or lost it.
    Focus(bool),
    /// The screen has another size.
    Resize,
    /// The colour behind the text: red, green and blue from 0 to 1.
    Background([f32; 3]),
    /// Nothing more will come.
    Died(String),
}

/// Stops the reading of keys, and lets it go on.
#[derive(Clone, Debug, Default)]
pub(super) struct Pause(Arc<AtomicU8>);

const READS: u8 = 0;
const SHALL_PAUSE: u8 = 1;
const PAUSES: u8 = 2;

impl Pause {
    /// Returns when no key is read any more; false where the thread does not answer, which it does when it is told to
    /// go on.
    pub(super) fn begin(&self) -> bool {
        self.0.store(SHALL_PAUSE, Ordering::SeqCst);
        for _ in 0..100 {
            if self.0.load(Ordering::SeqCst) == PAUSES {
                return true;
            }
            thread::sleep(LOOK / 10);
        }
        self.end();
        false
    }

    /// Keys are read again.
    pub(super) fn end(&self) {
        self.0.store(READS, Ordering::SeqCst);
    }

    /// Returns when keys may be read and one can be.
    fn wait(&self, source: &mut impl Source) -> io::Result<()> {
        loop {
            if self.0.load(Ordering::SeqCst) == READS {
                if source.poll(LOOK)? {
                    return Ok(());
                }
            } else {
                let _ = self.0.compare_exchange(SHALL_PAUSE, PAUSES, Ordering::SeqCst, Ordering::SeqCst);
                thread::sleep(LOOK);
            }
        }
    }
}

/// Starts the thread.
pub(super) fn listen() -> Result<(Receiver<Input>, Pause), Error> {
    let (send, arrived) = bounded(1024);
    let pause = Pause::default();
    let paused = pause.clone();
    thread::Builder::new()
        .name(NAME.to_owned())
        .spawn(move || {
            let mut reader = Reader::new(Tty);
            loop {
                // What was read already is not waited for.
                if reader.ahead.is_empty()
                    && let Err(error) = paused.wait(&mut reader.source)
                {
                    let _ = send.send(Input::Died(error.to_string()));
                    return;
                }
                let input = reader.next();
                let died = matches!(input, Input::Died(_));
                if send.send(input).is_err() || died {
                    return;
                }
            }
        })
        .map_err(|source| Error::Thread { name: NAME, source })?;
    Ok((arrived, pause))
}

/// Where events come from.
trait Source {
    /// The next one, however long it takes.
    fn read(&mut self) -> io::Result<Event>;
    /// Whether one comes within a time.
    fn poll(&mut self, within: Duration) -> io::Result<bool>;
    /// The time.
    fn now(&self) -> Instant;
}

struct Tty;

impl Source for Tty {
    fn read(&mut self) -> io::Result<Event> {
        event::read()
    }

    fn poll(&mut self, within: Duration) -> io::Result<bool> {
        event::poll(within)
    }

    fn now(&self) -> Instant {
        Instant::now()
    }
}

/// Turns events into input, and tells pasted lines from sent ones on terminals that do not mark a paste: an Enter
/// with more behind it in the same moment ends a line, and so does the last Enter of such a burst. An Enter alone at
/// the end of one line sends it, since that is also what a program that types for the user does. A Tab with more
/// behind it in the same moment is text as well: where lines are pasted, nobody asks for a completion.
struct Reader<S> {
    source: S,
    /// What was read ahead, and whether a key of it may still begin an answer of the terminal.
    ahead: VecDeque<(Event, bool)>,
    last_key: Option<Instant>,
    /// Whether this burst has had an Enter in its middle.
    lines: bool,
}

impl<S: Source> Reader<S> {
    const fn new(source: S) -> Self {
        Self { source, ahead: VecDeque::new(), last_key: None, lines: false }
    }

    fn next(&mut self) -> Input {
        loop {
            let (event, fresh) = match self.ahead.pop_front() {
                Some((event, fresh)) => (Ok(event), fresh),
                None => (self.source.read(), true),
            };
            let input = match event {
                Err(error) => Input::Died(error.to_string()),
                Ok(Event::Key(key))
                    if fresh && key.kind == KeyEventKind::Press && background::begins(&key) =>
                {
                    match self.answer(key) {
                        Some(input) => input,
                        None => continue,
                    }
                }
                Ok(Event::Key(key)) if key.kind == KeyEventKind::Press => self.key(key),
                Ok(Event::Paste(text)) => Input::Paste(text),
                Ok(Event::FocusGained) => Input::Focus(true),
                Ok(Event::FocusLost) => Input::Focus(false),
                Ok(Event::Resize(..)) => Input::Resize,
                Ok(Event::Mouse(mouse)) => match mouse.kind {
                    MouseEventKind::ScrollUp => Input::Wheel(-1),
                    MouseEventKind::ScrollDown => Input::Wheel(1),
                    MouseEventKind::Down(_) => Input::Click,
                    _ => continue,
                },
                Ok(_) => continue,
            };
            return input;
        }
    }

    /// What `key` and those after it are, if an answer of the terminal; else they are released, each as it was.
    fn answer(&mut self, key: KeyEvent) -> Option<Input> {
        let mut keys = vec![key];
        let mut other = None;
        loop {
            match background::judge(&keys) {
                Verdict::Answer(rgb) => return Some(Input::Background(rgb)),
                Verdict::Maybe if self.source.poll(ANSWER).unwrap_or(false) => {}
                Verdict::Maybe | Verdict::No => break,
            }
            match self.source.read() {
                Ok(Event::Key(key)) if key.kind == KeyEventKind::Press => keys.push(key),
                Ok(event) => {
                    other = Some(event);
                    break;
                }
                Err(error) => return Some(Input::Died(error.to_string())),
            }
        }
        self.ahead.extend(keys.into_iter().map(Event::Key).chain(other).map(|event| (event, false)));
        None
    }

    /// Whether more text comes in the same moment. A new size or a change of focus is none.
    fn is_followed(&mut self) -> bool {
        let is_text = |event: &Event| match event {
            Event::Key(key) => key.kind == KeyEventKind::Press,
            Event::Paste(_) => true,
            _ => false,
        };
        if self.ahead.iter().any(|(event, _)| is_text(event)) {
            return true;
        }
        let until = self.source.now() + BURST;
        while self.source.poll(until.saturating_duration_since(self.source.now())).unwrap_or(false) {
            // A failure comes again with the next read.
            let Ok(event) = self.source.read() else { return false };
            let found = is_text(&event);
            self.ahead.push_back((event, true));
            if found {
                return true;
            }
        }
        false
    }

    fn key(&mut self, key: KeyEvent) -> Input {
        let now = self.source.now();
        let in_burst = self.last_key.replace(now).is_some_and(|last| now.duration_since(last) < BURST);
        self.lines &= in_burst;
        let text = match key.code {
            KeyCode::Enter => "\n",
            KeyCode::Tab => "\t",
            _ => return Input::Key(key),
        };
        if key.modifiers != KeyModifiers::NONE {
            return Input::Key(key);
        }
        let followed = self.is_followed();
        self.last_key = Some(self.source.now());
        if !followed && !self.lines {
            return Input::Key(key);
        }
        self.lines |= key.code == KeyCode::Enter;
        Input::Paste(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossterm::event::{MouseButton, MouseEvent};
    use std::collections::VecDeque;

    /// Events at times in milliseconds.
    struct Script {
        start: Instant,
        at: u64,
        events: VecDeque<(u64, Event)>,
    }

    impl Source for Script {
        fn read(&mut self) -> io::Result<Event> {
            let (at, event) = self.events.pop_front().ok_or_else(|| io::Error::other("end"))?;
            self.at = self.at.max(at);
            Ok(event)
        }

        fn poll(&mut self, within: Duration) -> io::Result<bool> {
            let until = self.at + u64::try_from(within.as_millis()).unwrap();
            let comes = self.events.front().is_some_and(|(at, _)| *at <= until);
            if !comes {
                self.at = until;
            }
            Ok(comes)
        }

        fn now(&self) -> Instant {
            self.start + Duration::from_millis(self.at)
        }
    }

    /// Each character after so many milliseconds; what came of it, `⏎` for a sent line and `⇥` for a completion.
    fn typed(keys: &[(u64, char)]) -> String {
        let mut at = 0;
        let events = keys
            .iter()
            .map(|(after, c)| {
                at += after;
                let code = match c {
                    '\n' => KeyCode::Enter,
                    '\t' => KeyCode::Tab,
                    c => KeyCode::Char(*c),
                };
                (at, Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
            })
            .collect();
        let mut reader = Reader::new(Script { start: Instant::now(), at: 0, events });
        let mut out = String::new();
        loop {
            match reader.next() {
                Input::Key(KeyEvent { code: KeyCode::Char(c), .. }) => out.push(c),
                Input::Key(KeyEvent { code: KeyCode::Tab, .. }) => out.push('⇥'),
                Input::Key(_) => out.push('⏎'),
                Input::Paste(text) => out.push_str(&text),
                _ => return out,
            }
        }
    }

    #[test]
    fn typed_lines_are_sent_and_pasted_ones_are_not() {
        assert_eq!(typed(&[(100, 'a'), (100, 'b'), (100, '\n'), (100, 'c'), (90, '\n')]), "ab⏎c⏎");
        assert_eq!(typed(&[(100, 'a'), (0, '\n'), (1, 'b'), (0, '\n'), (0, 'c'), (0, '\n')]), "a\nb\nc\n");
        assert_eq!(typed(&[(100, 'a'), (0, '\n'), (0, '\n'), (0, 'b'), (500, '\n')]), "a\n\nb⏎");
        assert_eq!(typed(&[(100, '\n'), (0, 'a')]), "\na");
        assert_eq!(typed(&[(100, 'h'), (0, 'i'), (0, '\n'), (500, 'x')]), "hi⏎x");
    }

    /// Who sends a message and turns away, or has the window arranged anew, has sent it.
    #[test]
    fn what_is_no_text_makes_no_burst() {
        let enter = || Event::Key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
        let letter = || Event::Key(KeyEvent::new(KeyCode::Char('a'), KeyModifiers::NONE));
        let read = |events: Vec<Event>| {
            let events = events.into_iter().map(|event| (100, event)).collect();
            let mut reader = Reader::new(Script { start: Instant::now(), at: 0, events });
            std::iter::from_fn(|| Some(reader.next()).filter(|input| !matches!(input, Input::Died(_))))
                .collect::<Vec<_>>()
        };
        let sent = Input::Key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
        let alone = read(vec![enter(), Event::FocusLost, Event::Resize(9, 9)]);
        assert_eq!(alone, [sent, Input::Focus(false), Input::Resize]);
        let pasted = read(vec![enter(), Event::Resize(9, 9), letter()]);
        assert_eq!(pasted[..2], [Input::Paste("\n".to_owned()), Input::Resize]);
        // An answer of the terminal behind it is still one.
        let alt = Event::Key(KeyEvent::new(KeyCode::Char(']'), KeyModifiers::ALT));
        let text = "11;rgb:ffff/ffff/0000"
            .chars()
            .map(|c| Event::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE)));
        let bell = Event::Key(KeyEvent::new(KeyCode::Char('g'), KeyModifiers::CONTROL));
        let answered = read(std::iter::once(enter()).chain([alt]).chain(text).chain([bell]).collect());
        assert_eq!(answered.last(), Some(&Input::Background([1.0, 1.0, 0.0])));
    }

    #[test]
    fn pasted_tabs_are_text_and_typed_ones_complete() {
        assert_eq!(typed(&[(100, 'a'), (0, '\n'), (0, '\t'), (0, 'b'), (0, '\t')]), "a\n\tb\t");
        assert_eq!(typed(&[(100, 'a'), (0, '\t'), (0, 'b'), (0, '\n')]), "a\tb⏎");
        assert_eq!(typed(&[(100, '/'), (100, 't'), (100, '\t'), (100, 'x')]), "/t⇥x");
        assert_eq!(typed(&[(100, '/'), (0, 't'), (0, '\t')]), "/t⇥");
    }

    /// What comes of keys that come at once.
    fn read(keys: &[(char, KeyModifiers)], pause_after: Option<usize>) -> Vec<Input> {
        let mut at = 0;
        let events = keys
            .iter()
            .enumerate()
            .map(|(number, (letter, modifiers))| {
                at += if pause_after == Some(number) { 500 } else { 0 };
                (at, Event::Key(KeyEvent::new(KeyCode::Char(*letter), *modifiers)))
            })
            .collect();
        let mut reader = Reader::new(Script { start: Instant::now(), at: 0, events });
        let mut found = Vec::new();
        loop {
            match reader.next() {
                Input::Died(_) => return found,
                input => found.push(input),
            }
        }
    }

    #[test]
    fn the_terminals_answer_is_no_key_and_keys_are_no_answer() {
        let plain = |text: &str| text.chars().map(|c| (c, KeyModifiers::NONE)).collect::<Vec<_>>();
        let (alt, ctrl) = (KeyModifiers::ALT, KeyModifiers::CONTROL);
        let answer = |end| [vec![(']', alt)], plain("11;rgb:ffff/ffff/0000"), vec![end]].concat();
        for end in [('g', ctrl), ('\\', alt)] {
            let keys = [plain("a"), answer(end), plain("b")].concat();
            let found = read(&keys, None);
            assert_eq!(found.len(), 3, "{found:?}");
            assert_eq!(found[1], Input::Background([1.0, 1.0, 0.0]));
        }
        // Every key that is none of it comes through, in its order.
        for keys in [
            [vec![(']', alt)], plain("hello")].concat(),
            [vec![(']', alt)], plain("11;rgb:zz"), vec![('g', ctrl)], plain("x")].concat(),
            vec![(']', alt)],
            [vec![(']', alt), (']', alt)], plain("11;x")].concat(),
        ] {
            for pause in [None, Some(1), Some(3)] {
                let expected: Vec<Input> =
                    keys.iter().map(|(c, m)| Input::Key(KeyEvent::new(KeyCode::Char(*c), *m))).collect();
                assert_eq!(read(&keys, pause), expected);
            }
        }
    }

    /// T26.
    #[test]
    fn t26_releases_and_movements_are_nothing() {
        let mut release = KeyEvent::new(KeyCode::Char('x'), KeyModifiers::NONE);
        release.kind = KeyEventKind::Release;
        let mouse =
            |kind| Event::Mouse(MouseEvent { kind, column: 0, row: 0, modifiers: KeyModifiers::NONE });
        let events = [
            Event::Key(release),
            mouse(MouseEventKind::Moved),
            Event::FocusGained,
            mouse(MouseEventKind::ScrollUp),
            mouse(MouseEventKind::Down(MouseButton::Left)),
            Event::Resize(1, 1),
        ];
        let events = events.into_iter().map(|event| (0, event)).collect();
        let mut reader = Reader::new(Script { start: Instant::now(), at: 0, events });
        assert_eq!(reader.next(), Input::Focus(true));
        assert_eq!(reader.next(), Input::Wheel(-1));
        assert_eq!(reader.next(), Input::Click);
        assert_eq!(reader.next(), Input::Resize);
        assert_eq!(reader.next(), Input::Died("end".to_owned()));
    }
}
