//! The thread that counts tokens of what is being written: a key never waits for it.

use std::thread;

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::Error;
use super::draft::Draft;
use crate::protocol::{Conversation, Counter};

const NAME: &str = "count";

/// What is to be counted.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// A draft, as a message of the user.
    Message(Draft),
    /// A conversation, to the place where an answer begins.
    Prompt(Box<Conversation>),
}

/// A question. Of several that wait, only the newest for each place is answered.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// Where the answer belongs.
    pub(crate) place: Place,
    /// Which question it is.
    pub(crate) number: u64,
    /// Counts.
    pub(crate) counter: Counter,
    /// What.
    pub(crate) what: What,
}

impl Ask {
    /// Counts.
    pub(crate) fn answer(&self) -> Counted {
        let (mut draft, tokens) = match &self.what {
            What::Message(draft) => (draft.clone(), self.counter.message(&draft.expanded())),
            What::Prompt(conversation) => (Draft::default(), self.counter.prompt(conversation)),
        };
        draft.count_chips(|text| self.counter.text(text));
        Counted { place: self.place, number: self.number, tokens, draft }
    }
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The composer.
    Draft,
    /// The conversation before it.
    History,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) place: Place,
    pub(crate) number: u64,
    pub(crate) tokens: usize,
    /// The draft that was counted, whose chips know their tokens now.
    pub(crate) draft: Draft,
}

/// Starts the thread: questions go in, answers come out. It leaves when nobody can ask any more.
pub(super) fn start() -> Result<(Sender<Ask>, Receiver<Counted>), Error> {
    let (asks, questions) = unbounded();
    let (answers, counted) = unbounded();
    thread::Builder::new()
        .name(NAME.to_owned())
        .spawn(move || serve(&questions, &answers))
        .map_err(|source| Error::Thread { name: NAME, source })?;
    Ok((asks, counted))
}

fn serve(questions: &Receiver<Ask>, answers: &Sender<Counted>) {
    let mut waiting: Vec<Ask> = Vec::new();
    loop {
        if waiting.is_empty() {
            let Ok(ask) = questions.recv() else { return };
            waiting.push(ask);
        }
        for ask in questions.try_iter() {
            waiting.retain(|older| older.place != ask.place);
            waiting.push(ask);
        }
        // The draft is what somebody looks at.
        let next = waiting.iter().position(|ask| ask.place == Place::Draft).unwrap_or(0);
        if answers.send(waiting.remove(next).answer()).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Count;

    struct Letters;

    impl Count for Letters {
        fn text(&self, text: &str) -> usize {
            text.len()
        }

        fn prompt(&self, conversation: &Conversation) -> usize {
            100 + conversation.messages.len()
        }
    }

    #[test]
    fn the_newest_question_of_each_place_is_answered_and_the_draft_first() {
        let (asks, questions) = unbounded();
        let (answers, counted) = unbounded();
        let counter = Counter::new(Letters);
        let ask = |place, number| {
            let what = match place {
                Place::Draft => What::Message(Draft::from("text")),
                Place::History => What::Prompt(Box::default()),
            };
            asks.send(Ask { place, number, counter: counter.clone(), what }).unwrap();
        };
        for number in 1..=3 {
            ask(Place::History, number);
            ask(Place::Draft, 10 + number);
        }
        drop(asks);
        serve(&questions, &answers);
        let all: Vec<Counted> = counted.try_iter().collect();
        assert_eq!(
            all,
            [
                Counted { place: Place::Draft, number: 13, tokens: 1, draft: Draft::from("text") },
                Counted { place: Place::History, number: 3, tokens: 100, draft: Draft::default() }
            ]
        );
    }
}
