//! A model that says the same over and over.

/// Tokens that must have come again before it is worth a word: a row of dashes and a list of zeros end before that.
const LEAST: usize = 160;
/// How often a span must have come.
const TIMES: usize = 4;
/// Tokens of the longest span that is looked for.
const LONGEST: usize = 256;

/// A span of tokens that the output ends with, several times over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repetition {
    /// Tokens of the span.
    pub span: usize,
    /// How often it has come without a break, at the end of the output.
    pub times: usize,
}

/// The shortest span that `ids` end with so often that it is no accident.
///
/// Tables, lists and code repeat themselves too, but seldom to the token: a span counts from four times and 160 tokens
/// on.
pub fn repetition(ids: &[u32]) -> Option<Repetition> {
    (1..=LONGEST.min(ids.len() / TIMES)).find_map(|span| {
        // Where each token is the one a span before it, the output repeats itself.
        let again = ids.iter().rev().zip(ids.iter().rev().skip(span)).take_while(|(a, b)| a == b).count();
        let times = again / span + 1;
        (times >= TIMES && times * span >= LEAST).then_some(Repetition { span, times })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use unicode_segmentation::UnicodeSegmentation;

    fn looped(before: usize, span: usize, times: usize) -> Vec<u32> {
        let before = (1_000_000..).take(before);
        let span = (0..u32::try_from(span).unwrap()).cycle().take(span * times);
        before.chain(span).collect()
    }

    #[test]
    fn a_loop_is_noticed_with_its_span_and_count() {
        for (span, times) in [(1, 160), (1, 500), (7, 23), (40, 4), (40, 9), (256, 4)] {
            assert_eq!(
                repetition(&looped(9, span, times)),
                Some(Repetition { span, times }),
                "{span} x {times}"
            );
            // In the middle of the next round, too.
            let mut ids = looped(9, span, times + 1);
            ids.pop();
            assert_eq!(repetition(&ids), Some(Repetition { span, times }), "{span} x {times} and a rest");
        }
    }

    #[test]
    fn little_of_it_and_what_is_broken_off_is_none() {
        for (span, times) in [(1, 159), (7, 22), (40, 3), (257, 5)] {
            assert_eq!(repetition(&looped(9, span, times)), None, "{span} x {times}");
        }
        let mut ids = looped(9, 7, 100);
        ids.push(5_000_000);
        assert_eq!(repetition(&ids), None);
        assert_eq!(repetition(&[]), None);
        // Almost the same each time: a table whose numbers count up.
        let table: Vec<u32> = (0..100).flat_map(|row| [1, 2, 3, 100 + row, 4]).collect();
        assert_eq!(repetition(&table), None);
    }

    /// Word by word, at every point at which a model that writes these texts could be looked at.
    #[test]
    fn tables_and_code_are_no_loop() {
        let grid =
            format!("| a | b |\n|{}|{}|\n{}", "-".repeat(70), "-".repeat(70), "| x | 0 |\n".repeat(15));
        let zeros = format!("let zeros = [{}];", "0.0, ".repeat(30));
        for text in [
            include_str!("../../README.md"),
            include_str!("parse.rs"),
            include_str!("render/tests.rs"),
            &grid,
            &zeros,
        ] {
            let mut known: Vec<&str> = Vec::new();
            let mut ids = Vec::new();
            for word in text.split_word_bounds() {
                let id = known.iter().position(|other| *other == word).unwrap_or(known.len());
                if id == known.len() {
                    known.push(word);
                }
                ids.push(u32::try_from(id).unwrap());
                assert_eq!(repetition(&ids), None, "after {:?}", &ids[ids.len().saturating_sub(9)..]);
            }
        }
    }
}
