//! Just enough of Rust's grammar to see which paths a file names.

use std::iter::Peekable;
use std::str::CharIndices;

/// What a file names, outside comments, literals and `#[cfg(test)]`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Scan {
    /// Paths that leave the module.
    pub(crate) uses: Vec<Use>,
    /// Lines with the keyword `unsafe`.
    pub(crate) unsafe_lines: Vec<usize>,
    /// Lines with a macro that prints, and its name.
    pub(crate) prints: Vec<(usize, String)>,
    /// Modules in files of their own that are only compiled for tests.
    pub(crate) test_modules: Vec<String>,
}

/// A path that leaves the module it stands in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) line: usize,
    pub(crate) target: Target,
}

/// Where it goes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// `crate::NAME` or, in the binary, `dormouse::NAME`.
    Room(String),
    /// The crate's root as a whole, by `crate::*`, `crate as x` or `crate::{self}`: nobody could tell what it is for.
    Root,
    /// `super::` so many times in a row, counted from the file's own module, and the name after it.
    Super(usize, Option<String>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Mark(char),
}

impl Token {
    fn is(&self, text: &str) -> bool {
        match self {
            Self::Word(word) => word == text,
            Self::Mark(mark) => text.chars().eq([*mark]),
        }
    }
}

type Tokens = Vec<(usize, Token)>;

impl Scan {
    /// Reads the text of a file.
    pub(crate) fn of(text: &str) -> Self {
        let mut scan = Self::default();
        let tokens = without_tests(&tokens(text), &mut scan.test_modules);
        let at = |i: usize| tokens.get(i).map(|(_, token)| token);
        let is = |i: usize, text: &str| at(i).is_some_and(|token| token.is(text));
        let colons = |i: usize| is(i, ":") && is(i + 1, ":");
        // Open braces, and whether each is that of an inline module: `super` counts from the innermost.
        let mut braces: Vec<bool> = Vec::new();
        for (i, (line, token)) in tokens.iter().enumerate() {
            let line = *line;
            let Token::Word(word) = token else {
                if token.is("{") {
                    braces.push(i >= 2 && is(i - 2, "mod"));
                } else if token.is("}") {
                    braces.pop();
                }
                continue;
            };
            match word.as_str() {
                "crate" | "dormouse" if colons(i + 1) => {
                    for target in targets(&tokens, i + 3) {
                        scan.uses.push(Use { line, target });
                    }
                }
                // `pub(crate)` goes nowhere.
                "crate" if is(i + 1, "as") || is(i + 1, ";") => {
                    scan.uses.push(Use { line, target: Target::Root });
                }
                "super" if i < 3 || !is(i - 3, "super") => {
                    let mut count = 1;
                    let mut next = i + 1;
                    while colons(next) && is(next + 2, "super") {
                        count += 1;
                        next += 3;
                    }
                    let name = match at(next + 2) {
                        Some(Token::Word(word)) if colons(next) => Some(word.clone()),
                        _ => None,
                    };
                    let inside = braces.iter().filter(|module| **module).count();
                    if count > inside {
                        scan.uses.push(Use { line, target: Target::Super(count - inside, name) });
                    }
                }
                "unsafe" => scan.unsafe_lines.push(line),
                "print" | "println" | "eprint" | "eprintln" | "dbg" if is(i + 1, "!") => {
                    scan.prints.push((line, word.clone()));
                }
                _ => {}
            }
        }
        scan
    }
}

/// The first names after `crate::`: one, or those of a group.
fn targets(tokens: &[(usize, Token)], start: usize) -> Vec<Target> {
    let name = |token: &Token| match token {
        Token::Word(word) if word != "self" => Target::Room(word.clone()),
        _ => Target::Root,
    };
    match tokens.get(start) {
        Some((_, token)) if token.is("{") => {
            let (mut depth, mut first, mut found) = (0, false, Vec::new());
            for (_, token) in &tokens[start..] {
                if token.is("{") {
                    depth += 1;
                    first = depth == 1;
                } else if token.is("}") {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                } else if token.is(",") {
                    first = depth == 1;
                } else if first {
                    found.push(name(token));
                    first = false;
                }
            }
            found
        }
        Some((_, token)) => vec![name(token)],
        None => vec![Target::Root],
    }
}

