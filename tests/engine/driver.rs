//! An engine under test, and what comes of a turn.

use std::path::Path;
use std::time::Duration;

use dormouse::engine;
use dormouse::protocol::{
    CancelFlag, Command, EngineLink, Event, Limits, ModelFacts, Outcome, Part, Prompt, Sampling, Settings,
    TurnId, TurnRequest, UserError,
};

use crate::nano::nano;

/// Far longer than anything here takes, and short enough to notice a hang.
const PATIENCE: Duration = Duration::from_mins(2);

/// All that a turn sent.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) prompt: Vec<u32>,
    pub(crate) reused: usize,
    pub(crate) logits: Vec<Vec<u32>>,
    pub(crate) parts: Vec<Part>,
    /// Each token as it was told.
    pub(crate) drawn: Vec<u32>,
    pub(crate) outcome: Outcome,
    /// What the user was told beside.
    pub(crate) notes: Vec<String>,
}

impl Turn {
    /// The answer's text.
    pub(crate) fn text(&self) -> String {
        let answers = self.parts.iter().filter_map(|part| match part {
            Part::Answer(text) => Some(text.as_str()),
            Part::Thinking(_) | Part::ToolCall(_) => None,
        });
        answers.collect()
    }
}

/// A link to an engine, with a name for the next turn.
pub(crate) struct Driver {
    pub(crate) link: EngineLink,
    turn: u64,
}

impl Driver {
    pub(crate) fn new(link: EngineLink) -> Self {
        Self { link, turn: 0 }
    }

    /// An engine with the small model.
    pub(crate) fn ready() -> Self {
        let driver = Self::new(engine::spawn().unwrap());
        driver.load(&nano(), 2).unwrap();
        driver
    }

    pub(crate) fn send(&self, command: Command) {
        self.link.commands.send(command).unwrap();
    }

    pub(crate) fn event(&self) -> Event {
        self.link.events.recv_timeout(PATIENCE).expect("the engine says something")
    }

    pub(crate) fn load(&self, model: &Path, threads: usize) -> Result<ModelFacts, UserError> {
        self.load_with(Settings { model: model.to_owned(), threads: Some(threads), ..Settings::default() })
    }

    pub(crate) fn load_with(&self, settings: Settings) -> Result<ModelFacts, UserError> {
        self.send(Command::Load(settings));
        loop {
            match self.event() {
                Event::Ready(facts) => return Ok(*facts),
                Event::Failed(error) => return Err(error),
                Event::Loading { done, total } => assert!(done <= total),
                other => panic!("{other:?} while loading"),
            }
        }
    }

    /// Ends the engine, and waits until all that it writes is on the disk. Gives what it had to say.
    pub(crate) fn leave(self) -> Vec<String> {
        self.send(Command::Shutdown);
        let mut notes = Vec::new();
        loop {
            match self.event() {
                Event::Stopped => return notes,
                Event::Note(text) => notes.push(text),
                other => panic!("{other:?} while leaving"),
            }
        }
    }

    /// A greedy turn over ids, with logits.
    pub(crate) fn request(&mut self, ids: &[u32], max_tokens: usize) -> TurnRequest {
        self.turn += 1;
        TurnRequest {
            turn: TurnId(self.turn),
            prompt: Prompt::Ids(ids.to_vec()),
            generated: Vec::new(),
            sampling: Sampling { temperature: Some(0.0), top_p: None, seed: None },
            max_tokens: Some(max_tokens),
            limits: Limits::default(),
            allowed_from: 0,
            prefill_chunk: None,
            logits: true,
            cancel: CancelFlag::default(),
        }
    }

    pub(crate) fn greedy(&mut self, ids: &[u32], max_tokens: usize) -> Turn {
        let request = self.request(ids, max_tokens);
        self.run(request)
    }

    pub(crate) fn run(&mut self, request: TurnRequest) -> Turn {
        let id = request.turn;
        self.send(Command::Generate(Box::new(request)));
        self.collect(id, |_| {})
    }

    /// Collects what the running turn sends, and shows each event to `watch` first.
    pub(crate) fn collect(&self, id: TurnId, mut watch: impl FnMut(&Event)) -> Turn {
        let (mut prompt, mut reused, mut logits, mut parts) = (Vec::new(), 0, Vec::new(), Vec::new());
        let (mut drawn, mut notes) = (Vec::new(), Vec::new());
        loop {
            let event = self.event();
            watch(&event);
            match event {
                Event::Prompt { turn, ids, reused: count } => {
                    assert_eq!(turn, id);
                    (prompt, reused) = (ids, count);
                }
                Event::Logits { turn, values } => {
                    assert_eq!(turn, id);
                    logits.push(values.into_iter().map(f32::to_bits).collect());
                }
                Event::Step { turn, seconds, .. } => {
                    assert!(turn == id && seconds > 0.0);
                }
                Event::Token { turn, id: token, .. } => {
                    assert_eq!(turn, id);
                    drawn.push(token);
                }
                Event::Delta { turn, part } => {
                    assert_eq!(turn, id);
                    parts.push(part);
                }
                Event::Finished { turn, outcome } => {
                    assert_eq!(turn, id);
                    assert!(outcome.ids.ends_with(&drawn), "{drawn:?} are not the end of {:?}", outcome.ids);
                    return Turn { prompt, reused, logits, parts, drawn, outcome: *outcome, notes };
                }
                Event::Note(text) => notes.push(text),
                other => panic!("{other:?} in a turn"),
            }
        }
    }
}
