//! What is told to somebody who waits, and to somebody who looks elsewhere meanwhile.

use std::time::{Duration, Instant};

use crate::terminal::{Terminal, dormouse, scripted};

fn start(columns: u16, rows: u16) -> Terminal {
    let mut terminal = Terminal::start(scripted("chat"), columns, rows);
    terminal.wait_for("● ready");
    terminal
}

fn quit(mut terminal: Terminal) {
    terminal.wait_for("● ready");
    terminal.keys("\x03");
    assert_eq!(terminal.wait(), 0);
    terminal.assert_restored();
}

/// T29: minutes before the first token, and something moves on the screen all the time: how far the prompt is read, by
/// passes and layers, what lands, and when it will be done.
#[test]
fn t29_the_wait_for_the_first_token_has_a_place_a_rate_and_an_end() {
    let mut chat = start(160, 24);
    chat.keys("write");
    chat.wait_for("+11 tokens");
    chat.keys("\x15");
    chat.send("be slow");
    chat.wait_for("reading the prompt 2/6");
    chat.wait_for("first token in ~");
    chat.wait_for("━");
    chat.wait_until("a layer in the middle", |screen| {
        (3..=7).any(|layer| screen.contains(&format!("layer {layer}/9")))
    });
    assert!(chat.count("\x1b]2;dormouse: reading ") > 0, "the title tells it, too");
    chat.keys("\x1b");
    chat.wait_for("stopped by you");
    quit(chat);
}

/// T29: no progress is said, with what is waited for, by a clock that is not the engine's; keys are answered meanwhile.
#[test]
fn t29_a_stall_is_said_with_what_it_waits_for() {
    let mut chat = start(160, 24);
    chat.send("please stall");
    chat.wait_for("stalled 3 s · waiting for experts from the disk");
    chat.wait_for("stalled 4 s");
    chat.keys("still here");
    chat.wait_for("❯ still here");
    chat.keys("\x15\x1b");
    chat.wait_for("stopped by you");
    quit(chat);
}

#[test]
fn the_end_of_a_turn_is_announced_where_nobody_sees_it() {
    let mut chat = start(80, 24);
    chat.send("seen");
    chat.wait_for("✓ done");
    chat.wait_for("● ready");
    assert_eq!(chat.count("\x1b]9;"), 0);
    chat.send("unseen");
    chat.keys("\x1b[O");
    chat.wait_for("Esc stop");
    chat.wait_for("● ready");
    chat.settle(Duration::from_millis(200));
    assert_eq!(chat.count("\x1b]9;dormouse: the answer is there, "), 1);
    // Titles end with one too, and so may the question for the background.
    let others = chat.count("\x1b]2;") + chat.count("\x1b]11;?\x07");
    assert_eq!(chat.count("\x07"), others + 1, "the bell");
    chat.send("/notify off");
    chat.wait_for("not announced any more");
    chat.send("again");
    chat.wait_for("Esc stop");
    chat.wait_for("● ready");
    chat.settle(Duration::from_millis(200));
    assert_eq!(chat.count("\x1b]9;"), 1);
    quit(chat);
}

#[test]
fn the_title_comes_and_goes() {
    let mut chat = start(80, 24);
    chat.wait_until("a title", |_| true);
    chat.settle(Duration::from_millis(200));
    assert!(chat.count("\x1b]2;dormouse: nano\x07") > 0);
    assert_eq!(chat.count("\x1b[22;2t"), 1);
    chat.keys("\x03");
    assert_eq!(chat.wait(), 0);
    chat.assert_restored();
    assert_eq!(chat.count("\x1b[23;2t"), 1);
    assert!(chat.last("\x1b]2;\x07") < chat.last("\x1b[23;2t"));
    assert!(chat.last("\x1b[?1004h") < chat.last("\x1b[?1004l"));
}

