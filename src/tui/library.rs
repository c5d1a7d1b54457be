//! All sessions, as the screen asks for them: a thread of its own reads them, so that a thousand long ones keep no key
//! waiting.

use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::opening::Opening;
use crate::protocol::{Part, UserError};
use crate::session::{Entry, Error, Folder, Journal, Opened, Record, Session, Turn};

/// From the ids of a session to what they say.
pub trait Words: Send {
    /// The parts that each turn says, in the order in which they began. Fails where the session is of another model.
    fn parts(&mut self, id: &str, session: &Session) -> Result<Vec<Vec<Part>>, UserError>;

    /// From here on it is the model in this folder.
    fn change_model(&mut self, folder: &Path);
}

/// What is asked of the sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// All of them.
    List,
    /// One, to go on with.
    Open(String),
    /// Another title for one.
    Rename(String, String),
    /// That one is deleted.
    Delete(String),
    /// That those of the model in this folder are opened from now on; nothing comes of it.
    Model(PathBuf),
}

/// What comes of it.
#[derive(Debug)]
pub(crate) enum Reply {
    /// All sessions, the one that was written last first.
    Listed(Vec<Row>),
    /// One is open; without a journal it can only be read.
    Opened(Box<Opening>, Option<Journal>),
    /// It cannot be done.
    Refused(String),
}

/// A session as the list shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) id: String,
    /// How it is called, or why it cannot be read.
    pub(crate) title: String,
    /// When it was written last, in seconds since 1970.
    pub(crate) changed: u64,
    /// Turns of the branch that is gone on with.
    pub(crate) turns: usize,
    /// Tokens that were generated in it.
    pub(crate) tokens: usize,
    /// How its last turn ended, or that some of it is damaged.
    pub(crate) last: &'static str,
    /// Name and digest of its model.
    pub(crate) model: (String, u64),
    /// Whether it can be read.
    pub(crate) readable: bool,
}

impl From<Entry> for Row {
    fn from(entry: Entry) -> Self {
        let Entry { id, changed, content } = entry;
        match content {
            Ok((session, damage)) => Self {
                title: session.title(),
                turns: session.branch().len(),
                tokens: session.tokens(),
                last: if damage.is_some() { "damaged" } else { session.last().map_or("new", Turn::finish) },
                model: (session.header.name, session.header.model),
                readable: true,
                id,
                changed,
            },
            Err(error) => Self { title: error.to_string(), id, changed, ..Self::default() },
        }
    }
}

/// The thread, as those see it who ask.
#[derive(Debug)]
pub(crate) struct Library {
    asks: Sender<Wish>,
    /// What comes of what was asked, in that order.
    pub(crate) replies: Receiver<Reply>,
}

impl Library {
    /// Starts the thread over this folder.
    pub(crate) fn start(folder: Folder, words: Box<dyn Words>) -> io::Result<Self> {
        let (asks, inbox) = unbounded();
        let (outbox, replies) = bounded(8);
        let mut desk = Desk { folder, words };
        thread::Builder::new().name("sessions".to_owned()).spawn(move || {
            // Ends when the screen does, whatever it is in the middle of.
            for ask in inbox {
                if let Some(reply) = desk.answer(ask)
                    && outbox.send(reply).is_err()
                {
                    break;
                }
            }
        })?;
        Ok(Self { asks, replies })
    }

    /// Asks for something. The reply comes when it is there.
    pub(crate) fn ask(&self, ask: Wish) {
        // The thread lives as long as this end does.
        let _ = self.asks.send(ask);
    }
}

struct Desk {
    folder: Folder,
    words: Box<dyn Words>,
}

impl Desk {
    fn answer(&mut self, ask: Wish) -> Option<Reply> {
        let done = match ask {
            Wish::List => Ok(()),
            Wish::Open(id) => return Some(self.open(id).unwrap_or_else(Reply::Refused)),
            Wish::Model(folder) => {
                self.words.change_model(&folder);
                return None;
            }
            Wish::Rename(id, title) => self.rename(&id, title),
            Wish::Delete(id) => self.folder.delete(&id),
        };
        Some(match done.and_then(|()| self.folder.list()) {
            Ok(entries) => Reply::Listed(entries.into_iter().map(Row::from).collect()),
            Err(error) => Reply::Refused(error.to_string()),
        })
    }

    fn open(&mut self, id: String) -> Result<Reply, String> {
        let told = |error: UserError| format!("{}: {}", error.title, error.detail);
        let (opening, journal) = open(&self.folder, id, &mut *self.words).map_err(told)?;
        Ok(Reply::Opened(Box::new(opening), journal))
    }

    fn rename(&self, id: &str, title: String) -> Result<(), Error> {
        let opened = self.folder.open(id)?;
        opened.journal.append(&Record::Title(title));
        // Dropped, it writes what there is.
        Ok(())
    }
}

