//! Messages that wait for the running turn: sent in their order as turns end well. After a stop or a failure they wait
//! for the user, who may not want them any more.

use std::collections::VecDeque;

use super::{App, Effect, Engine};
use crate::protocol::Finish;
use crate::tui::draft::Draft;

/// The messages that wait, the next one first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    pub(crate) waiting: VecDeque<Draft>,
    /// Whether they wait for the user and not for a turn.
    pub(crate) held: bool,
}

impl App {
    /// Lets the draft wait for the end of the turn.
    pub(super) fn enqueue(&mut self) -> Vec<Effect> {
        let draft = self.composer.take();
        let effects = self.remember(&draft);
        self.queue.waiting.push_back(draft);
        effects
    }

    /// A turn has ended: sends the next message, or holds all.
    pub(super) fn after_turn(&mut self, finish: Finish) -> Vec<Effect> {
        if self.queue.waiting.is_empty() {
            return Vec::new();
        }
        self.queue.held |= matches!(finish, Finish::Cancelled | Finish::Error);
        if self.queue.held { Vec::new() } else { self.send_queued() }
    }

    /// Sends the next message that waits, if one can be sent.
    pub(super) fn send_queued(&mut self) -> Vec<Effect> {
        if self.running.is_some() || !matches!(self.engine, Engine::Ready(_)) {
            return Vec::new();
        }
        self.queue.held = false;
        match self.queue.waiting.pop_front() {
            Some(draft) => self.begin(draft.expanded().trim().to_owned(), None),
            None => Vec::new(),
        }
    }

    /// Takes the last message that waits back into the draft; what is written there goes below it.
    pub(crate) fn take_back(&mut self) -> Vec<Effect> {
        let Some(mut draft) = self.queue.waiting.pop_back() else {
            self.notify("No message is queued.");
            return Vec::new();
        };
        self.queue.held &= !self.queue.waiting.is_empty();
        if !self.composer.is_blank() {
            draft.insert(draft.text().len(), Draft::from("\n"));
            draft.insert(draft.text().len(), self.composer.take());
        }
        self.edit(|composer| composer.set(draft));
        Vec::new()
    }

    /// Forgets the messages that wait; all of them are among the earlier ones.
    pub(super) fn clear_queue(&mut self) {
        self.queue = Queue::default();
    }
}
