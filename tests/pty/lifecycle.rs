//! The terminal is given back whatever way the program is left.

use std::time::Duration;

use portable_pty::CommandBuilder;
use rustix::process::{Pid, Signal, kill_process};

use crate::terminal::{Terminal, scripted};

fn signal(terminal: &Terminal, signal: Signal) {
    let process = Pid::from_raw(i32::try_from(terminal.process()).unwrap()).unwrap();
    kill_process(process, signal).unwrap();
}

/// T01.
#[test]
fn t01_signals_restore_the_terminal() {
    for (sent, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let mut chat = Terminal::start(scripted("chat"), 80, 24);
        chat.wait_for("● ready");
        chat.send("be slow");
        chat.wait_for("reading the prompt");
        signal(&chat, sent);
        assert_eq!(chat.wait(), code);
        chat.assert_restored();
    }
}

/// T30.
#[test]
fn t30_loading_can_be_left() {
    let mut chat = Terminal::start(scripted("slow"), 80, 24);
    chat.wait_for("loading");
    chat.keys("\x03");
    assert_eq!(chat.wait(), 0);
    chat.assert_restored();
}

/// T27.
#[test]
fn t27_a_stop_gives_the_terminal_to_the_shell_and_a_continue_takes_it_back() {
    let mut shell = CommandBuilder::new("bash");
    shell.args(["--norc", "--noprofile", "-i"]);
    shell.env("PS1", "shell> ");
    let child = scripted("chat");
    let argv: Vec<String> =
        child.get_argv().iter().map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    shell.env("DORMOUSE_SCENE", "chat");
    let mut terminal = Terminal::start(shell, 80, 24);
    // Only at its prompt does the shell have the keyboard.
    let at_prompt = |screen: &str| screen.trim_end().ends_with("shell>");
    terminal.wait_until("the prompt", at_prompt);
    terminal.keys(&format!("{}\r", argv.join(" ")));
    terminal.wait_for("● ready");
    terminal.keys("a draft");
    terminal.wait_for("❯ a draft");
    for _ in 0..2 {
        terminal.keys("\x1a");
        terminal.wait_until("the prompt", at_prompt);
        assert!(terminal.text().contains("Stopped"), "{}", terminal.text());
        terminal.assert_restored_to_shell();
        terminal.keys("echo it is $((40+2))\r");
        terminal.wait_until("the prompt", |screen| screen.contains("it is 42") && at_prompt(screen));
        terminal.keys("fg\r");
        terminal.wait_for("❯ a draft");
        assert!(terminal.screen().alternate_screen() && terminal.screen().bracketed_paste());
        terminal.settle(Duration::from_millis(300));
        assert!(terminal.text().contains("● ready"), "{}", terminal.text());
    }
    terminal.keys("\x15");
    terminal.wait_without("a draft");
    terminal.keys("\x03");
    terminal.wait_until("the prompt", |screen| screen.contains("left: Quit") && at_prompt(screen));
    terminal.assert_restored_to_shell();
    terminal.keys("exit\r");
    terminal.wait();
}

#[test]
fn without_a_shell_there_is_no_stop() {
    let mut chat = Terminal::start(scripted("chat"), 80, 24);
    chat.wait_for("● ready");
    chat.keys("\x1a");
    chat.wait_for("no shell to go back to");
    chat.keys("\x03");
    assert_eq!(chat.wait(), 0);
}

#[test]
fn a_stop_from_outside_is_repaired_as_well() {
    let mut chat = Terminal::start(scripted("chat"), 80, 24);
    chat.wait_for("● ready");
    signal(&chat, Signal::TSTP);
    chat.wait_until("the shell's screen", |screen| !screen.contains("● ready"));
    chat.assert_restored();
    // It gives the terminal back first and stops then: a continue in between would be lost.
    let state = format!("/proc/{}/stat", chat.process());
    while !std::fs::read_to_string(&state).unwrap().contains(") T ") {
        chat.settle(Duration::from_millis(5));
    }
    signal(&chat, Signal::CONT);
    chat.wait_for("● ready");
    chat.keys("\x03");
    assert_eq!(chat.wait(), 0);
    chat.assert_restored();
}

#[test]
fn a_key_that_comes_with_a_new_size_is_not_lost() {
    let mut chat = Terminal::start(scripted("chat"), 80, 24);
    chat.wait_for("● ready");
    for number in 1..=60 {
        chat.resize(80 - number % 2, 24);
        chat.keys("x");
        chat.wait_for(&format!("❯ {}", "x".repeat(usize::from(number))));
    }
    chat.keys("\x15");
    chat.wait_without("❯ x");
    chat.keys("\x03");
    assert_eq!(chat.wait(), 0);
}

/// T21.
#[test]
fn t21_the_mouse_can_be_given_back() {
    let mut chat = Terminal::start(scripted("chat"), 80, 24);
    chat.wait_for("● ready");
    assert_ne!(chat.screen().mouse_protocol_mode(), vt100::MouseProtocolMode::None);
    chat.keys("\x1bOR");
    chat.wait_for("drag selects text");
    assert_eq!(chat.screen().mouse_protocol_mode(), vt100::MouseProtocolMode::None);
    chat.send("/mouse");
    chat.wait_for("The wheel scrolls");
    assert_ne!(chat.screen().mouse_protocol_mode(), vt100::MouseProtocolMode::None);
    chat.keys("\x03");
    assert_eq!(chat.wait(), 0);
    chat.assert_restored();
}

/// T25.
#[test]
fn t25_no_colours_are_shown_where_none_are_wanted() {
    let mut command = scripted("chat");
    command.env("NO_COLOR", "wanted");
    let mut chat = Terminal::start(command, 80, 40);
    chat.wait_for("● ready");
    chat.send("hello");
    chat.wait_for("✓ done");
    for row in 0..40 {
        for column in 0..80 {
            let cell = chat.screen().cell(row, column).unwrap();
            assert_eq!((cell.fgcolor(), cell.bgcolor()), (vt100::Color::Default, vt100::Color::Default));
        }
    }
    chat.keys("\x03");
    assert_eq!(chat.wait(), 0);
}
