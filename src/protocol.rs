//! The only types that the screen and the engine share.
//!
//! Commands go down a bounded channel, events come up another, and every event of a turn carries its [`TurnId`], so
//! that a late one can be dropped. Numbers do not travel as events: the engine writes them into [`Telemetry`], and
//! whoever shows them samples it. A turn is stopped through its [`CancelFlag`], and held up through its [`PauseFlag`]:
//! neither queues behind anything.

mod count;
mod error;
mod flags;
mod layers;
mod limits;
mod message;
mod plan;
mod telemetry;
mod took;

use std::path::PathBuf;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};

pub use count::{Count, Counter};
pub use error::{ExitCode, UserError};
pub use flags::{CancelFlag, PauseFlag};
pub use layers::{LayerCost, WATCHED_LAYERS};
pub use limits::{Limit, Limits, ParseLimitError, Reached};
pub use message::{Arguments, Conversation, Message, ResponseFormat, Thinking, ToolCall, ToolChoice};
pub use plan::{KnownRates, Measured, PlanFacts, UsedRate};
pub use telemetry::{ExpertCounts, Phase, Rates, Sample, Telemetry, Wait};
pub use took::{Took, median};

use crate::units::Bytes;

/// Depth of the command channel.
pub const COMMANDS: usize = 8;
/// Depth of the event channel: at two or three events a token, far more than a screen can fall behind.
pub const EVENTS: usize = 1024;

/// Which turn an event belongs to. Unique within one run of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TurnId(pub u64);

/// The two ends of the channels that the screen (or a headless run) holds, and the numbers beside them.
#[derive(Clone, Debug)]
pub struct EngineLink {
    /// Commands to the engine, depth [`COMMANDS`].
    pub commands: Sender<Command>,
    /// Events from the engine, depth [`EVENTS`].
    pub events: Receiver<Event>,
    /// What the engine counts.
    pub telemetry: Arc<Telemetry>,
}

/// What the engine is asked to do.
#[derive(Clone, Debug)]
pub enum Command {
    /// Open a checkpoint and load what the memory allows. Answered by [`Event::Loading`], then [`Event::Ready`] or
    /// [`Event::Failed`]; by [`Event::Refused`] alone where another model is loaded and stays.
    Load(Settings),
    /// Generate one turn. Answered by [`Event::Prompt`], [`Event::Delta`]s and one [`Event::Finished`]. As many as were
    /// [asked for](Settings::together) share their passes; any further one waits for a place.
    Generate(Box<TurnRequest>),
    /// Forget all states in memory (the next turn reads its whole prompt, as far as no state on the disk serves it).
    Reset,
    /// Leave the thread, once what is being written is on the disk. Answered by [`Event::Stopped`].
    Shutdown,
}

/// What to load, and with how much of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Folder of the checkpoint.
    pub model: PathBuf,
    /// Memory that the engine may use; `None` leaves it to the engine.
    pub memory: Option<Bytes>,
    /// Threads that compute; `None` is one for each physical core.
    pub threads: Option<usize>,
    /// Positions of the context; `None` leaves it to the engine.
    pub context: Option<usize>,
    /// Turns that may be under way at once, sharing what is read; `None` is one.
    pub together: Option<usize>,
    /// How shards are read, as typed; `None` leaves it to a probe.
    pub reader: Option<String>,
    /// What is known of the machine's speed, for the estimates of the plan.
    pub rates: KnownRates,
    /// Where the model's state is kept at the end of a turn; `None` keeps it in memory alone.
    pub states: Option<StatesOnDisk>,
}

/// States of conversations on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatesOnDisk {
    /// Their folder.
    pub folder: PathBuf,
    /// Bytes that all of them may take.
    pub most: Bytes,
}

/// One turn, from a prompt to its last token.
#[derive(Clone, Debug)]
pub struct TurnRequest {
    /// The name that every event of this turn carries.
    pub turn: TurnId,
    /// What the model reads.
    pub prompt: Prompt,
    /// Ids that this turn has generated before it was cut. They are read after the prompt and not drawn again; their
    /// [`Event::Delta`]s come first, and the turn goes on as if it had never stopped.
    pub generated: Vec<u32>,
    /// How the next token is drawn.
    pub sampling: Sampling,
    /// Most tokens to generate; `None` is up to the context limit.
    pub max_tokens: Option<usize>,
    /// How long it may think and answer.
    pub limits: Limits,
    /// Of `generated`, so many do not count for `limits`: the turn had ended at one, and is to go on from there.
    pub allowed_from: usize,
    /// Tokens of the prompt that one pass computes together; `None` is the engine's choice. Never changes a bit.
    pub prefill_chunk: Option<usize>,
    /// Whether to send [`Event::Logits`] for the last prompt position and each generated step.
    pub logits: bool,
    /// Stops the turn.
    pub cancel: CancelFlag,
    /// Holds the turn up between two tokens.
    pub pause: PauseFlag,
}

