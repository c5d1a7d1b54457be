//! Writing: chips, files, earlier messages, the editor, and messages that wait.

use crossterm::event::{KeyCode, KeyModifiers};

use super::{Bench, failure, outcome};
use crate::protocol::{Event, Finish, Message, Outcome, Prompt};
use crate::tui::app::{Effect, Msg};
use crate::tui::draft::Chip;

impl Bench {
    /// What the user has said, as the engine was asked last.
    fn asked(&self) -> String {
        let prompt = self.generated().last().map(|request| request.prompt.clone());
        let Some(Prompt::Chat(conversation)) = prompt else { return String::new() };
        match conversation.messages.last() {
            Some(Message::User { content, .. }) => content.concat(),
            _ => String::new(),
        }
    }
}

/// T04.
#[test]
fn t04_a_large_paste_is_a_chip_and_is_not_sent() {
    let mut bench = Bench::ready();
    let lines: Vec<String> = (1..=214).map(|line| format!("line {line}\r\n")).collect();
    let pasted = lines.concat();
    bench.write("Sum up: ");
    bench.update(Msg::Paste(pasted));
    assert!(bench.generated().is_empty());
    bench.write(" please");
    let text = bench.text((80, 24));
    assert!(text.contains("❯ Sum up: [pasted 214 lines, 1.78 KiB] please"), "{text}");
    // Its tokens follow as soon as somebody has counted them.
    bench.count();
    let text = bench.text((80, 24));
    assert!(text.contains("❯ Sum up: [pasted 214 lines, 1.78 KiB, 428 tokens] please"), "{text}");
    bench.press(KeyCode::Enter);
    let asked = bench.asked();
    assert!(asked.starts_with("Sum up: line 1\nline 2\n") && asked.ends_with("line 214\n please"));
    // It comes back as it was written.
    bench.finish(1, outcome(Finish::Stop));
    bench.press(KeyCode::Up);
    assert!(bench.text((80, 24)).contains("[pasted 214 lines, 1.78 KiB, 428 tokens] please"));
    bench.ctrl('w');
    bench.press(KeyCode::Backspace);
    bench.press(KeyCode::Backspace);
    assert_eq!(bench.app.composer.text(), "Sum up: ");
}

#[test]
fn a_file_behind_an_at_becomes_a_chip() {
    let mut bench = Bench::ready();
    bench.write("see @src/ma");
    let asked = |bench: &Bench| {
        bench.sent.iter().rev().find_map(|effect| match effect {
            Effect::List(word) => Some(word.clone()),
            _ => None,
        })
    };
    assert_eq!(asked(&bench).as_deref(), Some("@src/ma"));
    let listed = |word: &str, files: &[&str]| Msg::Listed {
        word: word.to_owned(),
        files: files.iter().map(|name| (*name).to_owned()).collect(),
    };
    // An answer to what was written before is no answer any more.
    bench.update(listed("@src/m", &["@src/more"]));
    assert!(bench.app.completions().is_empty());
    bench.update(listed("@src/ma", &["@src/maps/", "@src/main.rs"]));
    let text = bench.text((80, 24));
    assert!(text.contains("▸ @src/maps/") && text.contains("@src/main.rs  file"), "{text}");
    bench.press(KeyCode::Down);
    bench.press(KeyCode::Tab);
    assert!(
        matches!(bench.sent.last(), Some(Effect::List(_)))
            || bench.sent.iter().any(|e| matches!(e, Effect::Attach(_)))
    );
    assert_eq!(bench.app.composer.text(), "see @src/main.rs");
    bench.write(" now");
    let file = Ok(Chip::file("src/main.rs", "fn main() {}\n"));
    bench.update(Msg::Attached { word: "@src/main.rs".to_owned(), file });
    bench.write("!");
    let text = bench.text((80, 24));
    assert!(text.contains("❯ see [src/main.rs, 1 line, 13 B] now!"), "{text}");
    bench.press(KeyCode::Enter);
    assert_eq!(bench.asked(), "see \nsrc/main.rs:\n```\nfn main() {}\n```\n now!");
}

#[test]
fn a_file_that_cannot_be_read_is_said_and_a_list_can_be_closed() {
    let mut bench = Bench::thinking();
    bench.write("@x");
    bench.update(Msg::Listed { word: "@x".to_owned(), files: vec!["@xyz".to_owned()] });
    assert!(bench.text((80, 24)).contains("@xyz"));
    bench.press(KeyCode::Esc);
    assert!(!bench.text((80, 24)).contains("@xyz"));
    assert!(!bench.sent.iter().any(|effect| matches!(effect, Effect::Cancel(_))), "the turn runs on");
    bench.update(Msg::Attached { word: "@xyz".to_owned(), file: Err("xyz is no text.".to_owned()) });
    assert!(bench.text((80, 24)).contains("xyz is no text."));
    assert_eq!(bench.app.composer.text(), "@x");
}

