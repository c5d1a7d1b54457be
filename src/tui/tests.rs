//! The whole screen without a terminal: frames at several sizes, what keys do, and anything at all in any order.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::fmt::Write;
use unicode_segmentation::UnicodeSegmentation;

use super::app::{App, Effect, Msg};
use super::theme::Theme;
use super::{Options, view, width};
use crate::protocol::{
    Arguments, Command, Event, ExitCode, ExpertCounts, Finish, ModelFacts, Outcome, Part, Phase, Prompt,
    Sample, Thinking, ToolCall, TurnId, UserError,
};
use crate::units::Bytes;

const SIZES: [(u16, u16); 4] = [(80, 24), (120, 40), (40, 12), (20, 5)];

const ANSWER: &str = "# Dormice\n\nA **dormouse** is a *small* rodent, in Japanese ヤマネ, see [the page](https://example.org/d).\n\
It sleeps `half` the year 👩‍👩‍👧 e\u{301}.\n\n1. sleeps\n2. eats\n   - nuts\n   - 漢字，全角\n\n```rust\nfn main() {\n    nap();\n}\n```\n\n\
| kind | weight |\n|:--|--:|\n| hazel | 17 g |\n| edible dormouse, the largest of them | 120 g |\n\n> It wakes to eat.\n\n---\nDone.";

/// An application, what it was asked to do so far, and a terminal to look at it.
struct Bench {
    app: App,
    sent: Vec<Effect>,
    sample: Sample,
}

impl Bench {
    fn new() -> Self {
        let options = Options {
            model_label: "nano".to_owned(),
            demo: true,
            suggestions: vec!["What is a dormouse?".to_owned()],
            ..Options::default()
        };
        let mut bench =
            Self { app: App::new(options, Theme::new(true)), sent: Vec::new(), sample: Sample::default() };
        bench.sent = bench.app.start();
        bench.clock(1.0, |s| {
            (s.phase, s.load_done, s.load_total) = (Phase::Loading, 960_000_000, 2_400_000_000);
        });
        bench
    }

    /// One whose model is loaded.
    fn ready() -> Self {
        let mut bench = Self::new();
        bench.engine(Event::Ready(Box::new(ModelFacts {
            name: "nano".to_owned(),
            layers: 9,
            experts: 48,
            top_k: 4,
            vocabulary: 2048,
            parameters: 21_400_000,
            bytes: Bytes(18_400_000),
            context_limit: 8192,
            resident: Bytes(9_000_000),
            slots: 64,
            expert_bytes: Bytes(17_000),
            load_s: 0.21,
            threads: 2,
            tier: "scalar",
            temperature: 1.0,
            top_p: 0.95,
        })));
        bench.clock(2.0, |s| {
            s.phase = Phase::Idle;
            (s.layers, s.slots_total, s.context_limit) = (9, 64, 8192);
            (s.rss, s.machine_memory, s.budget) = (1_300_000_000, 16 << 30, 8 << 30);
        });
        bench
    }

    fn update(&mut self, msg: Msg) {
        let effects = self.app.update(msg);
        self.sent.extend(effects);
    }

    fn engine(&mut self, event: Event) {
        self.update(Msg::Engine(event));
    }

    /// Lets time go on to `at`, with other numbers.
    fn clock(&mut self, at: f64, change: impl FnOnce(&mut Sample)) {
        change(&mut self.sample);
        self.sample.at = at;
        self.update(Msg::Clock(self.sample));
    }

    fn key(&mut self, code: KeyCode, modifiers: KeyModifiers) {
        self.update(Msg::Key(KeyEvent::new(code, modifiers)));
    }

    fn ctrl(&mut self, c: char) {
        self.key(KeyCode::Char(c), KeyModifiers::CONTROL);
    }

    fn press(&mut self, code: KeyCode) {
        self.key(code, KeyModifiers::NONE);
    }

    fn write(&mut self, text: &str) {
        for c in text.chars() {
            self.press(KeyCode::Char(c));
        }
    }

    fn send(&mut self, text: &str) {
        self.write(text);
        self.press(KeyCode::Enter);
    }

    fn say(&mut self, turn: u64, part: Part) {
        self.engine(Event::Delta { turn: TurnId(turn), part });
    }

    fn finish(&mut self, turn: u64, outcome: Outcome) {
        self.engine(Event::Finished { turn: TurnId(turn), outcome: Box::new(outcome) });
    }

