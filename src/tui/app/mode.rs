//! What has the keys where it is not the draft: looking for words, and choosing a passage of the conversation.

use super::{App, Effect};
use crate::tui::commands::Answer;
use crate::tui::composer::Composer;
use crate::tui::keymap::Context;
use crate::tui::transcript::{Chosen, Needle, Passage, Step, passages, text_of};

/// What has the keys.
#[derive(Clone, Debug, Default)]
pub(crate) enum Mode {
    /// The draft.
    #[default]
    Write,
    /// The words that are looked for in the conversation.
    Find(Find),
    /// A passage of the conversation.
    Browse(Chosen),
    /// The words that are looked for in earlier messages.
    Recall(Recall),
}

/// A search in the conversation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Find {
    pub(crate) line: Composer,
    pub(crate) needle: Option<Needle>,
    /// The passage that was chosen when it began.
    from: Option<Chosen>,
}

/// A search in earlier messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recall {
    pub(crate) line: Composer,
    /// Which of those that fit is chosen, from the newest on.
    pub(crate) choice: usize,
}

impl Mode {
    /// The bindings that hold because of it.
    pub(super) const fn context(&self) -> Option<Context> {
        match self {
            Self::Write => None,
            Self::Find(_) => Some(Context::Find),
            Self::Browse(_) => Some(Context::Browse),
            Self::Recall(_) => Some(Context::Recall),
        }
    }

    /// What is looked for.
    pub(crate) const fn needle(&self) -> Option<&Needle> {
        if let Self::Find(find) = self { find.needle.as_ref() } else { None }
    }

    /// What is chosen.
    pub(crate) const fn chosen(&self) -> Option<Chosen> {
        if let Self::Browse(chosen) = self { Some(*chosen) } else { None }
    }
}

impl App {
    /// The text that has the keys, or would have them.
    pub(crate) const fn line(&self) -> &Composer {
        match &self.mode {
            Mode::Write | Mode::Browse(_) => &self.composer,
            Mode::Find(find) => &find.line,
            Mode::Recall(recall) => &recall.line,
        }
    }

    /// All texts that can be changed.
    pub(crate) fn lines(&mut self) -> impl Iterator<Item = &mut Composer> {
        let other = match &mut self.mode {
            Mode::Write | Mode::Browse(_) => None,
            Mode::Find(find) => Some(&mut find.line),
            Mode::Recall(recall) => Some(&mut recall.line),
        };
        std::iter::once(&mut self.composer).chain(other)
    }

    /// Changes the text that has the keys, if any has.
    pub(crate) fn edit(&mut self, change: impl FnOnce(&mut Composer)) {
        match &mut self.mode {
            Mode::Write => {
                change(&mut self.composer);
                self.choice = 0;
                self.history.leave();
            }
            Mode::Find(find) => {
                change(&mut find.line);
                find.line.join_lines();
                self.look();
            }
            Mode::Recall(recall) => {
                change(&mut recall.line);
                recall.line.join_lines();
                recall.choice = 0;
            }
            Mode::Browse(_) => {}
        }
    }

    /// Moves the caret of the text that has the keys.
    pub(crate) fn go(&mut self, go: impl FnOnce(&mut Composer)) {
        match &mut self.mode {
            Mode::Write => go(&mut self.composer),
            Mode::Find(find) => go(&mut find.line),
            Mode::Recall(recall) => go(&mut recall.line),
            Mode::Browse(_) => {}
        }
    }

    /// Looks for words in the conversation; where that is done already, goes to the match before.
    pub(crate) fn find(&mut self) -> Vec<Effect> {
        if matches!(self.mode, Mode::Find(_)) {
            return self.step(true);
        }
        if self.transcript.turns().is_empty() {
            self.notify("There is no conversation to look through yet.");
            return Vec::new();
        }
        let from = if let Mode::Browse(chosen) = self.mode { Some(chosen) } else { None };
        self.scrollback.begin_search();
        self.mode = Mode::Find(Find { from, ..Find::default() });
        Vec::new()
    }

    /// Looks for what is written now.
    fn look(&mut self) {
        let Mode::Find(find) = &mut self.mode else { return };
        self.needles += 1;
        find.needle = Needle::new(find.line.text(), self.needles);
        self.scrollback.show_hit(Step::Nearest);
    }

    /// Chooses the newest answer, or what is at the top of the screen where the reader has scrolled back.
    pub(crate) fn browse(&mut self) -> Vec<Effect> {
        let turns = self.transcript.turns();
        if turns.is_empty() {
            self.notify("There is no message to choose yet.");
            return Vec::new();
        }
        let turn = if self.scrollback.follows() {
            turns.len() - 1
        } else {
            self.scrollback.top_turn().min(turns.len() - 1)
        };
        self.choose_in(turn);
        Vec::new()
    }

    /// Chooses the answer of a turn, or what comes next to one.
    fn choose_in(&mut self, turn: usize) {
        let Some(content) = self.transcript.turns().get(turn) else { return };
        let passages = passages(content);
        let answer = passages.iter().find(|passage| **passage == Passage::Answer).or(passages.last());
        if let Some(passage) = answer {
            self.mode = Mode::Browse(Chosen { turn, passage: *passage });
            self.scrollback.show_chosen();
        }
    }