#[test]
fn earlier_messages_are_looked_for() {
    let mut bench = Bench::answered();
    for text in ["about cats", "about mice", "about owls"] {
        bench.write(text);
        bench.ctrl('c');
    }
    bench.ctrl('r');
    bench.write("ABOUT");
    let text = bench.text((80, 24));
    let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("no {words} in {text}"));
    assert!(at("about cats") < at("about mice") && at("about mice") < at("▸ about owls"), "{text}");
    bench.ctrl('r');
    bench.press(KeyCode::Up);
    for _ in 0..9 {
        bench.press(KeyCode::Up);
    }
    bench.press(KeyCode::Down);
    bench.press(KeyCode::Enter);
    assert_eq!(bench.app.composer.text(), "about mice");
    bench.ctrl('r');
    bench.press(KeyCode::Esc);
    assert_eq!(bench.app.composer.text(), "about mice");
}

#[test]
fn what_was_sent_is_remembered_for_the_next_start() {
    let mut bench = Bench::ready();
    bench.send("first");
    bench.write("not sent");
    bench.finish(1, outcome(Finish::Stop));
    bench.ctrl('c');
    let remembered: Vec<_> = bench
        .sent
        .iter()
        .filter_map(|effect| match effect {
            Effect::Remember(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(remembered, ["first", "not sent"]);
}

#[test]
fn the_editor_changes_the_draft_or_leaves_it() {
    let mut bench = Bench::ready();
    bench.write("draft");
    bench.ctrl('x');
    bench.ctrl('e');
    assert!(matches!(bench.sent.last(), Some(Effect::Edit(text)) if text == "draft"));
    bench.update(Msg::Edited(Err("the editor ended with exit code 1 (vi)".to_owned())));
    assert_eq!(bench.app.composer.text(), "draft");
    assert!(bench.text((80, 24)).contains("The draft is as it was: the editor ended with exit code 1 (vi)"));
    bench.update(Msg::Edited(Ok("two\nlines\u{1b}[2J\n".to_owned())));
    assert_eq!(bench.app.composer.text(), "two\nlines");
    // What comes back as it went stays in chips.
    bench.update(Msg::Paste("line\n".repeat(30)));
    let before = bench.app.composer.draft().clone();
    bench.update(Msg::Edited(Ok(before.expanded())));
    assert_eq!(bench.app.composer.draft(), &before);
}

#[test]
fn messages_wait_for_the_turn_and_go_in_their_order() {
    let mut bench = Bench::thinking();
    for text in ["second", "third", "fourth", "fifth", "sixth"] {
        bench.send(text);
    }
    assert_eq!(bench.generated().len(), 1);
    let text = bench.text((80, 24));
    assert!(text.contains("queued second") && text.contains("and 2 more"), "{text}");
    bench.key(KeyCode::Up, KeyModifiers::ALT);
    assert_eq!(bench.app.composer.text(), "sixth");
    bench.finish(1, outcome(Finish::Stop));
    assert_eq!((bench.generated().len(), bench.asked()), (2, "second".to_owned()));
    bench.finish(2, outcome(Finish::Length));
    assert_eq!(bench.asked(), "third");
    assert_eq!(bench.app.queue.waiting.len(), 2);
    // What is being written stays.
    assert_eq!(bench.app.composer.text(), "sixth");
}

#[test]
fn after_a_stop_or_a_failure_messages_wait_for_the_user() {
    for finish in [Finish::Cancelled, Finish::Error] {
        let mut bench = Bench::thinking();
        bench.send("second");
        bench.send("third");
        let error = (finish == Finish::Error).then(failure);
        bench.finish(1, Outcome { error, ..outcome(finish) });
        assert_eq!(bench.generated().len(), 1);
        let text = bench.text((80, 24));
        assert!(text.contains("2 queued messages wait: Enter sends the next"), "{text}");
        bench.send("instead");
        assert_eq!(bench.asked(), "instead");
        bench.finish(2, outcome(Finish::Stop));
        assert_eq!(bench.asked(), "instead", "they wait on");
        bench.press(KeyCode::Enter);
        assert_eq!(bench.asked(), "second");
        bench.finish(3, outcome(Finish::Stop));
        assert_eq!(bench.asked(), "third");
    }
    let mut bench = Bench::thinking();
    bench.send("second");
    bench.write("and");
    bench.engine(Event::Failed(failure()));
    bench.key(KeyCode::Up, KeyModifiers::ALT);
    assert_eq!(bench.app.composer.text(), "second\nand");
    assert!(!bench.app.queue.held);
}

/// T09.
#[test]
fn t09_a_new_conversation_keeps_what_was_queued_within_reach() {
    let mut bench = Bench::thinking();
    bench.send("second");
    bench.finish(1, outcome(Finish::Cancelled));
    bench.send("/new");
    assert!(bench.app.queue.waiting.is_empty());
    bench.press(KeyCode::Up);
    assert_eq!(bench.app.composer.text(), "second");
}

/// T10.
#[test]
fn t10_clearing_a_long_draft_brings_the_conversation_back() {
    let mut bench = Bench::answered();
    let before = bench.text((80, 24));
    for line in 0..9 {
        bench.write(&format!("line {line}"));
        bench.key(KeyCode::Enter, KeyModifiers::ALT);
    }
    assert_ne!(bench.text((80, 24)), before);
    bench.ctrl('c');
    bench.clock(100.0, |_| {});
    assert_eq!(bench.text((80, 24)), before);
}
