//! The modes of the terminal. Everything that is set here is unset here, in one place, whatever way the program is
//! left: by the end of [`Screen`], a panic of its thread, a signal, or a stop by the shell.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::panic::{self, PanicHookInfo};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use ratatui::Terminal;
use ratatui::layout::Rect;

use super::app::App;
use super::backend::Placed;
use super::{Error, clipboard, view, width};

/// The alternate screen, bracketed paste, word of the keyboard's coming and going, and a keyboard that tells Shift-Enter
/// from Enter. The last is asked for without asking whether it is there: terminals that do not know it ignore it, and
/// nobody waits for an answer. It comes after the alternate screen, since each screen has its own.
const ENTER: &str = "\x1b[?1049h\x1b[?2004h\x1b[?1004h\x1b[>1u\x1b[2J";
/// The title is put aside where the terminal can do that; a terminal that cannot is left with an empty one, which shells
/// and terminals fill again.
const TITLE_ASIDE: &str = "\x1b[22;2t";
const TITLE_BACK: &str = "\x1b]2;\x07\x1b[23;2t";
/// The least time between two titles while only numbers move in them.
const TITLE_EVERY: Duration = Duration::from_secs(1);
/// The mouse's buttons (no movement), with coordinates that any size of terminal can send.
const MOUSE_ON: &str = "\x1b[?1000h\x1b[?1006h";
const MOUSE_OFF: &str = "\x1b[?1006l\x1b[?1000l";
/// All of it back, in reverse; also what a frame may have left open.
const LEAVE: &str = "\x1b[?2026l\x1b[0m\x1b[<1u\x1b[?1004l\x1b[?2004l\x1b[?1049l\x1b[?25h";
/// One frame is shown at once. The cursor is out of the way meanwhile; the frame puts it back.
const FRAME_BEGIN: &[u8] = b"\x1b[?2026h\x1b[?25l";
const FRAME_END: &[u8] = b"\x1b[?2026l";

/// How many last words of other threads are kept.
const LAST_WORDS: usize = 8;

/// Whether the modes are set: restoring twice restores once.
static SET: AtomicBool = AtomicBool::new(false);

