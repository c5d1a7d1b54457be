//! What is being written: text, and chips that each stand for more of it.

use std::ops::Range;
use std::sync::Arc;

use super::numbers;
use super::width;
use crate::units::Bytes;

/// Stands in a draft's text where a chip is.
pub(crate) const CHIP: char = '\u{fffc}';
/// From so many lines or bytes on, what is pasted becomes a chip.
const LARGE: (usize, usize) = (12, 2000);

/// What a chip stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chip {
    /// The file that it came from; `None` was pasted.
    file: Option<String>,
    content: Arc<str>,
    /// Tokens of what is sent in its place, once they are counted.
    tokens: Option<usize>,
}

impl Chip {
    /// A chip for what was pasted.
    fn pasted(content: &str) -> Self {
        Self { file: None, content: content.into(), tokens: None }
    }

    /// A chip for a file of this name.
    pub(crate) fn file(name: &str, content: &str) -> Self {
        let file = Some(width::clean_line(name).replace(CHIP, ""));
        Self { file, content: cleaned(content).into(), tokens: None }
    }

    /// How it is shown.
    pub(crate) fn label(&self) -> String {
        let lines = numbers::counted(self.content.lines().count() as u64, "line");
        let bytes = Bytes(self.content.len() as u64);
        let tokens = self.tokens.map(|tokens| format!(", {}", numbers::counted(tokens as u64, "token")));
        let tokens = tokens.unwrap_or_default();
        match &self.file {
            Some(name) => format!("[{name}, {lines}, {bytes}{tokens}]"),
            None => format!("[pasted {lines}, {bytes}{tokens}]"),
        }
    }

    /// What is sent in its place. A file comes with its name, fenced, so that the model can tell where it ends.
    fn expand(&self, out: &mut String) {
        let Some(name) = &self.file else {
            out.push_str(&self.content);
            return;
        };
        let longest = self.content.lines().filter_map(|line| {
            let line = line.trim_start();
            line.starts_with("```").then(|| line.len() - line.trim_start_matches('`').len())
        });
        let fence = "`".repeat(longest.max().map_or(3, |longest| longest + 1));
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        let ends = if self.content.is_empty() || self.content.ends_with('\n') { "" } else { "\n" };
        for part in [name, ":\n", &fence, "\n", &self.content, ends, &fence, "\n"] {
            out.push_str(part);
        }
    }
}

/// A message while it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Draft {
    text: String,
    /// As many as there are places for them in the text, in their order.
    chips: Vec<Chip>,
}

impl From<&str> for Draft {
    fn from(text: &str) -> Self {
        Self { text: text.replace(CHIP, ""), chips: Vec::new() }
    }
}

impl From<String> for Draft {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<Chip> for Draft {
    fn from(chip: Chip) -> Self {
        Self { text: CHIP.to_string(), chips: vec![chip] }
    }
}

impl Draft {
    /// What was pasted: a chip where it is large. Line ends of all systems become ours, and what a terminal would obey
    /// is left out, so that what is sent is what is seen.
    pub(crate) fn pasted(text: &str) -> Self {
        let text = cleaned(text);
        if text.lines().count() >= LARGE.0 || text.len() >= LARGE.1 {
            Self::from(Chip::pasted(&text))
        } else {
            Self::from(text)
        }
    }

    /// The text, with one character for each chip.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether nothing but white space is in it.
    pub(crate) fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// Whether there are chips in it.
    pub(crate) const fn has_chips(&self) -> bool {
        !self.chips.is_empty()
    }

    /// The message that it becomes.
    pub(crate) fn expanded(&self) -> String {
        let mut out = String::with_capacity(self.text.len());
        let mut chips = self.chips.iter();
        for c in self.text.chars() {
            match (c == CHIP).then(|| chips.next()).flatten() {
                Some(chip) => chip.expand(&mut out),
                None => out.push(c),
            }
        }
        out
    }

    /// Counts the tokens of the chips that do not know theirs, by what is sent in their place.
    pub(crate) fn count_chips(&mut self, mut count: impl FnMut(&str) -> usize) {
        for chip in self.chips.iter_mut().filter(|chip| chip.tokens.is_none()) {
            let mut sent = String::new();
            chip.expand(&mut sent);
            chip.tokens = Some(count(&sent));
        }
    }

