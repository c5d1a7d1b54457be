//! Text to pieces: blocks for huge inputs, then the pre-tokenizer's pattern. Merging never crosses a piece.

use fancy_regex::{Regex, RegexBuilder, RegexInput};

use super::error::Error;

/// Characters of a block. Text is cut into blocks first.
const BLOCK: usize = 400_000;
/// The longest run of whitespace, or of anything else, inside a block. A longer one is cut, and what is cut off is
/// encoded alone.
const RUN: usize = 25_000;

/// The alternatives in the order in which they are tried (spec, section 2).
const ALTERNATIVES: [&str; 8] = [
    r"[\p{Han}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"\s*[\r\n]+",
    r"\s+(?!\S)",
    r"\s+",
];

/// The compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern(Regex);

impl Pattern {
    pub(super) fn new() -> Result<Self, Error> {
        // A run of whitespace costs one step back for each character, and a run has at most 25,000.
        Self::with_limit(40 * RUN)
    }

    fn with_limit(backtracks: usize) -> Result<Self, Error> {
        Ok(Self(RegexBuilder::new(&ALTERNATIVES.join("|")).backtrack_limit(backtracks).build()?))
    }

    /// Calls `visit` with the pieces of `text` from left to right. Together they are `text`, whatever happens.
    pub(super) fn for_each_piece(&self, text: &str, mut visit: impl FnMut(&str)) {
        for cut in cuts(text) {
            let mut start = 0;
            while start < cut.len() {
                let end = self.piece(cut, start);
                visit(&cut[start..end]);
                start = end;
            }
        }
    }

    /// Where the piece that begins at `start` ends. Some alternative matches any character, so there is one; should the
    /// search give up all the same, the rest of the cut (at most a block) is one piece, and no text is lost.
    fn piece(&self, cut: &str, start: usize) -> usize {
        let input = RegexInput::new(cut).from_pos(start).anchored(true);
        match self.0.find_input(input) {
            Ok(Some(found)) if found.end() > start => found.end(),
            _ => cut.len(),
        }
    }
}

/// The cuts of a text, which are encoded one by one: blocks of 400,000 characters, in which runs of more than 25,000
/// characters that are all whitespace, or none of them, are cut too.
fn cuts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.char_indices().nth(BLOCK).map_or(rest.len(), |(at, _)| at);
        let (block, tail) = rest.split_at(end);
        rest = tail;
        (!block.is_empty()).then(|| runs(block))
    })
    .flatten()
}

/// The cuts inside a block.
fn runs(block: &str) -> impl Iterator<Item = &str> {
    let mut rest = block;
    let mut space = false;
    let mut run = 0;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let cut = rest.char_indices().find_map(|(at, c)| {
            if is_python_space(c) == space {
                run += 1;
            } else {
                space = !space;
                run = 1;
            }
            // The character that is too many begins the next cut; there it is counted again.
            (run > RUN).then(|| {
                run = 0;
                at
            })
        });
        let (piece, tail) = rest.split_at(cut.unwrap_or(rest.len()));
        rest = tail;
        Some(piece)
    })
}