    /// One whose first turn is being thought about.
    fn thinking() -> Self {
        let mut bench = Self::ready();
        bench.send("What is a dormouse?");
        bench.clock(2.1, |s| (s.turn, s.phase, s.prompt_total) = (1, Phase::Prefill, 12));
        bench.engine(Event::Prompt { turn: TurnId(1), ids: vec![0; 12], reused: 0 });
        bench.say(1, Part::Thinking("The user asks about dormice. ".to_owned()));
        bench.say(1, Part::Thinking("They sleep a lot.\nBe brief.".to_owned()));
        bench.clock(42.0, |s| {
            (s.phase, s.tokens, s.layer, s.last_token_ns) = (Phase::Decode, 9, 2, 28_000_000_000);
            (s.pass_began_ns, s.first_token_ns) = (30_000_000_000, 2_000_000_000);
            (s.trunk_bytes, s.expert_bytes, s.expert_requests, s.expert_resident) =
                (1 << 30, 1 << 29, 400, 260);
            (s.expert_reads, s.token_requests, s.token_resident, s.slots_used) = (140, 36, 27, 60);
            s.context_used = 21;
        });
        bench
    }

    /// One whose first turn is answered.
    fn answered() -> Self {
        let mut bench = Self::thinking();
        bench.say(1, Part::Answer(ANSWER.to_owned()));
        bench.clock(54.0, |s| s.phase = Phase::Idle);
        bench.finish(1, outcome(Finish::Stop));
        bench
    }

    fn buffer(&mut self, (columns, rows): (u16, u16)) -> (Buffer, Option<(u16, u16)>) {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        view::prepare(&mut self.app, Rect::new(0, 0, columns, rows));
        let drawn = terminal.draw(|frame| view::draw(&self.app, frame)).unwrap();
        let buffer = drawn.buffer.clone();
        let caret =
            (self.app.help.is_none()).then(|| terminal.get_cursor_position().unwrap()).map(|p| (p.x, p.y));
        (buffer, caret)
    }

    fn text(&mut self, size: (u16, u16)) -> String {
        frame_text(&self.buffer(size).0)
    }

    fn generated(&self) -> Vec<&crate::protocol::TurnRequest> {
        self.sent
            .iter()
            .filter_map(|effect| match effect {
                Effect::Send(Command::Generate(request)) => Some(&**request),
                _ => None,
            })
            .collect()
    }

    fn left(&self) -> bool {
        self.sent.iter().any(|effect| matches!(effect, Effect::Leave))
    }
}

fn outcome(finish: Finish) -> Outcome {
    Outcome {
        finish,
        error: None,
        ids: vec![7; 13],
        seed: 1,
        prefill_s: 0.5,
        decode_s: vec![0.25; 12],
        first_token_s: Some(0.5),
        trunk_bytes: 0,
        expert_bytes: 0,
        experts: ExpertCounts::default(),
    }
}

/// The cells of a frame as lines; a wide grapheme stands for the cells that it covers.
fn frame_text(buffer: &Buffer) -> String {
    let mut out = String::new();
    for y in buffer.area.top()..buffer.area.bottom() {
        let mut x = 0;
        let mut line = String::new();
        while x < buffer.area.right() {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            x += u16::try_from(width::grapheme(symbol).max(1)).unwrap();
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// The stretches of a frame that are not in the plain style.
fn frame_styles(buffer: &Buffer) -> String {
    let mut out = String::new();
    for y in buffer.area.top()..buffer.area.bottom() {
        let mut runs: Vec<(Style, String)> = Vec::new();
        for x in 0..buffer.area.right() {
            let cell = &buffer[(x, y)];
            match runs.last_mut() {
                Some((style, text)) if *style == cell.style() => text.push_str(cell.symbol()),
                _ => runs.push((cell.style(), cell.symbol().to_owned())),
            }
        }
        for (style, text) in runs.iter().filter(|(_, text)| !text.trim().is_empty()) {
            let colour = style.fg.filter(|fg| *fg != ratatui::style::Color::Reset);
            if colour.is_some() || !style.add_modifier.is_empty() {
                let colour = colour.map_or(String::new(), |fg| format!(" {fg}"));
                writeln!(out, "{y:2}{colour} {:?}: {}", style.add_modifier, text.trim()).unwrap();
            }
        }
    }
    out
}

fn snapshots(name: &str, mut bench: impl FnMut() -> Bench) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        for size in SIZES {
            insta::assert_snapshot!(format!("{name}-{}x{}", size.0, size.1), bench().text(size));
        }
    });
}

