//! A session as its records tell it, and reading a journal that may be damaged.

use std::fmt;
use std::path::Path;

use super::Error;
use super::record::{
    Branch, End, FRAME, HEAD, Header, LONGEST, MAGIC, PromptDigest, Record, TurnStart, VERSION, checksum,
};
use crate::protocol::{Channel, Finish, Reached};

/// Letters of a title that was not given.
const TITLE: usize = 60;

/// A conversation as it was written down.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Which model it belongs to.
    pub header: Header,
    /// The title that it was given.
    pub given_title: Option<String>,
    /// What the model is told before everything else, of the turn that began last.
    pub system: Option<String>,
    /// The turns of all its branches, in the order in which they began.
    pub turns: Vec<Turn>,
    /// Which of them is the last of the branch that is gone on with.
    pub head: Option<usize>,
    /// Notes, oldest first.
    pub notes: Vec<String>,
}

/// One message of the user, and what the model has generated for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Which turn it follows; none where it begins the conversation.
    pub follows: Option<usize>,
    /// So many of the oldest turns before it are not shown to the model.
    pub dropped: usize,
    /// The message, and how it is to be answered.
    pub start: TurnStart,
    /// What the model was told before everything else.
    pub system: Option<String>,
    /// What it was rendered to, with all messages before it.
    pub prompt: Option<PromptDigest>,
    /// The generated ids, oldest first.
    pub ids: Vec<u32>,
    /// The channel of each.
    pub channels: Vec<Channel>,
    /// How it ended; nothing while it runs, and for good if it was cut.
    pub end: Option<End>,
    /// Of its ids, so many do not count for its limits: it had ended at one, and was gone on with.
    pub(super) allowed_before: usize,
}

impl Turn {
    /// Whether more of it could have come: it was cut, stopped, held up by a limit of its thinking or answer or by
    /// the context, or it failed.
    pub fn can_go_on(&self) -> bool {
        self.end.as_ref().is_none_or(|end| match end.finish {
            Finish::Cancelled | Finish::Error => true,
            Finish::Length => !matches!(end.reached, None | Some(Reached::Tokens(_))),
            Finish::Stop => false,
        })
    }

    /// Of its ids, so many do not count for its limits if it goes on: a limit held it up after them, and whoever goes on
    /// allows as much again.
    pub fn allowed_from(&self) -> usize {
        let held_up = self.end.as_ref().is_some_and(|end| end.finish == Finish::Length);
        if held_up { self.ids.len() } else { self.allowed_before }
    }

    /// Why it ended; `cut` if nobody wrote that down.
    pub fn finish(&self) -> &'static str {
        self.end.as_ref().map_or("cut", |end| end.finish.as_str())
    }
}

impl Session {
    /// A session in which nothing was said.
    pub const fn new(header: Header) -> Self {
        Self { header, given_title: None, system: None, turns: Vec::new(), head: None, notes: Vec::new() }
    }

    /// How it is called: as the user says, or by the first message.
    pub fn title(&self) -> String {
        if let Some(title) = &self.given_title {
            return title.clone();
        }
        let branch = self.branch();
        let first = branch.first().map_or("", |turn| turn.start.user.as_str());
        let words = first.split_whitespace().collect::<Vec<_>>().join(" ");
        match words.char_indices().nth(TITLE) {
            Some((end, _)) => format!("{}…", words[..end].trim_end()),
            None => words,
        }
    }

    /// Tokens that were generated in it.
    pub fn tokens(&self) -> usize {
        self.turns.iter().map(|turn| turn.ids.len()).sum()
    }

    /// Takes in the next record, or says why it cannot be the next.
    pub(super) fn apply(&mut self, record: Record) -> Result<(), Fault> {
        let (head, count) = (self.head, self.turns.len());
        let turn = head.and_then(|head| self.turns.get_mut(head));
        match (record, turn) {
            (Record::Turn(start), turn) => {
                let dropped = turn.map_or(0, |turn| turn.dropped);
                self.begin(head, dropped, start);
            }
            (Record::Branch(Branch { follows, dropped, turn }), _) => {
                if follows > count {
                    return Err(Fault::OutOfPlace);
                }
                self.begin(follows.checked_sub(1), dropped, turn);
            }
            (Record::GoTo(number), _) if (1..=count).contains(&number) => {
                self.head = Some(number - 1);
            }
            (Record::Prompt(prompt), Some(turn)) if turn.end.is_none() => turn.prompt = Some(prompt),
            (Record::Token { id, channel }, Some(turn)) if turn.end.is_none() => {
                turn.ids.push(id);
                turn.channels.push(channel);
            }
            (Record::End(end), Some(turn)) if turn.end.is_none() => turn.end = Some(end),
            (Record::Resumed(_), Some(turn)) if turn.can_go_on() => {
                turn.allowed_before = turn.allowed_from();
                turn.end = None;
            }
            (Record::Note(text), _) => self.notes.push(text),
            (Record::Title(text), _) => self.given_title = Some(text),
            (Record::System(text), _) => self.system = text,
            _ => return Err(Fault::OutOfPlace),
        }
        Ok(())
    }

