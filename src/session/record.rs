//! What a journal holds, and its bytes.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::protocol::{Channel, Finish, Limits, Outcome, Reached, Sampling, Thinking, Took};

/// What a file begins with, before its version.
pub(super) const MAGIC: &[u8; 8] = b"dormouse";
/// The version of the format that is written and read.
pub(super) const VERSION: u32 = 1;
/// Bytes of both.
pub(super) const HEAD: usize = 12;
/// Bytes before the body of a record.
pub(super) const FRAME: usize = 12;
/// Far more than any message has.
pub(super) const LONGEST: usize = 256 << 20;

/// Which model a session belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Digest of its config and of the headers of its shards.
    pub model: u64,
    /// Where it lay.
    pub folder: String,
    /// How it is called.
    pub name: String,
    /// When the session was made, in seconds since 1970.
    pub created: u64,
}

/// What the user asked, and all that the answer depends on beside the messages before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnStart {
    /// The message.
    pub user: String,
    /// How much to think.
    #[serde(with = "effort")]
    pub thinking: Thinking,
    /// 0 is greedy.
    pub temperature: f32,
    /// The nucleus.
    pub top_p: f32,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Most tokens to generate; none is up to the context limit.
    pub max_tokens: Option<usize>,
    /// How long it may think and answer.
    #[serde(with = "limits", default, skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    /// When, in seconds since 1970.
    pub at: u64,
}

impl TurnStart {
    /// How tokens are drawn.
    pub const fn sampling(&self) -> Sampling {
        Sampling { temperature: Some(self.temperature), top_p: Some(self.top_p), seed: Some(self.seed) }
    }
}

/// What a prompt was rendered to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptDigest {
    /// Its ids.
    pub count: u32,
    /// XXH3-64 over them.
    pub digest: u64,
}

impl PromptDigest {
    /// Of these ids.
    pub fn of(ids: &[u32]) -> Self {
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        Self { count: u32::try_from(ids.len()).unwrap_or(u32::MAX), digest: xxh3_64(&bytes) }
    }
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Why.
    #[serde(with = "finish")]
    pub finish: Finish,
    /// When, in seconds since 1970.
    pub at: u64,
    /// What failed, where something did.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// Which limit ended it, where one did.
    #[serde(with = "reached", default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<Reached>,
    /// What it took. Journals of older versions do not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took: Option<Took>,
}

impl End {
    /// Of a turn with this outcome; its time is not known here.
    pub fn of(outcome: &Outcome) -> Self {
        Self {
            finish: outcome.finish,
            at: 0,
            error: outcome.error.as_ref().map(|error| error.title.clone()).unwrap_or_default(),
            reached: outcome.reached,
            took: Some(outcome.took),
        }
    }
}

/// A turn that does not simply follow the last one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Branch {
    /// The turn that it follows: its number, in the order in which turns began, from 1. 0 begins the conversation anew.
    pub follows: usize,
    /// So many of the oldest turns before it are not shown to the model any more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: usize,
    /// The message, and how it is to be answered.
    pub turn: TurnStart,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// One entry of a journal.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// The first, and only that.
    Header(Header),
    /// A turn begins, which follows the last one.
    Turn(TurnStart),
    /// A turn begins elsewhere: in place of one that is kept beside it.
    Branch(Branch),
    /// The conversation goes on after this turn: its number, in the order in which turns began, from 1.
    GoTo(usize),
    /// Its prompt was rendered.
    Prompt(PromptDigest),
    /// A token was generated.
    Token {
        /// Its id.
        id: u32,
        /// Where its text belongs.
        channel: Channel,
    },
    /// The turn ended.
    End(End),
    /// It was taken up again, in seconds since 1970.
    Resumed(u64),
    /// Something worth knowing later.
    Note(String),
    /// How the session is called from now on.
    Title(String),
    /// What the model is told before everything else from the next turn on; nothing takes it back.
    System(Option<String>),
}

impl Record {
    /// The same, at this time (in seconds since 1970) where it has one.
    #[must_use]
    pub fn at(self, now: u64) -> Self {
        match self {
            Self::Header(header) => Self::Header(Header { created: now, ..header }),
            Self::Turn(start) => Self::Turn(TurnStart { at: now, ..start }),
            Self::End(end) => Self::End(End { at: now, ..end }),
            Self::Branch(branch) => {
                Self::Branch(Branch { turn: TurnStart { at: now, ..branch.turn }, ..branch })
            }
            Self::Resumed(_) => Self::Resumed(now),
            timeless => timeless,
        }
    }
}

