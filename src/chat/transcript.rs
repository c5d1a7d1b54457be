//! What the screen keeps of a conversation: pure data, filled from the engine's events.

use crate::protocol::{Conversation, Finish, Message, Outcome, Part, Thinking, ToolCall, TurnId};

/// A conversation as it was seen: who set it up, and its turns, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    /// What the model is told before everything else.
    pub system: Option<String>,
    /// So many of the oldest turns are not shown to the model any more.
    pub dropped: usize,
    turns: Vec<Turn>,
}

/// One question and what came of it.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The name under which the engine speaks of it.
    pub id: TurnId,
    /// The turn that it follows; none where it begins the conversation.
    pub follows: Option<TurnId>,
    /// What the user wrote.
    pub user: String,
    /// The model's reasoning so far, finished or not.
    pub thinking: String,
    /// The model's answer so far.
    pub answer: String,
    /// The tools it tried to call.
    pub tool_calls: Vec<ToolCall>,
    /// The ids that were generated for it so far.
    pub ids: Vec<u32>,
    /// How it ended; nothing while it runs.
    pub outcome: Option<Outcome>,
}

impl Turn {
    /// Whether the engine may still have something to say.
    pub const fn is_running(&self) -> bool {
        self.outcome.is_none()
    }

    /// Whether nothing at all came of it.
    pub const fn is_silent(&self) -> bool {
        self.thinking.is_empty() && self.answer.is_empty() && self.tool_calls.is_empty()
    }

    /// Whether the model never took part: it failed before a word came. Nothing of it is part of the conversation.
    pub fn is_lost(&self) -> bool {
        let failed = self.outcome.as_ref().is_some_and(|outcome| outcome.finish == Finish::Error);
        failed && self.is_silent()
    }

    /// Whether it ended before an answer began: a limit, a stop or a failure cut it while it was thinking.
    pub fn is_thinking_unfinished(&self) -> bool {
        let cut = self.outcome.as_ref().is_some_and(|outcome| outcome.finish != Finish::Stop);
        cut && !self.thinking.is_empty() && self.answer.is_empty() && self.tool_calls.is_empty()
    }

    /// Whether its thinking is what there is to read: nothing has followed it.
    pub fn shows_thinking(&self) -> bool {
        let answered = !self.answer.is_empty() || !self.tool_calls.is_empty();
        self.is_thinking_unfinished() || (self.is_running() && !answered)
    }
}

impl Transcript {
    /// Opens a turn with what the user wrote.
    pub fn begin(&mut self, id: TurnId, user: String) {
        let follows = self.turns.last().map(|turn| turn.id);
        self.turns.push(Turn {
            id,
            follows,
            user,
            thinking: String::new(),
            answer: String::new(),
            tool_calls: Vec::new(),
            ids: Vec::new(),
            outcome: None,
        });
    }

    /// Notes a generated id.
    pub fn token(&mut self, id: TurnId, token: u32) {
        if let Some(turn) = self.running(id) {
            turn.ids.push(token);
        }
    }

    /// Opens the last turn again, which is to go on. Gives what it has generated.
    pub fn reopen(&mut self) -> Option<&[u32]> {
        let turn = self.turns.last_mut()?;
        turn.outcome = None;
        Some(&turn.ids)
    }

    /// Takes back what a turn that goes on has said: the engine tells all of it anew.
    pub fn retell(&mut self, id: TurnId) {
        if let Some(turn) = self.running(id) {
            turn.thinking.clear();
            turn.answer.clear();
            turn.tool_calls.clear();
        }
    }

    /// Takes the turns from this place on away.
    pub fn split_off(&mut self, at: usize) -> Vec<Turn> {
        self.turns.split_off(at.min(self.turns.len()))
    }

    /// Puts a turn, which is over, after the others.
    pub fn append(&mut self, turn: Turn) {
        self.turns.push(turn);
    }

