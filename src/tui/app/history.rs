//! Earlier messages, and drafts that were cleared: nothing that was written is out of reach.

use crate::tui::draft::Draft;

/// Entries, oldest first and each but once, and where one is among them.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    entries: Vec<Draft>,
    /// The entry that is shown, and the draft that waits below the newest one.
    shown: Option<(usize, Draft)>,
}

impl History {
    /// Keeps a message or a draft; one that is there already becomes the newest.
    pub(super) fn keep(&mut self, draft: &Draft) {
        self.shown = None;
        if !draft.is_blank() {
            self.entries.retain(|entry| entry != draft);
            self.entries.push(draft.clone());
        }
    }

    /// Whether there are none.
    pub(super) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries that hold a text, in any case, the newest first.
    pub(super) fn holding(&self, text: &str) -> impl Iterator<Item = &Draft> {
        let text = text.to_lowercase();
        self.entries.iter().rev().filter(move |entry| entry.line().to_lowercase().contains(&text))
    }

    /// The entry before the one that is shown; `draft` is kept for the way back.
    pub(super) fn earlier(&mut self, draft: &Draft) -> Option<&Draft> {
        let (at, draft) = match self.shown.take() {
            Some((at, draft)) => (at.saturating_sub(1), draft),
            None => (self.entries.len().checked_sub(1)?, draft.clone()),
        };
        self.shown = Some((at, draft));
        self.entries.get(at)
    }

    /// The entry after the one that is shown, or the draft after the newest.
    pub(super) fn later(&mut self) -> Option<Draft> {
        let (at, draft) = self.shown.take()?;
        match self.entries.get(at + 1) {
            Some(entry) => {
                let entry = entry.clone();
                self.shown = Some((at + 1, draft));
                Some(entry)
            }
            None => Some(draft),
        }
    }

    /// What is shown was changed: it is a draft of its own from now on.
    pub(super) fn leave(&mut self) {
        // The draft that waited below would be lost: it becomes an entry.
        if let Some((_, draft)) = self.shown.take() {
            self.keep(&draft);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(draft: Option<&Draft>) -> Option<&str> {
        draft.map(Draft::text)
    }

    #[test]
    fn the_way_up_is_the_way_down() {
        let mut history = History::default();
        let draft = Draft::from("draft");
        assert_eq!(history.earlier(&draft), None);
        for text in ["one", "two", "two", "  "] {
            history.keep(&text.into());
        }
        assert_eq!(text(history.earlier(&draft)), Some("two"));
        assert_eq!(text(history.earlier(&"two".into())), Some("one"));
        assert_eq!(text(history.earlier(&"one".into())), Some("one"));
        assert_eq!(text(history.later().as_ref()), Some("two"));
        assert_eq!(text(history.later().as_ref()), Some("draft"));
        assert_eq!(history.later(), None);
    }

    #[test]
    fn a_draft_below_survives_the_editing_of_an_entry() {
        let mut history = History::default();
        history.keep(&"one".into());
        history.earlier(&"draft".into());
        history.leave();
        assert_eq!(text(history.earlier(&"one, edited".into())), Some("draft"));
    }

    #[test]
    fn entries_are_found_newest_first_and_each_but_once() {
        let mut history = History::default();
        for text in ["The mouse", "a cat", "a mouse", "The mouse"] {
            history.keep(&text.into());
        }
        let found = |words: &str| history.holding(words).map(Draft::line).collect::<Vec<_>>();
        assert_eq!(found("MOUSE"), ["The mouse", "a mouse"]);
        assert_eq!(found(""), ["The mouse", "a mouse", "a cat"]);
    }
}
