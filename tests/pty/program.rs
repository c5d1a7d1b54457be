//! The program as a new user meets it: the small model, computed by the real engine.

use std::time::Duration;

use tempfile::TempDir;

use crate::terminal::{Terminal, dormouse};

/// The program with a new home, in which only the temperature is set, so that answers are the same every time.
fn start(columns: u16, rows: u16) -> (Terminal, TempDir) {
    let home = home();
    let mut terminal = Terminal::start(dormouse(home.path()), columns, rows);
    terminal.wait_for("● ready");
    (terminal, home)
}

fn home() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let config = home.path().join("config/dormouse");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("config.toml"), "temperature = 0\n").unwrap();
    home
}

#[test]
fn a_newcomer_chats() {
    let (mut chat, _home) = start(120, 40);
    assert!(chat.text().contains("not Kimi K3"), "{}", chat.text());
    chat.send("What is Dormouse?");
    chat.wait_for("✓ done");
    let text = chat.text();
    assert!(text.contains("▸ thought for") && text.contains("tok/s"), "{text}");
    // What it says of itself is what it was taught.
    let answer = text.split("▸ thought").nth(1).unwrap();
    assert!(answer.contains("Dormouse"), "{text}");
    for number in ["tokens/s", "time to first token", "Memory", "found, session", "Context"] {
        assert!(text.contains(number), "{number}: {text}");
    }
    chat.send("/think off");
    chat.wait_for("Thinking is off");
    chat.send("What is the capital of Italy?");
    chat.wait_until("a second answer", |screen| screen.matches("✓ done").count() == 2);
    // A model that is none leaves the one that is there.
    chat.send("/model /nowhere");
    chat.wait_for("/nowhere is no folder");
    chat.send("/memory 1MiB");
    chat.wait_for("The memory is too small for this model");
    chat.send("What is the capital of Spain?");
    chat.wait_for("Madrid");
    chat.wait_until("a third answer", |screen| {
        screen.matches("✓ done").count() >= 2 && screen.contains("● ready")
    });
    chat.send("/memory 2GB");
    chat.wait_for("read into memory");
    chat.send("/new");
    chat.wait_for("Ready:");
    chat.send("/quit");
    assert_eq!(chat.wait(), 0);
    chat.assert_restored();
}

/// T04, T06, T11.
#[test]
fn t04_a_paste_is_not_sent_and_a_turn_is_stopped() {
    let (mut chat, _home) = start(80, 24);
    let lines: Vec<String> = (0..120).map(|number| format!("Remember the number {number}.")).collect();
    chat.keys(&format!("\x1b[200~{}\r\x1b[201~", lines.join("\r")));
    chat.wait_for("❯ [pasted 120 lines, ");
    chat.settle(Duration::from_millis(200));
    assert!(chat.text().contains("● ready"), "{}", chat.text());
    chat.keys("\r");
    chat.wait_for("Esc stop");
    chat.keys("\x1b");
    chat.wait_for("stopped by you");
    chat.wait_for("● ready");
    // The program is as usable as before.
    chat.send("Hello!");
    chat.wait_for("✓ done");
    chat.keys("\x03");
    assert_eq!(chat.wait(), 0);
    chat.assert_restored();
}

