//! A conversation in forms that others read.

use std::fmt::Write;
use std::str::FromStr;

use serde_json::{Value, json};

use super::transcript::{Transcript, Turn};
use crate::protocol::Arguments;

/// A form in which a conversation leaves the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Markdown,
    /// A JSON list of messages, as OpenAI has them.
    Messages,
    /// One line of generated ids for each turn.
    Ids,
}

impl Form {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Markdown, Self::Messages, Self::Ids];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Markdown => "markdown",
            Self::Messages => "messages",
            Self::Ids => "ids",
        }
    }

    /// What a file of it is usually called, after the point.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Markdown => "md",
            Self::Messages => "json",
            Self::Ids => "ids",
        }
    }
}

impl FromStr for Form {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|form| form.as_str() == text).ok_or_else(|| {
            format!("`{text}` is no form of a conversation; known are markdown, messages and ids")
        })
    }
}

/// The conversation in this form. Only markdown has the title.
pub fn export(transcript: &Transcript, title: &str, form: Form) -> String {
    match form {
        Form::Markdown => markdown(transcript, title),
        Form::Messages => format!("{:#}\n", messages(transcript)),
        Form::Ids => transcript.turns().iter().map(ids).collect(),
    }
}

/// All branches of a conversation in this form; messages become a list of lists.
pub fn export_all(branches: &[Transcript], title: &str, form: Form) -> String {
    match form {
        Form::Messages => format!("{:#}\n", branches.iter().map(messages).collect::<Value>()),
        Form::Ids => branches.iter().map(|branch| export(branch, title, form)).collect::<Vec<_>>().join("\n"),
        Form::Markdown => {
            let mut text = format!("# {title}\n");
            for (number, branch) in branches.iter().enumerate() {
                if branches.len() > 1 {
                    let _ = write!(text, "\n# Branch {} of {}\n", number + 1, branches.len());
                }
                said(branch, &mut text);
            }
            text
        }
    }
}

fn markdown(transcript: &Transcript, title: &str) -> String {
    let mut text = format!("# {title}\n");
    said(transcript, &mut text);
    text
}

fn said(transcript: &Transcript, text: &mut String) {
    if let Some(system) = &transcript.system {
        let _ = write!(text, "\n## System\n\n{}\n", system.trim());
    }
    for turn in transcript.turns() {
        let _ = write!(text, "\n## You\n\n{}\n\n## Model\n", turn.user.trim());
        if !turn.thinking.is_empty() {
            let _ = write!(text, "\n> {}\n", turn.thinking.trim().replace('\n', "\n> "));
        }
        if !turn.answer.is_empty() {
            let _ = write!(text, "\n{}\n", turn.answer.trim());
        }
        for call in &turn.tool_calls {
            let _ = write!(text, "\nCalls `{}`.\n", call.name);
        }
    }
}

/// The messages of all turns; of a turn that said nothing the user's alone, as the model is shown it.
fn messages(transcript: &Transcript) -> Value {
    let mut all = Vec::new();
    if let Some(system) = &transcript.system {
        all.push(json!({"role": "system", "content": system}));
    }
    for turn in transcript.turns() {
        all.push(json!({"role": "user", "content": turn.user}));
        if !turn.is_silent() {
            all.push(answer(turn));
        }
    }
    Value::from(all)
}

fn answer(turn: &Turn) -> Value {
    let mut message = json!({"role": "assistant", "content": turn.answer});
    if !turn.thinking.is_empty() {
        message["reasoning_content"] = Value::from(turn.thinking.as_str());
    }
    if !turn.tool_calls.is_empty() {
        let calls = turn.tool_calls.iter().map(|call| {
            let arguments = match &call.arguments {
                Arguments::Object(object) => Value::Object(object.clone()).to_string(),
                Arguments::Raw(text) => text.clone(),
            };
            json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
        });
        message["tool_calls"] = calls.collect();
    }
    message
}

fn ids(turn: &Turn) -> String {
    let ids = turn.outcome.as_ref().map_or(&[][..], |outcome| outcome.ids.as_slice());
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::messages_from_openai;
    use crate::protocol::{Finish, Outcome, Part, Thinking, TurnId};

    fn transcript() -> Transcript {
        let mut transcript = Transcript::default();
        transcript.system = Some("Be brief.".to_owned());
        transcript.begin(TurnId(1), "2+2?".to_owned());
        transcript.push(TurnId(1), Part::Thinking("A sum.\nEasy.".to_owned()));
        transcript.push(TurnId(1), Part::Answer("**4**\n".to_owned()));
        transcript.finish(TurnId(1), Outcome { ids: vec![5, 6, 7], ..Outcome::new(Finish::Stop) });
        transcript.begin(TurnId(2), "And?".to_owned());
        transcript.finish(TurnId(2), Outcome::new(Finish::Cancelled));
        transcript
    }

    #[test]
    fn a_person_can_read_it() {
        assert_eq!(
            export(&transcript(), "Sums", Form::Markdown),
            "# Sums\n\n## System\n\nBe brief.\n\n## You\n\n2+2?\n\n## Model\n\n> A sum.\n> Easy.\n\n**4**\n\n## You\n\n\
             And?\n\n## Model\n"
        );
        assert_eq!(export(&transcript(), "Sums", Form::Ids), "5,6,7\n\n");
    }

    #[test]
    fn messages_are_read_back_as_the_conversation_that_they_were() {
        let transcript = transcript();
        let text = export(&transcript, "", Form::Messages);
        let messages = messages_from_openai(text.as_bytes()).unwrap();
        assert_eq!(messages, transcript.conversation(Thinking::Low).messages);
    }
}
