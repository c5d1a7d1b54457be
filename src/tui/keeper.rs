//! Writes the conversation down: a session is made with the first message, and a new one for each new conversation.

use std::io;
use std::path::PathBuf;

use super::library::{Library, Wish, Words};
use crate::session::{Folder, Header, Journal, Record, Trouble, stamp, unix_now};
use crate::units::Bytes;

/// Names that are tried for a session that begins in the same second as others.
const TRIES: u32 = 100;

/// The session that is written to, and where others are made.
#[derive(Debug)]
pub struct Keeper {
    folder: Folder,
    /// Folder and name of the model.
    model: (String, String),
    open: Option<(String, Journal)>,
    /// What was told of its trouble.
    told: Option<String>,
    /// What went wrong and was not told yet.
    untold: Option<String>,
    /// Where other sessions are found.
    pub(super) others: Option<Library>,
}

impl Keeper {
    /// Makes sessions in this folder, of the model with this folder and name.
    pub const fn new(folder: Folder, model_folder: String, model_name: String) -> Self {
        Self { folder, model: (model_folder, model_name), open: None, told: None, untold: None, others: None }
    }

    /// The same, and goes on with a session.
    #[must_use]
    pub fn going_on(self, id: String, journal: Journal) -> Self {
        Self { open: Some((id, journal)), ..self }
    }

    /// The same, and other sessions can be opened, whose ids become text through `words`.
    pub fn with_words(self, words: Box<dyn Words>) -> io::Result<Self> {
        let others = Some(Library::start(self.folder.clone(), words)?);
        Ok(Self { others, ..self })
    }

    /// Goes on with another session; without its journal nothing is written down.
    pub(super) fn turn_to(&mut self, id: String, journal: Option<Journal>) {
        self.open = journal.map(|journal| (id, journal));
    }

    /// Writes a record to the session, which is made with a turn, or the system message before it, if none is open. Gives
    /// its name. The digest is that of the
    /// model.
    pub(super) fn write(&mut self, record: Record, digest: u64) -> Option<String> {
        let now = unix_now();
        if self.open.is_none() && matches!(record, Record::Turn(_) | Record::Branch(_) | Record::System(_)) {
            self.make(digest, now);
        }
        let (id, journal) = self.open.as_ref()?;
        journal.append(&record.at(now));
        Some(id.clone())
    }

    /// What comes next is with the model of this folder and name.
    pub(super) fn change_model(&mut self, folder: PathBuf, name: String) {
        self.model = (folder.to_string_lossy().into_owned(), name);
        if let Some(others) = &self.others {
            others.ask(Wish::Model(folder));
        }
    }

    /// What comes next belongs to another session.
    pub(super) fn close(&mut self) {
        // What is left to write is written as the journal goes.
        self.open = None;
    }

    /// What the user is to be told of the session, once.
    pub(super) fn trouble(&mut self) -> Option<String> {
        if let Some(text) = self.untold.take() {
            return Some(text);
        }
        let trouble = self.open.as_ref().and_then(|(_, journal)| journal.trouble());
        let text = trouble.and_then(|trouble| match trouble {
            // The screen shows it all the while.
            Trouble::Full { .. } => None,
            Trouble::Failed { reason } => {
                Some(format!("The conversation is not written down any more: {reason}"))
            }
        });
        if text == self.told {
            return None;
        }
        self.told.clone_from(&text);
        text
    }

    /// Bytes that wait for room on a full disk.
    pub(super) fn missing(&self) -> Option<Bytes> {
        match self.open.as_ref()?.1.trouble()? {
            Trouble::Full { missing } => Some(missing),
            Trouble::Failed { .. } => None,
        }
    }

    fn make(&mut self, digest: u64, now: u64) {
        let (folder, name) = self.model.clone();
        let header = Header { model: digest, folder, name, created: now };
        for number in 1..=TRIES {
            let id = if number == 1 { stamp(now) } else { format!("{}-{number}", stamp(now)) };
            match self.folder.create(&id, header.clone()) {
                Ok(opened) => {
                    self.open = Some((id, opened.journal));
                    return;
                }
                Err(crate::session::Error::Exists { .. }) => {}
                Err(error) => {
                    self.untold = Some(format!("This conversation is not written down: {error}"));
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Limits, Thinking};
    use crate::session::TurnStart;

    fn turn() -> Record {
        Record::Turn(TurnStart {
            user: "Hi".to_owned(),
            thinking: Thinking::Low,
            temperature: 1.0,
            top_p: 1.0,
            seed: 1,
            max_tokens: None,
            limits: Limits::default(),
            at: 0,
        })
    }

    fn keeper(folder: &Folder) -> Keeper {
        Keeper::new(folder.clone(), "/m".to_owned(), "m".to_owned())
    }

    #[test]
    fn each_conversation_gets_a_session_with_its_first_message() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::at(dir.path().join("sessions"));
        let mut keeper = keeper(&folder);
        assert_eq!(keeper.write(Record::Note("late".to_owned()), 7), None);
        assert!(folder.list().unwrap().is_empty(), "nothing was said");
        let first = keeper.write(turn(), 7).unwrap();
        assert_eq!(keeper.write(turn(), 7).as_ref(), Some(&first));
        keeper.close();
        // Within the same second or not.
        let second = keeper.write(turn(), 7).unwrap();
        assert_ne!(first, second);
        keeper.close();
        let (session, _) = folder.read(&first).unwrap();
        assert_eq!((session.turns.len(), session.header.model), (2, 7));
        assert!(session.turns[0].start.at > 0, "the time is known here");
        assert_eq!(folder.list().unwrap().len(), 2);
        assert_eq!(keeper.trouble(), None);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_told_once_and_the_chat_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let mut keeper = keeper(&Folder::at(file.join("sessions")));
        assert_eq!(keeper.write(turn(), 7), None);
        assert!(keeper.trouble().unwrap().starts_with("This conversation is not written down"));
        assert_eq!(keeper.trouble(), None);
    }
}
