//! Looking for words in rows: across the breaks between them, without regard to case or to how many spaces there are.

use std::ops::Range;

/// What is looked for.
#[derive(Clone, Debug)]
pub(crate) struct Needle {
    /// In lower case, each stretch of white space as one space.
    chars: Vec<char>,
    /// Tells it from the needles before it.
    pub(crate) version: u64,
}

/// A part of a hit that is on one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    /// Which hit it is of.
    pub(super) hit: usize,
    pub(super) row: usize,
    /// Bytes of the row's text.
    pub(super) bytes: Range<usize>,
}

/// One character of the text that is looked through.
struct Atom {
    /// [`BREAK`] between rows, [`WALL`] between paragraphs.
    c: char,
    row: usize,
    bytes: Range<usize>,
}

/// What stands between two rows: a space, or nothing where a long word was cut.
const BREAK: char = '\n';
/// What no hit goes across.
const WALL: char = '\0';

impl Needle {
    /// What a user looks for who writes this; nothing in a blank text.
    pub(crate) fn new(text: &str, version: u64) -> Option<Self> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let chars: Vec<char> = words.join(" ").chars().flat_map(char::to_lowercase).collect();
        (!chars.is_empty()).then_some(Self { chars, version })
    }

    /// Where it is in rows, from the first to the last.
    pub(super) fn find<R: AsRef<str>>(&self, rows: impl Iterator<Item = R>) -> Vec<Stretch> {
        let mut atoms = Vec::new();
        for (number, row) in rows.enumerate() {
            read(row.as_ref(), number, &mut atoms);
        }
        let mut out = Vec::new();
        let mut rest = atoms.as_slice();
        let mut hit = 0;
        // Few places begin as the needle does.
        while let Some(at) = rest.iter().position(|atom| Some(&atom.c) == self.chars.first()) {
            let begun = rest.get(at..).unwrap_or_default();
            let len = self.matches(begun);
            if let Some(len) = len {
                push(begun.get(..len).unwrap_or_default(), hit, &mut out);
                hit += 1;
            }
            rest = begun.get(len.unwrap_or(1)..).unwrap_or_default();
        }
        out
    }

    /// Whether it is in a text.
    pub(super) fn is_in(&self, text: &str) -> bool {
        !self.find(text.lines()).is_empty()
    }

    /// How many atoms a hit has that begins with the first of these.
    fn matches(&self, atoms: &[Atom]) -> Option<usize> {
        let mut len = 0;
        for (number, wanted) in self.chars.iter().enumerate() {
            let at = |len: usize| atoms.get(len).map(|atom| atom.c);
            if *wanted == ' ' {
                if !matches!(at(len), Some(' ' | BREAK)) {
                    return None;
                }
                while matches!(at(len), Some(' ' | BREAK)) {
                    len += 1;
                }
                continue;
            }
            if number > 0 && at(len) == Some(BREAK) {
                len += 1;
            }
            if at(len) != Some(*wanted) {
                return None;
            }
            len += 1;
        }
        Some(len)
    }
}

/// The characters of a row, without the marks and spaces that it begins with.
fn read(row: &str, number: usize, out: &mut Vec<Atom>) {
    let text = row.trim_start_matches([' ', '│', '❯']).trim_end();
    let start = row.trim_end().len() - text.len();
    let mark = if text.is_empty() { WALL } else { BREAK };
    if !out.is_empty() {
        out.push(Atom { c: mark, row: number, bytes: 0..0 });
    }
    let mut was_space = false;
    for (at, c) in text.char_indices() {
        let bytes = start + at..start + at + c.len_utf8();
        if c.is_whitespace() {
            if !was_space {
                out.push(Atom { c: ' ', row: number, bytes });
            }
        } else if c.is_ascii() {
            out.push(Atom { c: c.to_ascii_lowercase(), row: number, bytes });
        } else {
            out.extend(c.to_lowercase().map(|c| Atom { c, row: number, bytes: bytes.clone() }));
        }
        was_space = c.is_whitespace();
    }
}

fn push(atoms: &[Atom], hit: usize, out: &mut Vec<Stretch>) {
    for atom in atoms.iter().filter(|atom| !matches!(atom.c, BREAK | WALL)) {
        match out.last_mut() {
            Some(last) if last.hit == hit && last.row == atom.row => last.bytes.end = atom.bytes.end,
            _ => out.push(Stretch { hit, row: atom.row, bytes: atom.bytes.clone() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(needle: &str, rows: &[&str]) -> Vec<Vec<String>> {
        let mut out: Vec<Vec<String>> = Vec::new();
        for stretch in Needle::new(needle, 1).unwrap().find(rows.iter()) {
            if out.len() <= stretch.hit {
                out.push(Vec::new());
            }
            out.last_mut().unwrap().push(rows[stretch.row][stretch.bytes].to_owned());
        }
        out
    }

    #[test]
    fn case_and_spaces_do_not_matter() {
        assert_eq!(found("der MAUS", &["Der  Maus", "die maus"]), [["Der  Maus"]]);
        assert_eq!(found("a", &["banana"]), [["a"], ["a"], ["a"]]);
        assert_eq!(found("ää", &["  xÄäx"]), [["Ää"]]);
        assert!(Needle::new("  \n ", 1).is_none());
    }

    #[test]
    fn breaks_between_rows_are_crossed_and_paragraphs_are_not() {
        assert_eq!(found("sleeping dormouse", &["  a sleeping", "  dormouse"]), [["sleeping", "dormouse"]]);
        assert_eq!(found("漢字漢", &["  漢字", "  漢字"]), [["漢字", "漢"]]);
        assert_eq!(found("one two", &["│ one", "│ two"]), [["one", "two"]]);
        assert!(found("one two", &["one", "", "two"]).is_empty());
        assert!(found("onetwo", &["one two"]).is_empty());
    }

    proptest! {
        #[test]
        fn hits_are_in_their_rows(needle in "[a-cÄ漢İ ]{1,4}", rows in prop::collection::vec("([ab ]|[ÄäİI漢])*", 0..6)) {
            if let Some(needle) = Needle::new(&needle, 1) {
                for stretch in needle.find(rows.iter()) {
                    prop_assert!(rows[stretch.row].get(stretch.bytes).is_some_and(|text| !text.is_empty()));
                }
            }
        }
    }
}
