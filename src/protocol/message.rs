//! A conversation, as the user, the model and its tools said it.

use serde_json::{Map, Value};

/// How much the model thinks before it answers. The model's default is `max`; ours is `low`, since tokens are dear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Thinking {
    /// Not at all: the thinking channel disappears from the whole conversation.
    Off,
    /// Briefly.
    #[default]
    Low,
    /// At length.
    High,
    /// As long as it takes.
    Max,
}

impl Thinking {
    /// Every value, in rising order.
    pub const ALL: [Self; 4] = [Self::Off, Self::Low, Self::High, Self::Max];

    /// The word for it, as typed and shown. For all but `off` it is also what the model is told.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Low => "low",
            Self::High => "high",
            Self::Max => "max",
        }
    }
}

impl std::str::FromStr for Thinking {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|value| value.as_str() == text)
            .ok_or_else(|| format!("`{text}` is not a thinking effort; known are off, low, high and max"))
    }
}

/// Everything that is rendered into one prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    /// What was said, oldest first.
    pub messages: Vec<Message>,
    /// How much to think; also decides whether the history shows its thinking.
    pub thinking: Thinking,
    /// An array of tool declarations, in the form of OpenAI's `tools`.
    pub tools: Option<Value>,
    /// Whether tools must or must not be called.
    pub tool_choice: ToolChoice,
    /// Which form the answer must have.
    pub response_format: ResponseFormat,
}

/// Whether the next message calls tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// As the model sees fit.
    #[default]
    Auto,
    /// It must.
    Required,
    /// It must not.
    None,
}

/// Which form the answer has.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ResponseFormat {
    /// Any text.
    #[default]
    Text,
    /// A JSON object.
    JsonObject,
    /// JSON that matches this schema.
    JsonSchema(Value),
}

/// One message. Text is a list of parts, since the format encodes each part on its own.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Of whoever set up the conversation.
    System {
        /// Who speaks.
        name: Option<String>,
        /// The text.
        content: Vec<String>,
        /// Further tools; where there are any, they are the message, and the text is ignored.
        tools: Option<Value>,
    },
    /// Of the user.
    User {
        /// Who speaks.
        name: Option<String>,
        /// The text.
        content: Vec<String>,
    },
    /// Of the model.
    Assistant {
        /// Who speaks.
        name: Option<String>,
        /// Its reasoning.
        thinking: String,
        /// Its answer.
        content: Vec<String>,
        /// The tools it called.
        tool_calls: Vec<ToolCall>,
    },
    /// What a tool gave back.
    Tool {
        /// The tool.
        name: Option<String>,
        /// Which call it answers.
        call_id: Option<String>,
        /// The text.
        content: Vec<String>,
    },
}

impl Message {
    /// A plain message of the user.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { name: None, content: vec![text.into()] }
    }
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// Its id, where the history names one.
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// What it is given.
    pub arguments: Arguments,
}

/// What a tool is given.
#[derive(Clone, Debug, PartialEq)]
pub enum Arguments {
    /// By name, in the order given.
    Object(Map<String, Value>),
    /// Text that could not be read as an object.
    Raw(String),
}