    fn begin(&mut self, follows: Option<usize>, dropped: usize, start: TurnStart) {
        self.head = Some(self.turns.len());
        let (ids, channels) = (Vec::new(), Vec::new());
        self.turns.push(Turn {
            follows,
            dropped,
            start,
            system: self.system.clone(),
            prompt: None,
            ids,
            channels,
            end: None,
            allowed_before: 0,
        });
    }
}

/// Why reading ended before the end of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The file ends within a record.
    Torn,
    /// A record is not what was written there.
    Checksum,
    /// A record that this program does not understand.
    Unknown,
    /// A record where none like it can be.
    OutOfPlace,
}

/// What of a journal cannot be used: everything from one record on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where it begins.
    pub offset: u64,
    /// Bytes from there to the end.
    pub bytes: u64,
    pub(super) fault: Fault,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.fault {
            Fault::Torn => "its end was cut within a record",
            Fault::Checksum => "a record is damaged",
            Fault::Unknown => "a record is of no known kind",
            Fault::OutOfPlace => "a record is out of place",
        };
        write!(
            f,
            "{what}; all before byte {} is whole, {} bytes after it are not used",
            self.offset, self.bytes
        )
    }
}

/// A journal as far as it is whole.
#[derive(Clone, Debug)]
pub(super) struct Content {
    pub(super) session: Session,
    /// Bytes that are whole.
    pub(super) whole: u64,
    /// Checksum of the last whole record.
    pub(super) check: u64,
    pub(super) damage: Option<Damage>,
}

/// Reads the bytes of a journal. Fails only on what holds no session at all: another kind of file, another version, or
/// one that ends before its first record does.
pub(super) fn read(bytes: &[u8], path: &Path) -> Result<Content, Error> {
    let foreign = |problem| Error::Foreign { path: path.to_owned(), problem };
    if bytes.is_empty() {
        return Err(foreign("it is empty"));
    }
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| foreign("it begins with other letters"))?;
    let version = rest.first_chunk().map(|version| u32::from_le_bytes(*version));
    match version.ok_or_else(|| foreign("it ends within its first bytes"))? {
        VERSION => {}
        version => return Err(Error::Version { path: path.to_owned(), version, known: VERSION }),
    }
    let (record, mut at, mut check) =
        next(bytes, HEAD, 0).map_err(|_fault| foreign("its first record is damaged"))?;
    let Record::Header(header) = record else {
        return Err(foreign("its first record is not a header"));
    };
    let mut session = Session::new(header);
    let mut fault = None;
    while at < bytes.len() {
        let taken = next(bytes, at, check)
            .and_then(|(record, end, check)| session.apply(record).map(|()| (end, check)));
        match taken {
            Ok(next) => (at, check) = next,
            Err(found) => {
                fault = Some(found);
                break;
            }
        }
    }
    let damage = fault.map(|fault| Damage { offset: at as u64, bytes: (bytes.len() - at) as u64, fault });
    Ok(Content { session, whole: at as u64, check, damage })
}

/// The record at `at`, where it ends, and its checksum.
fn next(bytes: &[u8], at: usize, before: u64) -> Result<(Record, usize, u64), Fault> {
    let rest = bytes.get(at..).unwrap_or_default();
    let (length, rest) = rest.split_first_chunk().ok_or(Fault::Torn)?;
    let (check, rest) = rest.split_first_chunk().ok_or(Fault::Torn)?;
    let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
    if length > LONGEST {
        return Err(Fault::Checksum);
    }
    let body = rest.get(..length).ok_or(Fault::Torn)?;
    let check = u64::from_le_bytes(*check);
    if checksum(before, body) != check {
        return Err(Fault::Checksum);
    }
    let record = Record::of_body(body).ok_or(Fault::Unknown)?;
    Ok((record, at + FRAME + length, check))
}

#[cfg(test)]
mod tests;
