//! What the screen keeps of a conversation: pure data, filled from the engine's events.

use crate::protocol::{Conversation, Finish, Message, Outcome, Part, Thinking, ToolCall, TurnId};

/// A conversation as it was seen: who set it up, and its turns, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    /// What the model is told before everything else.
    pub system: Option<String>,
    turns: Vec<Turn>,
}

/// One question and what came of it.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The name under which the engine speaks of it.
    pub id: TurnId,
    /// What the user wrote.
    pub user: String,
    /// The model's reasoning so far, finished or not.
    pub thinking: String,
    /// The model's answer so far.
    pub answer: String,
    /// The tools it tried to call.
    pub tool_calls: Vec<ToolCall>,
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
        self.turns.push(Turn {
            id,
            user,
            thinking: String::new(),
            answer: String::new(),
            tool_calls: Vec::new(),
            outcome: None,
        });
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
            turn.outcome = Some(outcome);
        }
    }

    /// All turns, oldest first.
    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// The conversation as the model is to read it next.
    ///
    /// It holds what the screen shows, but for turns that are [lost](Turn::is_lost): a prompt that was refused, for its
    /// length for example, would be refused again with every message after it, and whoever sends a question again would
    /// have asked it twice. A turn that was stopped or failed later keeps what it said. Of one that was stopped before
    /// it said anything only the user's message stays: an empty answer would teach the model to be silent, while two
    /// messages of the user in a row are legal in the format, and he has seen his own words on the screen.
    pub fn conversation(&self, thinking: Thinking) -> Conversation {
        let mut messages = Vec::with_capacity(2 * self.turns.len() + 1);
        if let Some(system) = &self.system {
            messages.push(Message::System { name: None, content: vec![system.clone()], tools: None });
        }
        for turn in self.turns.iter().filter(|turn| !turn.is_lost()) {
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
        Conversation { messages, thinking, ..Conversation::default() }
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
