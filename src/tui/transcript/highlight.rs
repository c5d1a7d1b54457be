//! Colours of code: comments, strings, numbers and keywords, told apart by a table of languages.
//!
//! This is no grammar. A line is read once from left to right, and what is open at its end, a comment or a string of
//! several lines, is carried to the next one: a block that grows is never read again from its beginning.

use ratatui::style::Style;

use super::languages::{self, Language};
use crate::tui::theme::Theme;

/// What a stretch of code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Plain,
    Comment,
    Text,
    Number,
    Keyword,
    Added,
    Removed,
}

impl Role {
    const fn style(self, theme: &Theme) -> Style {
        match self {
            Self::Plain => theme.text,
            Self::Comment => theme.comment,
            Self::Text => theme.string,
            Self::Number => theme.number,
            Self::Keyword => theme.keyword,
            Self::Added => theme.good,
            Self::Removed => theme.error,
        }
    }
}

/// Reads a block of code line by line.
#[derive(Clone, Debug)]
pub(super) struct Lexer {
    language: Option<&'static Language>,
    /// What ends that which is open, whether a backslash keeps it open, and what it is.
    open: Option<(&'static str, bool, Role)>,
}

impl Lexer {
    /// One for a block with this info string; of an unknown language all code looks the same.
    pub(super) fn new(info: &str) -> Self {
        Self { language: languages::find(info), open: None }
    }

    /// The next line, in pieces with a style each.
    pub(super) fn line(&mut self, line: &str, theme: &Theme) -> Vec<(String, Style)> {
        let Some(language) = self.language else { return vec![(line.to_owned(), theme.code)] };
        let mut out: Vec<(String, Style)> = Vec::new();
        for (piece, role) in self.pieces(line, language) {
            let style = role.style(theme);
            match out.last_mut() {
                Some((text, last)) if *last == style => text.push_str(piece),
                _ => out.push((piece.to_owned(), style)),
            }
        }
        out
    }

    fn pieces<'a>(&mut self, line: &'a str, language: &'static Language) -> Vec<(&'a str, Role)> {
        if language.is_diff {
            return vec![(line, changed(line))];
        }
        let mut out = Vec::new();
        let mut rest = line;
        let mut before = ' ';
        while !rest.is_empty() {
            let (len, role) = self.next(rest, before, language);
            let (piece, after) = rest.split_at(len);
            out.push((piece, role));
            before = piece.chars().next_back().unwrap_or(before);
            rest = after;
        }
        out
    }

    /// How many bytes the next piece has, at least one character, and what it is.
    fn next(&mut self, rest: &str, before: char, language: &'static Language) -> (usize, Role) {
        if let Some((close, escapes, role)) = self.open {
            return match end_of(rest, close, escapes) {
                Some(end) => {
                    self.open = None;
                    (end, role)
                }
                None => (rest.len(), role),
            };
        }
        if let Some((mark, close)) = language.blocks.iter().find(|(mark, _)| rest.starts_with(mark)) {
            return self.delimited(rest, mark, close, false, true, Role::Comment);
        }
        // In shells and the like a hash within a word is no comment.
        let comments = |mark: &&&str| rest.starts_with(**mark) && (**mark != "#" || before.is_whitespace());
        if language.comments.iter().find(comments).is_some() {
            return (rest.len(), Role::Comment);
        }
        if let Some(quote) = language.quotes.iter().find(|quote| rest.starts_with(quote.mark)) {
            return self.delimited(rest, quote.mark, quote.mark, quote.escapes, quote.lines, Role::Text);
        }
        if language.has_characters
            && let Some(len) = character(rest)
        {
            return (len, Role::Text);
        }
        let first = rest.chars().next().unwrap_or(' ');
        if first.is_ascii_digit() {
            return (number(rest), Role::Number);
        }
        if is_word(first) {
            let len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let word = rest.get(..len).unwrap_or_default();
            let role = if language.has_keyword(word) { Role::Keyword } else { Role::Plain };
            return (len, role);
        }
        (first.len_utf8(), Role::Plain)
    }

    fn delimited(
        &mut self,
        rest: &str,
        mark: &str,
        close: &'static str,
        escapes: bool,
        lines: bool,
        role: Role,
    ) -> (usize, Role) {
        let inside = rest.get(mark.len()..).unwrap_or_default();
        if let Some(end) = end_of(inside, close, escapes) {
            return (mark.len() + end, role);
        }
        if lines {
            self.open = Some((close, escapes, role));
        }
        (rest.len(), role)
    }
}

/// Where `close` ends in a text; with `escapes`, what follows a backslash closes nothing.
fn end_of(text: &str, close: &str, escapes: bool) -> Option<usize> {
    if !escapes {
        return text.find(close).map(|at| at + close.len());
    }
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if text.get(at..).is_some_and(|rest| rest.starts_with(close)) {
            return Some(at + close.len());
        }
    }
    None
}

