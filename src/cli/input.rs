//! What a headless run reads as its prompt.

use std::io::Read;
use std::path::Path;

use super::args::Run;
use crate::chat;
use crate::protocol::{Conversation, ExitCode, Message, Prompt, Thinking, UserError};
use crate::sys::file;
use crate::units::Bytes;

/// Far above what any context holds.
const LIMIT: u64 = 64 << 20;

/// The prompt that was asked for. Files are read here, before anything is loaded.
pub(super) fn prompt(run: &Run, thinking: Thinking) -> Result<Prompt, UserError> {
    let of_text = |text: String| {
        if run.raw { Prompt::Raw(text) } else { conversation(vec![Message::user(text)], thinking) }
    };
    if let Some(list) = &run.ids {
        return ids(list).map(Prompt::Ids);
    }
    if let Some(path) = &run.messages {
        let messages = chat::messages_from_openai(&read(path)?).map_err(|error| {
            UserError::new(
                ExitCode::Usage,
                "The messages cannot be read",
                format!("{}: {error}", path.display()),
            )
        })?;
        return Ok(conversation(messages, thinking));
    }
    Ok(of_text(message(run)?))
}

/// The message of the user, typed or from a file.
pub(super) fn message(run: &Run) -> Result<String, UserError> {
    let Some(path) = &run.prompt_file else { return Ok(run.prompt.clone().unwrap_or_default()) };
    String::from_utf8(read(path)?).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        let detail = format!("{} is not UTF-8 from byte {place} on", path.display());
        UserError::new(ExitCode::Usage, "The prompt cannot be read", detail)
    })
}

fn conversation(messages: Vec<Message>, thinking: Thinking) -> Prompt {
    Prompt::Chat(Conversation { messages, thinking, ..Conversation::default() })
}

fn read(path: &Path) -> Result<Vec<u8>, UserError> {
    let unreadable = |detail: String| UserError::new(ExitCode::Usage, "The prompt cannot be read", detail);
    if path != Path::new("-") {
        return file::read_small(path, LIMIT).map_err(|error| unreadable(error.to_string()));
    }
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(LIMIT + 1).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(format!("standard input: {error}")))?;
    if bytes.len() as u64 > LIMIT {
        return Err(unreadable(format!("standard input is longer than {}", Bytes(LIMIT))));
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
    fn a_prompt_file_must_be_text() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("prompt");
        std::fs::write(&path, b"ab\xff").unwrap();
        let error = prompt(&Run { prompt_file: Some(path), ..Run::default() }, Thinking::Low).unwrap_err();
        assert!(error.detail.ends_with("is not UTF-8 from byte 2 on"), "{error}");
    }
}