impl TurnRequest {
    /// A turn that draws at most `most` tokens greedily, under no other limit.
    pub fn greedy(turn: TurnId, prompt: Prompt, most: usize, cancel: CancelFlag) -> Self {
        Self {
            turn,
            prompt,
            generated: Vec::new(),
            sampling: Sampling { temperature: Some(0.0), top_p: None, seed: Some(0) },
            max_tokens: Some(most),
            limits: Limits::default(),
            allowed_from: 0,
            prefill_chunk: None,
            logits: false,
            cancel,
            pause: PauseFlag::default(),
        }
    }

    /// The one token with which a model is tried that was just set up.
    pub fn trial(turn: TurnId, cancel: CancelFlag) -> Self {
        Self::greedy(turn, Prompt::Raw("Hello".to_owned()), 1, cancel)
    }
}

/// What the model reads.
#[derive(Clone, Debug, PartialEq)]
pub enum Prompt {
    /// A conversation, rendered in the model's chat format; the output is parsed into channels.
    Chat(Conversation),
    /// Text as it is, with marker spellings read as markers; the output is plain text.
    Raw(String),
    /// Token ids as they are; the output is plain text.
    Ids(Vec<u32>),
}

/// How the next token is drawn. `None` is the checkpoint's own default, or else the model card's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sampling {
    /// 0 is greedy.
    pub temperature: Option<f32>,
    /// The nucleus: the smallest set of tokens whose probability reaches this, in (0, 1].
    pub top_p: Option<f32>,
    /// Makes a run repeatable; drawn at random if not given.
    pub seed: Option<u64>,
}

/// What the engine has to say.
#[derive(Clone, Debug)]
pub enum Event {
    /// Loading goes on: `done` of `total` bytes.
    Loading {
        /// Bytes read so far.
        done: u64,
        /// Bytes to read.
        total: u64,
    },
    /// The model is loaded.
    Ready(Box<ModelFacts>),
    /// The prompt was rendered; reading it begins.
    Prompt {
        /// Its turn.
        turn: TurnId,
        /// All ids of the prompt.
        ids: Vec<u32>,
        /// How many of them, and of the ids generated before, were still in a state from an earlier turn.
        reused: usize,
    },
    /// A token was drawn. What is shown of it, if anything, comes after it.
    Token {
        /// Its turn.
        turn: TurnId,
        /// The token.
        id: u32,
        /// Where its text belongs.
        channel: Channel,
    },
    /// A pass that decoded one token has ended.
    Step {
        /// Its turn.
        turn: TurnId,
        /// Seconds that it took.
        seconds: f64,
        /// What it read and waited for.
        cost: TokenCost,
    },
    /// The logits of one step, in f32, one for each id of the vocabulary.
    Logits {
        /// Its turn.
        turn: TurnId,
        /// One for each id.
        values: Vec<f32>,
    },
    /// More of the model's output: whole characters only.
    Delta {
        /// Its turn.
        turn: TurnId,
        /// What came.
        part: Part,
    },
    /// The turn is over.
    Finished {
        /// Its turn.
        turn: TurnId,
        /// How it ended, and what it took.
        outcome: Box<Outcome>,
    },
    /// Something that the user should know and that stops nothing.
    Note(String),
    /// Loading was refused before anything changed: the model that was loaded is as it was.
    Refused(UserError),
    /// Loading failed, or the engine broke and must be loaded again.
    Failed(UserError),
    /// The engine has left.
    Stopped,
}

/// A piece of the model's output, in the channel where the model put it.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Of its reasoning.
    Thinking(String),
    /// Of its answer.
    Answer(String),
    /// A tool call, whole.
    ToolCall(ToolCall),
}

/// Where in the model's output a text belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// To the reasoning. Still so at the end: it was cut before it came to an answer.
    Thinking,
    /// To the answer.
    Answer,
    /// To tool calls.
    Tools,
    /// To none: one was closed and no other opened. White space is dropped here, and any other text is an answer.
    Between,
}

/// Why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model said so.
    Stop,
    /// A limit was reached.
    Length,
    /// The user stopped it.
    Cancelled,
    /// It failed; what came before is valid.
    Error,
}

impl Finish {
    /// The word that `run --json` prints.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Cancelled => "cancelled",
            Self::Error => "error",
        }
    }
}