    /// Adds a piece of the model's output. One for a turn that is over, or that is not known, is dropped: it is late.
    pub fn push(&mut self, id: TurnId, part: Part) {
        let Some(turn) = self.running(id) else { return };
        match part {
            Part::Thinking(text) => turn.thinking.push_str(&text),
            Part::Answer(text) => turn.answer.push_str(&text),
            Part::ToolCall(call) => turn.tool_calls.push(call),
        }
    }

    /// Closes a turn. What was said until then stays, however it ended.
    pub fn finish(&mut self, id: TurnId, outcome: Outcome) {
        if let Some(turn) = self.running(id) {
            // Fewer are told of a turn that failed before it took up what it had.
            if outcome.ids.len() > turn.ids.len() {
                turn.ids.clone_from(&outcome.ids);
            }
            turn.outcome = Some(outcome);
        }
    }

    /// All turns, oldest first.
    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// The conversation as the model is to read it next.
    ///
    /// It holds what the screen shows, but for the oldest turns where the user has dropped them, and for turns that are
    /// [lost](Turn::is_lost): a prompt that was refused, for its
    /// length for example, would be refused again with every message after it, and whoever sends a question again would
    /// have asked it twice. A turn that was stopped or failed later keeps what it said. Of one that was stopped before
    /// it said anything only the user's message stays: an empty answer would teach the model to be silent, while two
    /// messages of the user in a row are legal in the format, and he has seen his own words on the screen.
    pub fn conversation(&self, thinking: Thinking) -> Conversation {
        let mut conversation = Conversation { messages: Vec::new(), thinking, ..Conversation::default() };
        let messages = &mut conversation.messages;
        if let Some(system) = &self.system {
            messages.push(Message::System { name: None, content: vec![system.clone()], tools: None });
        }
        for turn in self.turns.iter().skip(self.dropped).filter(|turn| !turn.is_lost()) {
            messages.push(Message::user(turn.user.clone()));
            if !turn.is_silent() {
                messages.push(Message::Assistant {
                    name: None,
                    thinking: turn.thinking.clone(),
                    content: vec![turn.answer.clone()],
                    tool_calls: turn.tool_calls.clone(),
                });
            }
        }
        conversation
    }

    /// The conversation as the model read it for the last turn, which is open: up to its message.
    pub fn question(&self, thinking: Thinking) -> Conversation {
        let mut conversation = self.conversation(thinking);
        if self.turns.last().is_some_and(|turn| !turn.is_silent()) {
            conversation.messages.pop();
        }
        conversation
    }

