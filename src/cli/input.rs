//! What a headless run reads as its prompt.

use std::fs::File;
use std::io::{Read, stdin};
use std::path::Path;

use super::args::Run;
use crate::chat;
use crate::protocol::{Conversation, ExitCode, Message, Prompt, Thinking, UserError};
use crate::units::Bytes;

/// Far above what any context holds.
const LIMIT: u64 = 64 << 20;

/// The prompt that was asked for. Files are read here, before anything is loaded.
pub(super) fn prompt(run: &Run, thinking: Thinking) -> Result<Prompt, UserError> {
    if let Some(list) = &run.ids {
        return ids(list).map(Prompt::Ids);
    }
    if let Some(path) = &run.messages {
        return Ok(conversation(messages(path)?, thinking));
    }
    let text = message(run)?;
    Ok(if run.raw { Prompt::Raw(text) } else { conversation(vec![Message::user(text)], thinking) })
}

/// The message of the user, typed or from a file.
pub(super) fn message(run: &Run) -> Result<String, UserError> {
    match &run.prompt_file {
        None => says_something(run.prompt.clone().unwrap_or_default()),
        Some(path) => text(path),
    }
}

/// What a file of one prompt among many says: a conversation where its name ends with `.json`, else one message of the
/// user.
pub(super) fn file(path: &Path) -> Result<Vec<Message>, UserError> {
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json")) {
        messages(path)
    } else {
        Ok(vec![Message::user(text(path)?)])
    }
}

fn messages(path: &Path) -> Result<Vec<Message>, UserError> {
    let unreadable = |problem: &dyn std::fmt::Display| {
        let detail = format!("{}: {problem}", path.display());
        UserError::new(ExitCode::Usage, "The messages cannot be read", detail)
    };
    let messages = chat::messages_from_openai(&read(path)?).map_err(|error| unreadable(&error))?;
    if messages.is_empty() { Err(unreadable(&"the list has no message")) } else { Ok(messages) }
}

fn text(path: &Path) -> Result<String, UserError> {
    let text = String::from_utf8(read(path)?).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        let detail = format!("{} is not UTF-8 from byte {place} on", path.display());
        UserError::new(ExitCode::Usage, "The prompt cannot be read", detail)
    })?;
    says_something(text)
}

fn says_something(text: String) -> Result<String, UserError> {
    if text.trim().is_empty() {
        let detail = "the text has nothing in it but white space".to_owned();
        return Err(UserError::new(ExitCode::Usage, "The prompt is empty", detail)
            .with_hint("Ask something, like --prompt 'Tell me a joke.'"));
    }
    Ok(text)
}

fn conversation(messages: Vec<Message>, thinking: Thinking) -> Prompt {
    Prompt::Chat(Conversation { messages, thinking, ..Conversation::default() })
}

fn read(path: &Path) -> Result<Vec<u8>, UserError> {
    let unreadable = |detail: String| UserError::new(ExitCode::Usage, "The prompt cannot be read", detail);
    // Pipes are as good as files here, `--prompt-file <(git diff)` for example, so the length is not known beforehand.
    let (name, source): (_, Box<dyn Read>) = if path == Path::new("-") {
        ("standard input".to_owned(), Box::new(stdin().lock()))
    } else {
        let file = File::open(path);
        let name = path.display().to_string();
        (name.clone(), Box::new(file.map_err(|error| unreadable(format!("cannot open {name}: {error}")))?))
    };
    let mut bytes = Vec::new();
    let read = source.take(LIMIT + 1).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(format!("cannot read {name}: {error}")))?;
    if bytes.len() as u64 > LIMIT {
        return Err(unreadable(format!("{name} is longer than {}", Bytes(LIMIT))));
    }
    // Some editors begin a file with a mark of its encoding, which is no part of the text.
    if bytes.starts_with("\u{feff}".as_bytes()) {
        bytes.drain(..3);
    }
    Ok(bytes)
}

/// `1,2,3`, with spaces where anyone likes them.
fn ids(list: &str) -> Result<Vec<u32>, UserError> {
    let parsed = list.split(',').enumerate().map(|(index, item)| {
        item.trim().parse::<u32>().map_err(|error| {
            let detail = format!(
                "--ids: `{}`, item {} of the list, is not a token id: {error}",
                item.trim(),
                index + 1
            );
            UserError::new(ExitCode::Usage, "Bad token ids", detail).with_hint("Write them like 1,2,3.")
        })
    });
    parsed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_a_list_of_numbers_and_nothing_else() {
        assert_eq!(ids("1, 2,3"), Ok(vec![1, 2, 3]));
        for junk in ["", "1,,2", "1,2,", "1;2", "-1", "1.0", "4294967296", "one"] {
            let error = ids(junk).unwrap_err();
            assert_eq!(error.code, ExitCode::Usage, "{junk}");
            assert!(error.detail.contains("is not a token id"), "{junk}");
        }
    }

    #[test]
    fn text_is_a_turn_of_the_user_or_raw() {
        let run = Run { prompt: Some("Hi".to_owned()), ..Run::default() };
        let Prompt::Chat(conversation) = prompt(&run, Thinking::High).unwrap() else { panic!("not a chat") };
        assert_eq!(conversation.messages, [Message::user("Hi")]);
        assert_eq!(conversation.thinking, Thinking::High);
        assert_eq!(prompt(&Run { raw: true, ..run }, Thinking::Low), Ok(Prompt::Raw("Hi".to_owned())));
    }

    #[test]
    fn a_prompt_says_something() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list.json");
        std::fs::write(&path, "[]").unwrap();
        let blank = Run { prompt: Some(" \n".to_owned()), ..Run::default() };
        for run in [
            Run { raw: true, prompt: blank.prompt.clone(), ..Run::default() },
            blank,
            Run { messages: Some(path), ..Run::default() },
        ] {
            assert_eq!(prompt(&run, Thinking::Low).unwrap_err().code, ExitCode::Usage, "{run:?}");
        }
    }

    #[test]
    fn the_mark_of_an_encoding_is_no_part_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list.json");
        std::fs::write(&path, "\u{feff}[{\"role\": \"user\", \"content\": \"Hi\"}]").unwrap();
        let run = Run { messages: Some(path), ..Run::default() };
        let Ok(Prompt::Chat(conversation)) = prompt(&run, Thinking::Low) else { panic!("not a chat") };
        assert_eq!(conversation.messages, [Message::user("Hi")]);
    }

    #[test]
    fn a_prompt_file_must_be_text() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("prompt");
        std::fs::write(&path, b"ab\xff").unwrap();
        let error = prompt(&Run { prompt_file: Some(path), ..Run::default() }, Thinking::Low).unwrap_err();
        assert!(error.detail.ends_with("is not UTF-8 from byte 2 on"), "{error}");
    }
}