/// How a turn ended, and what it took.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Why it ended.
    pub finish: Finish,
    /// The failure, where it failed.
    pub error: Option<UserError>,
    /// The generated ids, those of before a cut and the stop id included.
    pub ids: Vec<u32>,
    /// The seed that was used.
    pub seed: u64,
    /// Which limit ended it, where one did.
    pub reached: Option<Reached>,
    /// What it took, in short.
    pub took: Took,
    /// What did not have to be computed.
    pub reused: Reused,
    /// Positions that were computed: what was not reused of the prompt and of the ids generated before, and each drawn
    /// token but the last.
    pub computed: usize,
    /// Seconds of each pass that decoded one token: one shorter than the drawn ids, since the first comes of the prefill.
    pub decode_s: Vec<f64>,
    /// Bytes of the trunk read from disk during the turn.
    pub trunk_bytes: u64,
    /// Bytes of experts read from disk during the turn.
    pub expert_bytes: u64,
    /// What the experts' cache did during the turn.
    pub experts: ExpertCounts,
    /// What each pass of `decode_s` read and waited for.
    pub tokens: Vec<TokenCost>,
    /// What the turn waited for.
    pub waits: Waits,
    /// The context, where it had no room for the prompt or for more of an answer.
    pub full: Option<ContextFull>,
}

/// A context without room for a prompt, or for more of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextFull {
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Positions of the context.
    pub limit: usize,
}

impl Outcome {
    /// Of a turn in which nothing happened.
    pub fn new(finish: Finish) -> Self {
        Self {
            finish,
            error: None,
            ids: Vec::new(),
            seed: 0,
            reached: None,
            took: Took::default(),
            reused: Reused { positions: 0, from: None, took_s: 0.0 },
            computed: 0,
            decode_s: Vec::new(),
            trunk_bytes: 0,
            expert_bytes: 0,
            experts: ExpertCounts { requests: 0, resident: 0, reads: 0, bytes: 0 },
            tokens: Vec::new(),
            waits: Waits { late: 0, in_time: 0, waited_s: 0.0 },
            full: None,
        }
    }
}

/// Where a turn began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reused {
    /// Positions of a state that was kept.
    pub positions: usize,
    /// Where it was kept; nothing where there was none.
    pub from: Option<ReusedFrom>,
    /// Seconds that it took to find and to read it.
    pub took_s: f64,
}

/// Where a state was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReusedFrom {
    /// In memory.
    Memory,
    /// On the disk.
    Disk,
}

impl ReusedFrom {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Disk => "disk",
        }
    }
}

/// What one decoded token took of the disk. Pieces that were read ahead count for the token that was computed while they
/// came.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TokenCost {
    /// Bytes of the trunk.
    pub trunk: u64,
    /// Bytes of experts.
    pub experts: u64,
    /// Experts that it woke.
    pub woken: u64,
    /// Of these, in memory before it.
    pub resident: u64,
    /// Seconds in which nothing could be computed.
    pub waited_s: f64,
}

/// How well reading kept up with computing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Waits {
    /// Tiles and experts that were waited for.
    pub late: u64,
    /// Tiles read ahead that were there in time.
    pub in_time: u64,
    /// Seconds of the waits.
    pub waited_s: f64,
}

/// What a loaded model is, for those who show it.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelFacts {
    /// Name of its folder.
    pub name: String,
    /// Digest of its config and of the headers of its shards.
    pub digest: u64,
    /// Decoder layers.
    pub layers: usize,
    /// Routed experts in a layer.
    pub experts: usize,
    /// Of which each token wakes so many.
    pub top_k: usize,
    /// Ids in the vocabulary.
    pub vocabulary: usize,
    /// Parameters of the language model.
    pub parameters: u64,
    /// Bytes of its tensors on disk.
    pub bytes: Bytes,
    /// Positions that the context may hold.
    pub context_limit: usize,
    /// Bytes of the trunk that are held in memory, once they were read.
    pub resident: Bytes,
    /// Bytes of the trunk that every token reads from the disk.
    pub streamed: Bytes,
    /// How memory is divided.
    pub plan: PlanFacts,
    /// How shards are read.
    pub reader: &'static str,
    /// Whether what is read is checked against a manifest.
    pub checked: bool,
    /// Experts that the cache can hold at once.
    pub slots: usize,
    /// Bytes of one expert.
    pub expert_bytes: Bytes,
    /// Seconds that loading took.
    pub load_s: f64,
    /// Threads that compute.
    pub threads: usize,
    /// Instruction set that the kernels use.
    pub tier: &'static str,
    /// Temperature where none is asked for.
    pub temperature: f32,
    /// Nucleus where none is asked for.
    pub top_p: f32,
    /// Counts in its tokens.
    pub counter: Counter,
}
