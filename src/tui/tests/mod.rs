//! The whole screen without a terminal: frames at several sizes, what keys do, and anything at all in any order.

mod behaviour;
mod branching;
mod cost;
mod frames;
mod picking;
mod random;
mod reading;
mod setup;
mod steering;
mod waiting;
mod writing;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::app::{App, Effect, Msg};
use super::{Options, view};
use crate::protocol::{
    Command, Conversation, Count, Counter, Event, ExitCode, Finish, Message, ModelFacts, Outcome, Part,
    Phase, PlanFacts, Sample, Took, TurnId, UserError,
};
use crate::units::Bytes;

const ANSWER: &str = "# Dormice\n\nA **dormouse** is a *small* rodent, in Japanese ヤマネ, see [the page](https://example.org/d).\n\
It sleeps `half` the year 👩‍👩‍👧 e\u{301}.\n\n1. sleeps\n2. eats\n   - nuts\n   - 漢字，全角\n\n```rust\nfn main() {\n    nap();\n}\n```\n\n\
| kind | weight |\n|:--|--:|\n| hazel | 17 g |\n| edible dormouse, the largest of them | 120 g |\n\n> It wakes to eat.\n\n---\nDone.";

/// Counts words, and ten for each message.
struct Words;

impl Count for Words {
    fn text(&self, text: &str) -> usize {
        text.split_whitespace().count()
    }

    fn prompt(&self, conversation: &Conversation) -> usize {
        let said = |message: &Message| match message {
            Message::User { content, .. } | Message::Assistant { content, .. } => {
                10 + self.text(&content.concat())
            }
            Message::System { .. } | Message::Tool { .. } => 0,
        };
        conversation.messages.iter().map(said).sum()
    }
}

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
        let mut bench = Self { app: App::new(options), sent: Vec::new(), sample: Sample::default() };
        bench.sent = bench.app.start();
        bench.clock(1.0, |s| {
            (s.phase, s.load_done, s.load_total) = (Phase::Loading, 960_000_000, 2_400_000_000);
        });
        bench
    }

    /// What the engine tells of its model.
    fn facts() -> Box<ModelFacts> {
        Box::new(ModelFacts {
            name: "nano".to_owned(),
            digest: 7,
            layers: 9,
            experts: 48,
            top_k: 4,
            vocabulary: 2048,
            parameters: 21_400_000,
            bytes: Bytes(18_400_000),
            context_limit: 8192,
            resident: Bytes(9_000_000),
            streamed: Bytes(0),
            plan: PlanFacts::default(),
            reader: "buffered",
            checked: false,
            slots: 64,
            expert_bytes: Bytes(17_000),
            load_s: 0.21,
            threads: 2,
            tier: "scalar",
            temperature: 1.0,
            top_p: 0.95,
            counter: Counter::new(Words),
        })
    }

    /// One whose model is loaded.
    fn ready() -> Self {
        let mut bench = Self::new();
        bench.engine(Event::Ready(Self::facts()));
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
        self.update(Msg::Clock(Box::new(self.sample)));
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

    /// Answers all that is to be counted.
    fn count(&mut self) {
        for effect in std::mem::take(&mut self.sent) {
            if let Effect::Count(ask) = &effect {
                self.update(Msg::Counted(ask.answer()));
            }
            self.sent.push(effect);
        }
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
        frames::frame_text(&self.buffer(size).0)
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
        ids: vec![7; 13],
        seed: 1,
        took: Took {
            prompt: 12,
            read: 12,
            written: 13,
            prefill_s: 0.5,
            first_token_s: Some(0.5),
            thinking_s: Some(2.0),
            decoded: 12,
            decode_s: 3.0,
            token_s: Some(0.25),
            total_s: 3.5,
            ..Took::default()
        },
        decode_s: vec![0.25; 12],
        ..Outcome::new(finish)
    }
}

fn failure() -> UserError {
    UserError::new(
        ExitCode::ModelFiles,
        "The model cannot be loaded",
        "model-00003-of-00096.safetensors: 12 bytes are missing\u{1b}[2J at the end",
    )
    .with_hint("`dormouse verify` names every damaged file")
}