/// The tokens without what `#[cfg(test)]` stands before; test modules in files of their own are noted by name.
fn without_tests(tokens: &[(usize, Token)], test_modules: &mut Vec<String>) -> Tokens {
    let is = |i: usize, text: &str| tokens.get(i).is_some_and(|(_, token)| token.is(text));
    let mut kept = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        if !(is(i, "#") && is(i + 1, "[") && is(i + 2, "cfg")) {
            kept.push(tokens[i].clone());
            i += 1;
            continue;
        }
        let end = closing(tokens, i + 1);
        let words = |text: &str| tokens[i..end].iter().any(|(_, token)| token.is(text));
        if !words("test") || words("not") {
            kept.extend_from_slice(&tokens[i..end]);
            i = end;
            continue;
        }
        i = end;
        while is(i, "#") && is(i + 1, "[") {
            i = closing(tokens, i + 1);
        }
        let mut after = i;
        if is(after, "pub") {
            after += 1;
            if is(after, "(") {
                after = closing(tokens, after);
            }
        }
        if let (true, Some((_, Token::Word(module))), true) =
            (is(after, "mod"), tokens.get(after + 1), is(after + 2, ";"))
        {
            test_modules.push(module.clone());
        }
        i = item_end(tokens, after);
    }
    kept
}

/// The place after the item that begins at `start`: after its semicolon or its block.
fn item_end(tokens: &[(usize, Token)], start: usize) -> usize {
    let is = |i: usize, text: &str| tokens.get(i).is_some_and(|(_, token)| token.is(text));
    let to_semicolon = ["use", "static", "type", "let"].iter().any(|word| is(start, word))
        || (is(start, "const") && !is(start + 1, "fn"));
    let has_block =
        ["mod", "fn", "impl", "struct", "enum", "trait", "unsafe", "async", "const", "macro_rules", "extern"]
            .iter()
            .any(|word| is(start, word));
    let mut i = start;
    while i < tokens.len() {
        if is(i, "{") {
            i = closing(tokens, i);
            if !to_semicolon {
                return i;
            }
        } else if is(i, "(") || is(i, "[") {
            i = closing(tokens, i);
        } else if is(i, ";") || (is(i, ",") && !to_semicolon && !has_block) {
            return i + 1;
        } else if is(i, "}") || is(i, ")") {
            // The last field of a struct, or the last arm of a match: what closes here opened before it.
            return i;
        } else {
            i += 1;
        }
    }
    i
}

/// The place after the bracket that closes the one at `start`.
fn closing(tokens: &[(usize, Token)], start: usize) -> usize {
    let mut depth = 0;
    for (i, (_, token)) in tokens.iter().enumerate().skip(start) {
        if let Token::Mark(mark) = token {
            match mark {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth -= 1,
                _ => {}
            }
        }
        if depth == 0 {
            return i + 1;
        }
    }
    tokens.len()
}

