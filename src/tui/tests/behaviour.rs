//! What messages do to the state, seen on the screen and in what is asked of the engine.

use crossterm::event::{KeyCode, KeyModifiers};

use super::branching::{asked, ended, opening};
use super::{Bench, failure, outcome};
use crate::protocol::{
    Arguments, Channel, Command, Event, ExitCode, Finish, Limit, Limits, Message, Outcome, Part, Phase,
    Prompt, Reached, Thinking, TokenCost, ToolCall, TurnId, UserError,
};
use crate::session::Record;
use crate::tui::Options;
use crate::tui::app::{App, Effect, Msg};
use crate::tui::counter::{Counted, Place};
use crate::tui::draft::Draft;

#[test]
fn starting_loads_the_model() {
    let mut bench = Bench::new();
    assert!(matches!(bench.sent.as_slice(), [Effect::Send(Command::Load(_)), Effect::AskBackground]));
    bench.send("too early");
    assert!(bench.generated().is_empty());
    assert_eq!(bench.app.composer.text(), "too early");
    assert!(bench.text((80, 24)).contains("still loading"));
}

#[test]
fn a_message_becomes_a_turn_with_the_whole_conversation() {
    let mut bench = Bench::answered();
    bench.send("/think max");
    bench.send("  And now?  ");
    let requests = bench.generated();
    let Prompt::Chat(conversation) = &requests[1].prompt else { panic!("no chat") };
    assert_eq!(
        (requests[1].turn, conversation.messages.len(), conversation.thinking),
        (TurnId(2), 3, Thinking::Max)
    );
    assert_eq!(conversation.messages[2], Message::user("And now?"));
}

/// P09: what was thought stays, too.
#[test]
fn p09_a_turn_is_stopped_once_and_keeps_its_text() {
    for stop in [(KeyCode::Esc, KeyModifiers::NONE), (KeyCode::Char('c'), KeyModifiers::CONTROL)] {
        let mut bench = Bench::thinking();
        bench.key(stop.0, stop.1);
        assert!(
            bench.generated()[0].cancel.is_cancelled()
                || matches!(bench.sent.last(), Some(Effect::Cancel(_)))
        );
        assert!(bench.text((80, 24)).contains("stopping"));
        bench.press(KeyCode::Esc);
        assert_eq!(bench.sent.iter().filter(|effect| matches!(effect, Effect::Cancel(_))).count(), 1);
        bench.finish(1, outcome(Finish::Cancelled));
        assert!(bench.app.running.is_none());
        let text = bench.text((80, 24));
        assert!(text.contains("They sleep a lot.") && text.contains("stopped by you"), "{text}");
        assert!(text.contains("● ready"));
        assert!(!bench.left());
    }
}

#[test]
fn impatience_leaves_in_the_end() {
    let mut bench = Bench::thinking();
    bench.ctrl('c');
    bench.ctrl('c');
    assert!(!bench.left());
    assert!(bench.text((80, 24)).contains("once more"));
    bench.ctrl('c');
    assert!(bench.left());
}

/// T09.
#[test]
fn t09_a_draft_is_kept_while_a_turn_runs_and_reachable_when_cleared() {
    let mut bench = Bench::thinking();
    bench.write("my next question");
    assert_eq!(bench.generated().len(), 1);
    bench.finish(1, outcome(Finish::Stop));
    assert_eq!(bench.app.composer.text(), "my next question");
    bench.ctrl('c');
    assert_eq!(bench.app.composer.text(), "");
    assert!(!bench.left());
    bench.press(KeyCode::Up);
    assert_eq!(bench.app.composer.text(), "my next question");
    bench.press(KeyCode::Up);
    assert_eq!(bench.app.composer.text(), "What is a dormouse?");
    bench.press(KeyCode::Down);
    bench.press(KeyCode::Down);
    assert_eq!(bench.app.composer.text(), "");
    bench.ctrl('c');
    assert!(bench.left());
}