const CHANNELS: [Channel; 4] = [Channel::Thinking, Channel::Answer, Channel::Tools, Channel::Between];

impl Record {
    /// The body: a letter, and what it means.
    pub(super) fn body(&self) -> Vec<u8> {
        fn json(letter: u8, value: &impl Serialize) -> Vec<u8> {
            let mut body = vec![letter];
            // Nothing here has keys that are no text, which is all that could fail in memory.
            let _ = serde_json::to_writer(&mut body, value);
            body
        }
        match self {
            Self::Header(header) => json(b'H', header),
            Self::Turn(start) => json(b'U', start),
            Self::Branch(branch) => json(b'B', branch),
            Self::GoTo(turn) => json(b'G', turn),
            Self::Prompt(prompt) => {
                [&b"P"[..], &prompt.count.to_le_bytes(), &prompt.digest.to_le_bytes()].concat()
            }
            Self::Token { id, channel } => {
                let channel = match channel {
                    Channel::Thinking => 0,
                    Channel::Answer => 1,
                    Channel::Tools => 2,
                    Channel::Between => 3,
                };
                [&[b'T', channel][..], &id.to_le_bytes()].concat()
            }
            Self::End(end) => json(b'E', end),
            Self::Resumed(at) => json(b'R', at),
            Self::Note(text) => json(b'N', text),
            Self::Title(text) => json(b'L', text),
            Self::System(text) => json(b'S', text),
        }
    }

    /// What a body says, if it says anything.
    pub(super) fn of_body(body: &[u8]) -> Option<Self> {
        fn json<'a, T: Deserialize<'a>>(rest: &'a [u8]) -> Option<T> {
            serde_json::from_slice(rest).ok()
        }
        let (letter, rest) = body.split_first()?;
        Some(match letter {
            b'H' => Self::Header(json(rest)?),
            b'U' => Self::Turn(json(rest)?),
            b'B' => Self::Branch(json(rest)?),
            b'G' => Self::GoTo(json(rest)?),
            b'P' => {
                let (count, digest) = rest.split_first_chunk()?;
                let digest = u64::from_le_bytes(digest.try_into().ok()?);
                Self::Prompt(PromptDigest { count: u32::from_le_bytes(*count), digest })
            }
            b'T' => {
                let (channel, id) = rest.split_first()?;
                let channel = *CHANNELS.get(usize::from(*channel))?;
                Self::Token { id: u32::from_le_bytes(id.try_into().ok()?), channel }
            }
            b'E' => Self::End(json(rest)?),
            b'R' => Self::Resumed(json(rest)?),
            b'N' => Self::Note(json(rest)?),
            b'L' => Self::Title(json(rest)?),
            b'S' => Self::System(json(rest)?),
            _ => return None,
        })
    }
}

/// The checksum of a body that follows a record with the checksum `before`.
pub(super) fn checksum(before: u64, body: &[u8]) -> u64 {
    let mut hash = Xxh3::with_seed(before);
    hash.update(&length(body).to_le_bytes());
    hash.update(body);
    hash.digest()
}

/// Appends the bytes of a record to `out`, and gives its checksum.
pub(super) fn frame(before: u64, body: &[u8], out: &mut Vec<u8>) -> u64 {
    let check = checksum(before, body);
    out.extend_from_slice(&length(body).to_le_bytes());
    out.extend_from_slice(&check.to_le_bytes());
    out.extend_from_slice(body);
    check
}

fn length(body: &[u8]) -> u32 {
    u32::try_from(body.len()).unwrap_or(u32::MAX)
}

/// What a file begins with.
pub(super) fn head() -> Vec<u8> {
    [&MAGIC[..], &VERSION.to_le_bytes()].concat()
}

