//! Earlier messages, and drafts that were cleared: nothing that was written is out of reach.

/// Entries, oldest first, and where one is among them.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    entries: Vec<String>,
    /// The entry that is shown, and the draft that waits below the newest one.
    shown: Option<(usize, String)>,
}

impl History {
    /// Keeps a message or a draft.
    pub(super) fn keep(&mut self, text: &str) {
        self.shown = None;
        if !text.trim().is_empty() && self.entries.last().is_none_or(|last| last != text) {
            self.entries.push(text.to_owned());
        }
    }

    /// The entry before the one that is shown; `draft` is kept for the way back.
    pub(super) fn earlier(&mut self, draft: &str) -> Option<&str> {
        let (at, draft) = match self.shown.take() {
            Some((at, draft)) => (at.saturating_sub(1), draft),
            None => (self.entries.len().checked_sub(1)?, draft.to_owned()),
        };
        self.shown = Some((at, draft));
        self.entries.get(at).map(String::as_str)
    }

    /// The entry after the one that is shown, or the draft after the newest.
    pub(super) fn later(&mut self) -> Option<String> {
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

    #[test]
    fn the_way_up_is_the_way_down() {
        let mut history = History::default();
        assert_eq!(history.earlier("draft"), None);
        for text in ["one", "two", "two", "  "] {
            history.keep(text);
        }
        assert_eq!(history.earlier("draft"), Some("two"));
        assert_eq!(history.earlier("two"), Some("one"));
        assert_eq!(history.earlier("one"), Some("one"));
        assert_eq!(history.later().as_deref(), Some("two"));
        assert_eq!(history.later().as_deref(), Some("draft"));
        assert_eq!(history.later(), None);
    }

    #[test]
    fn a_draft_below_survives_the_editing_of_an_entry() {
        let mut history = History::default();
        history.keep("one");
        history.earlier("draft");
        history.leave();
        assert_eq!(history.earlier("one, edited"), Some("draft"));
    }
}
