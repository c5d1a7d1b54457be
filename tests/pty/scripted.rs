//! An engine that follows a script, for what the real one does rarely: slow tokens, failures, panics, hostile text.
//! It speaks the protocol and nothing else.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use dormouse::protocol::{
    COMMANDS, CancelFlag, Command, Conversation, Count, Counter, EVENTS, EngineLink, Event, ExitCode, Finish,
    LayerCost, Message, ModelFacts, Outcome, Part, Phase, PlanFacts, Prompt, Telemetry, TokenCost, Took,
    TurnId, TurnRequest, UserError, Wait,
};
use dormouse::units::Bytes;

const LAYERS: u64 = 9;

const ANSWER: &str = "## Dormice\n\nA **dormouse** is a small *nocturnal* rodent; see <https://example.org/dormouse>.\n\n\
1. It sleeps for `half` the year.\n2. It eats:\n   - hazelnuts\n   - 漢字 and flowers 🌸\n\n\
```rust\nfn main() {\n    println!(\"Zzz\");\n}\n```\n\n\
| kind | weight | asleep |\n|:--|--:|:--:|\n| hazel | 17 g | 7 months |\n| edible | 120 g | 6 months |\n\n\
> It wakes only to eat.\n\n---\n\nThat is all.";

const THINKING: &str = "The user asks about dormice. They are small, they sleep long.\nI should be brief.";

/// Counts words, and ten for each message.
struct Words;

impl Count for Words {
    fn text(&self, text: &str) -> usize {
        text.split_whitespace().count()
    }

    fn prompt(&self, conversation: &Conversation) -> usize {
        conversation.messages.iter().map(|message| 10 + self.text(&spoken(message))).sum()
    }
}

/// What a message says.
fn spoken(message: &Message) -> String {
    match message {
        Message::User { content, .. } | Message::Assistant { content, .. } => content.concat(),
        Message::System { .. } | Message::Tool { .. } => String::new(),
    }
}

/// Starts the engine. `scene` decides how loading goes; what the user writes decides how a turn goes.
pub(crate) fn spawn(scene: &str) -> EngineLink {
    let (commands, inbox) = bounded(COMMANDS);
    let (outbox, events) = bounded(EVENTS);
    let telemetry = Arc::new(Telemetry::default());
    let engine = Engine {
        events: outbox,
        telemetry: Arc::clone(&telemetry),
        failures: usize::from(scene == "broken"),
        slow: scene == "slow",
    };
    thread::Builder::new().name("engine".to_owned()).spawn(move || engine.run(&inbox)).unwrap();
    EngineLink { commands, events, telemetry }
}

struct Engine {
    events: Sender<Event>,
    telemetry: Arc<Telemetry>,
    /// How often loading fails.
    failures: usize,
    slow: bool,
}

impl Engine {
    fn run(mut self, inbox: &Receiver<Command>) {
        while let Ok(command) = inbox.recv() {
            match command {
                Command::Load(_) => self.load(),
                Command::Generate(request) => {
                    if user_text(&request).contains("vanish") {
                        return;
                    }
                    if panic::catch_unwind(AssertUnwindSafe(|| self.turn(&request))).is_err() {
                        let error =
                            UserError::new(ExitCode::Invalid, "The engine broke", "it panicked in layer 3")
                                .with_hint("load the model again");
                        self.telemetry.set_phase(Phase::Empty);
                        self.say(Event::Failed(error));
                    }
                }
                Command::Reset => self.telemetry.context_used.store(0, Relaxed),
                Command::Shutdown => {
                    self.say(Event::Stopped);
                    return;
                }
            }
        }
    }

    fn say(&self, event: Event) {
        let _ = self.events.send(event);
    }

