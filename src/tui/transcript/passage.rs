//! What of a conversation can be chosen, and copied.

use super::markdown;
use crate::chat::Turn;
use crate::tui::width;

/// A part of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// What the user wrote.
    Question,
    /// What the model thought.
    Thinking,
    /// What it answered.
    Answer,
    /// A block of code of the answer, counted from 0.
    Code(usize),
}

/// A passage of the conversation: which turn, and which part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) turn: usize,
    pub(crate) passage: Passage,
}

/// The passages of a turn in the order in which they stand, blocks of code after the answer that holds them.
pub(crate) fn passages(turn: &Turn) -> Vec<Passage> {
    let mut out = vec![Passage::Question];
    if !turn.thinking.is_empty() {
        out.push(Passage::Thinking);
    }
    if !turn.answer.trim().is_empty() {
        out.push(Passage::Answer);
        out.extend((0..code_of(turn).len()).map(Passage::Code));
    }
    out
}

/// What a passage says, as it was written: markdown and tabs stay, what a terminal would obey does not.
pub(crate) fn text_of(turn: &Turn, passage: Passage) -> Option<String> {
    let text = match passage {
        Passage::Question => &turn.user,
        Passage::Thinking => &turn.thinking,
        Passage::Answer => &turn.answer,
        Passage::Code(number) => return code_of(turn).into_iter().nth(number),
    };
    Some(width::safe(text.trim_end()))
}

fn code_of(turn: &Turn) -> Vec<String> {
    markdown::code_of(&width::safe(&turn.answer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::Transcript;
    use crate::protocol::{Part, TurnId};

    #[test]
    fn passages_are_what_was_said() {
        let mut transcript = Transcript::default();
        transcript.begin(TurnId(1), "q\u{1b}[2J".to_owned());
        transcript.push(
            TurnId(1),
            Part::Answer("*a*\n\n```make\nx:\n\ty\u{9b}1m\n```\n- b\n\n  ~~~\n  c\n".to_owned()),
        );
        let turn = &transcript.turns()[0];
        let texts: Vec<_> =
            passages(turn).into_iter().map(|passage| text_of(turn, passage).unwrap()).collect();
        assert_eq!(texts, ["q", "*a*\n\n```make\nx:\n\ty\n```\n- b\n\n  ~~~\n  c", "x:\n\ty\n", "c\n"]);
        assert_eq!(text_of(turn, Passage::Code(2)), None);
    }
}
