//! How many tokens a text has, for those who hold no tokenizer: whoever loads a model hands this out with it.

use std::fmt;
use std::sync::Arc;

use super::message::{Conversation, Message};

/// Counts in the tokens of one model. A megabyte may take a second: nobody who answers keys calls this himself.
pub trait Count: Send + Sync {
    /// Tokens of a text as it is, without anything around it.
    fn text(&self, text: &str) -> usize;

    /// Tokens that the model reads of a conversation, to the place where its answer begins.
    fn prompt(&self, conversation: &Conversation) -> usize;
}

/// The counter of a loaded model.
#[derive(Clone)]
pub struct Counter(Arc<dyn Count>);

impl Counter {
    /// Hands a counter out.
    pub fn new(count: impl Count + 'static) -> Self {
        Self(Arc::new(count))
    }

    /// Tokens of a text as it is.
    pub fn text(&self, text: &str) -> usize {
        self.0.text(text)
    }

    /// Tokens of a whole prompt.
    pub fn prompt(&self, conversation: &Conversation) -> usize {
        self.0.prompt(conversation)
    }

    /// Tokens that a prompt grows by with a message of the user, its markers included.
    pub fn message(&self, text: &str) -> usize {
        let empty = Conversation::default();
        let said = Conversation { messages: vec![Message::user(text)], ..empty.clone() };
        self.prompt(&said).saturating_sub(self.prompt(&empty))
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counter")
    }
}

impl PartialEq for Counter {
    /// Whether both are the same one.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A token for each letter, and ten around each message.
    struct Letters;

    impl Count for Letters {
        fn text(&self, text: &str) -> usize {
            text.chars().count()
        }

        fn prompt(&self, conversation: &Conversation) -> usize {
            let said = |message: &Message| match message {
                Message::User { content, .. } => 10 + self.text(&content.concat()),
                _ => 0,
            };
            7 + conversation.messages.iter().map(said).sum::<usize>()
        }
    }

    #[test]
    fn a_message_counts_with_its_markers_and_without_the_rest_of_the_prompt() {
        let counter = Counter::new(Letters);
        assert_eq!(counter.message("漢字 e"), 14);
        assert_eq!(counter.message(""), 10);
        assert_eq!(counter, counter.clone());
        assert_ne!(counter, Counter::new(Letters));
    }
}
