//! Turns that go well, slowly, wrong, or not at all.

use std::time::{Duration, Instant};

use crate::terminal::{Terminal, scripted};

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

/// T18.
#[test]
fn t18_markdown_is_shown_as_it_streams_and_nothing_is_cleared() {
    let mut chat = start(80, 60);
    chat.send("What is a dormouse?");
    chat.wait_for("▾ thinking");
    chat.wait_for("▸ thought for");
    chat.wait_for("That is all.");
    chat.wait_for("✓ done");
    let text = chat.text();
    for part in [
        "A dormouse is a small nocturnal rodent",
        "• 漢字 and flowers 🌸",
        "edible │  120 g │ 6 months",
        "│ It wakes only to eat.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Each frame is one update of what changed: nothing is cleared in between.
    assert_eq!(chat.count("\x1b[2J"), 1);
    assert_eq!(chat.count("\x1b[?2026h"), chat.count("\x1b[?2026l"));
    quit(chat);
}

/// T06, T07, T09.
#[test]
fn t07_a_slow_token_is_counted_and_stopped_at_once() {
    let mut chat = start(100, 24);
    chat.send("be slow");
    chat.wait_for("reading the prompt");
    chat.wait_for("layer 3/9");
    chat.keys("typed meanwhile");
    chat.wait_for("❯ typed meanwhile");
    let asked = Instant::now();
    chat.keys("\x03");
    chat.wait_for("stopped by you");
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    chat.wait_for("● ready");
    chat.wait_for("❯ typed meanwhile");
    chat.keys("\x03");
    chat.wait_for("Up brings it back");
    chat.keys("\x1b[A");
    chat.wait_for("❯ typed meanwhile");
    chat.keys("\x15");
    chat.wait_without("typed meanwhile");
    quit(chat);
}

/// T19.
#[test]
fn t19_reading_back_is_not_disturbed_by_what_streams() {
    let mut chat = start(60, 20);
    chat.send("a long one");
    chat.wait_for("line 40 of many");
    // The wheel, as terminals report it.
    chat.keys("\x1b[<64;10;10M\x1b[<64;10;10M\x1b[<64;10;10M");
    chat.wait_for("below");
    chat.keys("\x1b[5~");
    chat.settle(Duration::from_millis(100));
    let first = chat.text().lines().nth(2).unwrap_or_default().to_owned();
    assert!(first.contains("line"), "{first}");
    chat.wait_for("new lines below");
    chat.wait_for("● ready");
    let still = chat.text().lines().nth(2).unwrap_or_default().to_owned();
    assert_eq!(still, first);
    chat.keys("\x1b[1;5F");
    chat.wait_for("line 150 of many");
    chat.wait_without("below");
    quit(chat);
}

/// T11: told once, not by the panic's own words on the screen, and the program is as usable as before.
#[test]
fn t11_failures_are_told_and_the_program_lives_on() {
    let mut chat = start(90, 30);
    chat.send("please fail");
    chat.wait_for("✗ An expert could not be read");
    chat.wait_for("4096 bytes expected, 12 found");
    chat.wait_for("✗ failed");
    chat.wait_for("● ready");
    chat.send("now panic");
    chat.wait_for("┃ The engine broke");
    chat.wait_for("✗ engine down");
    assert!(!chat.text().contains("scripted panic"), "{}", chat.text());
    chat.keys("\x12");
    chat.wait_for("● ready");
    chat.send("better now?");
    chat.wait_for("✓ done");
    chat.send("please vanish");
    chat.wait_for("✗ engine gone");
    chat.keys("\x03");
    assert_eq!(chat.wait(), 0);
    chat.assert_restored();
    // What a panic elsewhere had to say is told once the terminal is restored.
    assert!(chat.last("\x1b[?1049l") < chat.last("scripted panic"));
}

/// T28.
#[test]
fn t28_a_load_that_fails_can_be_tried_again() {
    let mut chat = Terminal::start(scripted("broken"), 80, 24);
    chat.wait_for("12 bytes are missing at the end");
    chat.wait_for("Ctrl-R");
    chat.keys("\x12");
    chat.wait_for("● ready");
    quit(chat);
}

/// T23.
#[test]
fn t23_hostile_text_does_not_act_on_the_terminal() {
    let mut chat = start(80, 24);
    chat.send("hostile");
    chat.wait_for("✓ done");
    let text = chat.text();
    assert!(text.contains("before after") && text.contains("end"), "{text}");
    assert_eq!((chat.count("]52;"), chat.count("owned"), chat.count("\x1b[31m")), (0, 0, 0));
    assert!(!chat.raw().windows(2).any(|pair| pair == [0xc2, 0x9b]));
    quit(chat);
}

/// T12, T14, T16.
#[test]
fn t12_the_cursor_is_where_the_next_character_goes() {
    let mut chat = start(80, 24);
    chat.keys("漢字，e\u{301}x");
    chat.wait_for("❯ 漢字，");
    chat.settle(Duration::from_millis(100));
    assert_eq!(chat.screen().cursor_position(), (21, 11));
    chat.keys("\x1b[D\x7f\x1b[D");
    chat.wait_for("，x");
    chat.settle(Duration::from_millis(100));
    assert_eq!(chat.screen().cursor_position(), (21, 7));
    assert!(!chat.screen().hide_cursor());
    chat.keys("\x15\x0b");
    quit(chat);
}

#[test]
fn nothing_is_drawn_while_nothing_happens() {
    let mut chat = start(80, 24);
    chat.settle(Duration::from_millis(400));
    let before = chat.raw().len();
    chat.settle(Duration::from_millis(1500));
    assert_eq!(chat.raw().len(), before);
    quit(chat);
}

/// T05.
#[test]
fn t05_pasted_lines_are_not_sent_without_bracketed_paste_either() {
    let mut chat = start(80, 24);
    chat.keys("first line\rsecond line\rthird line\r");
    chat.wait_for("third line");
    chat.settle(Duration::from_millis(300));
    assert!(chat.text().contains("● ready") && chat.text().contains("❯ first line"), "{}", chat.text());
    chat.keys("\x03");
    chat.wait_without("first line");
    quit(chat);
}
