//! Files that are named with an `@` in the draft, and become chips.

use super::mode::Mode;
use super::{App, Effect};
use crate::tui::commands::Completion;
use crate::tui::draft::{Chip, Draft};

/// What was found for the word at the caret.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    /// The word that was asked about last.
    asked: String,
    /// The word that `names` are of.
    word: String,
    names: Vec<String>,
    /// A word whose list the user does not want.
    unwanted: Option<String>,
}

impl App {
    /// Asks for the files that the word at the caret may become, once for each word.
    pub(super) fn ask_for_files(&mut self) -> Vec<Effect> {
        let word = match self.mode {
            Mode::Write => self.composer.word_before(),
            _ => "",
        };
        if !word.starts_with('@') {
            self.files = Files::default();
            return Vec::new();
        }
        if word == self.files.asked {
            return Vec::new();
        }
        word.clone_into(&mut self.files.asked);
        vec![Effect::List(word.to_owned())]
    }

    pub(super) fn listed(&mut self, word: String, files: Vec<String>) -> Vec<Effect> {
        if word == self.files.asked {
            (self.files.word, self.files.names) = (word, files);
        }
        Vec::new()
    }

    /// The files that the word at the caret may become.
    pub(super) fn fitting_files(&self) -> Vec<Completion> {
        let word = self.composer.word_before();
        let files = &self.files;
        // What was found for a shorter word serves until more is known.
        if !word.starts_with('@') || files.word.is_empty() || !word.starts_with(&files.word) {
            return Vec::new();
        }
        if files.unwanted.as_deref() == Some(word) {
            return Vec::new();
        }
        let completion = |name: &String| {
            let open = name.ends_with('/');
            Completion { text: name.clone(), help: if open { "folder" } else { "file" }, open }
        };
        files.names.iter().filter(|name| name.starts_with(word)).map(completion).collect()
    }

    /// The file or folder of the list that is chosen takes the place of the word.
    pub(super) fn take_file(&mut self, name: &str) -> Vec<Effect> {
        let len = self.composer.word_before().len();
        self.edit(|composer| composer.replace_before(len, Draft::from(name)));
        if name.ends_with('/') { Vec::new() } else { vec![Effect::Attach(name.to_owned())] }
    }

    /// Closes the list until another word is written.
    pub(crate) fn close_list(&mut self) -> Vec<Effect> {
        self.files.unwanted = Some(self.composer.word_before().to_owned());
        Vec::new()
    }

    pub(super) fn attached(&mut self, word: &str, file: Result<Chip, String>) -> Vec<Effect> {
        match file {
            Ok(chip) => {
                if !self.composer.replace_word(word, Draft::from(chip)) {
                    self.notify(format!("{word} is not in the draft any more."));
                }
            }
            Err(reason) => self.notify(reason),
        }
        Vec::new()
    }
}
