//! Answers that are asked for again, messages that are edited, turns that are taken up, and the branches that come of it.

use crossterm::event::{KeyCode, KeyModifiers};

use super::{Bench, outcome};
use crate::protocol::{
    Channel, Command, ContextFull, Event, ExitCode, Finish, Limit, Limits, Message, Outcome, Part, Prompt,
    Reached, Sampling, Thinking, TurnId, UserError,
};
use crate::session::{Branch, End, Header, PromptDigest, Record, Session, TurnStart};
use crate::tui::app::{Effect, Msg};
use crate::tui::opening::Opening;
use crate::units::Bytes;

/// A turn begins with this message.
pub(super) fn start(user: &str) -> TurnStart {
    TurnStart {
        user: user.to_owned(),
        thinking: Thinking::High,
        temperature: 0.5,
        top_p: 0.9,
        seed: 77,
        max_tokens: None,
        limits: Limits::default(),
        at: 1,
    }
}

pub(super) fn asked(user: &str) -> Record {
    Record::Turn(start(user))
}

pub(super) fn ended(finish: Finish) -> Record {
    Record::End(End { finish, at: 2, error: String::new(), reached: None, took: None })
}

fn token(id: u32) -> Record {
    Record::Token { id, channel: Channel::Answer }
}

/// Session `trip` with these records. Each of its ids is a word of an answer.
pub(super) fn opening(records: &[Record]) -> Opening {
    let header = Header { model: 7, folder: "/m".to_owned(), name: "m".to_owned(), created: 1 };
    let session = Session::of(header, records.iter().cloned());
    let words = |turn: &crate::session::Turn| {
        turn.ids.iter().map(|id| Part::Answer(format!("word {id} "))).collect::<Vec<_>>()
    };
    let parts = session.turns.iter().map(words).collect();
    Opening::of("trip".to_owned(), &session, parts)
}

impl Bench {
    /// One whose model is loaded and that shows a session with these records.
    fn with(records: &[Record]) -> Self {
        let mut bench = Self::ready();
        bench.app.open(opening(records));
        bench.sent.clear();
        bench
    }

    fn records(&self) -> Vec<&Record> {
        self.sent
            .iter()
            .filter_map(|effect| match effect {
                Effect::Record(record) => Some(record),
                _ => None,
            })
            .collect()
    }

    /// Answers the turn that was asked last with one token.
    fn answer(&mut self, id: u32) {
        let turn = self.generated().last().unwrap().turn;
        self.engine(Event::Prompt { turn, ids: vec![3; 9], reused: 0 });
        self.engine(Event::Token { turn, id, channel: Channel::Answer });
        self.engine(Event::Delta { turn, part: Part::Answer(format!("answer {id}")) });
        self.finish(turn.0, Outcome { ids: vec![id], ..outcome(Finish::Stop) });
    }

    /// What the conversation shows, one message after another.
    fn said(&self) -> Vec<String> {
        let turns = self.app.transcript.turns();
        turns.iter().flat_map(|turn| [turn.user.clone(), turn.answer.trim().to_owned()]).collect()
    }

    /// What the model read for the turn that was asked last.
    fn read(&self) -> Vec<Message> {
        let Prompt::Chat(conversation) = &self.generated().last().unwrap().prompt else { panic!("no chat") };
        conversation.messages.clone()
    }

    fn alt(&mut self, code: KeyCode) {
        self.key(code, KeyModifiers::ALT);
    }
}

/// One whose last turn stands beside another one and leaves a turn out, and whose message is being edited.
pub(super) fn edited_again() -> Bench {
    let branch = Record::Branch(Branch { follows: 1, dropped: 1, turn: start("And a dormouse?") });
    let one = [asked("What is a mouse?"), token(1), ended(Finish::Stop)];
    let two = [asked("And a rat?"), token(2), ended(Finish::Stop)];
    let mut bench = Bench::with(&[&one[..], &two, &[branch, token(3), ended(Finish::Cancelled)]].concat());
    bench.alt(KeyCode::Char('e'));
    bench
}

