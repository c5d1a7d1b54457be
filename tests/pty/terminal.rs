//! A program in a pseudo-terminal, and what a person would see of it.

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, unbounded};
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

/// Far more than anything here takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// The program, the screen, and every byte that led to it.
pub(crate) struct Terminal {
    master: Box<dyn MasterPty + Send>,
    keyboard: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    output: Receiver<Vec<u8>>,
    screen: vt100::Parser,
    raw: Vec<u8>,
    answered: usize,
}

impl Terminal {
    /// Starts a program in a terminal of so many columns and rows.
    pub(crate) fn start(mut command: CommandBuilder, columns: u16, rows: u16) -> Self {
        if command.get_env("TERM").is_none_or(|term| term != "dumb") {
            command.env("TERM", "xterm-256color");
        }
        if command.get_env("NO_COLOR").is_none_or(|wish| wish != "wanted") {
            command.env_remove("NO_COLOR");
        }
        let pty = native_pty_system().openpty(size(columns, rows)).unwrap();
        let child = pty.slave.spawn_command(command).unwrap();
        drop(pty.slave);
        let mut reader = pty.master.try_clone_reader().unwrap();
        let keyboard = pty.master.take_writer().unwrap();
        let (send, output) = unbounded();
        thread::Builder::new()
            .name("terminal".to_owned())
            .spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(count) = reader.read(&mut bytes) {
                    if count == 0 || send.send(bytes[..count].to_vec()).is_err() {
                        return;
                    }
                }
            })
            .unwrap();
        let screen = vt100::Parser::new(nonzero(rows), nonzero(columns), 0);
        Self { master: pty.master, keyboard, child, output, screen, raw: Vec::new(), answered: 0 }
    }

    /// The screen as text.
    pub(crate) fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// Every byte that the program wrote.
    pub(crate) fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// How often the program wrote this.
    pub(crate) fn count(&self, sequence: &str) -> usize {
        self.raw.windows(sequence.len()).filter(|window| *window == sequence.as_bytes()).count()
    }

    /// Where the program wrote this last.
    pub(crate) fn last(&self, sequence: &str) -> Option<usize> {
        self.raw.windows(sequence.len()).rposition(|window| window == sequence.as_bytes())
    }

    pub(crate) fn screen(&self) -> &vt100::Screen {
        self.screen.screen()
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.process_id().unwrap()
    }

    /// Presses keys, all in one burst.
    pub(crate) fn keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// Writes a message, waits until it is there, and sends it.
    pub(crate) fn send(&mut self, text: &str) {
        self.keys(text);
        self.wait_for(&format!("❯ {text}"));
        // A person's finger needs longer; without it this would be a burst.
        thread::sleep(Duration::from_millis(30));
        self.keys("\r");
    }

    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        self.master.resize(size(columns, rows)).unwrap();
        self.screen.screen_mut().set_size(nonzero(rows), nonzero(columns));
    }

    /// Waits until the screen shows a text.
    pub(crate) fn wait_for(&mut self, text: &str) {
        self.wait_until(text, |screen| screen.contains(text));
    }

    /// Waits until the screen shows a text no more.
    pub(crate) fn wait_without(&mut self, text: &str) {
        self.wait_until(&format!("no {text}"), |screen| !screen.contains(text));
    }

    pub(crate) fn wait_until(&mut self, what: &str, holds: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(&self.text()) {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "waited in vain for {what}; the screen shows\n{}", self.text());
            if !self.read(left) {
                assert!(
                    holds(&self.text()),
                    "the program ended before {what}; the screen shows\n{}",
                    self.text()
                );
                return;
            }
        }
    }

    /// Takes in what comes within a time.
    pub(crate) fn settle(&mut self, time: Duration) {
        let deadline = Instant::now() + time;
        while let Some(left) = deadline.checked_duration_since(Instant::now()) {
            if !self.read(left) {
                return;
            }
        }
    }

    /// Waits for the end of the program; its exit code.
    pub(crate) fn wait(&mut self) -> u32 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.settle(Duration::from_millis(20));
            if let Some(status) = self.child.try_wait().unwrap() {
                self.settle(Duration::from_millis(50));
                return status.exit_code();
            }
            assert!(Instant::now() < deadline, "it does not end; the screen shows\n{}", self.text());
        }
    }

    /// Whether the program still runs.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Every mode that was set is unset, and the cursor can be seen.
    pub(crate) fn assert_restored(&self) {
        self.assert_unset("2004");
        assert!(!self.screen().bracketed_paste());
        self.assert_restored_to_shell();
    }

    /// The same, where a shell has set bracketed paste for itself meanwhile.
    pub(crate) fn assert_restored_to_shell(&self) {
        for mode in ["1049", "1000", "1006", "2026"] {
            self.assert_unset(mode);
        }
        assert!(self.last("\x1b[?25l") < self.last("\x1b[?25h"));
        assert_eq!(self.count("\x1b[>1u"), self.count("\x1b[<1u"));
        assert!(!self.screen().alternate_screen());
        assert!(!self.screen().hide_cursor());
    }

    fn assert_unset(&self, mode: &str) {
        let set = self.last(&format!("\x1b[?{mode}h"));
        let unset = self.last(&format!("\x1b[?{mode}l"));
        assert!(set.is_some() && set < unset, "mode {mode}: {set:?}, {unset:?}");
    }

    /// False where nothing more can come.
    fn read(&mut self, within: Duration) -> bool {
        match self.output.recv_timeout(within) {
            Ok(bytes) => {
                self.screen.process(&bytes);
                self.raw.extend_from_slice(&bytes);
                // A terminal tells where its cursor is when it is asked.
                let asked = self.count("\x1b[6n");
                while self.answered < asked {
                    let (row, column) = self.screen.screen().cursor_position();
                    self.keys(&format!("\x1b[{};{}R", row + 1, column + 1));
                    self.answered += 1;
                }
                true
            }
            Err(RecvTimeoutError::Timeout) => true,
            Err(RecvTimeoutError::Disconnected) => false,
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A test that failed leaves nothing running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program itself, with folders of its own.
pub(crate) fn dormouse(home: &Path) -> CommandBuilder {
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_dormouse"));
    for (name, folder) in [
        ("XDG_DATA_HOME", "data"),
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_CACHE_HOME", "cache"),
        ("XDG_STATE_HOME", "state"),
    ] {
        command.env(name, home.join(folder));
    }
    command.env("HOME", home);
    command
}

/// The screen with an engine that follows a script: this very test binary, told to be the program.
pub(crate) fn scripted(scene: &str) -> CommandBuilder {
    let mut command = CommandBuilder::new(std::env::current_exe().unwrap());
    command.args(["scripted_child", "--exact", "--ignored", "--nocapture"]);
    command.env("DORMOUSE_SCENE", scene);
    command
}

const fn size(columns: u16, rows: u16) -> PtySize {
    PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }
}

fn nonzero(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}