#[test]
fn pastes_and_newlines_do_not_send() {
    let mut bench = Bench::ready();
    bench.update(Msg::Paste("one\r\ntwo\n".to_owned()));
    bench.key(KeyCode::Enter, KeyModifiers::ALT);
    bench.key(KeyCode::Enter, KeyModifiers::SHIFT);
    bench.ctrl('j');
    assert_eq!(bench.app.composer.text(), "one\ntwo\n\n\n\n");
    assert!(bench.generated().is_empty());
    let (_, caret) = bench.buffer((80, 24));
    assert_eq!(caret, Some((3, 21)));
}

#[test]
fn a_refused_message_leaves_the_conversation_and_up_brings_it_back() {
    let mut bench = Bench::answered();
    let refuse = |bench: &mut Bench, turn| {
        bench.finish(turn, Outcome { error: Some(failure()), ids: Vec::new(), ..outcome(Finish::Error) });
    };
    bench.send("far too long");
    refuse(&mut bench, 2);
    assert_eq!(bench.app.composer.text(), "");
    let text = bench.text((80, 24));
    assert!(text.contains("The message is not part of the conversation; Up brings it back."), "{text}");
    bench.press(KeyCode::Up);
    assert_eq!(bench.app.composer.text(), "far too long");
    bench.press(KeyCode::Down);
    bench.send("shorter");
    let last = bench.generated().last().map(|request| request.prompt.clone());
    let Some(Prompt::Chat(conversation)) = last else { panic!("no chat") };
    assert_eq!(conversation.messages.len(), 3);
    assert_eq!(conversation.messages[2], Message::user("shorter"));
}

#[test]
fn the_cursor_stands_at_the_caret() {
    let mut bench = Bench::ready();
    bench.write("漢字，");
    assert_eq!(bench.buffer((80, 24)).1, Some((9, 21)));
    bench.press(KeyCode::Left);
    assert_eq!(bench.buffer((80, 24)).1, Some((7, 21)));
    assert_eq!(bench.buffer((20, 5)).1, Some((7, 4)));
}

#[test]
fn late_events_change_nothing() {
    let mut bench = Bench::answered();
    let before = bench.text((80, 24));
    bench.say(1, Part::Answer("late".to_owned()));
    bench.say(99, Part::Answer("of nobody".to_owned()));
    bench.finish(1, outcome(Finish::Error));
    bench.engine(Event::Prompt { turn: TurnId(1), ids: vec![0; 999], reused: 0 });
    assert_eq!(bench.text((80, 24)), before);
    bench.send("And now?");
    bench.say(1, Part::Answer("late".to_owned()));
    bench.finish(1, outcome(Finish::Stop));
    assert!(bench.app.running.is_some());
    let newest = bench.app.transcript.turns().last().unwrap();
    assert!(newest.is_running() && newest.is_silent());
}

#[test]
fn an_engine_that_breaks_can_be_loaded_again() {
    let mut bench = Bench::thinking();
    bench.engine(Event::Failed(failure()));
    assert!(bench.app.running.is_none());
    let text = bench.text((80, 24));
    assert!(text.contains("12 bytes are missing at the end") && text.contains("Ctrl-R"), "{text}");
    bench.ctrl('r');
    assert!(matches!(bench.sent.last(), Some(Effect::Send(Command::Load(_)))));
    bench.engine(Event::Stopped);
    assert!(bench.text((80, 24)).contains("The engine has left"));
    bench.send("hello?");
    assert_eq!(bench.app.composer.text(), "hello?");
    assert_eq!(bench.generated().len(), 1);
}

#[test]
fn commands_do_what_they_say() {
    let mut bench = Bench::answered();
    bench.send("/nonsense");
    assert_eq!(bench.app.composer.text(), "/nonsense");
    assert!(bench.text((80, 24)).contains("is no command"));
    bench.ctrl('u');
    bench.send("/th");
    assert_eq!(bench.app.composer.text(), "");
    bench.send("/think high");
    assert!(bench.text((80, 24)).contains("think high"));
    bench.send("/new");
    assert!(matches!(bench.sent.last(), Some(Effect::Send(Command::Reset))));
    assert!(bench.app.transcript.turns().is_empty());
    assert!(bench.text((80, 24)).contains("Ready: nano"));
    bench.send("/mouse");
    assert!(matches!(bench.sent.last(), Some(Effect::Mouse(false))));
    bench.send("/quit");
    assert!(bench.left());
    let mut bench = Bench::thinking();
    bench.send("/new");
    assert_eq!((bench.app.composer.text(), bench.app.transcript.turns().len()), ("/new", 1));
}