/// Opens a session for writing, or for reading alone where another program writes it.
pub fn open(
    folder: &Folder,
    id: String,
    words: &mut dyn Words,
) -> Result<(Opening, Option<Journal>), UserError> {
    match folder.open(&id) {
        Ok(Opened { session, damage, journal }) => {
            let parts = words.parts(&id, &session)?;
            let opening = Opening::of(id, &session, parts);
            let Some(damage) = damage else { return Ok((opening, Some(journal))) };
            journal.append(&Record::Note(damage.to_string()));
            Ok((opening.damaged(&damage), Some(journal)))
        }
        // A record that is just being written is no damage.
        Err(Error::InUse { .. }) => {
            let (session, _unfinished) = folder.read(&id)?;
            let parts = words.parts(&id, &session)?;
            Ok((Opening::of(id, &session, parts).read_only(), None))
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Channel, Finish, Limits, Thinking, TurnId};
    use crate::session::{Branch, End, Header, TurnStart};

    /// Each id is a word of an answer.
    struct Numbers;

    impl Words for Numbers {
        fn parts(&mut self, _id: &str, session: &Session) -> Result<Vec<Vec<Part>>, UserError> {
            let say = |turn: &Turn| turn.ids.iter().map(|id| Part::Answer(format!("{id} "))).collect();
            Ok(session.turns.iter().map(say).collect())
        }

        fn change_model(&mut self, _folder: &Path) {}
    }

    fn header() -> Header {
        Header { model: 7, folder: "/m".to_owned(), name: "m".to_owned(), created: 1 }
    }

    fn asked(user: &str) -> TurnStart {
        TurnStart {
            user: user.to_owned(),
            thinking: Thinking::Low,
            temperature: 1.0,
            top_p: 1.0,
            seed: 1,
            max_tokens: None,
            limits: Limits::default(),
            at: 0,
        }
    }

    fn library(folder: &Folder) -> Library {
        Library::start(folder.clone(), Box::new(Numbers)).unwrap()
    }

    fn reply(library: &Library, ask: Wish) -> Reply {
        library.ask(ask);
        library.replies.recv_timeout(std::time::Duration::from_mins(1)).unwrap()
    }

    fn titles(reply: Reply) -> Vec<String> {
        let Reply::Listed(rows) = reply else { panic!("{reply:?}") };
        rows.into_iter().map(|row| row.title).collect()
    }

    #[test]
    fn sessions_are_listed_renamed_deleted_and_what_is_in_use_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::at(dir.path().join("sessions"));
        let library = library(&folder);
        assert_eq!(titles(reply(&library, Wish::List)), [""; 0]);
        let opened = folder.create("one", header()).unwrap();
        opened.journal.append(&Record::Turn(asked("What?")));
        for ask in [Wish::Rename("one".to_owned(), "x".to_owned()), Wish::Delete("one".to_owned())] {
            let Reply::Refused(why) = reply(&library, ask) else { panic!("it was in use") };
            assert!(why.contains("in use by another dormouse"), "{why}");
        }
        drop(opened);
        assert_eq!(titles(reply(&library, Wish::List)), ["What?"]);
        assert_eq!(titles(reply(&library, Wish::Rename("one".to_owned(), "Better".to_owned()))), ["Better"]);
        std::fs::write(folder.dir().join("broken.journal"), "?").unwrap();
        let listed = titles(reply(&library, Wish::Delete("one".to_owned())));
        assert!(listed.len() == 1 && listed[0].contains("is not a journal"), "{listed:?}");
    }

    /// A session that another program writes is shown, and is nobody else's to write.
    #[test]
    fn a_session_is_opened_with_all_its_branches() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::at(dir.path().to_owned());
        let opened = folder.create("one", header()).unwrap();
        let records = [
            Record::Turn(asked("first")),
            Record::Token { id: 1, channel: Channel::Answer },
            Record::End(End { finish: Finish::Stop, at: 1, error: String::new(), reached: None, took: None }),
            Record::Turn(asked("second")),
            Record::Token { id: 2, channel: Channel::Answer },
            Record::Branch(Branch { follows: 1, dropped: 1, turn: asked("other") }),
        ];
        for record in &records {
            opened.journal.append(record);
        }
        opened.journal.flush(|_| true).unwrap();
        let library = library(&folder);
        let Reply::Opened(opening, journal) = reply(&library, Wish::Open("one".to_owned())) else { panic!() };
        assert!(journal.is_none() && opening.read_only);
        drop(opened);
        let Reply::Opened(opening, journal) = reply(&library, Wish::Open("one".to_owned())) else { panic!() };
        assert!(journal.is_some() && !opening.read_only && opening.notice.is_none());
        assert_eq!(opening.head, Some(TurnId(3)));
        let told: Vec<_> = opening
            .turns
            .iter()
            .map(|(turn, facts)| {
                (turn.id.0, turn.follows, turn.answer.as_str(), facts.asked.unwrap().dropped)
            })
            .collect();
        assert_eq!(told, [(1, None, "1 ", 0), (2, Some(TurnId(1)), "2 ", 0), (3, Some(TurnId(1)), "", 1)]);
        assert_eq!(opening.turns[1].0.outcome.as_ref().unwrap().finish, Finish::Error, "it was cut");
        assert!(matches!(reply(&library, Wish::Open("two".to_owned())), Reply::Refused(_)));
    }
}
