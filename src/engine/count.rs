//! Counting tokens for those who hold no tokenizer.

use std::sync::Arc;

use crate::chat;
use crate::protocol::{Conversation, Count};
use crate::tokenizer::Tokenizer;

/// Counts as a turn would: with the same tokenizer, in the same format.
pub(super) struct Words(pub(super) Arc<Tokenizer>);

impl Count for Words {
    fn text(&self, text: &str) -> usize {
        self.0.encode(text).len()
    }

    fn prompt(&self, conversation: &Conversation) -> usize {
        // What cannot be rendered is refused when it is sent, with the reason.
        chat::render(conversation).map_or(0, |segments| chat::encode(&self.0, &segments).len())
    }
}