#[test]
fn frames_of_the_beginning() {
    snapshots("loading", Bench::new);
    snapshots("ready", Bench::ready);
}

#[test]
fn frames_of_a_turn() {
    snapshots("thinking", Bench::thinking);
    snapshots("answered", Bench::answered);
    snapshots("scrolled-back", || {
        let mut bench = Bench::answered();
        bench.text((40, 12));
        bench.update(Msg::Wheel(-3));
        bench.text((40, 12));
        bench.send("And now?");
        bench.say(2, Part::Answer("more\n\nand more".to_owned()));
        bench.text((40, 12));
        bench.update(Msg::Wheel(-3));
        bench.text((40, 12));
        bench.say(2, Part::Answer("\n\nand still more".to_owned()));
        bench
    });
}

#[test]
fn frames_of_failures() {
    snapshots("load-failed", || {
        let mut bench = Bench::new();
        bench.engine(Event::Failed(failure()));
        bench
    });
    snapshots("turn-failed", || {
        let mut bench = Bench::thinking();
        bench.say(1, Part::Answer("A dormouse".to_owned()));
        bench.clock(50.0, |_| {});
        bench.finish(1, Outcome { error: Some(failure()), ..outcome(Finish::Error) });
        bench
    });
}

#[test]
fn frames_of_what_lies_above() {
    snapshots("help", || {
        let mut bench = Bench::answered();
        bench.send("/help");
        bench
    });
    snapshots("command", || {
        let mut bench = Bench::answered();
        bench.write("/think ");
        bench.press(KeyCode::Down);
        bench
    });
}

#[test]
fn styles_of_an_answer() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        insta::assert_snapshot!("answered-styles", frame_styles(&Bench::answered().buffer((80, 40)).0));
    });
}

fn failure() -> UserError {
    UserError::new(
        ExitCode::ModelFiles,
        "The model cannot be loaded",
        "model-00003-of-00096.safetensors: 12 bytes are missing\u{1b}[2J at the end",
    )
    .with_hint("`dormouse verify` names every damaged file")
}

#[test]
fn starting_loads_the_model() {
    let mut bench = Bench::new();
    assert!(matches!(bench.sent.as_slice(), [Effect::Send(Command::Load(_))]));
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
    assert_eq!(conversation.messages[2], crate::protocol::Message::user("And now?"));
}

