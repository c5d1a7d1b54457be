//! Sessions on the screen of the program itself: killed, opened again, opened twice, chosen, branched, on a full disk.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use dormouse::session::{Folder, Session};
use portable_pty::CommandBuilder;
use tempfile::TempDir;

use crate::terminal::{Terminal, dormouse};

/// A home whose chats draw at random, so that an answer is long.
fn home() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let config = home.path().join("config/dormouse");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("config.toml"), "temperature = 3\ntop_p = 1\n").unwrap();
    home
}

fn start(home: &TempDir, arguments: &[&str]) -> Terminal {
    let mut command = dormouse(home.path());
    command.args(arguments);
    Terminal::start(command, 100, 30)
}

fn folder(home: &TempDir) -> Folder {
    Folder::at(home.path().join("data/dormouse/sessions"))
}

/// The newest session.
fn newest(home: &TempDir) -> (String, Session) {
    let entry = folder(home).list().unwrap().into_iter().next().unwrap();
    (entry.id, entry.content.unwrap().0)
}

fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_mins(1), "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn tokens(home: &TempDir) -> usize {
    folder(home)
        .list()
        .unwrap()
        .first()
        .map_or(0, |entry| entry.content.as_ref().map_or(0, |(s, _)| s.tokens()))
}

fn kill(terminal: &mut Terminal) {
    let process = rustix::process::Pid::from_raw(i32::try_from(terminal.process()).unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    terminal.wait();
}

fn quit(mut terminal: Terminal) {
    terminal.wait_for("● ready");
    terminal.keys("\x03");
    assert_eq!(terminal.wait(), 0);
    terminal.assert_restored();
}

/// T08: a stopped turn is stored with its mark and its ids, and is there again after the next start.
#[test]
fn t08_a_stopped_answer_is_kept_and_can_go_on() {
    let home = home();
    let mut chat = start(&home, &[]);
    chat.wait_for("● ready");
    chat.send("Tell me a story");
    wait("a few tokens", || tokens(&home) > 5);
    chat.keys("\x1b");
    chat.wait_for("stopped by you");
    quit(chat);
    let (id, session) = newest(&home);
    let stopped = session.turns[0].ids.clone();
    assert!(session.turns[0].end.is_some() && !stopped.is_empty());
    let mut chat = start(&home, &["chat", "--session", &id]);
    chat.wait_for("● ready");
    chat.wait_for("stopped by you");
    chat.send("/continue");
    chat.wait_for("Esc stop");
    wait("more tokens", || tokens(&home) > stopped.len() + 5);
    chat.keys("\x1b");
    chat.wait_until("the end", |screen| screen.contains("stopped by you") && screen.contains("● ready"));
    quit(chat);
    let (again, session) = newest(&home);
    assert_eq!((again, session.turns.len()), (id, 1));
    assert!(session.turns[0].ids.starts_with(&stopped) && session.turns[0].ids.len() > stopped.len());
}

/// P03: killed in the middle of an answer, opened again, gone on with: the ids are those of an undisturbed run.
#[test]
fn p03_an_answer_that_was_killed_goes_on_to_the_same_ids() {
    let home = home();
    let mut chat = start(&home, &[]);
    chat.wait_for("● ready");
    chat.send("Tell me a story");
    wait("some tokens", || tokens(&home) >= 8);
    kill(&mut chat);
    let (_, cut) = newest(&home);
    let before = cut.turns[0].ids.clone();
    assert!(before.len() >= 8 && cut.turns[0].end.is_none());

    let mut chat = start(&home, &["--continue"]);
    chat.wait_for("Enter on an empty line goes on");
    chat.wait_for("● ready");
    chat.keys("\r");
    wait("more tokens", || tokens(&home) >= before.len() + 12 || newest(&home).1.turns[0].end.is_some());
    chat.keys("\x1b");
    wait("the end", || newest(&home).1.turns[0].end.is_some());
    quit(chat);
    let (_, session) = newest(&home);
    let turn = &session.turns[0];
    assert!(session.turns.len() == 1 && turn.ids.starts_with(&before) && turn.ids.len() > before.len());

    let start = &turn.start;
    let mut command = Command::new(env!("CARGO_BIN_EXE_dormouse"));
    for (name, folder) in [("XDG_DATA_HOME", "data"), ("XDG_CONFIG_HOME", "config")] {
        command.env(name, home.path().join(folder));
    }
    command.env("HOME", home.path()).args(["run", "--json", "--prompt", &start.user]);
    command.args(["--seed", &start.seed.to_string(), "--max-tokens", &turn.ids.len().to_string()]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let undisturbed: Vec<u32> = serde_json::from_value(report["ids"].clone()).unwrap();
    assert_eq!(turn.ids, undisturbed);
}

/// A second program on the same session reads and says so; the lock dies with the first.
#[test]
fn a_second_program_on_a_session_only_reads_it() {
    let home = home();
    fs::write(home.path().join("config/dormouse/config.toml"), "temperature = 0\n").unwrap();
    let mut first = start(&home, &[]);
    first.wait_for("● ready");
    first.send("What is the capital of Italy?");
    first.wait_for("✓ done");
    let (id, before) = newest(&home);
    let mut second = start(&home, &["chat", "--session", &id]);
    second.wait_for("Open in another dormouse");
    second.wait_for("● ready");
    second.send("And of Spain?");
    second.wait_for("/new begins one of your own");
    second.keys("\x15");
    second.wait_without("And of Spain?");
    quit(second);
    assert_eq!(newest(&home).1, before, "nothing was written");
    kill(&mut first);
    let mut third = start(&home, &["chat", "--session", &id]);
    third.wait_for("● ready");
    assert!(!third.text().contains("Open in another dormouse"), "{}", third.text());
    third.send("And of Spain?");
    third.wait_for("Madrid");
    third.wait_until("a second end", |screen| screen.matches("✓ done").count() == 2);
    quit(third);
}

/// P10: an answer is asked for again and a message is edited; all of it is there after the program was left.
#[test]
fn p10_branches_are_there_again() {
    let home = home();
    fs::write(home.path().join("config/dormouse/config.toml"), "temperature = 0\n").unwrap();
    let mut chat = start(&home, &[]);
    chat.wait_for("● ready");
    chat.send("What is the capital of Italy?");
    chat.wait_for("✓ done");
    chat.send("/edit");
    chat.wait_for("Editing message 1 of 1");
    chat.keys("\x15What is the capital of Spain?");
    chat.wait_for("❯ What is the capital of Spain?");
    chat.keys("\r");
    chat.wait_for("Madrid");
    chat.wait_for("✓ done");
    chat.wait_for("‹2/2›");
    chat.keys("\x1b[1;3A");
    chat.wait_for("Rome");
    chat.wait_without("Madrid");
    quit(chat);
    let mut chat = start(&home, &["--continue"]);
    chat.wait_for("‹1/2›");
    assert!(chat.text().contains("Rome") && !chat.text().contains("Madrid"), "{}", chat.text());
    chat.wait_for("● ready");
    chat.keys("\x1b[1;3B");
    chat.wait_for("Madrid");
    quit(chat);
    let (_, session) = newest(&home);
    assert_eq!((session.turns.len(), session.branch().len(), session.head), (2, 1, Some(1)));
}

#[test]
fn a_session_is_chosen_from_the_list() {
    let home = home();
    fs::write(home.path().join("config/dormouse/config.toml"), "temperature = 0\n").unwrap();
    let mut chat = start(&home, &["chat", "--pick"]);
    chat.wait_for("No conversation was written down yet");
    chat.wait_until("the model", |screen| !screen.contains("loading"));
    chat.keys("\x1b");
    chat.wait_for("● ready");
    chat.send("What is the capital of Italy?");
    chat.wait_for("✓ done");
    chat.send("/new");
    chat.wait_for("Ready:");
    chat.send("What is the capital of Spain?");
    chat.wait_for("✓ done");
    chat.keys("\x1b[17~");
    chat.wait_for("2 sessions");
    assert!(chat.text().contains("open here"), "{}", chat.text());
    chat.keys("italy");
    chat.wait_for("1 of 2");
    chat.settle(Duration::from_millis(60));
    chat.keys("\r");
    chat.wait_for("Rome");
    chat.wait_without("Madrid");
    chat.keys("\x1b[17~");
    chat.wait_for("2 sessions");
    chat.keys("spain");
    chat.wait_for("1 of 2");
    chat.keys("\x1b[3~");
    chat.wait_for("for good?");
    chat.keys("y");
    chat.wait_for("No session holds these words");
    chat.keys("\x1b");
    chat.wait_for("1 session ");
    chat.settle(Duration::from_millis(60));
    chat.keys("\x1b");
    chat.wait_for("Rome");
    quit(chat);
    assert_eq!(folder(&home).list().unwrap().len(), 1);
}

/// Mounts one free page for the sessions, runs the program, and makes room when the test says so.
const SCRIPT: &str = r#"
home=$1; out=$2; program=$3; shift 3
mkdir -p "$home/sessions"
mount -t tmpfs -o size=16k tmpfs "$home/sessions" || exit 77
head -c 12288 /dev/zero > "$home/sessions/filler"
(until [ -e "$out/go" ]; do sleep 0.05; done; rm "$home/sessions/filler") &
DORMOUSE_HOME=$home "$program" "$@"
code=$?
: > "$out/go"
cp "$home"/sessions/*.journal "$out/s.journal"
exit $code
"#;

fn may_mount(out: &Path) -> bool {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "mount", "-t", "tmpfs", "tmpfs"]).arg(out);
    command.output().is_ok_and(|output| output.status.success())
}

/// The turn waits with the missing bytes named, the screen answers, and the turn goes on when there is room.
#[test]
fn a_full_disk_holds_a_turn_up_on_the_screen() {
    let home = tempfile::tempdir().unwrap();
    let (own, out) = (home.path().join("home"), home.path().join("out"));
    fs::create_dir(&own).unwrap();
    fs::create_dir(&out).unwrap();
    if !may_mount(&out) {
        eprintln!("skipped: no disk of its own for the test");
        return;
    }
    let mut command = CommandBuilder::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", SCRIPT, "sh"]);
    command.args([own.as_os_str(), out.as_os_str(), env!("CARGO_BIN_EXE_dormouse").as_ref()]);
    let nano = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/nano");
    command.args(["--temperature", "3", "--top-p", "1", "--model", nano]);
    let mut chat = Terminal::start(command, 100, 30);
    chat.wait_for("● ready");
    // So long a message leaves the page room for a few tokens.
    let message = "remember ".repeat(390);
    chat.keys(&format!("\x1b[200~{}\x1b[201~", message.trim_end()));
    chat.settle(Duration::from_millis(300));
    chat.keys("\r");
    chat.wait_for("The disk is full:");
    chat.wait_for("the turn waits too");
    chat.keys("typed meanwhile");
    chat.wait_for("❯ typed meanwhile");
    assert!(chat.text().contains("wait for room"), "{}", chat.text());
    fs::write(out.join("go"), "").unwrap();
    chat.wait_without("The disk is full");
    chat.settle(Duration::from_millis(300));
    chat.keys("\x1b");
    chat.wait_for("● ready");
    chat.keys("\x15");
    chat.wait_without("typed meanwhile");
    chat.keys("\x03");
    assert_eq!(chat.wait(), 0);
    let (session, damage) = Folder::at(out).read("s").unwrap();
    assert_eq!(damage, None);
    assert!(session.turns[0].ids.len() > 20 && session.turns[0].end.is_some(), "{session:?}");
}
