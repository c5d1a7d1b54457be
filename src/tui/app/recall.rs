//! Looking for earlier messages.

use super::mode::{Mode, Recall};
use super::{App, Effect};
use crate::tui::draft::Draft;

/// Messages that are offered at most.
const OFFERED: usize = 100;

impl App {
    /// Begins to look for earlier messages with what is written.
    pub(crate) fn recall(&mut self) -> Vec<Effect> {
        if self.history.is_empty() {
            self.notify("There is no earlier message yet.");
            return Vec::new();
        }
        let mut recall = Recall::default();
        if !self.composer.draft().has_chips() {
            recall.line.set(self.composer.draft().line());
        }
        self.mode = Mode::Recall(recall);
        Vec::new()
    }

    /// The earlier messages that hold what is written, the newest first.
    pub(crate) fn recalled(&self) -> Vec<&Draft> {
        let Mode::Recall(recall) = &self.mode else { return Vec::new() };
        self.history.holding(recall.line.text().trim()).take(OFFERED).collect()
    }

    /// Puts the message that is chosen into the place of the draft, which becomes an earlier one.
    pub(super) fn take_recalled(&mut self, recall: &Recall) {
        let found = self.history.holding(recall.line.text().trim()).nth(recall.choice).cloned();
        if let Some(draft) = found {
            let before = self.composer.take();
            if !before.is_blank() && before != draft {
                self.history.keep(&before);
            }
            self.edit(|composer| composer.set(draft));
        }
    }
}
