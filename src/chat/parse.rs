//! The model's output, token by token, as thinking, answer and tool calls (spec, section 3.5).

use super::call::Call;
use super::spelled::{Item, Scanner};
use super::tag::{Head, Marker, Markers, Name};
use crate::protocol::{Channel, Part, Thinking};
use crate::tokenizer::{Decoder, Tokenizer};

/// Reads the ids that a model generates after a prompt, and never fails on any of them.
///
/// A tag is a control token, its head, and `<|sep|>`. The parser bears what models do to that:
///
/// * The prompt has opened the first channel, so output begins inside it: thinking, or the answer with thinking off.
/// * Text outside of all channels is answer, so that a model that writes no `response` tags is heard. A channel that is
///   not closed ends where another one opens; a close of a channel that is not open is ignored.
/// * A head without its `<|sep|>` counts if its name is known. A tag of an unknown name is dropped, and what it encloses
///   belongs to the channel around it.
/// * Markers that are spelled with ordinary tokens, or lack their last character, make tags too, if these are known;
///   they never end the message. If they make none, the marker alone is dropped. In code, and in an argument that a
///   control token has opened, they are text.
/// * Tool calls are read whether or not tools were offered, and handed out when they are whole; at the end, as far as
///   they came.
/// * What may become a marker, a tag or a character is held back, and a half one is never shown (at the end a lone `<` is:
///   it is more likely a sign of the text). Other reserved ids, and ids outside the vocabulary, are skipped.
#[derive(Clone, Debug)]
pub struct Parser {
    markers: Markers,
    decoder: Decoder,
    scanner: Scanner,
    tag: Option<Tag>,
    channel: Channel,
    call: Option<Call>,
    ended: bool,
    parts: Vec<Part>,
}

/// A tag that waits for its end.
#[derive(Clone, Debug)]
struct Tag {
    opens: bool,
    spelled: bool,
    head: Head,
}

impl Parser {
    /// A parser of what follows a prompt that was rendered with this effort.
    pub fn new(markers: Markers, thinking: Thinking) -> Self {
        Self {
            markers,
            decoder: Decoder::default(),
            scanner: Scanner::default(),
            tag: None,
            channel: if thinking == Thinking::Off { Channel::Answer } else { Channel::Thinking },
            call: None,
            ended: false,
            parts: Vec::new(),
        }
    }

    /// Where the text that comes next belongs. [`Parser::finish`] leaves it as it is.
    pub fn channel(&self) -> Channel {
        self.channel
    }

