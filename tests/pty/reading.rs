//! Searching, copying, queueing, and the user's own editor.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portable_pty::CommandBuilder;

use crate::terminal::{Terminal, dormouse, scripted};

/// A terminal of which nothing is known.
fn unknown(mut command: CommandBuilder) -> CommandBuilder {
    for name in ["TMUX", "STY", "VTE_VERSION", "TERM_PROGRAM", "VISUAL", "EDITOR"] {
        command.env_remove(name);
    }
    command
}

fn start(columns: u16, rows: u16) -> Terminal {
    let mut terminal = Terminal::start(unknown(scripted("chat")), columns, rows);
    terminal.wait_for("● ready");
    terminal
}

/// T22: what is copied reaches the terminal, as it was written.
#[test]
fn t22_copies_reach_the_clipboard() {
    let mut chat = start(80, 40);
    chat.send("What is a dormouse?");
    chat.wait_for("✓ done");
    let copied = |chat: &Terminal| {
        let raw = String::from_utf8_lossy(chat.raw()).into_owned();
        let last = raw.rsplit("\x1b]52;c;").next().unwrap().split("\x1b\\").next().unwrap().to_owned();
        String::from_utf8(STANDARD.decode(last).unwrap()).unwrap()
    };
    chat.send("/copy code");
    chat.wait_for("Copied 35 characters.");
    assert_eq!(copied(&chat), "fn main() {\n    println!(\"Zzz\");\n}\n");
    chat.keys("\t");
    chat.wait_for("▌");
    chat.keys("\r");
    chat.wait_until("a copy of all", |screen| screen.contains("Copied") && !screen.contains("Copied 35"));
    assert!(copied(&chat).starts_with("## Dormice\n\nA **dormouse**"));
    chat.keys("\x1b");
    chat.wait_without("▌");
    chat.keys("\x03");
    assert_eq!(chat.wait(), 0);
    chat.assert_restored();
}

/// T22: where the terminal takes no copy, a file does, and the screen says which.
#[test]
fn t22_a_terminal_without_a_clipboard_gets_a_file() {
    let home = tempfile::tempdir().unwrap();
    let mut command = unknown(dormouse(home.path()));
    command.env("TERM_PROGRAM", "Apple_Terminal");
    let mut chat = Terminal::start(command, 120, 40);
    chat.wait_for("● ready");
    chat.send("What is Dormouse?");
    chat.wait_for("✓ done");
    chat.send("/copy");
    chat.wait_for("characters to ~/data/dormouse/copied.txt");
    let copied = std::fs::read_to_string(home.path().join("data/dormouse/copied.txt")).unwrap();
    let begin: String = copied.chars().take(30).collect();
    assert!(!begin.is_empty() && chat.text().contains(&begin), "{copied}: {}", chat.text());
    assert_eq!(chat.count("\x1b]52;"), 0);
    chat.send("/quit");
    assert_eq!(chat.wait(), 0);
    // What was sent is there after the next start, for its owner alone.
    let history = std::fs::read_dir(home.path().join("state/dormouse")).unwrap();
    let history = history.flatten().find(|entry| entry.file_name() == "history.jsonl").unwrap();
    assert_eq!(history.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let mut chat = Terminal::start(unknown(dormouse(home.path())), 80, 24);
    chat.wait_for("● ready");
    chat.keys("\x12dormouse");
    chat.wait_for("▸ What is Dormouse?");
    chat.keys("\x1b");
    chat.wait_for("❯ Write to");
    chat.keys("\x1b[A");
    chat.wait_for("❯ What is Dormouse?");
    chat.keys("\x15\x03");
    assert_eq!(chat.wait(), 0);
}

#[test]
fn words_are_found_while_an_answer_streams() {
    let mut chat = start(80, 24);
    chat.send("a long one");
    chat.wait_for("line 30 of many");
    chat.keys("\x06");
    chat.wait_for("Find in the conversation");
    chat.keys("LINE 7 of");
    chat.wait_for("1 of 1");
    chat.wait_for("line 7 of many");
    chat.wait_for("● ready");
    assert!(chat.text().contains("line 7 of many"), "{}", chat.text());
    chat.keys("\x1b");
    chat.wait_for("line 150 of many");
    chat.keys("\x03");
    assert_eq!(chat.wait(), 0);
}

#[test]
fn messages_are_queued_while_a_turn_runs() {
    let mut chat = start(80, 40);
    chat.send("be slow");
    chat.wait_for("reading the prompt");
    chat.send("my second question");
    chat.wait_for("queued my second question");
    chat.send("my third one");
    chat.wait_for("queued my third one");
    // Alt-Up.
    chat.keys("\x1b[1;3A");
    chat.wait_for("❯ my third one");
    chat.keys("\x15");
    chat.keys("\x1b");
    chat.wait_for("1 queued message waits: Enter sends the next");
    chat.wait_for("● ready");
    chat.keys("\r");
    chat.wait_for("❯ my second question");
    chat.wait_for("✓ done");
    chat.wait_without("queued");
    chat.keys("\x03");
    assert_eq!(chat.wait(), 0);
}

fn editor(home: &Path) -> CommandBuilder {
    let script = home.join("an editor");
    let text = "#!/bin/sh\necho EDITOR AT WORK\nread line\nif [ \"$line\" = no ]; then exit 3; fi\n\
                printf ' %s' \"$line\" >> \"$2\"\n";
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut command = unknown(scripted("chat"));
    command.env("DORMOUSE_FILES", home);
    command.env("EDITOR", "false");
    command.env("VISUAL", format!("'{}' --wait", script.display()));
    command
}

#[test]
fn the_users_editor_has_the_terminal_and_its_keys() {
    let home = tempfile::tempdir().unwrap();
    let mut chat = Terminal::start(editor(home.path()), 80, 24);
    chat.wait_for("● ready");
    chat.keys("a draft");
    chat.wait_for("❯ a draft");
    chat.keys("\x18\x05");
    chat.wait_for("EDITOR AT WORK");
    assert!(!chat.screen().alternate_screen() && !chat.screen().bracketed_paste());
    chat.settle(Duration::from_millis(300));
    chat.keys("from the editor\r");
    chat.wait_for("❯ a draft from the editor");
    assert!(chat.screen().alternate_screen() && chat.screen().bracketed_paste());
    chat.keys("!\x18\x05");
    chat.wait_for("EDITOR AT WORK");
    chat.settle(Duration::from_millis(300));
    chat.keys("no\r");
    chat.wait_for("The draft is as it was: the editor ended with exit code 3");
    chat.wait_for("❯ a draft from the editor!");
    let left = std::fs::read_dir(home.path()).unwrap().count();
    assert_eq!(left, 1, "the draft's file is gone");
    chat.keys("\x15\x03");
    assert_eq!(chat.wait(), 0);
    chat.assert_restored();
}
