//! What a frame costs.

use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::Rect;

use super::{ANSWER, Bench, outcome};
use crate::protocol::{Finish, Part};
use crate::tui::app::Msg;
use crate::tui::view;

/// What a frame may take in 99 of 100 cases.
const MOST: Duration = Duration::from_millis(4);
/// Rows of the turn that is repeated.
const ROWS: u64 = 28;

/// T20. A measurement of a transcript of so many rows; what it says is a check in a release build alone.
#[test]
#[ignore = "measures: cargo test --release --lib frame_cost -- --ignored --nocapture"]
fn t20_frame_cost() {
    for rows in [100, 1000, 10_000, 100_000] {
        let bench = || {
            let mut bench = Bench::ready();
            for turn in 1..=rows / ROWS {
                bench.send("What is a dormouse?");
                bench.say(turn, Part::Answer(ANSWER.to_owned()));
                bench.finish(turn, outcome(Finish::Stop));
                bench.text((200, 60));
            }
            bench.send("One more.");
            bench
        };
        let turn = rows / ROWS + 1;
        let say = |bench: &mut Bench, step: usize| {
            let end = if step.is_multiple_of(12) { ".\n\n" } else { " " };
            bench.say(turn, Part::Answer(format!("some more words, and{end}")));
        };
        let mut prose = bench();
        told(rows, "streaming prose", &mut prose, say);
        told(rows, "reading back meanwhile", &mut prose, |bench, step| {
            say(bench, step);
            bench.update(Msg::Wheel(-1));
        });
        prose.ctrl('f');
        prose.write("dormouse");
        prose.text((200, 60));
        told(rows, "searching meanwhile", &mut prose, |bench, step| {
            say(bench, step);
            bench.press(KeyCode::Up);
        });
        // The paragraph that is being written is laid out anew with each word, however long it has become.
        let mut paragraph = bench();
        told(rows, "streaming one paragraph", &mut paragraph, |bench, _| {
            bench.say(turn, Part::Answer("some more words, and ".to_owned()));
        });
        let mut code = bench();
        let lines: Vec<String> = (0..rows).map(|line| format!("let x{line} = \"{line}\"; // so")).collect();
        let lines = lines.join("\n") + "\n";
        code.say(turn, Part::Answer(format!("```rust\n{lines}")));
        told(rows, "streaming code", &mut code, |bench, step| {
            bench.say(turn, Part::Answer(format!("let y{step}{}", if step % 8 == 0 { ";\n" } else { " " })));
        });
        let mut thinking = bench();
        thinking.say(turn, Part::Thinking(lines));
        told(rows, "streaming thinking", &mut thinking, |bench, step| {
            bench.say(turn, Part::Thinking(format!("and so on{}", if step % 8 == 0 { "\n" } else { " " })));
        });
        let mut writing = bench();
        told(rows, "typing", &mut writing, |bench, _| bench.key(KeyCode::Char('x'), KeyModifiers::NONE));
    }
}

/// Draws many frames at 200 columns and 60 rows, each after a step, and prints how long they took.
fn told(rows: u64, what: &str, bench: &mut Bench, step: impl Fn(&mut Bench, usize)) {
    let mut terminal = Terminal::new(TestBackend::new(200, 60)).unwrap();
    let mut frame = |bench: &mut Bench| {
        view::prepare(&mut bench.app, Rect::new(0, 0, 200, 60));
        terminal.draw(|frame| view::draw(&bench.app, frame)).unwrap();
    };
    frame(bench);
    let mut took: Vec<Duration> = (0..500)
        .map(|number| {
            let began = Instant::now();
            step(bench, number);
            frame(bench);
            began.elapsed()
        })
        .collect();
    took.sort();
    let (half, most, worst) = (took[took.len() / 2], took[took.len() * 99 / 100], took[took.len() - 1]);
    println!("{rows:6} rows, {what:22}: p50 {half:9.1?}  p99 {most:9.1?}  worst {worst:9.1?}");
    assert!(cfg!(debug_assertions) || most < MOST, "{rows} rows, {what}: {most:?}");
}