    /// To what is before or after.
    pub(crate) fn step(&mut self, older: bool) -> Vec<Effect> {
        match &mut self.mode {
            Mode::Write => {}
            Mode::Find(_) => self.scrollback.show_hit(if older { Step::Older } else { Step::Newer }),
            Mode::Recall(recall) => {
                recall.choice = if older { recall.choice + 1 } else { recall.choice.saturating_sub(1) };
                let last = self.recalled().len().saturating_sub(1);
                if let Mode::Recall(recall) = &mut self.mode {
                    recall.choice = recall.choice.min(last);
                }
            }
            Mode::Browse(chosen) => {
                let turns = self.transcript.turns();
                let of = |turn: usize| turns.get(turn).map(passages).unwrap_or_default();
                let here = of(chosen.turn);
                let at = here.iter().position(|passage| *passage == chosen.passage);
                let at = at.unwrap_or(here.len().saturating_sub(1));
                if older {
                    if let Some(passage) = at.checked_sub(1).and_then(|at| here.get(at)) {
                        chosen.passage = *passage;
                    } else if let Some(turn) = chosen.turn.checked_sub(1)
                        && let Some(passage) = of(turn).last()
                    {
                        *chosen = Chosen { turn, passage: *passage };
                    }
                } else if let Some(passage) = here.get(at + 1) {
                    chosen.passage = *passage;
                } else if let Some(passage) = of(chosen.turn + 1).first() {
                    *chosen = Chosen { turn: chosen.turn + 1, passage: *passage };
                }
                self.scrollback.show_chosen();
            }
        }
        Vec::new()
    }

    /// Takes what was found.
    pub(crate) fn take(&mut self) -> Vec<Effect> {
        match std::mem::take(&mut self.mode) {
            Mode::Write | Mode::Browse(_) => {}
            Mode::Find(_) => {
                let turn = self.scrollback.turn_of_hit();
                self.scrollback.end_search(false);
                if let Some(turn) = turn {
                    // Chosen where it is: the screen stays at the hit.
                    let passage = Passage::Question;
                    let passages = self.transcript.turns().get(turn).map(passages).unwrap_or_default();
                    let passage =
                        passages.into_iter().find(|part| *part == Passage::Answer).unwrap_or(passage);
                    self.mode = Mode::Browse(Chosen { turn, passage });
                }
            }
            Mode::Recall(recall) => self.take_recalled(&recall),
        }
        Vec::new()
    }

    /// Leaves the mode for where one was before it.
    pub(crate) fn back(&mut self) -> Vec<Effect> {
        match std::mem::take(&mut self.mode) {
            Mode::Find(Find { from, .. }) => {
                self.scrollback.end_search(true);
                if let Some(chosen) = from {
                    self.mode = Mode::Browse(chosen);
                }
            }
            Mode::Write | Mode::Browse(_) | Mode::Recall(_) => {}
        }
        Vec::new()
    }

    /// Copies the passage that is chosen.
    pub(crate) fn copy_chosen(&mut self) -> Vec<Effect> {
        let Mode::Browse(Chosen { turn, passage }) = self.mode else { return Vec::new() };
        self.copy(turn, passage)
    }

    fn copy(&mut self, turn: usize, passage: Passage) -> Vec<Effect> {
        let text = self.transcript.turns().get(turn).and_then(|turn| text_of(turn, passage));
        text.map(|text| vec![Effect::Copy(text)]).unwrap_or_default()
    }

    /// Copies the last answer, or the last block of code of it.
    pub(crate) fn copy_last(&mut self, what: &str) -> Answer {
        let code = what == "code";
        let fits = |passage: &Passage| match passage {
            Passage::Answer => !code,
            Passage::Code(_) => code,
            Passage::Question | Passage::Thinking => false,
        };
        let turns = self.transcript.turns().iter().map(passages).enumerate();
        let last = turns.rev().find(|(_, passages)| passages.contains(&Passage::Answer));
        let (turn, passages) = last.ok_or("There is no answer to copy yet.")?;
        let passage = passages.into_iter().rev().find(fits).ok_or("The last answer has no block of code.")?;
        Ok(self.copy(turn, passage))
    }

    /// Lets the user write the draft in his editor.
    pub(crate) fn open_editor(&mut self) -> Vec<Effect> {
        vec![Effect::Edit(self.composer.draft().expanded())]
    }

    /// Shows or hides the thinking of the turn that is chosen.
    pub(crate) fn unfold_chosen(&mut self) -> Vec<Effect> {
        let Mode::Browse(chosen) = &mut self.mode else { return Vec::new() };
        let turn = chosen.turn;
        let Some(content) = self.transcript.turns().get(turn) else { return Vec::new() };
        if content.thinking.is_empty() {
            self.notify("This turn has no thinking.");
            return Vec::new();
        }
        let by_itself = self.show_thinking.unwrap_or_else(|| content.shows_thinking());
        if let Some(facts) = self.facts.get_mut(turn) {
            facts.unfolded = Some(!facts.unfolded.unwrap_or(by_itself));
            chosen.passage = Passage::Thinking;
            self.scrollback.show_chosen();
        }
        Vec::new()
    }

    /// Shows all thinking, or hides all: whichever changes what the newest turn shows.
    pub(crate) fn fold_thinking(&mut self) -> Vec<Effect> {
        let newest = self.transcript.turns().last();
        let by_itself = newest.is_some_and(crate::chat::Turn::shows_thinking);
        let shown =
            self.facts.last().and_then(|facts| facts.unfolded).or(self.show_thinking).unwrap_or(by_itself);
        self.show_thinking = Some(!shown);
        for facts in &mut self.facts {
            facts.unfolded = None;
        }
        Vec::new()
    }
}