/// P10, P03: what was said is there again, and a program that was killed loses nothing of it.
#[test]
fn a_chat_goes_on_after_it_was_left_and_after_it_was_killed() {
    let (mut chat, home) = start(120, 40);
    chat.send("/limit answer 500");
    chat.wait_for("Answer: 500 tokens");
    chat.send("What is the capital of Italy?");
    chat.wait_for("✓ done");
    let took = |text: &str| text.lines().find(|line| line.contains("✓ done")).unwrap().trim_end().to_owned();
    // Without the panel beside it.
    let took = |text: &str| took(text).split('│').next().unwrap().trim_end().to_owned();
    let first = took(&chat.text());
    for part in ["tokens in", "out", "first token", "tok/s"] {
        assert!(first.contains(part), "{first}");
    }
    chat.send("/quit");
    assert_eq!(chat.wait(), 0);

    let again = || {
        let mut command = dormouse(home.path());
        command.arg("--continue");
        let mut chat = Terminal::start(command, 120, 40);
        chat.wait_for("● ready");
        chat
    };
    let mut chat = again();
    let text = chat.text();
    assert!(text.contains("❯ What is the capital of Italy?") && text.contains("Rome"), "{text}");
    assert_eq!(took(&text), first, "what it took is kept");
    assert!(text.contains("answer ≤ 500 tokens"), "and its limits: {text}");
    chat.send("And of Spain?");
    chat.wait_for("Madrid");
    chat.wait_until("a second end", |screen| screen.matches("✓ done").count() == 2);
    let process = rustix::process::Pid::from_raw(i32::try_from(chat.process()).unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    chat.wait();

    let mut chat = again();
    let text = chat.text();
    assert!(text.contains("❯ And of Spain?") && text.contains("Madrid"), "{text}");
    chat.keys("\x03");
    assert_eq!(chat.wait(), 0);
    chat.assert_restored();
    let sessions = std::fs::read_dir(home.path().join("data/dormouse/sessions")).unwrap().count();
    assert_eq!(sessions, 1, "all of it is one session");
}

/// T17.
#[test]
fn t17_the_smallest_screen_still_chats() {
    let (mut chat, _home) = start(80, 24);
    chat.resize(20, 5);
    chat.wait_until("a small screen", |screen| {
        screen.contains("● ready · think low") && screen.contains("❯ Write to")
    });
    chat.send("Hello!");
    chat.wait_for("tok/s");
    for (columns, rows) in [(1, 1), (3, 2), (12, 3), (200, 60), (20, 5)] {
        chat.resize(columns, rows);
        chat.settle(Duration::from_millis(60));
        assert!(chat.runs());
    }
    chat.resize(80, 24);
    chat.wait_until("the whole screen", |screen| screen.contains("❯ Hello!") && screen.contains("✓ done"));
    chat.keys("\x03");
    assert_eq!(chat.wait(), 0);
    chat.assert_restored();
}

/// T24: the same chat in lines, and not one escape code.
#[test]
fn t24_a_dumb_terminal_chats_in_lines() {
    let home = home();
    let mut command = dormouse(home.path());
    command.env("TERM", "dumb");
    let mut chat = Terminal::start(command, 80, 24);
    chat.wait_until("a prompt", |screen| screen.trim_end().ends_with('>'));
    chat.keys("What is the capital of Italy?\r");
    chat.wait_for("(done · ");
    assert!(chat.text().contains("| ") && chat.text().contains("Rome"), "{}", chat.text());
    chat.keys("/think off\r");
    chat.wait_for("Thinking is off");
    chat.keys("/help\r");
    chat.wait_for("/export");
    assert!(!chat.text().contains("/mouse"), "{}", chat.text());
    chat.keys("\x04");
    assert_eq!(chat.wait(), 0);
    assert!(!chat.raw().contains(&0x1b));
    // What was said is in a session like any other.
    let mut command = dormouse(home.path());
    command.arg("--continue");
    let mut chat = Terminal::start(command, 80, 40);
    chat.wait_for("● ready");
    assert!(chat.text().contains("❯ What is the capital of Italy?"), "{}", chat.text());
    chat.keys("\x03");
    assert_eq!(chat.wait(), 0);
}

/// T24: a script pipes messages in, line by line.
#[test]
fn t24_a_pipe_chats_in_lines() {
    let home = home();
    let chat = |arguments: &[&str], lines: &'static str| {
        let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_dormouse"));
        command.env_remove("DORMOUSE_HOME").args(arguments).env("HOME", home.path());
        for (name, folder) in
            [("XDG_DATA_HOME", "data"), ("XDG_CONFIG_HOME", "config"), ("XDG_CACHE_HOME", "cache")]
        {
            command.env(name, home.path().join(folder));
        }
        let output = command.write_stdin(lines).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, out, aside) =
        chat(&[], "What is the capital of Italy?\n/nonsense\n/mouse\n\nWhat is the capital of Spain?");
    assert_eq!(code, Some(0), "{aside}");
    assert!(out.starts_with("| ") && out.contains("Rome") && out.contains("Madrid"), "{out}");
    assert!(aside.contains("/nonsense is no command") && aside.contains("needs the screen"), "{aside}");
    assert_eq!(aside.matches("(done · ").count(), 2, "{aside}");
    assert!(!out.contains('\u{1b}') && !aside.contains('\u{1b}') && !out.contains("> "), "{out}{aside}");
    let (code, out, aside) = chat(&["--model", "/nowhere"], "Hello?\n");
    assert_eq!((code, out.as_str()), (Some(3), ""), "{aside}");
    assert!(aside.contains("/nowhere"), "{aside}");
}

/// What the user wrote for the screen is held against what there is before anything is loaded.
#[test]
fn slips_in_the_users_keys_and_themes_are_told_with_their_line() {
    let home = home();
    let config = home.path().join("config/dormouse");
    let refused = |file: &str, text: &str, problem: &str| {
        std::fs::create_dir_all(config.join("themes")).unwrap();
        std::fs::write(config.join(file), text).unwrap();
        let mut command = dormouse(home.path());
        if file.starts_with("themes") {
            command.args(["--theme", "mine"]);
        }
        let mut chat = Terminal::start(command, 120, 24);
        assert_eq!(chat.wait(), 2, "{}", chat.text());
        assert!(chat.text().contains(problem), "{}", chat.text());
        std::fs::remove_file(config.join(file)).unwrap();
    };
    refused("keymap.toml", "[chat]\n\n'ctrl-s' = 'sned'\n", "line 3: `sned` is no action; is `send` meant?");
    refused("themes/mine.toml", "accent = 'redd'\n", "line 1: `redd` is no colour (is red meant?)");
    std::fs::write(config.join("keymap.toml"), "[idle]\n'f5' = 'send'\n").unwrap();
    std::fs::write(config.join("themes/mine.toml"), "accent = '#010203'\n").unwrap();
    let mut command = dormouse(home.path());
    command.args(["--theme", "mine"]);
    let mut chat = Terminal::start(command, 80, 24);
    chat.wait_for("● ready");
    assert!(chat.text().contains("F5 send"), "{}", chat.text());
    assert!(chat.count("38;2;1;2;3") > 0);
    chat.keys("/quit");
    chat.wait_for("❯ /quit");
    chat.keys("\x1b[15~");
    assert_eq!(chat.wait(), 0);
}
