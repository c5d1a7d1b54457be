//! Where a turn begins, and what is kept of it for the turns to come: in memory as far as there is room, and on the disk.

use std::time::Instant;

use super::load::Loaded;
use super::saved::{Place, Saved};
use super::shelf::{Kept, Start};

impl Loaded {
    /// The state that has seen the most of `sequence` and nothing else, from memory or from the disk, or else a new one.
    /// `prompt` is that of the turn, the beginning of the sequence.
    pub(super) fn start(&mut self, prompt: &[u32], sequence: &[u32]) -> Start {
        let start = self.longest(prompt, sequence);
        if let Some(saved) = &mut self.saved {
            saved.begin_with(&start.kept.ids);
        }
        start
    }

    fn longest(&mut self, prompt: &[u32], sequence: &[u32]) -> Start {
        let config = self.model.config();
        if let Some(saved) = &mut self.saved {
            saved.begin(prompt);
            let in_memory = self.shelf.longest(sequence);
            if saved.has_more(sequence, in_memory) {
                // Beside the copies memory is planned for one state: the last one makes way for that of the disk.
                self.shelf.set_aside(config);
                if let Some(start) = saved.take(sequence, in_memory) {
                    self.shelf.copy(&start.kept, start.logits.as_deref(), config);
                    return start;
                }
            }
        }
        self.shelf.take(sequence, config)
    }

    /// Keeps the state at the end of a prompt, with the logits of its last token.
    pub(super) fn keep_prompt(&mut self, kept: &Kept, logits: &[f32]) {
        self.shelf.copy(kept, Some(logits), self.model.config());
        self.save(kept, Some(logits), Place::End);
    }

    /// Keeps the state at the end of a turn, on the disk as well.
    pub(super) fn keep_end(&mut self) {
        if let (Some(saved), Some(last)) = (&mut self.saved, self.shelf.last()) {
            saved.save(last, None, Place::End);
        }
    }

    /// Saves a state from which the turn goes on.
    pub(super) fn save(&mut self, kept: &Kept, logits: Option<&[f32]>, place: Place) {
        let Some(saved) = &mut self.saved else { return };
        let began = Instant::now();
        saved.save(kept, logits, place);
        if self.plan.held.0 == 0 {
            // Where memory has no room for what the next token changes, that token waits.
            saved.settle();
        }
        saved.paused(began.elapsed());
    }

    /// Whether a state is being written at this moment.
    pub(super) fn is_saving(&self) -> bool {
        self.saved.as_ref().is_some_and(Saved::is_writing)
    }
}