/// Bytes of a character between single quotes, where there is one: a lifetime is none.
fn character(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('\'')?;
    let first = inside.chars().next()?;
    if first == '\\' {
        return end_of(inside, "'", true).map(|end| end + 1);
    }
    inside.get(first.len_utf8()..)?.starts_with('\'').then_some(first.len_utf8() + 2)
}

/// Bytes of a number: digits of any base, a fraction, an exponent, a suffix.
fn number(text: &str) -> usize {
    let mut last = ' ';
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map_or(' ', |(_, c)| *c);
        let fraction = c == '.' && next.is_ascii_digit();
        let exponent = matches!(c, '+' | '-') && matches!(last, 'e' | 'E') && next.is_ascii_digit();
        if !(c.is_ascii_alphanumeric() || c == '_' || fraction || exponent) {
            return at;
        }
        last = c;
    }
    text.len()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn changed(line: &str) -> Role {
    match line.chars().next() {
        Some('+') => Role::Added,
        Some('-') => Role::Removed,
        Some('@') => Role::Keyword,
        _ => Role::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Each line with what is not plain in brackets: `k` keyword, `t` text, `n` number, `c` comment.
    fn told(info: &str, code: &str) -> String {
        let mut lexer = Lexer::new(info);
        let language = lexer.language.unwrap();
        let mut out = String::new();
        for line in code.split('\n') {
            for (piece, role) in lexer.pieces(line, language) {
                let letter = match role {
                    Role::Plain => {
                        out.push_str(piece);
                        continue;
                    }
                    Role::Comment => 'c',
                    Role::Text => 't',
                    Role::Number => 'n',
                    Role::Keyword => 'k',
                    Role::Added => '+',
                    Role::Removed => '-',
                };
                out.extend(['[', letter]);
                out.push_str(piece);
                out.push(']');
            }
            out.push('\n');
        }
        out.pop();
        out
    }

    #[test]
    fn what_code_is_made_of_is_told_apart() {
        for (info, code, expected) in [
            ("rust", "let x = 1_000u32; // one", "[klet] x = [n1_000u32]; [c// one]"),
            ("rust,ignore", "fn f<'a>(c: &'a str) -> 'x'", "[kfn] f<'a>(c: &'a str) -> [t'x']"),
            ("rs", "'\\'' '\\u{1F}' \"a\\\"b\" c", "[t'\\''] [t'\\u{1F}'] [t\"a\\\"b\"] c"),
            ("rust", "/* a\nb */ fn", "[c/* a]\n[cb */] [kfn]"),
            ("Python", "def f(): # x\n  return 'a'", "[kdef] f(): [c# x]\n  [kreturn] [t'a']"),
            ("py", "\"\"\"a\n'b\n\"\"\" 1.5e-3", "[t\"\"\"a]\n[t'b]\n[t\"\"\"] [n1.5e-3]"),
            ("py", "x = 'not ended\ny = 1", "x = [t'not ended]\ny = [n1]"),
            ("sh", "echo a#b $1 # c", "[kecho] a#b $[n1] [c# c]"),
            ("sql", "SELECT a from t -- x", "[kSELECT] a [kfrom] t [c-- x]"),
            ("json", "{\"a\": [true, -1]}", "{[t\"a\"]: [[ktrue], -[n1]]}"),
            ("diff", "+a\n-b\n@@\n c", "[++a]\n[--b]\n[k@@]\n c"),
            ("js", "`a\n${b}` + returns", "[t`a]\n[t${b}`] + returns"),
            ("html", "<p> <!-- a\nb --> x", "<p> [c<!-- a]\n[cb -->] x"),
        ] {
            assert_eq!(told(info, code), expected, "{info}");
        }
    }

    #[test]
    fn an_unknown_language_is_code_all_over() {
        let theme = Theme::TERMINAL;
        assert_eq!(Lexer::new("klingon").line("if x", &theme), [("if x".to_owned(), theme.code)]);
        assert!(Lexer::new("").line("", &theme).iter().all(|(text, _)| text.is_empty()));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_changed(
            language in 0..languages::TABLE.len(),
            lines in prop::collection::vec("([a-z0-9 .]|['\"`\\\\#/*<!-]|漢|e\u{301}|fn |\\PC){0,20}", 0..8),
        ) {
            let theme = Theme::TERMINAL;
            let mut lexer = Lexer::new(languages::TABLE[language].names[0]);
            for line in lines {
                let shown: String = lexer.line(&line, &theme).into_iter().map(|(text, _)| text).collect();
                prop_assert_eq!(shown, line);
            }
        }
    }
}