#[test]
fn a_turn_is_stopped_once_and_keeps_its_text() {
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

#[test]
fn a_draft_is_kept_while_a_turn_runs_and_reachable_when_cleared() {
    let mut bench = Bench::thinking();
    bench.send("my next question");
    assert_eq!(bench.generated().len(), 1);
    assert_eq!(bench.app.composer.text(), "my next question");
    bench.finish(1, outcome(Finish::Stop));
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
    assert!(bench.text((80, 24)).contains("is not a command"));
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

#[test]
fn commands_are_completed() {
    let mut bench = Bench::ready();
    bench.write("/t");
    bench.press(KeyCode::Tab);
    assert_eq!(bench.app.composer.text(), "/think ");
    bench.press(KeyCode::Down);
    bench.press(KeyCode::Down);
    bench.press(KeyCode::Enter);
    assert_eq!(bench.app.thinking, Thinking::High);
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
fn a_wait_is_never_silent() {
    let mut bench = Bench::thinking();
    let one = bench.text((120, 40));
    assert!(one.contains("layer 3/9") && one.contains("token 12 s of ~28 s"), "{one}");
    bench.clock(47.0, |_| {});
    let later = bench.text((120, 40));
    assert!(later.contains("no progress for 5 s") && later.contains("token 17 s"), "{later}");
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

#[test]
fn a_very_long_answer_is_laid_out() {
    let mut bench = Bench::ready();
    bench.send("count");
    let lines: Vec<String> = (0..70_000).map(|line| format!("- {line}")).collect();
    bench.say(1, Part::Answer(lines.join("\n")));
    bench.finish(1, outcome(Finish::Stop));
    assert!(bench.text((80, 24)).contains("• 69999"));
    bench.key(KeyCode::Home, KeyModifiers::CONTROL);
    assert!(bench.text((80, 24)).contains("❯ count"));
}

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

/// One random step: a key, a paste, a size, an event, time.
fn step() -> impl Strategy<Value = (u8, char, u16, u16, String)> {
    (any::<u8>(), any::<char>(), 0u16..130, 0u16..45, "(\\PC|\n|[*_`|#>-]|1\\. |漢|👩‍👩‍👧|\u{1b}\\[31m){0,24}")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn anything_in_any_order_is_survived(steps in prop::collection::vec(step(), 0..80)) {
        let codes = [
            KeyCode::Enter, KeyCode::Esc, KeyCode::Up, KeyCode::Down, KeyCode::Left, KeyCode::Right, KeyCode::Home,
            KeyCode::End, KeyCode::PageUp, KeyCode::PageDown, KeyCode::Tab, KeyCode::Backspace, KeyCode::Delete,
            KeyCode::F(1), KeyCode::F(2), KeyCode::F(3),
        ];
        let modifiers = [KeyModifiers::NONE, KeyModifiers::CONTROL, KeyModifiers::ALT, KeyModifiers::SHIFT];
        let mut bench = Bench::new();
        let mut size = (80, 24);
        for (kind, c, a, b, text) in steps {
            let turn = u64::from(a % 4);
            let code = codes[usize::from(b) % codes.len()];
            match kind % 16 {
                0 | 1 => bench.key(code, modifiers[usize::from(a) % 4]),
                2 => bench.key(KeyCode::Char(c), modifiers[usize::from(a) % 4]),
                3 => bench.ctrl(char::from(b'a' + u8::try_from(a % 26).unwrap())),
                4 => bench.update(Msg::Paste(text)),
                5 => bench.update(Msg::Wheel(isize::try_from(a).unwrap() - 65)),
                6 => size = (a, b),
                7 => bench.say(turn, Part::Thinking(text)),
                8 | 9 => bench.say(turn, Part::Answer(text)),
                10 => bench.finish(turn, outcome(Finish::Cancelled)),
                11 => bench.engine(Event::Failed(UserError::new(ExitCode::Invalid, text.clone(), text))),
                12 => bench.engine(Event::Stopped),
                13 => {
                    let facts = match &Bench::ready().app.engine {
                        super::app::Engine::Ready(facts) => facts.clone(),
                        _ => unreachable!(),
                    };
                    bench.engine(Event::Ready(facts));
                }
                14 => bench.clock(f64::from(a), |s| {
                    (s.layer, s.layers, s.load_total, s.pass_began_ns) = (u64::from(b), u64::from(a), u64::MAX, u64::MAX);
                    s.phase = [Phase::Prefill, Phase::Decode, Phase::Loading, Phase::Idle][usize::from(a) % 4];
                }),
                _ => {
                    bench.send("/th");
                    bench.send("hello");
                }
            }
            let (buffer, caret) = bench.buffer(size);
            for cell in &buffer.content {
                prop_assert!(!cell.symbol().contains(char::is_control));
            }
            if let Some((x, y)) = caret {
                prop_assert!(x <= size.0 && y <= size.1);
            }
        }
    }

    #[test]
    fn an_answer_in_pieces_is_laid_out_as_one_at_once(
        pieces in prop::collection::vec(
            "([a-c ]|\n|\n\n|# |- |1\\. |> |```|\\*\\*|`|\\| a \\| b \\|\n\\|--\\|--\\|\n|<b>|---\n|    |漢){0,6}", 0..12),
    ) {
        let mut whole = Bench::ready();
        whole.send("q");
        whole.say(1, Part::Answer(pieces.concat()));
        let mut parts = Bench::ready();
        parts.send("q");
        for piece in pieces {
            parts.say(1, Part::Answer(piece));
            parts.text((40, 60));
        }
        prop_assert_eq!(parts.text((40, 60)), whole.text((40, 60)));
    }

    #[test]
    fn graphemes_reach_the_cells_whole(text in "(e\u{301}|漢|👩‍👩‍👧|🇩🇪|ｶﾞ|[a-z]){1,30}") {
        let mut bench = Bench::ready();
        bench.send("q");
        bench.say(1, Part::Answer(text.clone()));
        let (buffer, _) = bench.buffer((24, 60));
        let shown = frame_text(&buffer);
        for cluster in text.graphemes(true) {
            prop_assert!(shown.contains(cluster), "{cluster} of {text} in {shown}");
        }
    }
}