    fn load(&mut self) {
        let t = &self.telemetry;
        t.set_phase(Phase::Loading);
        let total = 2_400_000_000;
        t.load_total.store(total, Relaxed);
        let steps = if self.slow { 400 } else { 8 };
        for step in 0..=steps {
            t.load_done.store(total * step / steps, Relaxed);
            self.say(Event::Loading { done: total * step / steps, total });
            thread::sleep(Duration::from_millis(25));
            if self.failures > 0 && step == 3 {
                self.failures -= 1;
                t.set_phase(Phase::Empty);
                let error = UserError::new(
                    ExitCode::ModelFiles,
                    "The model cannot be loaded",
                    "model-00003-of-00096.safetensors: 12 bytes are missing at the end",
                );
                self.say(Event::Failed(error.with_hint("`dormouse verify` names every damaged file")));
                return;
            }
        }
        t.layers.store(LAYERS, Relaxed);
        t.slots_total.store(64, Relaxed);
        t.context_limit.store(8192, Relaxed);
        t.rss.store(1_300_000_000, Relaxed);
        t.budget.store(8 << 30, Relaxed);
        t.machine_memory.store(16 << 30, Relaxed);
        t.set_phase(Phase::Idle);
        self.say(Event::Ready(Box::new(ModelFacts {
            name: "scripted".to_owned(),
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
            load_s: 0.2,
            threads: 2,
            tier: "scalar",
            temperature: 1.0,
            top_p: 0.95,
            counter: Counter::new(Words),
        })));
    }

    fn turn(&self, request: &TurnRequest) {
        let t = &self.telemetry;
        let text = user_text(request);
        let turn = request.turn;
        t.turn.store(turn.0, Relaxed);
        t.tokens.store(0, Relaxed);
        t.first_token_ns.store(0, Relaxed);
        t.last_token_ns.store(0, Relaxed);
        let prompt = 80;
        t.prompt_total.store(prompt, Relaxed);
        t.chunks.store(6, Relaxed);
        t.set_phase(Phase::Prefill);
        let pause = Duration::from_millis(if text.contains("slow") { 4000 } else { 4 });
        self.say(Event::Prompt { turn, ids: (0..80).collect(), reused: 16 });
        for done in (0..=prompt).step_by(16) {
            t.prompt_done.store(done, Relaxed);
            t.chunk.store(1 + done / 16, Relaxed);
            if !self.pass(&request.cancel, pause / 4) {
                return self.finish(turn, Finish::Cancelled, None, 0);
            }
        }
        assert!(!text.contains("panic"), "scripted panic");
        if text.contains("stall") {
            while !request.cancel.is_cancelled() {
                t.set_waiting(Wait::Experts);
                thread::sleep(Duration::from_millis(20));
            }
            return self.finish(turn, Finish::Cancelled, None, 0);
        }
        t.set_phase(Phase::Decode);
        t.first_token_ns.store(420_000_000, Relaxed);
        let mut said = 0;
        let mut speak = |part: Part| {
            said += 1;
            t.tokens.fetch_add(1, Relaxed);
            t.context_used.fetch_add(1, Relaxed);
            t.last_token_ns.store(u64::try_from(pause.as_nanos()).unwrap() + 8_000_000, Relaxed);
            if said > 1 {
                self.say(Event::Step { turn, seconds: pause.as_secs_f64() + 0.008, cost: cost() });
            }
            self.say(Event::Delta { turn, part });
        };
        let answer = if text.contains("long") {
            (1..=150).map(|line| format!("line {line} of many")).collect::<Vec<_>>().join("\n")
        } else if text.contains("hostile") {
            "before \u{1b}]52;c;aGVsbG8=\u{7}\u{1b}[31m\u{1b}]0;owned\u{7}after \u{9b}2J&#27;[2Jend"
                .to_owned()
        } else if text.contains("empty") {
            String::new()
        } else {
            ANSWER.to_owned()
        };
        for piece in pieces(THINKING) {
            if !self.pass(&request.cancel, pause) {
                return self.finish(turn, Finish::Cancelled, None, said);
            }
            speak(Part::Thinking(piece.to_owned()));
        }
        for (number, piece) in pieces(&answer).enumerate() {
            if !self.pass(&request.cancel, pause) {
                return self.finish(turn, Finish::Cancelled, None, said);
            }
            speak(Part::Answer(piece.to_owned()));
            if text.contains("fail") && number == 6 {
                let error = UserError::new(
                    ExitCode::ModelFiles,
                    "An expert could not be read",
                    "model-00007-of-00096.safetensors, layer 3, expert 17: 4096 bytes expected, 12 found",
                );
                return self.finish(
                    turn,
                    Finish::Error,
                    Some(error.with_hint("`dormouse verify` checks all files")),
                    said,
                );
            }
        }
        let finish = if text.contains("limit") { Finish::Length } else { Finish::Stop };
        self.finish(turn, finish, None, said);
    }

