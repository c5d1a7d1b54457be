//! Markers, and the tags that they make: `<|open|>` name ` key="value"` ... `<|sep|>` (spec, section 3.1).

use super::error::Error;
use crate::tokenizer::{CLOSE, END_OF_MESSAGE, OPEN, SEP, Tokenizer};

/// One of the four control tokens of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker {
    Open,
    Close,
    Sep,
    EndOfMessage,
}

impl Marker {
    pub(super) const ALL: [Self; 4] = [Self::Open, Self::Close, Self::Sep, Self::EndOfMessage];

    pub(super) const fn spelling(self) -> &'static str {
        match self {
            Self::Open => OPEN,
            Self::Close => CLOSE,
            Self::Sep => SEP,
            Self::EndOfMessage => END_OF_MESSAGE,
        }
    }
}

/// The ids of the four control tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Markers {
    /// `<|open|>`.
    pub open: u32,
    /// `<|close|>`.
    pub close: u32,
    /// `<|sep|>`.
    pub sep: u32,
    /// `<|end_of_msg|>`, where the model stops.
    pub end_of_message: u32,
}

impl Markers {
    /// Looks them up.
    ///
    /// # Errors
    /// One is not there, which no tokenizer that was loaded from files allows.
    pub fn of(tokenizer: &Tokenizer) -> Result<Self, Error> {
        let id = |marker: Marker| {
            let marker = marker.spelling();
            tokenizer.special(marker).ok_or(Error::MissingMarker { marker })
        };
        Ok(Self {
            open: id(Marker::Open)?,
            close: id(Marker::Close)?,
            sep: id(Marker::Sep)?,
            end_of_message: id(Marker::EndOfMessage)?,
        })
    }

    /// Which marker an id is.
    pub(super) fn marker(self, id: u32) -> Option<Marker> {
        let ids = [self.open, self.close, self.sep, self.end_of_message];
        ids.into_iter().zip(Marker::ALL).find_map(|(known, marker)| (known == id).then_some(marker))
    }
}

/// The tags that the model writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Message,
    Think,
    Response,
    Tools,
    Call,
    Argument,
    Json,
}

impl Name {
    const ALL: [Self; 7] =
        [Self::Message, Self::Think, Self::Response, Self::Tools, Self::Call, Self::Argument, Self::Json];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Think => "think",
            Self::Response => "response",
            Self::Tools => "tools",
            Self::Call => "call",
            Self::Argument => "argument",
            Self::Json => "json",
        }
    }

    pub(super) fn of(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.as_str() == text)
    }

    /// Whether some tag's name begins with `text`.
    pub(super) fn may_begin_with(text: &str) -> bool {
        Self::ALL.into_iter().any(|name| name.as_str().starts_with(text))
    }

    /// The tag whose name `text` begins with.
    pub(super) fn prefix_of(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| text.starts_with(name.as_str()))
    }
}

/// Escapes an attribute's value. Nothing else is ever escaped.
pub(super) fn escape(value: &str) -> String {
    value.replace('&', "&amp;").replace('"', "&quot;")
}

/// Undoes [`escape`].
pub(super) fn unescape(value: &str) -> String {
    value.replace("&quot;", "\"").replace("&amp;", "&")
}

/// The text between two markers that may be a tag's head, as far as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) text: String,
    state: HeadState,
    /// Bytes up to which it is a whole head.
    whole: usize,
}

/// What the next character may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HeadState {
    /// Of the name: a letter, digit, `_` or `-`; or the space behind it.
    #[default]
    Name,
    /// Of a key, or the `=` behind it.
    Key,
    /// The quote behind a `=`.
    Quote,
    /// Of a value, or the quote behind it.
    Value,
    /// The space behind a value or name.
    Space,
}

impl Head {
    /// A head is never longer, in bytes: what goes on is text.
    const LIMIT: usize = 2048;

    /// Takes one more character, if a head can have it there. White space at the end is borne.
    pub(super) fn push(&mut self, c: char) -> bool {
        use HeadState::{Key, Name, Quote, Space, Value};
        let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        let next = match self.state {
            _ if self.text.len() >= Self::LIMIT => None,
            Name if word(c) => Some(Name),
            Name | Space if c.is_whitespace() && !self.text.is_empty() => Some(Space),
            Space if word(c) && self.text.ends_with(' ') => Some(Key),
            Key if word(c) => Some(Key),
            Key if c == '=' => Some(Quote),
            Quote if c == '"' => Some(Value),
            Value if c == '"' => Some(Space),
            Value => Some(Value),
            _ => None,
        };
        if let Some(next) = next {
            self.text.push(c);
            if next == Name || (next == Space && c == '"') {
                self.whole = self.text.len();
            }
            self.state = next;
        }
        next.is_some()
    }

    /// Whether it stands inside an attribute's value, where a spelled marker is no marker.
    pub(super) fn in_value(&self) -> bool {
        self.state == HeadState::Value
    }

    /// What follows its last whole attribute, or its name where it has none.
    pub(super) fn rest(&self) -> &str {
        self.text.get(self.whole..).unwrap_or_default()
    }

    /// The first word.
    pub(super) fn name(&self) -> &str {
        self.text.split(char::is_whitespace).next().unwrap_or_default()
    }

    /// The value of an attribute, unescaped.
    pub(super) fn attribute(&self, key: &str) -> Option<String> {
        let mut rest = self.text.get(self.name().len()..)?;
        loop {
            let (name, tail) = rest.split_once("=\"")?;
            let (value, tail) = tail.split_once('"')?;
            if name.trim() == key {
                return Some(unescape(value));
            }
            rest = tail;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Head {
        let mut head = Head::default();
        assert!(text.chars().all(|c| head.push(c)), "{text}");
        head
    }

    #[test]
    fn attributes_are_read_as_they_were_escaped() {
        let value = r#"a "b" & c &quot; d=" "#;
        let tag = head(&format!("call tool=\"{}\" index=\"1\"", escape(value)));
        assert_eq!(tag.name(), "call");
        assert_eq!(tag.attribute("tool").as_deref(), Some(value));
        assert_eq!(tag.attribute("index").as_deref(), Some("1"));
        assert_eq!(tag.attribute("ool"), None);
        assert_eq!(head("think").attribute("tool"), None);
    }

    #[test]
    fn what_is_no_head_is_refused_at_its_first_wrong_character() {
        for (text, taken) in [
            (" think", 0),
            ("think, then", 5),
            ("a marker ends", 8),
            ("call tool=x", 10),
            ("call tool=\"x\"y", 13),
            ("response\n\nSo", 10),
            ("`x`", 0),
        ] {
            let mut head = Head::default();
            assert_eq!(text.chars().take_while(|&c| head.push(c)).count(), taken, "{text:?}");
        }
        let mut long = Head::default();
        assert!(!(0..3000).all(|_| long.push('x')));
    }
}