/// An effort as its word.
mod effort {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::protocol::Thinking;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    pub(super) fn serialize<S: Serializer>(value: &Thinking, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(value.as_str())
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Thinking, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// A reason to end as its word.
mod finish {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::protocol::Finish;

    const ALL: [Finish; 4] = [Finish::Stop, Finish::Length, Finish::Cancelled, Finish::Error];

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    pub(super) fn serialize<S: Serializer>(value: &Finish, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(value.as_str())
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Finish, D::Error> {
        let word = String::deserialize(from)?;
        let known = ALL.into_iter().find(|finish| finish.as_str() == word);
        known.ok_or_else(|| D::Error::custom("no reason to end a turn"))
    }
}

/// Limits as they are typed.
mod limits {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    use crate::protocol::{Limit, Limits};

    #[derive(Default, Serialize, Deserialize)]
    #[serde(default)]
    struct Written {
        #[serde(skip_serializing_if = "Option::is_none")]
        think: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        answer: Option<String>,
    }

    pub(super) fn serialize<S: Serializer>(value: &Limits, to: S) -> Result<S::Ok, S::Error> {
        let text = |limit: Option<Limit>| limit.map(|limit| limit.to_string());
        Written { think: text(value.think), answer: text(value.answer) }.serialize(to)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Limits, D::Error> {
        let written = Written::deserialize(from)?;
        let limit =
            |text: Option<String>| text.map(|text| text.parse().map_err(D::Error::custom)).transpose();
        Ok(Limits { think: limit(written.think)?, answer: limit(written.answer)? })
    }
}

/// The limit that ended a turn, in its words.
mod reached {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::protocol::Reached;

    #[expect(clippy::ref_option, reason = "serde calls it so")]
    pub(super) fn serialize<S: Serializer>(value: &Option<Reached>, to: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(reached) => to.collect_str(reached),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Option<Reached>, D::Error> {
        let words = Option::<String>::deserialize(from)?;
        words.map(|words| words.parse().map_err(D::Error::custom)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Limit;

    #[test]
    fn every_record_comes_back() {
        let start = TurnStart {
            user: "Hé\u{1b}\n\"".to_owned(),
            thinking: Thinking::Off,
            temperature: 0.1,
            top_p: 0.95,
            seed: u64::MAX,
            max_tokens: Some(7),
            limits: Limits { think: Some(Limit::Seconds(600)), answer: Some(Limit::Tokens(300)) },
            at: 3,
        };
        let end = |finish| Record::End(End { at: 9, ..End::of(&Outcome::new(finish)) });
        let reached = Some(Reached::Think(Limit::Seconds(600)));
        let took = Some(Took { prompt: 12, first_token_s: Some(0.1), total_s: 1.0 / 3.0, ..Took::default() });
        let mut records = vec![
            Record::Header(Header { model: u64::MAX, folder: "/k3".into(), name: "k3".into(), created: 1 }),
            Record::Turn(start.clone()),
            Record::Turn(TurnStart { max_tokens: None, limits: Limits::default(), ..start.clone() }),
            Record::Branch(Branch { follows: 0, dropped: 0, turn: start.clone() }),
            Record::Branch(Branch { follows: 7, dropped: 3, turn: start }),
            Record::GoTo(12),
            Record::Prompt(PromptDigest::of(&[1, 2, 3])),
            end(Finish::Stop),
            end(Finish::Length),
            end(Finish::Cancelled),
            Record::End(End {
                finish: Finish::Error,
                at: 9,
                error: "the disk".into(),
                reached: None,
                took: None,
            }),
            Record::End(End { finish: Finish::Length, at: 9, error: String::new(), reached, took }),
            Record::Resumed(5),
            Record::Note("n".into()),
            Record::Title("t".into()),
            Record::System(Some("s".into())),
            Record::System(None),
        ];
        records.extend(CHANNELS.map(|channel| Record::Token { id: u32::MAX - 1, channel }));
        for record in records {
            let body = record.body();
            assert_eq!(Record::of_body(&body).as_ref(), Some(&record));
            for cut in 0..body.len() {
                assert_ne!(Record::of_body(&body[..cut]).as_ref(), Some(&record));
            }
            assert_ne!(Record::of_body(&[&body[..], b"1"].concat()).as_ref(), Some(&record), "{record:?}");
        }
        assert_eq!(Record::of_body(b"X1"), None);
        assert_eq!(Record::of_body(&[b'T', 4, 0, 0, 0, 0]), None);
    }

    #[test]
    fn journals_of_older_versions_are_read() {
        let end = Record::of_body(br#"E{"finish":"stop","at":9}"#);
        let none = End { finish: Finish::Stop, at: 9, error: String::new(), reached: None, took: None };
        assert_eq!(end, Some(Record::End(none)));
        let start = br#"U{"user":"Hi","thinking":"low","temperature":1.0,"top_p":0.9,"seed":1,"max_tokens":null,"at":3}"#;
        let Some(Record::Turn(start)) = Record::of_body(start) else { panic!("a turn") };
        assert!(start.limits.is_empty());
    }

    #[test]
    fn the_bytes_never_change() {
        let mut bytes = head();
        let check = frame(0, &Record::Token { id: 258, channel: Channel::Answer }.body(), &mut bytes);
        assert_eq!(bytes[..16], *b"dormouse\x01\0\0\0\x06\0\0\0");
        assert_eq!(bytes[16..24], check.to_le_bytes());
        assert_eq!(bytes[24..], *b"T\x01\x02\x01\0\0");
    }
}