/// Words and marks with their lines; comments, literals and lifetimes are left out.
fn tokens(text: &str) -> Tokens {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut chars = text.char_indices().peekable();
    while let Some((start, c)) = chars.next() {
        match c {
            '\n' => line += 1,
            '/' if text[start..].starts_with("//") => while chars.next_if(|(_, c)| *c != '\n').is_some() {},
            '/' if text[start..].starts_with("/*") => line += block_comment(&mut chars),
            '"' => line += string(&mut chars),
            '\'' => character(&mut chars),
            _ if c.is_alphanumeric() || c == '_' => {
                let mut end = start + c.len_utf8();
                while let Some((at, c)) = chars.next_if(|(_, c)| c.is_alphanumeric() || *c == '_') {
                    end = at + c.len_utf8();
                }
                let word = &text[start..end];
                let rest = &text[end..];
                let hashes = rest.len() - rest.trim_start_matches('#').len();
                if matches!(word, "r" | "br" | "cr") && rest[hashes..].starts_with('"') {
                    line += raw_string(&mut chars, hashes);
                } else if !(matches!(word, "b" | "c") && rest.starts_with(['"', '\''])) {
                    // What follows a `b` or a `c` is a literal, and read as one.
                    tokens.push((line, Token::Word(word.to_owned())));
                }
            }
            _ if c.is_whitespace() => {}
            _ => tokens.push((line, Token::Mark(c))),
        }
    }
    tokens
}

type Chars<'a> = Peekable<CharIndices<'a>>;

/// Skips a comment whose slash was read, and gives the lines that it went over. Comments nest.
fn block_comment(chars: &mut Chars<'_>) -> usize {
    let (mut depth, mut lines, mut before) = (0, 0, '/');
    for (_, c) in chars {
        lines += usize::from(c == '\n');
        // A mark that ended one pair must not begin the next.
        before = match (before, c) {
            ('/', '*') => {
                depth += 1;
                ' '
            }
            ('*', '/') => {
                depth -= 1;
                ' '
            }
            _ => c,
        };
        if depth == 0 {
            break;
        }
    }
    lines
}

/// Skips a string whose first quote was read.
fn string(chars: &mut Chars<'_>) -> usize {
    let mut lines = 0;
    while let Some((_, c)) = chars.next() {
        match c {
            '\\' => lines += usize::from(chars.next().is_some_and(|(_, c)| c == '\n')),
            '\n' => lines += 1,
            '"' => break,
            _ => {}
        }
    }
    lines
}

/// Skips a raw string of which the letters before the marks were read.
fn raw_string(chars: &mut Chars<'_>, hashes: usize) -> usize {
    let (mut lines, mut after_quote) = (0, None);
    // Past the hashes and the first quote.
    for (_, c) in chars.skip(hashes + 1) {
        lines += usize::from(c == '\n');
        after_quote = match (c, after_quote) {
            ('"', _) => Some(0),
            ('#', Some(seen)) => Some(seen + 1),
            _ => None,
        };
        if after_quote == Some(hashes) {
            break;
        }
    }
    lines
}