    fn running(&mut self, id: TurnId) -> Option<&mut Turn> {
        self.turns.iter_mut().rev().find(|turn| turn.id == id && turn.is_running())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(finish: Finish) -> Outcome {
        Outcome { seed: 1, ..Outcome::new(finish) }
    }

    #[test]
    fn parts_go_to_their_turn_and_late_ones_nowhere() {
        let mut transcript = Transcript::default();
        transcript.begin(TurnId(1), "2+2?".to_owned());
        transcript.push(TurnId(1), Part::Thinking("A ".to_owned()));
        transcript.push(TurnId(1), Part::Thinking("sum.".to_owned()));
        transcript.push(TurnId(1), Part::Answer("4".to_owned()));
        transcript.push(TurnId(7), Part::Answer("of nobody".to_owned()));
        transcript.finish(TurnId(1), outcome(Finish::Stop));
        transcript.push(TurnId(1), Part::Answer(" late".to_owned()));
        let turn = &transcript.turns()[0];
        assert_eq!((turn.thinking.as_str(), turn.answer.as_str()), ("A sum.", "4"));
        assert!(!turn.is_running() && !turn.is_thinking_unfinished());
        assert_eq!(
            transcript.conversation(Thinking::High),
            Conversation {
                messages: vec![
                    Message::user("2+2?"),
                    Message::Assistant {
                        name: None,
                        thinking: "A sum.".to_owned(),
                        content: vec!["4".to_owned()],
                        tool_calls: Vec::new(),
                    },
                ],
                thinking: Thinking::High,
                ..Conversation::default()
            }
        );
    }

    /// A turn that goes on reads what it read before, and is told what it had said.
    #[test]
    fn a_turn_is_taken_up_again() {
        let mut transcript = Transcript::default();
        transcript.begin(TurnId(1), "first".to_owned());
        let question = transcript.question(Thinking::Low);
        assert_eq!(question, transcript.conversation(Thinking::Low));
        for (id, text) in [(7, "One "), (8, "two")] {
            transcript.token(TurnId(1), id);
            transcript.push(TurnId(1), Part::Answer(text.to_owned()));
        }
        transcript.finish(TurnId(1), outcome(Finish::Error));
        assert_eq!(transcript.reopen(), Some(&[7, 8][..]));
        assert_eq!(transcript.question(Thinking::Low), question);
        assert_eq!(transcript.turns()[0].answer, "One two", "it stays until it is told anew");
        transcript.retell(TurnId(1));
        assert!(transcript.turns()[0].is_silent());
        transcript.finish(TurnId(1), Outcome { ids: vec![7, 8, 9], ..outcome(Finish::Stop) });
        assert_eq!(transcript.turns()[0].ids, [7, 8, 9]);
    }

    #[test]
    fn dropped_turns_are_kept_and_not_shown_to_the_model() {
        let mut transcript = Transcript { system: Some("Be brief.".to_owned()), ..Transcript::default() };
        for (id, text) in [(1, "first"), (2, "second")] {
            transcript.begin(TurnId(id), text.to_owned());
            transcript.push(TurnId(id), Part::Answer("Yes.".to_owned()));
            transcript.finish(TurnId(id), outcome(Finish::Stop));
        }
        transcript.dropped = 1;
        transcript.begin(TurnId(3), "third".to_owned());
        let messages = transcript.conversation(Thinking::Low).messages;
        assert!(matches!(&messages[0], Message::System { .. }));
        assert_eq!((messages.len(), &messages[1]), (4, &Message::user("second")));
        assert_eq!((transcript.turns().len(), transcript.turns()[2].follows), (3, Some(TurnId(2))));
    }

    #[test]
    fn cut_turns_keep_what_they_said_stopped_ones_their_question_and_lost_ones_nothing() {
        let mut transcript = Transcript { system: Some("Be brief.".to_owned()), ..Transcript::default() };
        transcript.begin(TurnId(1), "first".to_owned());
        transcript.push(TurnId(1), Part::Thinking("Let me".to_owned()));
        transcript.finish(TurnId(1), outcome(Finish::Cancelled));
        assert!(transcript.turns()[0].is_thinking_unfinished());
        transcript.begin(TurnId(2), "second".to_owned());
        transcript.finish(TurnId(2), outcome(Finish::Cancelled));
        transcript.begin(TurnId(3), "refused".to_owned());
        transcript.finish(TurnId(3), outcome(Finish::Error));
        transcript.begin(TurnId(4), "broken".to_owned());
        transcript.push(TurnId(4), Part::Answer("Half".to_owned()));
        transcript.finish(TurnId(4), outcome(Finish::Error));
        let lost: Vec<bool> = transcript.turns().iter().map(Turn::is_lost).collect();
        assert_eq!(lost, [false, false, true, false]);
        transcript.begin(TurnId(5), "third".to_owned());
        let said: Vec<String> = transcript
            .conversation(Thinking::Low)
            .messages
            .iter()
            .map(|message| match message {
                Message::System { content, .. } => format!("system {}", content.concat()),
                Message::User { content, .. } => format!("user {}", content.concat()),
                Message::Assistant { thinking, content, .. } => {
                    format!("model {thinking}|{}", content.concat())
                }
                Message::Tool { .. } => "tool".to_owned(),
            })
            .collect();
        assert_eq!(
            said,
            [
                "system Be brief.",
                "user first",
                "model Let me|",
                "user second",
                "user broken",
                "model |Half",
                "user third"
            ]
        );
    }
}