/// P10: the last answer is asked for again, and the old one is kept.
#[test]
fn p10_a_retry_gives_another_answer_beside_the_old_one() {
    let mut bench = Bench::ready();
    bench.send("first");
    bench.answer(1);
    bench.send("second");
    bench.answer(2);
    bench.send("/retry");
    bench.answer(3);
    bench.send("/retry 42");
    bench.answer(4);
    assert_eq!(bench.said(), ["first", "answer 1", "second", "answer 4"]);
    let requests = bench.generated();
    assert_eq!(bench.read().len(), 3, "the old answer is not part of the question");
    assert_ne!(requests[1].sampling.seed, requests[2].sampling.seed);
    assert_eq!(requests[3].sampling.seed, Some(42));
    let follows: Vec<_> = bench
        .records()
        .into_iter()
        .filter_map(|record| match record {
            Record::Branch(Branch { follows, dropped: 0, turn }) => Some((*follows, turn.user.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(follows, [(1, "second"), (1, "second")]);
    assert!(bench.text((80, 30)).contains("‹3/3›"), "{}", bench.text((80, 30)));
    // The way back, and forth, is written down too.
    bench.alt(KeyCode::Up);
    assert_eq!(bench.said()[3], "answer 3");
    bench.alt(KeyCode::Up);
    assert_eq!(bench.said()[3], "answer 2");
    assert!(bench.text((80, 30)).contains("‹1/3›") && bench.text((80, 30)).contains("answer 2"));
    bench.alt(KeyCode::Up);
    assert!(bench.text((80, 30)).contains("the first of 3 branches"));
    bench.alt(KeyCode::Down);
    assert_eq!(bench.said()[3], "answer 3");
    let moves: Vec<_> =
        bench.records().into_iter().filter(|record| matches!(record, Record::GoTo(_))).collect();
    assert_eq!(moves, [&Record::GoTo(3), &Record::GoTo(2), &Record::GoTo(3)]);
    // What comes next follows what is shown.
    bench.send("third");
    assert!(matches!(bench.records().last(), Some(Record::Turn(turn)) if turn.user == "third"));
    assert_eq!(bench.read().len(), 5);
    assert!(bench.app.turn_branch(-1).is_empty(), "not while a turn runs");
}

#[test]
fn with_a_bad_seed_nothing_is_asked() {
    let mut bench = Bench::ready();
    bench.send("/retry");
    assert!(bench.text((80, 24)).contains("Nothing was asked yet"));
    bench.ctrl('u');
    bench.send("first");
    bench.answer(1);
    bench.send("/retry seven");
    assert!(bench.text((80, 24)).contains("`seven` is no seed"));
    assert_eq!((bench.generated().len(), bench.app.composer.text()), (1, "/retry seven"));
}

/// P10: the last message is edited; leaving loses nothing, and sending makes a branch.
#[test]
fn p10_an_edited_message_makes_a_branch_and_a_draft_survives_it() {
    let mut bench = Bench::ready();
    for (number, text) in [(1, "first"), (2, "second")] {
        bench.send(text);
        bench.answer(number);
    }
    bench.write("a draft");
    bench.alt(KeyCode::Char('e'));
    assert_eq!(bench.app.composer.text(), "second");
    let text = bench.text((80, 24));
    assert!(text.contains("Editing message 2 of 2") && text.contains("Esc"), "{text}");
    bench.alt(KeyCode::Char('e'));
    assert_eq!(bench.app.composer.text(), "first");
    bench.alt(KeyCode::Char('e'));
    assert!(bench.text((80, 24)).contains("This is the first message"));
    bench.press(KeyCode::Esc);
    assert_eq!((bench.app.composer.text(), bench.said().len()), ("a draft", 4));
    assert!(!bench.text((80, 24)).contains("Editing message"));
    // Ctrl-C leaves it too, and clears nothing.
    bench.alt(KeyCode::Char('e'));
    bench.ctrl('c');
    assert_eq!(bench.app.composer.text(), "a draft");
    assert!(!bench.left());
    bench.alt(KeyCode::Char('e'));
    bench.alt(KeyCode::Char('e'));
    bench.write(", better");
    bench.press(KeyCode::Enter);
    bench.answer(3);
    assert_eq!(bench.said(), ["first, better", "answer 3"]);
    assert_eq!(bench.app.composer.text(), "a draft");
    let branch = bench.records().into_iter().find(|record| matches!(record, Record::Branch(_)));
    assert!(matches!(branch, Some(Record::Branch(Branch { follows: 0, .. }))), "{branch:?}");
    bench.alt(KeyCode::Up);
    assert_eq!(bench.said(), ["first", "answer 1", "second", "answer 2"], "the whole branch is there");
    bench.alt(KeyCode::Down);
    assert_eq!(bench.said(), ["first, better", "answer 3"]);
    // The rows on the screen are those of the branch, though they are as long as the others were.
    let text = bench.text((80, 24));
    assert!(
        text.contains("first, better") && text.contains("answer 3") && !text.contains("answer 1"),
        "{text}"
    );
}

/// P03: an answer that was cut is shown as far as it came, and goes on from its last token as if nothing had been.
#[test]
fn p03_a_cut_answer_is_offered_and_goes_on() {
    let cut = [asked("Who?"), Record::Prompt(PromptDigest::of(&[3; 9])), token(1), token(2)];
    let mut bench = Bench::with(&cut);
    let text = bench.text((80, 24));
    assert!(text.contains("word 1 word 2") && text.contains("not finished (2 tokens): Enter"), "{text}");
    bench.press(KeyCode::Enter);
    let request = bench.generated().pop().unwrap().clone();
    assert_eq!((request.turn, request.generated.as_slice()), (TurnId(1), &[1, 2][..]));
    let sampling = Sampling { temperature: Some(0.5), top_p: Some(0.9), seed: Some(77) };
    assert_eq!(request.sampling, sampling);
    let Prompt::Chat(conversation) = &request.prompt else { panic!("no chat") };
    assert_eq!(conversation.messages, [Message::user("Who?")]);
    assert_eq!(conversation.thinking, Thinking::High, "as it was asked, not as it is set now");
    assert_eq!(bench.records(), [&Record::Resumed(0)]);
    // What it had said is told anew, once.
    bench.engine(Event::Prompt { turn: TurnId(1), ids: vec![3; 9], reused: 0 });
    for part in ["word 1 ", "word 2 "] {
        bench.say(1, Part::Answer(part.to_owned()));
    }
    bench.engine(Event::Token { turn: TurnId(1), id: 3, channel: Channel::Answer });
    bench.say(1, Part::Answer("word 3".to_owned()));
    bench.finish(1, Outcome { ids: vec![1, 2, 3], ..outcome(Finish::Stop) });
    assert_eq!(bench.said(), ["Who?", "word 1 word 2 word 3"]);
    assert!(
        matches!(bench.records()[1..], [told, Record::End(end)] if *told == token(3) && end.finish == Finish::Stop)
    );
    assert!(!bench.text((80, 24)).contains("Enter on an empty line"));
    bench.press(KeyCode::Enter);
    assert_eq!(bench.generated().len(), 1);
    bench.send("/continue");
    assert!(bench.text((80, 24)).contains("The answer is complete"));
}

/// P05: a stopped turn is no complete one; it goes on when it is asked to, and not by an accidental Enter.
#[test]
fn p05_a_stopped_answer_goes_on_with_a_command_only() {
    let mut bench = Bench::with(&[asked("Who?"), token(1), ended(Finish::Cancelled)]);
    bench.press(KeyCode::Enter);
    assert!(bench.generated().is_empty());
    bench.alt(KeyCode::Char('g'));
    assert_eq!(bench.generated()[0].generated, [1]);
}

/// An answer that a limit ended goes on with as much again.
#[test]
fn a_limit_is_raised_by_going_on() {
    let limits = Limits { think: None, answer: Some(Limit::Tokens(2)) };
    let reached = Some(Reached::Answer(Limit::Tokens(2)));
    let end = End { finish: Finish::Length, at: 2, error: String::new(), reached, took: None };
    let begun = Record::Turn(TurnStart { limits, ..start("Who?") });
    let mut bench = Bench::with(&[begun, token(1), token(2), Record::End(end)]);
    assert!(bench.text((80, 24)).contains("is at its limit (2 tokens): Enter"));
    bench.press(KeyCode::Enter);
    assert_eq!((bench.generated()[0].limits, bench.generated()[0].allowed_from), (limits, 2));
    assert_eq!(bench.records(), [&Record::Resumed(0)]);
}

/// If the model would read something else than before, what it would say is no continuation: nothing of it counts.
#[test]
fn another_prompt_takes_no_turn_up() {
    let cut = [asked("Who?"), Record::Prompt(PromptDigest::of(&[5])), token(1)];
    let mut bench = Bench::with(&cut);
    bench.press(KeyCode::Enter);
    bench.engine(Event::Prompt { turn: TurnId(1), ids: vec![6], reused: 0 });
    assert!(matches!(bench.sent.last(), Some(Effect::Cancel(_))));
    bench.engine(Event::Token { turn: TurnId(1), id: 9, channel: Channel::Answer });
    bench.say(1, Part::Answer("something else".to_owned()));
    bench.finish(1, Outcome { ids: vec![1, 9], ..outcome(Finish::Cancelled) });
    assert_eq!(bench.said(), ["Who?", "word 1"]);
    assert_eq!(bench.app.transcript.turns()[0].ids, [1]);
    assert!(!bench.records().contains(&&token(9)));
    assert!(bench.text((100, 24)).contains("/retry asks again"));
}

/// What a turn says stays as it is where another branch goes on from it.
#[test]
fn an_answer_that_is_followed_elsewhere_is_left_alone() {
    let mut bench = Bench::with(&[
        asked("Who?"),
        token(1),
        ended(Finish::Cancelled),
        asked("And?"),
        token(2),
        ended(Finish::Stop),
        Record::GoTo(1),
    ]);
    assert_eq!(bench.said(), ["Who?", "word 1"]);
    bench.send("/continue");
    assert!(bench.text((80, 24)).contains("Another branch follows"), "{}", bench.text((80, 24)));
    assert!(bench.generated().is_empty());
}

/// P04: each command says what it clears. `/new` is what the model knows; the session and what was typed stay.
#[test]
fn p04_a_new_conversation_keeps_the_old_one_and_says_so() {
    let mut bench = Bench::with(&[asked("Who?"), token(1), ended(Finish::Stop)]);
    bench.ctrl('l');
    assert_eq!(bench.said(), ["Who?", "word 1"], "the screen alone was drawn anew");
    bench.send("/new");
    let text = bench.text((120, 24));
    assert!(text.contains("The model has forgotten all; the conversation is kept: /sessions"), "{text}");
    assert!(bench.app.session.is_none());
    bench.press(KeyCode::Up);
    assert_eq!(bench.app.composer.text(), "Who?");
    bench.ctrl('u');
    bench.send("On");
    assert_eq!(bench.read(), [Message::user("On")]);
    assert!(
        matches!(bench.records().last(), Some(Record::Turn(_))),
        "of another session: it follows nothing"
    );
    assert!(bench.sent.iter().any(|effect| matches!(effect, Effect::CloseSession)));
}

/// P07: nothing is cut in silence. A message that does not fit is asked again once the user has said what gives way.
#[test]
fn p07_a_full_context_is_told_and_the_oldest_turns_give_way() {
    let mut bench = Bench::ready();
    for (number, text) in [(1, "first"), (2, "second")] {
        bench.send(text);
        bench.answer(number);
    }
    bench.clock(3.0, |s| s.context_limit = 40);
    bench.send("too long");
    let refused =
        UserError::new(ExitCode::Usage, "The prompt is too long", "41 tokens, and there is room for 40");
    let full = Some(ContextFull { prompt: 41, limit: 40 });
    bench.finish(3, Outcome { error: Some(refused), ids: Vec::new(), full, ..outcome(Finish::Error) });
    let text = bench.text((80, 40));
    assert!(text.contains("It does not fit: 41 tokens to read, and the context holds 40."), "{text}");
    assert!(
        text.contains("/new") && text.contains("/drop") && text.contains("more memory holds more"),
        "{text}"
    );
    bench.press(KeyCode::Enter);
    assert_eq!(bench.generated().len(), 3, "what does not fit does not go on");
    bench.send("/drop");
    assert_eq!(bench.read(), [Message::user("second"), assistant("answer 2"), Message::user("too long")]);
    let branch = bench.records().into_iter().rev().find(|record| matches!(record, Record::Branch(_)));
    assert!(matches!(branch, Some(Record::Branch(Branch { follows: 2, dropped: 1, .. }))), "{branch:?}");
    let text = bench.text((80, 40));
    assert!(text.contains("the model does not read the 1 turn above any more"), "{text}");
    assert!(text.contains("first"), "it stays on the screen: {text}");
    bench.answer(4);
    // So it stays, and is written once.
    bench.send("next");
    assert_eq!(bench.read()[0], Message::user("second"));
    assert!(matches!(bench.records().last(), Some(Record::Turn(_))));
    bench.answer(5);
    bench.send("/drop 99");
    bench.send("on");
    assert_eq!(bench.read()[0], Message::user("next"), "the last turn stays");
    bench.answer(6);
    bench.send("/new");
    bench.send("/drop");
    assert!(bench.text((80, 24)).contains("no earlier turn to leave out"));
}

fn assistant(text: &str) -> Message {
    Message::Assistant {
        name: None,
        thinking: String::new(),
        content: vec![text.to_owned()],
        tool_calls: Vec::new(),
    }
}

#[test]
fn an_answer_that_filled_the_context_says_so() {
    let mut bench = Bench::ready();
    bench.send("first");
    let full = Some(ContextFull { prompt: 12, limit: 8192 });
    bench.say(1, Part::Answer("word".to_owned()));
    bench.finish(1, Outcome { full, ..outcome(Finish::Length) });
    let text = bench.text((80, 24));
    assert!(text.contains("The context is full: all ") && text.contains(" tokens are used."), "{text}");
    bench.press(KeyCode::Enter);
    assert_eq!(bench.generated().len(), 1);
}

/// A full disk holds the turn up, says how much waits, and lets it go on; the screen answers meanwhile.
#[test]
fn a_full_disk_holds_a_turn_up() {
    let mut bench = Bench::thinking();
    bench.update(Msg::Disk(Some(Bytes(1_200))));
    assert!(matches!(bench.sent.last(), Some(Effect::Pause(_, true))));
    let count = bench.sent.len();
    bench.update(Msg::Disk(Some(Bytes(1_300))));
    assert_eq!(bench.sent.len(), count, "once");
    let text = bench.text((80, 24));
    assert!(text.contains("The disk is full: 1.27 KiB wait for room, the turn waits too."), "{text}");
    bench.write("meanwhile");
    assert!(bench.text((80, 24)).contains("meanwhile"));
    bench.update(Msg::Disk(None));
    assert!(matches!(bench.sent.last(), Some(Effect::Pause(_, false))));
    assert!(!bench.text((80, 24)).contains("The disk is full"));
    // A turn that begins on a full disk waits from the start.
    bench.finish(1, outcome(Finish::Stop));
    bench.update(Msg::Disk(Some(Bytes(9))));
    bench.ctrl('u');
    bench.send("on a full disk");
    assert!(bench.generated()[1].pause.is_set());
}

#[test]
fn a_model_in_a_loop_is_told_of_and_not_stopped() {
    let mut bench = Bench::thinking();
    let say = |bench: &mut Bench, id| {
        bench.engine(Event::Token { turn: TurnId(1), id, channel: Channel::Answer });
    };
    for place in 0..159 {
        say(&mut bench, 5 + place % 4);
    }
    assert!(!bench.text((80, 24)).contains("It repeats itself"));
    say(&mut bench, 8);
    let text = bench.text((80, 24));
    assert!(text.contains("the last 4 tokens have come 40 times. Esc stops."), "{text}");
    assert!(!bench.sent.iter().any(|effect| matches!(effect, Effect::Cancel(_))));
    say(&mut bench, 99);
    assert!(!bench.text((80, 24)).contains("It repeats itself"));
}

/// A second instance reads, says so, and writes nothing.
#[test]
fn a_session_that_another_program_writes_is_only_read() {
    let mut bench = Bench::ready();
    let records = [
        asked("a"),
        token(1),
        ended(Finish::Stop),
        Record::Branch(Branch { follows: 0, dropped: 0, turn: start("b") }),
        token(2),
    ];
    bench.app.open(opening(&records).read_only());
    bench.sent.clear();
    let text = bench.text((80, 24));
    assert!(text.contains("Open in another dormouse: here it can only be read."), "{text}");
    bench.send("hello");
    assert_eq!(bench.app.composer.text(), "hello");
    assert!(bench.text((80, 24)).contains("/new begins one of your own"));
    bench.ctrl('u');
    bench.press(KeyCode::Enter);
    for command in ["/retry", "/continue", "/drop"] {
        bench.send(command);
        bench.ctrl('u');
    }
    bench.alt(KeyCode::Up);
    assert_eq!(bench.said(), ["a", "word 1"], "its branches can be read");
    let counted = |effect: &Effect| matches!(effect, Effect::Count(_));
    assert!(bench.sent.iter().all(counted), "{:?}", bench.sent);
    bench.send("/new");
    bench.send("mine");
    assert!(matches!(bench.records()[..], [Record::Turn(_)]));
    assert!(bench.sent.iter().any(|effect| matches!(effect, Effect::Send(Command::Generate(_)))));
}
