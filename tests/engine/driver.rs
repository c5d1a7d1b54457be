//! An engine under test, and what comes of a turn.

use std::path::Path;
use std::time::Duration;

use dormouse::engine;
use dormouse::protocol::{
    CancelFlag, Command, EngineLink, Event, Finish, Limits, ModelFacts, Outcome, Part, PauseFlag, Prompt,
    Sampling, Settings, TurnId, TurnRequest, UserError,
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
    /// Set by the event that ends it.
    over: bool,
}

impl Default for Turn {
    fn default() -> Self {
        Self {
            prompt: Vec::new(),
            reused: 0,
            logits: Vec::new(),
            parts: Vec::new(),
            drawn: Vec::new(),
            outcome: Outcome::new(Finish::Error),
            notes: Vec::new(),
            over: false,
        }
    }
}

impl Turn {
    fn push(&mut self, event: Event) {
        assert!(!self.over, "{event:?} after the end");
        match event {
            Event::Prompt { ids, reused, .. } => (self.prompt, self.reused) = (ids, reused),
            Event::Logits { values, .. } => {
                self.logits.push(values.into_iter().map(f32::to_bits).collect());
            }
            Event::Token { id, .. } => self.drawn.push(id),
            Event::Delta { part, .. } => self.parts.push(part),
            Event::Step { seconds, .. } => assert!(seconds > 0.0),
            Event::Finished { outcome, .. } => {
                assert!(outcome.ids.ends_with(&self.drawn), "{:?}, not {:?}", outcome.ids, self.drawn);
                self.outcome = *outcome;
                self.over = true;
            }
            other => panic!("{other:?} in a turn"),
        }
    }

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
                Event::Failed(error) | Event::Refused(error) => return Err(error),
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
            pause: PauseFlag::default(),
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
    pub(crate) fn collect(&self, id: TurnId, watch: impl FnMut(&Event)) -> Turn {
        self.collect_all(&[id], watch).swap_remove(0)
    }

    /// Collects what these turns send, and shows each event to `watch` first.
    pub(crate) fn collect_all(&self, ids: &[TurnId], mut watch: impl FnMut(&Event)) -> Vec<Turn> {
        let mut turns: Vec<Turn> = ids.iter().map(|_| Turn::default()).collect();
        while turns.iter().any(|turn| !turn.over) {
            let event = self.event();
            watch(&event);
            if let Event::Note(text) = event {
                // It does not say whose it is; that of a turn alone.
                turns[0].notes.push(text);
                continue;
            }
            let id = match &event {
                Event::Prompt { turn, .. }
                | Event::Logits { turn, .. }
                | Event::Token { turn, .. }
                | Event::Delta { turn, .. }
                | Event::Step { turn, .. }
                | Event::Finished { turn, .. } => *turn,
                other => panic!("{other:?} in a turn"),
            };
            let place = ids.iter().position(|one| *one == id).expect("an event of a turn that was asked for");
            turns[place].push(event);
        }
        turns
    }
}
