//! What a frame costs.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::Rect;

use super::{ANSWER, Bench, outcome};
use crate::protocol::{Finish, Part};
use crate::tui::app::Msg;
use crate::tui::view;

/// Not a check but a measurement: run it with `--release`.
#[test]
#[ignore = "prints timings"]
fn frame_cost() {
    let mut terminal = Terminal::new(TestBackend::new(200, 60)).unwrap();
    for turns in [1, 250, 2500] {
        let mut bench = Bench::ready();
        for turn in 1..=turns {
            bench.send("What is a dormouse?");
            bench.say(turn, Part::Answer(ANSWER.to_owned()));
            bench.finish(turn, outcome(Finish::Stop));
            bench.text((200, 60));
        }
        bench.send("One more.");
        let mut frame = |bench: &mut Bench| {
            let began = std::time::Instant::now();
            view::prepare(&mut bench.app, Rect::new(0, 0, 200, 60));
            terminal.draw(|frame| view::draw(&bench.app, frame)).unwrap();
            began.elapsed()
        };
        let mut streaming = Vec::new();
        for _ in 0..300 {
            bench.say(turns + 1, Part::Answer("some more words, and ".to_owned()));
            streaming.push(frame(&mut bench));
        }
        streaming.sort();
        let mut scrolling = Vec::new();
        for _ in 0..100 {
            bench.update(Msg::Wheel(-1));
            scrolling.push(frame(&mut bench));
        }
        scrolling.sort();
        let rows = turns * 28;
        println!(
            "{rows:6} rows: streaming median {:?}, worst {:?}; scrolling median {:?}",
            streaming[150], streaming[299], scrolling[50]
        );
    }
}