    /// Takes the next id, and gives what became certain by it. Nothing comes of what follows the end of the message.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> Vec<Part> {
        if self.ended {
            return Vec::new();
        }
        let bytes = tokenizer.token(id).filter(|_| !tokenizer.is_special(id));
        if let Some(bytes) = bytes {
            let text = self.decoder.push(bytes);
            self.read(&text);
        } else {
            self.end_text(Scanner::flush);
            if let Some(marker) = self.markers.marker(id) {
                self.marker(marker, false);
            }
        }
        std::mem::take(&mut self.parts)
    }

    /// Gives what was held back. A call or a character that is not whole comes as far as it goes, a marker or tag not.
    pub fn finish(&mut self) -> Vec<Part> {
        if !self.ended {
            self.end_text(if self.tag.is_some() { Scanner::cut_in_tag } else { Scanner::cut });
            // A name that closes says enough without its end. Less than that, or half a tag that opens, is not shown.
            let enough = |tag: &Tag| match Name::of(tag.head.name()) {
                Some(_) => !tag.opens,
                None => !Name::may_begin_with(tag.head.name()),
            };
            if let Some(tag) = self.tag.take().filter(enough) {
                self.tag_without_end(&tag, false);
            }
            self.end_call();
            self.ended = true;
        }
        std::mem::take(&mut self.parts)
    }

    fn read(&mut self, text: &str) {
        let mut items = Vec::new();
        for c in text.chars() {
            if self.is_literal() {
                self.text(c);
                continue;
            }
            let prose = self.tag.is_none() && self.call.is_none();
            self.scanner.push(c, prose, &mut items);
            self.take(&mut items);
        }
    }

    /// Ends the text before a control token or the end.
    fn end_text(&mut self, end: fn(&mut Scanner, &mut Vec<Item>)) {
        let rest = self.decoder.finish();
        self.read(&rest);
        let mut items = Vec::new();
        end(&mut self.scanner, &mut items);
        self.take(&mut items);
    }

    fn take(&mut self, items: &mut Vec<Item>) {
        for item in items.drain(..) {
            match item {
                Item::Text(c) => self.character(c),
                Item::Marker(marker) => self.marker(marker, true),
            }
        }
    }

    /// Whether spelled markers are text here.
    fn is_literal(&self) -> bool {
        self.tag.is_none() && self.call.as_ref().is_some_and(Call::is_literal)
    }

    /// A character that is no part of a marker.
    fn character(&mut self, c: char) {
        let Some(tag) = &mut self.tag else { return self.text(c) };
        if !tag.head.push(c) {
            if let Some(tag) = self.tag.take()
                && !self.tag_without_end(&tag, true)
                && !tag.spelled
            {
                self.release(&tag.head.text);
            }
            self.prose(c);
        }
    }

    fn marker(&mut self, marker: Marker, spelled: bool) {
        if let Some(tag) = &mut self.tag {
            // Inside an attribute's value a spelled marker is text, if it fits in there.
            if spelled && tag.head.in_value() && marker.spelling().chars().all(|c| tag.head.push(c)) {
                return;
            }
        }
        if let Some(tag) = self.tag.take() {
            if marker == Marker::Sep {
                return self.tag_with_end(&tag);
            }
            self.tag_without_end(&tag, false);
        }
        match marker {
            Marker::Open | Marker::Close => {
                self.tag = Some(Tag { opens: marker == Marker::Open, spelled, head: Head::default() });
            }
            Marker::EndOfMessage if !spelled => {
                self.end_call();
                self.ended = true;
            }
            Marker::EndOfMessage | Marker::Sep => {}
        }
    }

    /// A tag whose `<|sep|>` came.
    fn tag_with_end(&mut self, tag: &Tag) {
        match Name::of(tag.head.name()) {
            Some(name) => self.apply(tag, name),
            None if tag.spelled => self.release(&tag.head.text),
            None => {}
        }
    }

    /// A tag whose `<|sep|>` is missing: another marker stands there, or the end, or text that no head can have.
    /// A spelled one is text, unless nothing follows it on its line. Says whether anything came of it.
    fn tag_without_end(&mut self, tag: &Tag, text_follows: bool) -> bool {
        let Head { text, .. } = &tag.head;
        let known = match Name::of(tag.head.name()) {
            Some(name) => Some((name, tag.head.rest())),
            None if tag.spelled => None,
            None => Name::prefix_of(text).map(|name| (name, &text[name.as_str().len()..])),
        };
        match known {
            Some((name, rest)) if !tag.spelled || ends_line(rest, text_follows) => {
                self.apply(tag, name);
                self.release(rest);
                true
            }
            _ if tag.spelled => {
                self.release(text);
                true
            }
            _ => false,
        }
    }

    /// Text that was taken for a head.
    fn release(&mut self, text: &str) {
        for c in text.chars() {
            self.prose(c);
        }
    }

    fn prose(&mut self, c: char) {
        if self.call.is_none() {
            self.scanner.track(c);
        }
        self.text(c);
    }

    fn apply(&mut self, tag: &Tag, name: Name) {
        self.scanner.leave_code();
        let Tag { opens, spelled, head } = tag;
        match (opens, name) {
            (true, Name::Call) => {
                self.end_call();
                self.channel = Channel::Tools;
                let tool = head.attribute("tool").or_else(|| head.attribute("name")).unwrap_or_default();
                self.call = Some(Call::new(tool));
            }
            (true, Name::Argument | Name::Json) => {
                if let Some(call) = &mut self.call {
                    let key = (name == Name::Argument).then(|| head.attribute("key").unwrap_or_default());
                    let is_text = head.attribute("type").is_none_or(|kind| kind == "string");
                    call.begin_argument(key, is_text, *spelled);
                }
            }
            (false, Name::Argument | Name::Json) => {
                if let Some(call) = &mut self.call {
                    call.end_argument();
                }
            }
            (false, Name::Call) => self.end_call(),
            (true, Name::Think) => self.enter(Channel::Thinking),
            (true, Name::Response) => self.enter(Channel::Answer),
            (true, Name::Tools) => self.enter(Channel::Tools),
            (true | false, Name::Message) => self.enter(Channel::Between),
            (false, Name::Think) => self.leave(&[Channel::Thinking]),
            (false, Name::Response) => self.leave(&[Channel::Thinking, Channel::Answer]),
            (false, Name::Tools) => self.leave(&[Channel::Thinking, Channel::Tools]),
        }
    }

    fn enter(&mut self, channel: Channel) {
        self.end_call();
        self.channel = channel;
    }

    /// Leaves the open channel, if it is one of these.
    fn leave(&mut self, channels: &[Channel]) {
        if channels.contains(&self.channel) {
            self.enter(Channel::Between);
        }
    }

    fn text(&mut self, c: char) {
        if let Some(call) = &mut self.call {
            return call.push(c);
        }
        match (self.channel, self.parts.last_mut()) {
            (Channel::Between | Channel::Tools, _) if c.is_whitespace() => {}
            (Channel::Thinking, Some(Part::Thinking(text))) => text.push(c),
            (Channel::Thinking, _) => self.parts.push(Part::Thinking(c.to_string())),
            (channel, last) => {
                if channel == Channel::Between {
                    self.channel = Channel::Answer;
                }
                match last {
                    Some(Part::Answer(text)) => text.push(c),
                    _ => self.parts.push(Part::Answer(c.to_string())),
                }
            }
        }
    }

    fn end_call(&mut self) {
        let call = self.call.take().and_then(Call::finish);
        self.parts.extend(call.map(Part::ToolCall));
    }
}

/// Whether a line ends before anything but white space does.
fn ends_line(rest: &str, text_follows: bool) -> bool {
    let rest = rest.trim_start_matches([' ', '\t', '\r']);
    rest.starts_with('\n') || (rest.is_empty() && !text_follows)
}

#[cfg(test)]
mod tests;