    /// All layers once; false where the turn was stopped meanwhile.
    fn pass(&self, cancel: &CancelFlag, pause: Duration) -> bool {
        let t = &self.telemetry;
        t.pass_began_ns.store(t.now_ns(), Relaxed);
        t.pass_landed.store(t.landed_bytes.load(Relaxed), Relaxed);
        for layer in 0..LAYERS {
            t.layer.store(layer, Relaxed);
            t.landed_bytes.fetch_add(150_000, Relaxed);
            t.trunk_bytes.fetch_add(100_000, Relaxed);
            t.expert_bytes.fetch_add(50_000, Relaxed);
            t.expert_requests.fetch_add(4, Relaxed);
            t.expert_resident.fetch_add(3, Relaxed);
            t.expert_reads.fetch_add(1, Relaxed);
            let number = usize::try_from(layer).unwrap();
            t.set_layer(
                number,
                &LayerCost { ns: 1_000_000 * (layer + 1), requests: 4, resident: 3, ..LayerCost::default() },
            );
            let mut left = pause / u32::try_from(LAYERS).unwrap();
            while !left.is_zero() {
                if cancel.is_cancelled() {
                    return false;
                }
                let nap = left.min(Duration::from_millis(20));
                thread::sleep(nap);
                left -= nap;
            }
        }
        t.token_requests.store(36, Relaxed);
        t.token_resident.store(27, Relaxed);
        t.slots_used.store(40, Relaxed);
        !cancel.is_cancelled()
    }

    fn finish(&self, turn: TurnId, finish: Finish, error: Option<UserError>, tokens: usize) {
        self.telemetry.set_phase(Phase::Idle);
        self.say(Event::Finished {
            turn,
            outcome: Box::new(Outcome {
                error,
                ids: (0..u32::try_from(tokens).unwrap()).collect(),
                seed: 1,
                took: Took {
                    prompt: 80,
                    reused: 16,
                    read: 64,
                    written: tokens,
                    prefill_s: 0.4,
                    first_token_s: (tokens > 0).then_some(0.42),
                    decoded: tokens.saturating_sub(1),
                    decode_s: 0.012 * tokens.saturating_sub(1) as f64,
                    token_s: (tokens > 1).then_some(0.012),
                    total_s: 0.4 + 0.012 * tokens as f64,
                    ..Took::default()
                },
                decode_s: vec![0.012; tokens.saturating_sub(1)],
                tokens: vec![cost(); tokens.saturating_sub(1)],
                ..Outcome::new(finish)
            }),
        });
    }
}

/// What each token costs.
const fn cost() -> TokenCost {
    TokenCost { trunk: 900_000, experts: 450_000, woken: 36, resident: 27, waited_s: 0.002 }
}

fn user_text(request: &TurnRequest) -> String {
    let Prompt::Chat(conversation) = &request.prompt else { return String::new() };
    conversation
        .messages
        .iter()
        .rev()
        .find_map(|message| match message {
            Message::User { content, .. } => Some(content.concat()),
            _ => None,
        })
        .unwrap_or_default()
}

/// A text in pieces of a few characters, as tokens come.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.char_indices().nth(4).map_or(rest.len(), |(at, _)| at);
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}
