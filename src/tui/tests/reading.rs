//! Reading back: searching, choosing, copying, unfolding.

use crossterm::event::{KeyCode, KeyModifiers};

use super::{Bench, outcome};
use crate::protocol::{Finish, Part};
use crate::tui::app::{Effect, Msg};
use crate::tui::transcript::{Chosen, Passage};

impl Bench {
    /// Many turns, of which the first has code in its answer.
    fn long() -> Self {
        let mut bench = Self::answered();
        for turn in 2..=20 {
            bench.send(&format!("question {turn}"));
            bench.say(turn, Part::Thinking(format!("thought number {turn}")));
            bench.say(turn, Part::Answer(format!("answer {turn}")));
            bench.finish(turn, outcome(Finish::Stop));
        }
        bench.text((80, 24));
        bench
    }

    fn copied(&self) -> Vec<&str> {
        let copies = self.sent.iter().filter_map(|effect| match effect {
            Effect::Copy(text) => Some(text.as_str()),
            _ => None,
        });
        copies.collect()
    }

    fn chosen(&self) -> Option<Chosen> {
        self.app.mode.chosen()
    }
}

#[test]
fn a_search_goes_to_what_it_finds_and_back() {
    let size = (80, 24);
    let mut bench = Bench::long();
    let before = bench.text(size);
    bench.ctrl('f');
    assert!(bench.text(size).contains("Find in the conversation"));
    bench.write("HAZEL");
    let text = bench.text(size);
    assert!(text.contains("/ HAZEL") && text.contains("1 of 1") && text.contains("17 g"), "{text}");
    bench.write("x");
    assert!(bench.text(size).contains("nothing found"));
    bench.press(KeyCode::Esc);
    assert_eq!(bench.text(size), before);
    bench.ctrl('f');
    bench.write("question");
    assert!(bench.text(size).contains("19 of 19"));
    bench.press(KeyCode::Up);
    bench.ctrl('f');
    assert!(bench.text(size).contains("17 of 19"));
    bench.press(KeyCode::Down);
    assert!(bench.text(size).contains("18 of 19"));
    for _ in 0..5 {
        bench.press(KeyCode::Up);
        bench.text(size);
    }
    bench.press(KeyCode::Enter);
    let text = bench.text(size);
    assert!(text.contains("question 14") && text.contains("Enter copy"), "{text}");
    assert_eq!(bench.chosen(), Some(Chosen { turn: 13, passage: Passage::Answer }));
}

#[test]
fn a_search_looks_into_folded_thinking_and_what_is_typed_is_its_own() {
    let mut bench = Bench::long();
    bench.write("my draft");
    bench.ctrl('f');
    bench.write("number 3");
    let text = bench.text((80, 24));
    assert!(text.contains("│ thought number 3") && text.contains("1 of 1"), "{text}");
    bench.update(Msg::Paste(" and\nmore".to_owned()));
    bench.ctrl('w');
    assert!(bench.text((80, 24)).contains("/ number 3 and"));
    bench.ctrl('c');
    assert_eq!(bench.app.composer.text(), "my draft");
    assert!(!bench.left() && !bench.text((80, 24)).contains("│ thought number 3"));
}

#[test]
fn messages_and_blocks_of_code_are_chosen_and_copied() {
    let mut bench = Bench::answered();
    bench.press(KeyCode::Tab);
    assert_eq!(bench.chosen(), Some(Chosen { turn: 0, passage: Passage::Answer }));
    bench.press(KeyCode::Enter);
    bench.press(KeyCode::Down);
    let text = bench.text((80, 24));
    assert!(text.contains("▌    fn main() {"), "{text}");
    bench.write("y");
    bench.press(KeyCode::Down);
    for passage in [Passage::Answer, Passage::Thinking, Passage::Question, Passage::Question] {
        bench.press(KeyCode::Up);
        assert_eq!(bench.chosen().map(|chosen| chosen.passage), Some(passage));
    }
    bench.write("c");
    assert_eq!(bench.copied(), [super::ANSWER, "fn main() {\n    nap();\n}\n", "What is a dormouse?"]);
    bench.press(KeyCode::Esc);
    assert!(bench.chosen().is_none());
    bench.write("text");
    bench.press(KeyCode::Tab);
    assert!(bench.chosen().is_none(), "where something is written Tab is no way out of it");
    bench.key(KeyCode::Up, KeyModifiers::CONTROL);
    assert!(bench.chosen().is_some());
    assert_eq!(bench.app.composer.text(), "text");
}

/// T22.
#[test]
fn t22_copy_copies_the_last_answer_or_its_last_block_of_code() {
    let mut bench = Bench::ready();
    bench.send("/copy");
    assert!(bench.text((80, 24)).contains("no answer to copy"));
    bench.ctrl('u');
    bench.send("q");
    bench.say(1, Part::Answer("one\n```sh\na\n```\n```sh\n\tb\u{1b}]52;c;aGk=\u{7}\n```".to_owned()));
    bench.send("/copy code");
    bench.finish(1, outcome(Finish::Stop));
    bench.send("r");
    bench.send("/copy");
    bench.say(2, Part::Answer("plain".to_owned()));
    bench.send("/copy code");
    assert!(bench.text((80, 24)).contains("no block of code"));
    assert_eq!(bench.copied(), ["\tb\n", "one\n```sh\na\n```\n```sh\n\tb\n```"]);
}

#[test]
fn thinking_is_unfolded_for_one_message() {
    let size = (80, 60);
    let mut bench = Bench::long();
    for key in [KeyCode::Tab, KeyCode::Char(' ')] {
        bench.press(key);
    }
    let text = bench.text(size);
    assert!(text.contains("│ thought number 20") && !text.contains("│ thought number 19"), "{text}");
    bench.press(KeyCode::Up);
    bench.press(KeyCode::Up);
    bench.write("t");
    assert!(bench.text(size).contains("│ thought number 19"));
    bench.ctrl('t');
    assert!(!bench.text(size).contains("│ thought number"), "all are hidden");
    bench.ctrl('t');
    assert!(bench.text(size).contains("│ thought number 18"), "all are shown");
}

/// T19.
#[test]
fn t19_what_arrives_does_not_move_what_is_read_and_a_key_goes_to_it() {
    let size = (80, 24);
    let mut bench = Bench::long();
    bench.send("more?");
    bench.update(Msg::Wheel(-5));
    let top = |bench: &mut Bench| bench.text(size).lines().skip(2).take(10).collect::<Vec<_>>().join("\n");
    let before = top(&mut bench);
    for line in 0..12 {
        bench.say(21, Part::Answer(format!("line {line}\n")));
        assert_eq!(top(&mut bench), before);
    }
    let text = bench.text(size);
    assert!(text.contains("↓ 13 new lines below, Ctrl-End"), "{text}");
    bench.key(KeyCode::End, KeyModifiers::CONTROL);
    assert!(bench.text(size).contains("line 11") && bench.app.scrollback.follows());
}
