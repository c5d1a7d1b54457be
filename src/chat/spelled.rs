//! Markers that the model spells with ordinary tokens. They control nothing that ends a turn, but are never shown raw.
//!
//! A marker counts as spelled when all its characters are there, or all but the last (`<|sep|` and something else). In
//! inline code and in fenced code it is text: someone explains the format. What may become a marker is held back.

use super::tag::Marker;

/// What a text turns out to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Text(char),
    Marker(Marker),
}

/// Finds spelled markers, a character at a time.
#[derive(Clone, Debug, Default)]
pub(super) struct Scanner {
    /// The beginning of what may become a marker.
    held: String,
    code: Code,
}

impl Scanner {
    /// Takes a character, and appends what is certain now. In `prose` code is left alone.
    pub(super) fn push(&mut self, c: char, prose: bool, items: &mut Vec<Item>) {
        if !self.held.is_empty() {
            self.held.push(c);
            match Marker::ALL.into_iter().find(|marker| marker.spelling().starts_with(&self.held)) {
                Some(marker) if marker.spelling() == self.held => {
                    self.held.clear();
                    items.push(Item::Marker(marker));
                    return;
                }
                Some(_) => return,
                None => {
                    self.held.pop();
                    self.release(prose, items);
                }
            }
        }
        if c == '<' && !(prose && self.code.holds()) {
            self.held.push(c);
            return;
        }
        if prose {
            self.code.track(c);
        }
        items.push(Item::Text(c));
    }

    /// Gives up what was held, since a control token ends the text.
    pub(super) fn flush(&mut self, items: &mut Vec<Item>) {
        self.release(false, items);
        self.code = Code::default();
    }

    /// The same where the output was cut: no half marker is shown. A lone `<` is more likely a sign of the text.
    pub(super) fn cut(&mut self, items: &mut Vec<Item>) {
        if self.held == "<" { self.flush(items) } else { self.cut_in_tag(items) }
    }

    /// The same inside of a tag, where it is the beginning of the next marker.
    pub(super) fn cut_in_tag(&mut self, items: &mut Vec<Item>) {
        if self.truncated().is_none() {
            self.held.clear();
        }
        self.flush(items);
    }

    /// Tells of a character of prose that was not pushed as such.
    pub(super) fn track(&mut self, c: char) {
        self.code.track(c);
    }

    /// A new channel begins outside of code.
    pub(super) fn leave_code(&mut self) {
        self.code = Code::default();
    }

    /// The marker of which only the last character is missing.
    fn truncated(&self) -> Option<Marker> {
        Marker::ALL.into_iter().find(|marker| marker.spelling().strip_suffix('>') == Some(&self.held))
    }

    fn release(&mut self, prose: bool, items: &mut Vec<Item>) {
        if let Some(marker) = self.truncated() {
            items.push(Item::Marker(marker));
        } else {
            for c in self.held.chars() {
                if prose {
                    self.code.track(c);
                }
                items.push(Item::Text(c));
            }
        }
        self.held.clear();
    }
}

/// Whether a text stands in code, as far as markdown can be told before its end.
///
/// A code span that is not closed ends with its line, so that a lone backtick does not blind the scanner.
#[derive(Clone, Copy, Debug, Default)]
struct Code {
    mode: Mode,
    /// The run of equal backticks or tildes that the text ends in.
    run: Option<Run>,
    /// Whether the line holds something else than white space and quotation marks.
    inside_line: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Prose,
    /// Between runs of so many backticks.
    Span(usize),
    /// In a fenced block, which a run of the same character and at least this length closes.
    Fence(char, usize),
    /// Behind a run that closes such a block if nothing follows it on the line.
    Closing(char, usize),
}

#[derive(Clone, Copy, Debug)]
struct Run {
    of: char,
    len: usize,
    begins_line: bool,
}

impl Code {
    /// Whether the next character stands in code, unless it lengthens the run before it.
    fn holds(&mut self) -> bool {
        self.settle();
        matches!(self.mode, Mode::Span(_) | Mode::Fence(..))
    }

