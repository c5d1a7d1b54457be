//! What can be wrong with a conversation.

/// A conversation cannot be put into the chat format.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The messages are not JSON.
    #[error("messages: expected a JSON list of messages: {0}")]
    Json(#[from] serde_json::Error),
    /// A message is not what it should be.
    #[error("message {index}, `{field}`: expected {expected}, found {found}")]
    Message {
        /// Which, counted from one.
        index: usize,
        /// The field in question.
        field: &'static str,
        /// What belongs there.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// Tools are declared by something else than a list.
    #[error("tools: expected a list of declarations, found {found}")]
    Tools {
        /// What stands there.
        found: &'static str,
    },
    /// A tool's message does not say whose it is, and answers no call.
    #[error(
        "message {index}, `name`: expected the tool that answers, found none, and no call number {call} before it"
    )]
    NamelessTool {
        /// Which, counted from one.
        index: usize,
        /// Which of the tool messages since the last answer, counted from one.
        call: usize,
    },
    /// The tokenizer lacks a marker.
    #[error("tokenizer: expected a reserved id named {marker:?}, found none")]
    MissingMarker {
        /// The marker.
        marker: &'static str,
    },
}