/// What Python's `str.isspace` calls whitespace, which is what decides in the released code: all that
/// [`char::is_whitespace`] does, and the four separators of ASCII.
pub(crate) fn is_python_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces(text: &str) -> Vec<String> {
        let mut pieces = Vec::new();
        Pattern::new().unwrap().for_each_piece(text, |piece| pieces.push(piece.to_owned()));
        pieces
    }

    #[test]
    fn pieces_of_awkward_text() {
        for (text, expected) in [
            // Han first, with the numeral zero, which is a letter number; no slash among what follows punctuation.
            ("三國志演義123年", vec!["三國志演義", "123", "年"]),
            ("二〇二四年", vec!["二〇二四年"]),
            ("}\n///", vec!["}\n", "///"]),
            ("x}\n/// doc", vec!["x", "}\n", "///", " doc"]),
            ("。\n\n次", vec!["。\n\n", "次"]),
            ("\u{3000}\u{3000}全角", vec!["\u{3000}", "\u{3000}", "全角"]),
            // A Han character stands in no run of letters, and takes no contraction.
            ("don't你're", vec!["don't", "你", "'re"]),
            ("你's ok", vec!["你", "'s", " ok"]),
            ("I'M DON'T we'll", vec!["I'M", " DON'T", " we'll"]),
            ("“Hello,” 世界——I’m", vec!["“Hello", ",”", " ", "世界", "——", "I", "’m"]),
            ("HelloWorld HTTPServer", vec!["Hello", "World", " HTTPServer"]),
            ("12345 6", vec!["123", "45", " ", "6"]),
            ("a  b\n\n  c  ", vec!["a", " ", " b", "\n\n", " ", " c", "  "]),
            ("  \n \n x", vec!["  \n \n", " x"]),
            ("ひらがなカタ漢字", vec!["ひらがなカタ", "漢字"]),
            ("e\u{301}a \u{301}", vec!["e\u{301}a", " \u{301}"]),
            ("ǅx ʰ", vec!["ǅx", " ʰ"]),
            ("<|open|>", vec!["<|", "open", "|>"]),
            ("🎉👩\u{200d}🚀!", vec!["🎉👩\u{200d}🚀!"]),
            ("", vec![]),
        ] {
            assert_eq!(pieces(text), expected, "{text:?}");
        }
    }

    #[test]
    fn long_runs_are_cut_where_python_says() {
        let lengths = |text: &str| cuts(text).map(|cut| cut.chars().count()).collect::<Vec<_>>();
        assert_eq!(lengths(&"x".repeat(RUN)), [RUN]);
        assert_eq!(lengths(&"é".repeat(2 * RUN + 1)), [RUN, RUN, 1]);
        // The cut holds what came before the run too.
        assert_eq!(lengths(&format!("ab {}", "x".repeat(RUN + 1))), [RUN + 3, 1]);
        assert_eq!(lengths(&format!("{} {}", "x".repeat(RUN), "x".repeat(RUN))), [2 * RUN + 1]);
        // U+001C is whitespace for Python, though not for Rust: it breaks a run of others, and lengthens its own.
        assert_eq!(lengths(&format!("{}\u{1c}x", "x".repeat(RUN))), [RUN + 2]);
        assert_eq!(lengths(&format!("{}\u{1f}x", " ".repeat(RUN))), [RUN, 2]);
        assert_eq!(lengths(&format!("{}\u{200b}x", " ".repeat(RUN))), [RUN + 2]);
        assert_eq!(lengths(&"x ".repeat(BLOCK / 2 + 1)), [BLOCK, 2]);
        // A block ends a run: counting begins anew behind it.
        let text = "x ".repeat((BLOCK - RUN) / 2) + &"y".repeat(2 * RUN);
        assert_eq!(lengths(&text), [BLOCK, RUN]);
        assert_eq!(lengths(""), [] as [usize; 0]);
    }

    #[test]
    fn whitespace_is_what_python_says() {
        let all: Vec<u32> =
            (0..=0x0010_ffff).filter(|&c| char::from_u32(c).is_some_and(is_python_space)).collect();
        let python =
            [(0x09, 0x0d), (0x1c, 0x20), (0x85, 0x85), (0xa0, 0xa0), (0x1680, 0x1680), (0x2000, 0x200a)]
                .into_iter()
                .chain([(0x2028, 0x2029), (0x202f, 0x202f), (0x205f, 0x205f), (0x3000, 0x3000)]);
        assert_eq!(all, python.flat_map(|(first, last)| first..=last).collect::<Vec<u32>>());
    }

    #[test]
    fn a_search_that_gives_up_loses_no_text() {
        let text = format!("a{}b c", " ".repeat(5000));
        let mut pieces = Vec::new();
        Pattern::with_limit(1).unwrap().for_each_piece(&text, |piece| pieces.push(piece.to_owned()));
        assert_eq!(pieces.concat(), text);
        assert!(pieces.len() == 2, "the limit was not reached: {} pieces", pieces.len());
        assert_eq!(self::pieces(&text).len(), 4);
    }

    proptest! {
        #![proptest_config(super::super::repeatable())]

        #[test]
        fn pieces_are_the_text(text in r"(\PC|[ \t\r\n'\u{1c}\u{85}\u{a0}\u{3000}]|'s|[A-Za-z0-9]|[一-龥]){0,60}") {
            prop_assert_eq!(pieces(&text).concat(), text);
        }
    }
}
