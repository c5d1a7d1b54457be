//! The sessions to choose from.

use crossterm::event::KeyCode;

use super::Bench;
use super::branching::{asked, ended, opening};
use crate::protocol::{Finish, TurnId};
use crate::session::Record;
use crate::tui::app::{Effect, Msg, Told};
use crate::tui::library::{Row, Wish};

fn row(number: usize) -> Row {
    Row {
        id: format!("s-{number}"),
        title: format!("Question {number}"),
        changed: 1_795_000_000 - 60 * number as u64,
        turns: number + 1,
        tokens: 100 * number,
        last: "stop",
        model: ("nano".to_owned(), 7),
        readable: true,
    }
}

fn listed(bench: &mut Bench, rows: Vec<Row>) {
    bench.update(Msg::Sessions(Told::Listed(rows)));
}

/// One that shows so many sessions.
pub(super) fn picking(count: usize) -> Bench {
    let mut bench = Bench::ready();
    bench.send("/sessions");
    assert!(bench.text((80, 24)).contains("Reading the sessions"));
    listed(&mut bench, (0..count).map(row).collect());
    bench
}

fn asks(bench: &Bench) -> Vec<Wish> {
    let ask = |effect: &Effect| if let Effect::Sessions(ask) = effect { Some(ask.clone()) } else { None };
    bench.sent.iter().filter_map(ask).collect()
}

#[test]
fn sessions_are_shown_searched_and_opened() {
    let mut bench = picking(60);
    for size in [(20, 5), (12, 3), (13, 4), (1, 1)] {
        bench.text(size);
    }
    // The chosen one is always in sight.
    for _ in 0..7 {
        bench.press(KeyCode::PageDown);
    }
    assert!(bench.text((80, 24)).contains("▸ Question 59"));
    bench.write("question 1");
    let text = bench.text((80, 24));
    assert!(text.contains("15 of 60") && !text.contains("Question 20"), "{text}");
    bench.press(KeyCode::Down);
    bench.press(KeyCode::Enter);
    assert_eq!(asks(&bench), [Wish::List, Wish::Open("s-10".to_owned())]);
    assert!(bench.app.awaits("s-10") && !bench.app.awaits("s-11"));
    bench.update(Msg::Sessions(Told::Opened(Box::new(opening(&[asked("Hello?"), ended(Finish::Stop)])))));
    assert!(bench.app.picker.is_none());
    let text = bench.text((80, 24));
    assert!(text.contains("Hello?") && text.contains("trip"), "{text}");
    // Turns of the new session do not take the names of the old one's.
    bench.send("On");
    assert_eq!(bench.generated().last().unwrap().turn, TurnId(2));
}

#[test]
fn an_empty_list_says_what_makes_a_session() {
    let mut bench = picking(0);
    assert!(bench.text((80, 24)).contains("No conversation was written down yet"));
    bench.press(KeyCode::Enter);
    bench.press(KeyCode::Delete);
    bench.ctrl('r');
    bench.press(KeyCode::Down);
    bench.write("x");
    bench.press(KeyCode::Backspace);
    bench.press(KeyCode::Esc);
    assert!(bench.app.picker.is_none());
    assert_eq!(asks(&bench), [Wish::List]);
}

#[test]
fn deleting_asks_first_and_spares_what_is_open() {
    let mut bench = picking(3);
    bench.press(KeyCode::Down);
    bench.press(KeyCode::Delete);
    assert!(bench.text((80, 24)).contains("Delete the chosen session for good?"));
    bench.write("n");
    bench.press(KeyCode::Delete);
    bench.press(KeyCode::Enter);
    bench.press(KeyCode::Delete);
    bench.press(KeyCode::Esc);
    assert_eq!(asks(&bench), [Wish::List], "only a clear yes deletes");
    assert!(bench.app.picker.is_some());
    bench.press(KeyCode::Delete);
    bench.write("y");
    assert_eq!(asks(&bench)[1..], [Wish::Delete("s-1".to_owned())]);
    bench.app.session = Some("s-0".to_owned());
    bench.press(KeyCode::Up);
    bench.press(KeyCode::Delete);
    assert!(bench.text((80, 24)).contains("This session is open"));
    bench.update(Msg::Sessions(Told::Refused("it is in use".to_owned())));
    assert!(bench.text((80, 24)).contains("it is in use"));
}

#[test]
fn sessions_are_called_otherwise() {
    let mut bench = picking(3);
    bench.app.session = Some("s-0".to_owned());
    bench.ctrl('r');
    assert!(bench.text((80, 24)).contains("New title: Question 0"));
    bench.write("!");
    bench.press(KeyCode::Enter);
    let title = Record::Title("Question 0!".to_owned());
    assert!(bench.sent.iter().any(|effect| matches!(effect, Effect::Record(record) if *record == title)));
    assert!(bench.text((80, 24)).contains("▸ Question 0!"));
    bench.press(KeyCode::Down);
    bench.ctrl('r');
    for _ in 0.."Question 1".len() {
        bench.press(KeyCode::Backspace);
    }
    bench.press(KeyCode::Enter);
    bench.ctrl('r');
    bench.update(Msg::Paste(" of\n capitals ".to_owned()));
    bench.press(KeyCode::Enter);
    assert_eq!(asks(&bench)[1..], [Wish::Rename("s-1".to_owned(), "Question 1 of capitals".to_owned())]);
}

#[test]
fn what_cannot_be_opened_says_why() {
    let mut bench = Bench::thinking();
    bench.send("/sessions");
    let other = Row { model: ("k3".to_owned(), 8), ..row(1) };
    let broken = Row { title: "it is empty".to_owned(), readable: false, ..row(2) };
    listed(&mut bench, vec![row(0), other, broken]);
    bench.press(KeyCode::Enter);
    assert!(bench.text((80, 24)).contains("A turn is running"));
    bench.press(KeyCode::Esc);
    bench.finish(1, super::outcome(Finish::Stop));
    bench.ctrl('u');
    bench.press(KeyCode::F(6));
    listed(&mut bench, vec![row(0), Row { model: ("k3".to_owned(), 8), ..row(1) }]);
    bench.press(KeyCode::Down);
    bench.press(KeyCode::Enter);
    let text = bench.text((80, 24));
    assert!(text.contains("It belongs to k3: `dormouse chat --session s-1`"), "{text}");
    assert_eq!(asks(&bench), [Wish::List, Wish::List]);
    // One that comes too late is not taken.
    bench.press(KeyCode::Up);
    bench.press(KeyCode::Enter);
    assert!(bench.app.awaits("s-0"));
    bench.press(KeyCode::Esc);
    assert!(!bench.app.awaits("s-0"));
}