/// The numbers on the whole screen: tables that scroll and can be taken elsewhere.
#[test]
fn the_numbers_fill_the_screen_and_go_into_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = scripted("chat");
    command.cwd(dir.path());
    let mut chat = Terminal::start(command, 100, 24);
    chat.wait_for("● ready");
    chat.send("count");
    chat.wait_for("✓ done");
    chat.keys("\x1bOQ");
    chat.wait_for("[overview]");
    chat.keys("\t");
    chat.wait_for("[layers]");
    chat.wait_for("of the slowest");
    chat.keys("\t");
    chat.wait_for("[tokens]");
    chat.wait_for("more");
    chat.keys("c");
    chat.wait_for("Written to");
    chat.keys("\x1b");
    chat.wait_without("[tokens]");
    quit(chat);
    let files: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1);
    let text = std::fs::read_to_string(&files[0]).unwrap();
    assert!(text.starts_with("turn,token,seconds,waited_s,"), "{text}");
    assert!(text.lines().count() > 20, "{text}");
}

/// A key is on the screen within 100 ms while all cores compute.
#[test]
fn keys_are_answered_at_once_while_the_engine_runs_flat_out() {
    let home = tempfile::tempdir().unwrap();
    let mut command = dormouse(home.path());
    command.args(["--temperature", "8", "--top-p", "1", "--think", "off"]);
    let mut chat = Terminal::start(command, 100, 30);
    chat.wait_for("● ready");
    chat.send("Tell me a story.");
    chat.wait_for("answering");
    assert_answered(&mut chat, "❯ ");
    // A megabyte in the draft changes nothing about that.
    chat.keys("\x15");
    chat.wait_without("❯ abc");
    chat.keys(&format!("\x1b[200~{}\x1b[201~", "one more line of a log\r".repeat(45_590)));
    chat.wait_for("❯ [pasted ");
    assert_answered(&mut chat, "]");
    chat.keys("\x15");
    chat.wait_without("[pasted ");
    chat.keys("\x1b");
    chat.wait_for("● ready");
    chat.keys("\x03");
    assert_eq!(chat.wait(), 0);
    chat.assert_restored();
}

/// Types nine letters behind what the screen shows, and holds the time of each against what a person takes for at once.
fn assert_answered(chat: &mut Terminal, before: &str) {
    let mut taken = Vec::new();
    let mut draft = String::new();
    for letter in "abcdefghi".chars() {
        chat.settle(Duration::from_millis(40));
        draft.push(letter);
        let began = Instant::now();
        chat.keys(&letter.to_string());
        chat.wait_for(&format!("{before}{draft}"));
        taken.push(began.elapsed());
    }
    taken.sort();
    // The middle one: what else the machine does may hold up some.
    assert!(taken[4] < Duration::from_millis(100), "{taken:?}");
}

/// Not a check but a measurement, best with `--release`: what the screen takes of a core while nothing happens, and while
/// a slow token is computed.
#[test]
#[ignore = "prints figures; see scripts/screencost.sh"]
fn screen_cost() {
    let mut chat = start(120, 40);
    chat.settle(Duration::from_secs(2));
    let share = |chat: &mut Terminal| {
        let (before, began) = (screen_ticks(chat.process()), Instant::now());
        chat.settle(Duration::from_secs(20));
        let ticks = screen_ticks(chat.process()) - before;
        ticks as f64 / 100.0 / began.elapsed().as_secs_f64() * 100.0
    };
    println!("idle: {:.2} % of a core", share(&mut chat));
    chat.send("be very slow");
    chat.wait_for("▾ thinking");
    println!("while slow tokens are computed: {:.2} % of a core", share(&mut chat));
    chat.keys("\x1b");
    quit(chat);
}

/// Processor time of all threads but the engine's, in ticks of a hundredth of a second.
fn screen_ticks(process: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let ticks = |stat: String| {
        let (name, rest) = stat.rsplit_once(')').unwrap();
        if name.ends_with("(engine") {
            return 0;
        }
        rest.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
    };
    tasks.map(|task| ticks(std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap())).sum()
}