    fn track(&mut self, c: char) {
        if matches!(c, '`' | '~') {
            match &mut self.run {
                Some(run) if run.of == c => run.len += 1,
                _ => {
                    self.settle();
                    self.run = Some(Run { of: c, len: 1, begins_line: !self.inside_line });
                }
            }
            self.inside_line = true;
            return;
        }
        self.settle();
        if c == '\n' {
            self.inside_line = false;
            if matches!(self.mode, Mode::Span(_) | Mode::Closing(..)) {
                self.mode = Mode::Prose;
            }
        } else if !c.is_whitespace() {
            self.inside_line |= c != '>';
            if let Mode::Closing(of, len) = self.mode {
                self.mode = Mode::Fence(of, len);
            }
        }
    }

    /// Judges the run that has ended.
    fn settle(&mut self) {
        let Some(Run { of, len, begins_line }) = self.run.take() else { return };
        self.mode = match self.mode {
            Mode::Prose if begins_line && len >= 3 => Mode::Fence(of, len),
            Mode::Prose if of == '`' => Mode::Span(len),
            Mode::Span(open) if of == '`' && len == open => Mode::Prose,
            Mode::Fence(fence, open) if begins_line && of == fence && len >= open => {
                Mode::Closing(fence, open)
            }
            Mode::Closing(fence, open) => Mode::Fence(fence, open),
            other => other,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text with each marker found as its letter in braces.
    fn scan(text: &str) -> String {
        let (mut scanner, mut items) = (Scanner::default(), Vec::new());
        text.chars().for_each(|c| scanner.push(c, true, &mut items));
        scanner.cut(&mut items);
        let show = |item: &Item| match item {
            Item::Text(c) => c.to_string(),
            Item::Marker(marker) => format!("{{{marker:?}}}"),
        };
        items.iter().map(show).collect()
    }

    #[test]
    fn whole_and_truncated_markers_are_found_and_all_else_stays() {
        for (text, expected) in [
            ("<|close|>think<|sep|>", "{Close}think{Sep}"),
            ("<|sep|x", "{Sep}x"),
            ("<|sep|<|open|>", "{Sep}{Open}"),
            ("<|sep|", "{Sep}"),
            ("<|end_of_msg|\n", "{EndOfMessage}\n"),
            ("<<|open|>", "<{Open}"),
            ("<|<|open|>", "<|{Open}"),
            ("a <| b |> c <|o> <|op <|sep> <|SEP|> <||>", "a <| b |> c <|o> <|op <|sep> <|SEP|> <||>"),
            ("x <", "x <"),
            ("x <|", "x "),
            ("x <|end_of", "x "),
        ] {
            assert_eq!(scan(text), expected, "{text:?}");
        }
    }

    #[test]
    fn code_is_left_alone() {
        for (text, expected) in [
            ("write `<|open|>` or <|open|>", "write `<|open|>` or {Open}"),
            ("``a ` <|open|>`` <|open|>", "``a ` <|open|>`` {Open}"),
            ("a ` b <|open|>\n<|open|>", "a ` b <|open|>\n{Open}"),
            ("```\n<|open|>\n```\n<|open|>", "```\n<|open|>\n```\n{Open}"),
            (
                "~~~~ rust\n<|open|>\n~~~\n```\n<|open|>\n~~~~~\n<|open|>",
                "~~~~ rust\n<|open|>\n~~~\n```\n<|open|>\n~~~~~\n{Open}",
            ),
            ("> ```\n> <|sep|>\n> ```\n<|sep|>", "> ```\n> <|sep|>\n> ```\n{Sep}"),
            ("```\nx\n``` y\n<|sep|>", "```\nx\n``` y\n<|sep|>"),
            ("```\nx\n```<|close|>", "```\nx\n```{Close}"),
            ("a ~~b~~ <|sep|>", "a ~~b~~ {Sep}"),
            ("a ```b``` <|sep|>", "a ```b``` {Sep}"),
            ("```<|sep|", "```<|sep|"),
        ] {
            assert_eq!(scan(text), expected, "{text:?}");
        }
    }
}