/// Skips a character's literal or a lifetime whose apostrophe was read.
fn character(chars: &mut Chars<'_>) {
    match chars.next() {
        Some((_, '\\')) => {
            chars.next();
            // `'\u{1F600}'` is longer than one.
            while chars.next_if(|(_, c)| *c != '\'').is_some() {}
            chars.next();
        }
        // A literal of one character ends here. A lifetime has no second apostrophe, and its name goes on.
        Some((_, first)) => {
            let literal = chars.next_if(|(_, c)| *c == '\'').is_some();
            let mut name = !literal && (first.is_alphanumeric() || first == '_');
            while name {
                name = chars.next_if(|(_, c)| c.is_alphanumeric() || *c == '_').is_some();
            }
        }
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rooms(text: &str) -> Vec<String> {
        Scan::of(text)
            .uses
            .into_iter()
            .map(|used| match used.target {
                Target::Room(room) => room,
                Target::Root => "ROOT".to_owned(),
                Target::Super(count, name) => format!("{}{}", "^".repeat(count), name.unwrap_or_default()),
            })
            .collect()
    }

    #[test]
    fn plain_paths_groups_and_inline_paths_are_seen() {
        assert_eq!(rooms("use crate::store;"), ["store"]);
        assert_eq!(rooms("pub use crate::store::Store;"), ["store"]);
        assert_eq!(rooms("use crate::{a, b::{c, d::e}, f as g,\n h::*};"), ["a", "b", "f", "h"]);
        assert_eq!(rooms("fn f(x: crate::x::Y) -> crate :: z::W { crate::q::r() }"), ["x", "z", "q"]);
        assert_eq!(rooms("macro_rules! m { () => { $crate::sys::f() } }"), ["sys"]);
        assert_eq!(rooms("use dormouse::cli;"), ["cli"]);
    }

    #[test]
    fn the_whole_root_is_seen() {
        for text in [
            "use crate::*;",
            "use crate as c;",
            "use crate::{self as c};",
            "extern crate self as c; use crate;",
        ] {
            assert_eq!(rooms(text), ["ROOT"], "{text}");
        }
        assert_eq!(rooms("pub(crate) fn f() {} pub(in crate::model) struct S;"), ["model"]);
    }

    #[test]
    fn supers_are_counted_from_the_files_module() {
        assert_eq!(rooms("use super::a; use super::super::store::x;"), ["^a", "^^store"]);
        assert_eq!(
            rooms("mod inner { use super::a; use super::super::b; fn f() { super::super::super::c() } }"),
            ["^b", "^^c"]
        );
        assert_eq!(rooms("mod inner {} use super::{a, b};"), ["^"]);
    }

    #[test]
    fn comments_and_literals_are_not_code() {
        assert!(rooms("// use crate::a;\n//! [`crate::b`]\n/* crate::c /* */ crate::d */").is_empty());
        assert!(rooms(r#"const S: &str = "use crate::a; \" crate::b";"#).is_empty());
        assert!(
            rooms(r##"const S: &str = r#"crate::a " crate::b"#; const T: &[u8] = br"crate::c";"##).is_empty()
        );
        assert_eq!(
            rooms(r#"fn f<'a>(c: &'a char) { if *c == '"' { crate::x::f() } else { '\'' } } // "crate::y"#),
            ["x"]
        );
        assert_eq!(rooms("let u = '\\u{1F600}'; let b = b'\"'; crate::x::f()"), ["x"]);
        assert_eq!(rooms("/*/ crate::a */ crate::b::f()"), ["b"]);
    }

    #[test]
    fn code_for_tests_is_exempt_and_only_that() {
        assert_eq!(rooms("#[cfg(test)] mod tests { use crate::a; fn f() { [0; 3]; } } use crate::b;"), ["b"]);
        assert_eq!(rooms("#[cfg(test)]\nuse crate::{a, b};\nuse crate::c;"), ["c"]);
        assert_eq!(
            rooms("#[cfg(test)] #[allow(x)] pub(crate) fn f(x: [u8; 4]) { crate::a::b() } use crate::c;"),
            ["c"]
        );
        assert_eq!(rooms("struct S { #[cfg(test)] x: crate::a::T, y: crate::b::T }"), ["b"]);
        assert_eq!(rooms("struct S { #[cfg(test)] x: crate::a::T } use crate::b;"), ["b"]);
        assert_eq!(rooms("#[cfg(not(test))] use crate::a; #[cfg(unix)] use crate::b;"), ["a", "b"]);
        assert_eq!(rooms("#[cfg(all(test, unix))] use crate::a; #[test] fn f() { crate::b::c() }"), ["b"]);
        assert_eq!(Scan::of("#[cfg(test)] mod x; mod y;").test_modules, ["x"]);
    }

    #[test]
    fn lines_are_those_of_the_file() {
        let text = "/* \n */\nconst S: &str = \"\n\\\n\";\nuse crate::a;\nunsafe {}\n\nprintln!();";
        let scan = Scan::of(text);
        assert_eq!(scan.uses, [Use { line: 6, target: Target::Room("a".to_owned()) }]);
        assert_eq!(scan.unsafe_lines, [7]);
        assert_eq!(scan.prints, [(9, "println".to_owned())]);
        assert_eq!(Scan::of("#![deny(unsafe_code)] // unsafe\nfn println() {}"), Scan::default());
    }
}