    /// Learns the tokens of its chips from a draft that some of them were counted in; false where there was nothing
    /// to learn.
    pub(crate) fn learn(&mut self, counted: &Self) -> bool {
        let mut learned = false;
        for chip in self.chips.iter_mut().filter(|chip| chip.tokens.is_none()) {
            let twin = counted.chips.iter().find(|other| Arc::ptr_eq(&other.content, &chip.content));
            chip.tokens = twin.and_then(|twin| twin.tokens);
            learned |= chip.tokens.is_some();
        }
        learned
    }

    /// How it is shown, and which bytes of that are labels of chips.
    pub(crate) fn shown(&self) -> (String, Vec<Range<usize>>) {
        let mut out = String::with_capacity(self.text.len());
        let mut labels = Vec::with_capacity(self.chips.len());
        let mut chips = self.chips.iter();
        for c in self.text.chars() {
            match (c == CHIP).then(|| chips.next()).flatten() {
                Some(chip) => {
                    let begin = out.len();
                    out.push_str(&chip.label());
                    labels.push(begin..out.len());
                }
                None => out.push(c),
            }
        }
        (out, labels)
    }

    /// The same on one line.
    pub(crate) fn line(&self) -> String {
        self.shown().0.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Puts another draft into this one.
    pub(crate) fn insert(&mut self, at: usize, other: Self) {
        let number = self.chips_before(at);
        self.text.insert_str(at, &other.text);
        self.chips.splice(number..number, other.chips);
    }

    /// Takes a part out.
    pub(crate) fn remove(&mut self, range: Range<usize>) -> Self {
        let chips = self.chips_before(range.start)..self.chips_before(range.end);
        Self { text: self.text.drain(range).collect(), chips: self.chips.drain(chips).collect() }
    }

    /// How many chips there are before a byte of the text.
    pub(crate) fn chips_before(&self, at: usize) -> usize {
        self.text.get(..at).unwrap_or_default().matches(CHIP).count()
    }
}

fn cleaned(text: &str) -> String {
    width::clean(&text.replace("\r\n", "\n").replace('\r', "\n")).replace(CHIP, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize) -> String {
        (1..=count).map(|line| format!("line {line}")).collect::<Vec<_>>().join("\n") + "\n"
    }

    #[test]
    fn a_large_paste_is_a_chip_that_becomes_its_text() {
        assert_eq!(Draft::pasted("one\r\ntwo\u{1b}[2J").text(), "one\ntwo");
        let mut draft = Draft::pasted(&lines(214));
        draft.insert(0, Draft::from("Look: "));
        assert_eq!(draft.shown().0, "Look: [pasted 214 lines, 1.78 KiB]");
        assert_eq!(draft.shown().1.first(), Some(&(6..34)));
        assert_eq!(draft.expanded(), format!("Look: {}", lines(214)));
        assert_eq!(Draft::pasted(&"x".repeat(3000)).shown().0, "[pasted 1 line, 2.93 KiB]");
        // Once it was counted, in whatever copy, the tokens are shown as well.
        let mut copy = draft.clone();
        copy.count_chips(|text| text.lines().count() * 3);
        assert!(draft.learn(&copy) && !draft.learn(&copy));
        assert_eq!(draft.shown().0, "Look: [pasted 214 lines, 1.78 KiB, 642 tokens]");
        assert_eq!(draft, copy);
    }

    #[test]
    fn a_file_comes_with_its_name_and_cannot_end_its_fence() {
        let mut draft = Draft::from("see ");
        draft.insert(4, Chip::file("a.md", "x\n````\ny").into());
        assert_eq!(draft.shown().0, "see [a.md, 3 lines, 8 B]");
        assert_eq!(draft.expanded(), "see \na.md:\n`````\nx\n````\ny\n`````\n");
    }

    #[test]
    fn chips_go_where_their_places_go() {
        let mut draft = Draft::default();
        for (at, name) in [(0, "b"), (0, "a"), (6, "c")] {
            draft.insert(at, Chip::file(name, "").into());
        }
        let cut = draft.remove(3..6);
        assert_eq!(draft.line(), "[a, 0 lines, 0 B][c, 0 lines, 0 B]");
        assert_eq!(cut.line(), "[b, 0 lines, 0 B]");
        draft.insert(6, cut);
        assert!(draft.line().ends_with("[c, 0 lines, 0 B][b, 0 lines, 0 B]"));
        // Nobody else can write what stands for a chip.
        assert_eq!(Draft::from("a\u{fffc}b").text(), "ab");
        assert_eq!(Draft::pasted("a\u{fffc}b").text(), "ab");
    }
}