type Hook = dyn Fn(&PanicHookInfo<'_>) + Send + Sync;

/// The terminal while it is ours.
pub(super) struct Screen {
    terminal: Terminal<Placed<FrameBuffer>>,
    frame: FrameBuffer,
    mouse: bool,
    /// The title that was set last, and when.
    titled: Option<(String, Instant)>,
    hook: Arc<Hook>,
    last_words: Arc<Mutex<Vec<String>>>,
}

/// Refuses what cannot show a full screen.
pub fn check() -> Result<(), Error> {
    if !io::stdin().is_terminal() {
        return Err(Error::NotATerminal { stream: "standard input" });
    }
    if !io::stdout().is_terminal() {
        return Err(Error::NotATerminal { stream: "standard output" });
    }
    check_type(std::env::var_os("TERM"))
}

/// Where nothing is said of the terminal it is no better than a dumb one: that is how cron jobs and build servers look.
fn check_type(term: Option<OsString>) -> Result<(), Error> {
    match term {
        None => Err(Error::Unnamed),
        Some(term) if term.is_empty() => Err(Error::Unnamed),
        Some(term) if term == "dumb" => Err(Error::Dumb { term: term.to_string_lossy().into_owned() }),
        Some(_) => Ok(()),
    }
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn enter() -> Result<Self, Error> {
        let frame = FrameBuffer::default();
        let terminal = Terminal::new(Placed::new(frame.clone())).map_err(failed("asking for its size"))?;
        let last_words = Arc::new(Mutex::new(Vec::new()));
        let hook = install_hook(&last_words);
        let screen = Self { terminal, frame, mouse: true, titled: None, hook, last_words };
        set(screen.mouse).map_err(failed("setting its modes"))?;
        Ok(screen)
    }

    /// Draws the state.
    pub(super) fn draw(&mut self, app: &mut App) -> Result<(), Error> {
        let drawn = (|| {
            self.terminal.autoresize()?;
            let size = self.terminal.size()?;
            view::prepare(app, Rect::new(0, 0, size.width, size.height));
            self.terminal.draw(|frame| view::draw(app, frame))?;
            self.set_title(app)?;
            self.frame.show()
        })();
        drawn.map_err(failed("drawing"))
    }

    /// Says in the terminal's title what is going on, with the frame. What only counts up is said once a second.
    fn set_title(&mut self, app: &App) -> io::Result<()> {
        let title = app.title();
        let due =
            |(told, at): &(String, Instant)| *told != title && (!app.moves() || at.elapsed() >= TITLE_EVERY);
        if self.titled.as_ref().is_none_or(due) {
            write!(self.frame, "\x1b]2;{title}\x07")?;
            self.titled = Some((title, Instant::now()));
        }
        Ok(())
    }

    /// Says something to somebody who looks elsewhere: a notification, and the bell where there are none.
    pub(super) fn announce(text: &str) -> Result<(), Error> {
        let text = width::clean_line(text);
        say(&format!("\x1b]9;{text}\x1b\\\x07")).map_err(failed("announcing something"))
    }

    /// The next frame draws every cell.
    pub(super) fn repaint(&mut self) -> Result<(), Error> {
        // Not `clear`, which asks the terminal where its cursor is and would wait for the answer.
        let size = self.terminal.size().map_err(failed("asking for its size"))?;
        self.terminal.resize(Rect::new(0, 0, size.width, size.height)).map_err(failed("clearing"))
    }

    /// Takes the mouse, or gives it back.
    pub(super) fn set_mouse(&mut self, mouse: bool) -> Result<(), Error> {
        self.mouse = mouse;
        say(if mouse { MOUSE_ON } else { MOUSE_OFF }).map_err(failed("setting the mouse"))
    }

    /// Asks the terminal something; its answer comes with the keys.
    pub(super) fn ask(question: &str) -> Result<(), Error> {
        say(question).map_err(failed("asking it something"))
    }

    /// Gives the terminal to the shell, stops the process, and takes the terminal again when it continues.
    pub(super) fn suspend(&mut self) -> Result<(), Error> {
        unset().map_err(failed("restoring its modes"))?;
        signal_hook::low_level::raise(signal_hook::consts::SIGSTOP).map_err(failed("stopping"))?;
        self.resume()
    }

    /// Asks the terminal to put a text into its clipboard.
    pub(super) fn copy(text: &str) -> Result<(), Error> {
        say(&clipboard::sequence(text)).map_err(failed("copying"))
    }

    /// Gives the terminal to another program, until [`Screen::resume`].
    pub(super) fn leave() -> Result<(), Error> {
        unset().map_err(failed("restoring its modes"))
    }

    /// Sets all modes anew, after a stop that may have changed any of them.
    pub(super) fn resume(&mut self) -> Result<(), Error> {
        unset().map_err(failed("restoring its modes"))?;
        set(self.mouse).map_err(failed("setting its modes"))?;
        self.titled = None;
        self.repaint()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // There is nobody to tell: the terminal is what failed.
        let _ = unset();
        if !thread::panicking() {
            let _ = panic::take_hook();
            let hook = Arc::clone(&self.hook);
            panic::set_hook(Box::new(move |info| hook(info)));
        }
        let words = std::mem::take(&mut *self.last_words.lock().unwrap_or_else(PoisonError::into_inner));
        let mut stderr = io::stderr().lock();
        for line in words {
            let _ = writeln!(stderr, "{line}");
        }
    }
}

/// A panic of this thread restores the terminal before it is told. One of another thread leaves the screen alone: its
/// owner catches and reports it, and what the hook would have printed is kept until the terminal is restored.
fn install_hook(last_words: &Arc<Mutex<Vec<String>>>) -> Arc<Hook> {
    let previous: Arc<Hook> = Arc::from(panic::take_hook());
    let hook = Arc::clone(&previous);
    let last_words = Arc::clone(last_words);
    let owner = thread::current().id();
    panic::set_hook(Box::new(move |info| {
        if thread::current().id() == owner {
            let _ = unset();
            hook(info);
        } else {
            let name = thread::current().name().unwrap_or("unnamed").to_owned();
            let mut words = last_words.lock().unwrap_or_else(PoisonError::into_inner);
            if words.len() < LAST_WORDS {
                words.push(width::clean(&format!("thread `{name}`: {info}")));
            }
        }
    }));
    previous
}

fn set(mouse: bool) -> io::Result<()> {
    if SET.swap(true, Ordering::SeqCst) {
        return Ok(());
    }
    let done = enable_raw_mode()
        .and_then(|()| say(TITLE_ASIDE))
        .and_then(|()| say(ENTER))
        .and_then(|()| if mouse { say(MOUSE_ON) } else { Ok(()) });
    if done.is_err() {
        // Half of it may be set.
        let _ = unset();
    }
    done
}

/// Every step is tried even where one fails; the first failure is told.
fn unset() -> io::Result<()> {
    if !SET.swap(false, Ordering::SeqCst) {
        return Ok(());
    }
    let said = say(MOUSE_OFF).and(say(LEAVE)).and(say(TITLE_BACK));
    let cooked = disable_raw_mode();
    said.and(cooked)
}

fn say(sequence: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(sequence.as_bytes())?;
    stdout.flush()
}

fn failed(doing: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Terminal { doing, source }
}

/// A frame on its way: gathered here, and written in one piece. What a panic leaves of it is never written.
#[derive(Clone, Default)]
struct FrameBuffer(Rc<RefCell<Vec<u8>>>);

impl FrameBuffer {
    fn show(&self) -> io::Result<()> {
        let bytes = std::mem::take(&mut *self.0.borrow_mut());
        if bytes.is_empty() {
            return Ok(());
        }
        let mut stdout = io::stdout().lock();
        for part in [FRAME_BEGIN, &bytes, FRAME_END] {
            stdout.write_all(part)?;
        }
        stdout.flush()
    }
}

impl Write for FrameBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// The frame is not complete before [`FrameBuffer::show`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The private modes that a sequence sets (`h`) or unsets (`l`).
    fn modes(sequence: &str, end: char) -> Vec<&str> {
        sequence
            .split("\x1b[?")
            .skip(1)
            .filter_map(|rest| rest.split_once(end))
            .map(|(mode, _)| mode)
            .filter(|mode| mode.bytes().all(|b| b.is_ascii_digit()))
            .collect()
    }

    #[test]
    fn what_is_set_is_unset() {
        let unset = [modes(MOUSE_OFF, 'l'), modes(LEAVE, 'l')].concat();
        let set = [modes(ENTER, 'h'), modes(MOUSE_ON, 'h'), modes("\x1b[?2026h", 'h')].concat();
        assert_eq!(set.len(), 6);
        for mode in set {
            assert!(unset.contains(&mode), "{mode}");
        }
        assert_eq!(ENTER.matches("\x1b[>1u").count(), LEAVE.matches("\x1b[<1u").count());
        assert!(LEAVE.ends_with("\x1b[?25h"));
        assert_eq!(TITLE_ASIDE.matches("\x1b[22;2t").count(), TITLE_BACK.matches("\x1b[23;2t").count());
    }

    /// Not a test: the process whose terminal the next one watches.
    #[test]
    #[ignore = "the program under test of the other"]
    fn panicking_child() {
        if std::env::var_os("DORMOUSE_PANIC").is_none() {
            return;
        }
        let _screen = Screen::enter().unwrap();
        let other =
            thread::Builder::new().name("other".to_owned()).spawn(|| panic!("caught elsewhere")).unwrap();
        assert!(other.join().is_err());
        panic!("the screen is lost");
    }

    #[test]
    fn t03_a_panic_restores_the_terminal_once_and_before_it_is_told() {
        let size = portable_pty::PtySize { rows: 24, cols: 200, pixel_width: 0, pixel_height: 0 };
        let pty = portable_pty::native_pty_system().openpty(size).unwrap();
        let mut command = portable_pty::CommandBuilder::new(std::env::current_exe().unwrap());
        command.args(["tui::terminal::tests::panicking_child", "--exact", "--ignored", "--nocapture"]);
        command.env("DORMOUSE_PANIC", "1");
        command.env("TERM", "xterm");
        let mut child = pty.slave.spawn_command(command).unwrap();
        drop(pty.slave);
        let mut bytes = Vec::new();
        // The end of a pseudo-terminal is an error on Linux.
        let _ = io::Read::read_to_end(&mut pty.master.try_clone_reader().unwrap(), &mut bytes);
        child.wait().unwrap();
        let output = String::from_utf8_lossy(&bytes);
        let at = |text: &str| output.find(text).unwrap_or_else(|| panic!("no {text:?} in {output:?}"));
        assert_eq!(output.matches("\x1b[?1049l").count(), 1);
        assert!(at("\x1b[?1049h") < at("\x1b[?1049l"));
        for unset in ["\x1b[?2004l", "\x1b[?1000l", "\x1b[?25h"] {
            assert!(at(unset) < at("the screen is lost"), "{output:?}");
        }
        // The panic that its thread's owner caught did not touch the screen: it is told last, though it came first.
        assert!(at("the screen is lost") < at("caught elsewhere"), "{output:?}");
    }

    #[test]
    fn a_terminal_must_have_a_type_that_can_place_text() {
        assert!(matches!(check_type(None), Err(Error::Unnamed)));
        assert!(matches!(check_type(Some("".into())), Err(Error::Unnamed)));
        assert!(matches!(check_type(Some("dumb".into())), Err(Error::Dumb { .. })));
        assert!(check_type(Some("tmux-256color".into())).is_ok());
    }

    #[test]
    fn nothing_of_a_frame_is_written_before_it_is_whole() {
        let mut frame = FrameBuffer::default();
        frame.write_all(b"half").unwrap();
        frame.flush().unwrap();
        assert_eq!(*frame.0.borrow(), b"half");
    }
}