/// All that an answer depends on is written down before the engine is asked, each token as it is drawn, and the end.
#[test]
fn a_turn_is_written_down() {
    fn letter(effect: &Effect) -> char {
        match effect {
            Effect::Remember(_) => 'm',
            Effect::Record(Record::Turn(_)) => 'U',
            Effect::Record(Record::Prompt(_)) => 'P',
            Effect::Record(Record::Token { .. }) => 'T',
            Effect::Record(Record::End(_)) => 'E',
            Effect::Send(Command::Generate(_)) => 'g',
            Effect::CloseSession => 'c',
            Effect::Send(Command::Reset) => 'r',
            _ => '?',
        }
    }
    let mut bench = Bench::ready();
    bench.sent.clear();
    let token = |turn| Event::Token { turn: TurnId(turn), id: 7, channel: Channel::Thinking };
    bench.send("What is a dormouse?");
    bench.engine(Event::Prompt { turn: TurnId(1), ids: vec![0; 12], reused: 0 });
    bench.engine(token(1));
    bench.engine(token(9));
    bench.finish(1, outcome(Finish::Cancelled));
    bench.send("/new");
    bench.send("And now?");
    bench.engine(Event::Failed(failure()));
    let counts = |effect: &&Effect| matches!(effect, Effect::Count(_));
    let written: String = bench.sent.iter().filter(|effect| !counts(effect)).map(letter).collect();
    assert_eq!(written, "mUgPTEcrmUgE");
    let starts: Vec<_> = bench
        .sent
        .iter()
        .filter_map(|effect| match effect {
            Effect::Record(Record::Turn(start)) => Some(start),
            _ => None,
        })
        .collect();
    let asked = bench.generated();
    for (start, request) in starts.iter().zip(&asked) {
        assert_eq!(start.sampling().seed, request.sampling.seed);
        assert_eq!((start.temperature, start.top_p), (1.0, 0.95), "the model's own");
    }
    assert_ne!(starts[0].seed, starts[1].seed);
    let ends: Vec<_> = bench
        .sent
        .iter()
        .filter_map(|effect| match effect {
            Effect::Record(Record::End(end)) => Some((end.finish, end.error.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(ends, [(Finish::Cancelled, ""), (Finish::Error, "The model cannot be loaded")]);
}

#[test]
fn a_session_that_is_opened_again_shows_its_turns_and_its_name() {
    let options = Options {
        opening: Some(opening(&[
            asked("Earlier?"),
            Record::Token { id: 1, channel: Channel::Answer },
            ended(Finish::Stop),
        ])),
        notice: Some("its end was cut".to_owned()),
        model_label: "nano".to_owned(),
        ..Options::default()
    };
    let app = App::new(options);
    let mut bench = Bench { app, ..Bench::ready() };
    let text = bench.text((80, 24));
    for expected in ["nano · trip", "Earlier?", "word 1", "its end was cut"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    bench.engine(Event::Ready(Bench::facts()));
    bench.send("And now?");
    let request = bench.generated().pop().unwrap().clone();
    assert_eq!(request.turn, TurnId(2));
    let Prompt::Chat(conversation) = request.prompt else { panic!("not a chat") };
    assert_eq!(conversation.messages.len(), 3);
}

#[test]
fn commands_are_completed() {
    let mut bench = Bench::ready();
    bench.write("/t");
    bench.press(KeyCode::Tab);
    assert_eq!(bench.app.composer.text(), "/think ");
    for _ in 0..3 {
        bench.press(KeyCode::Down);
    }
    bench.press(KeyCode::Enter);
    assert_eq!(bench.app.thinking, Thinking::High);
    // Where nobody has chosen anything, Enter chooses nothing: the command says what holds.
    bench.send("/think ");
    assert_eq!(bench.app.thinking, Thinking::High);
    bench.write("/think ");
    bench.press(KeyCode::Tab);
    assert_eq!(bench.app.composer.text(), "/think off");
}

#[test]
fn thinking_is_folded_and_unfolded() {
    let mut bench = Bench::answered();
    let size = (80, 60);
    assert!(bench.text(size).contains("▸ thought for 40 s, 11 words"));
    assert!(!bench.text(size).contains("They sleep a lot."));
    bench.ctrl('t');
    assert!(bench.text(size).contains("│ The user asks about dormice. They sleep a lot."));
    bench.ctrl('t');
    assert!(!bench.text(size).contains("They sleep a lot."));
}

#[test]
fn what_is_missing_from_an_answer_is_said() {
    let mut bench = Bench::ready();
    bench.send("hi");
    bench.finish(1, outcome(Finish::Stop));
    assert!(bench.text((80, 24)).contains("The model gave an empty answer."));
    bench.send("again");
    bench.say(2, Part::Thinking("hm".to_owned()));
    bench.finish(2, outcome(Finish::Length));
    let text = bench.text((80, 24));
    assert!(text.contains("The thinking was not finished") && text.contains("│ hm"), "{text}");
    bench.send("call");
    let arguments = Arguments::Object([("city".to_owned(), "Bern\u{1b}[31m".into())].into_iter().collect());
    bench.say(3, Part::ToolCall(ToolCall { id: None, name: "weather".to_owned(), arguments }));
    bench.finish(3, outcome(Finish::Stop));
    let text = bench.text((80, 24));
    assert!(text.contains("The model tried to call weather(city=\"Bern"), "{text}");
}

#[test]
fn what_a_message_will_cost_is_told_while_it_is_written() {
    let mut bench = Bench::ready();
    let size = (96, 24);
    assert!(!bench.text(size).contains("tokens ─"));
    bench.write("a b c");
    assert!(bench.text(size).contains("─ counting tokens ─"));
    bench.count();
    // Nothing was measured and nothing planned: only what is known is told.
    assert!(bench.text(size).contains("─ +13 tokens ─"), "{}", bench.text(size));
    bench.write(" d");
    bench.count();
    assert!(bench.text(size).contains("+14 tokens"));
    bench.ctrl('u');
    bench.write("/think");
    bench.count();
    assert!(!bench.text(size).contains("+14 tokens"), "a command costs nothing");

    // Twelve tokens were read in half a second, and a token took a quarter.
    let mut bench = Bench::answered();
    bench.clock(55.0, |s| s.context_used = 24);
    bench.write("a b");
    bench.count();
    let text = bench.text((120, 24));
    let history = 10 + 4 + 10 + super::ANSWER.split_whitespace().count();
    let unread = 12 + history - 24;
    let read = format!("about {:.0} s to read", 0.5 / 12.0 * unread as f64);
    assert!(text.contains(&format!("+12 tokens, {unread} to read · {read} · about 50 s for 200")), "{text}");
    // Another effort makes another prompt, from its beginning.
    bench.ctrl('u');
    bench.send("/think max");
    bench.write("a b");
    bench.count();
    let text = bench.text((120, 24));
    assert!(text.contains(&format!("+12 tokens, {} to read", 12 + history)), "{text}");
    assert!(bench.text((80, 24)).contains("+12 tokens"));
    assert!(bench.text((40, 12)).contains("+12 tokens"));
    // An answer to an old question changes nothing.
    bench.update(Msg::Counted(Counted {
        place: Place::Draft,
        number: 1,
        tokens: 999,
        draft: Draft::default(),
    }));
    assert!(bench.text((80, 24)).contains("+12 tokens"));
}

#[test]
fn a_stall_says_what_is_waited_for() {
    let mut bench = Bench::thinking();
    bench.clock(46.0, |s| (s.waiting_for, s.waiting_ns) = (2, 45_900_000_000));
    assert!(bench.text((120, 40)).contains("stalled 4 s · waiting for experts from the disk"));
    // Bytes that land are progress.
    bench.clock(47.0, |s| s.landed_bytes += 1);
    assert!(!bench.text((120, 40)).contains("stalled"));
}

#[test]
fn a_prompt_is_read_chunk_by_chunk_with_an_end_in_sight() {
    let mut bench = Bench::ready();
    bench.send("a long story");
    bench.clock(3.0, |s| {
        (s.turn, s.phase, s.prompt_total, s.chunks, s.chunk) = (1, Phase::Prefill, 300, 5, 1);
    });
    bench.clock(103.0, |s| {
        (s.chunk, s.layer, s.landed_bytes, s.pass_began_ns) = (2, 0, 9 << 30, 90_000_000_000);
    });
    let text = bench.text((160, 24));
    for part in ["reading the prompt 2/5", "first token in ~7 min", "layer 1/9", "━━"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn limits_go_with_the_turn_and_are_shown_with_what_is_left() {
    let mut bench = Bench::ready();
    bench.app.limits = Limits { think: Some(Limit::Tokens(100)), answer: Some(Limit::Seconds(600)) };
    assert!(
        bench.text((120, 24)).contains("thinking ≤ 100 tokens, answer ≤ 10m"),
        "{}",
        bench.text((120, 24))
    );
    bench.send("Hi");
    assert_eq!(bench.generated()[0].limits, bench.app.limits);
    bench.clock(3.0, |s| (s.turn, s.phase) = (1, Phase::Decode));
    for _ in 0..40 {
        bench.engine(Event::Token { turn: TurnId(1), id: 7, channel: Channel::Thinking });
        bench.engine(Event::Step { turn: TurnId(1), seconds: 2.0, cost: TokenCost::default() });
    }
    bench.say(1, Part::Thinking("hm".to_owned()));
    assert!(bench.text((200, 24)).contains("at most 2 min left"), "{}", bench.text((200, 24)));
    bench.say(1, Part::Answer("so".to_owned()));
    bench.clock(63.0, |_| {});
    assert!(bench.text((200, 24)).contains("at most 9 min left"));
    let reached = Some(Reached::Answer(Limit::Seconds(600)));
    bench.finish(1, Outcome { reached, ..outcome(Finish::Length) });
    assert!(
        bench.text((120, 24)).contains("■ reached the limit of 10m for the answer · 12 tokens in · 13 out")
    );
}

#[test]
fn a_wait_is_never_silent() {
    let mut bench = Bench::thinking();
    let one = bench.text((120, 40));
    assert!(one.contains("layer 3/9") && one.contains("token 12 s of ~28 s"), "{one}");
    bench.clock(47.0, |_| {});
    let later = bench.text((120, 40));
    assert!(later.contains("stalled 5 s · computing") && later.contains("token 17 s"), "{later}");
    assert!(bench.app.moves());
    bench.finish(1, outcome(Finish::Stop));
    assert!(!bench.app.moves());
}

#[test]
fn hostile_text_never_reaches_a_cell() {
    let hostile = "a\u{1b}]52;c;aGk=\u{7}b \u{9b}31m &#27;[2J `\u{1b}[31m` | \u{202e} |\n```\u{1b}[1m\n\u{1b}[2Jx\n```\n<b \u{1b}>";
    let mut bench = Bench::ready();
    bench.app.options.model_label = hostile.to_owned();
    bench.update(Msg::Paste(hostile.to_owned()));
    bench.press(KeyCode::Enter);
    bench.say(1, Part::Thinking(hostile.to_owned()));
    bench.say(1, Part::Answer(hostile.to_owned()));
    let call = ToolCall { id: None, name: hostile.to_owned(), arguments: Arguments::Raw(hostile.to_owned()) };
    bench.say(1, Part::ToolCall(call));
    let error = UserError::new(ExitCode::Invalid, hostile, hostile).with_hint(hostile);
    bench.finish(1, Outcome { error: Some(error.clone()), ..outcome(Finish::Error) });
    bench.engine(Event::Failed(error));
    bench.ctrl('t');
    let (buffer, _) = bench.buffer((80, 60));
    for cell in &buffer.content {
        assert!(!cell.symbol().contains(char::is_control), "{:?}", cell.symbol());
        assert!(!cell.symbol().contains('\u{202e}'));
    }
}

/// T17.
#[test]
fn t17_a_very_long_answer_is_laid_out() {
    let mut bench = Bench::ready();
    bench.send("count");
    let lines: Vec<String> = (0..70_000).map(|line| format!("- {line}")).collect();
    bench.say(1, Part::Answer(lines.join("\n")));
    bench.finish(1, outcome(Finish::Stop));
    assert!(bench.text((80, 24)).contains("• 69999"));
    bench.key(KeyCode::Home, KeyModifiers::CONTROL);
    assert!(bench.text((80, 24)).contains("❯ count"));
}
