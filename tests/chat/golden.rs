//! Prompts and outputs whose ids are known from elsewhere.

use dormouse::chat::{Markers, Parser, encode, messages_from_openai, render};
use dormouse::protocol::{Conversation, Message, Part, Thinking};
use serde::Deserialize;

use super::{nano, read, tiny};

#[derive(Deserialize)]
struct Chat {
    prompt_ids: Vec<u32>,
}

#[derive(Deserialize)]
struct Sample {
    prompt: Vec<u32>,
    greedy: Vec<u32>,
    text: String,
}

fn samples() -> Vec<Sample> {
    let samples: Vec<Sample> = serde_json::from_slice(&read("tests/fixtures/nano/golden.json")).unwrap();
    assert_eq!(samples.len(), 12);
    samples
}

/// Awkward texts, and their ids as `tests/fixtures/nano/encode.py` computed them with `tiktoken`.
#[test]
fn awkward_texts_have_the_ids_of_an_independent_tokenizer() {
    #[derive(Deserialize)]
    struct Case {
        text: String,
        ids: Vec<u32>,
    }
    let cases: Vec<Case> = serde_json::from_slice(&read("tests/fixtures/nano/encode.json")).unwrap();
    let tokenizer = nano();
    assert_eq!(cases.len(), 25);
    for Case { text, ids } in cases {
        assert_eq!(tokenizer.encode(&text), ids, "{text:?}");
        assert_eq!(tokenizer.decode(&ids), text);
    }
}

#[test]
fn the_tiny_conversation_renders_to_its_prompt_ids() {
    let messages = messages_from_openai(&read("tests/fixtures/tiny/golden/chat.messages.json")).unwrap();
    let golden: Chat = serde_json::from_slice(&read("tests/fixtures/tiny/golden/chat.json")).unwrap();
    let conversation = Conversation { messages, thinking: Thinking::Low, ..Conversation::default() };
    assert_eq!(encode(&tiny(), &render(&conversation).unwrap()), golden.prompt_ids);
}

#[test]
fn the_texts_of_the_small_model_are_their_ids() {
    let tokenizer = nano();
    for sample in samples() {
        assert_eq!(tokenizer.decode(&sample.greedy), sample.text);
        for ids in [&sample.prompt, &sample.greedy] {
            let text = tokenizer.decode(ids);
            assert_eq!(tokenizer.decode(&tokenizer.encode_with_specials(&text)), text);
        }
    }
}

/// What the model wrote, parsed, kept and rendered again as history, is what it wrote: the next prompt strictly extends
/// what the model has already read, so that its state can be used again.
#[test]
fn history_renders_to_the_ids_that_were_generated() {
    let tokenizer = nano();
    let markers = Markers::of(&tokenizer).unwrap();
    let mut whole = 0;
    for sample in samples() {
        let prompt = tokenizer.decode(&sample.prompt);
        let thinking = if prompt.ends_with("<|open|>think<|sep|>") { Thinking::Low } else { Thinking::Off };
        let (mut thoughts, mut answer) = (String::new(), String::new());
        let mut parser = Parser::new(markers, thinking);
        let mut parts: Vec<Part> = sample.greedy.iter().flat_map(|&id| parser.push(&tokenizer, id)).collect();
        parts.extend(parser.finish());
        for part in parts {
            match part {
                Part::Thinking(text) => thoughts += &text,
                Part::Answer(text) => answer += &text,
                Part::ToolCall(call) => panic!("{call:?}"),
            }
        }
        assert!(!answer.contains("<|") && !thoughts.contains("<|"));
        assert_eq!(thoughts.is_empty(), thinking == Thinking::Off);
        if !sample.greedy.ends_with(&[markers.end_of_message]) {
            continue;
        }
        whole += 1;
        let said = Message::Assistant {
            name: None,
            thinking: thoughts,
            content: vec![answer],
            tool_calls: Vec::new(),
        };
        let conversation = Conversation {
            messages: vec![said, Message::user("Go on")],
            thinking,
            ..Conversation::default()
        };
        let ids = encode(&tokenizer, &render(&conversation).unwrap());
        assert!(
            ids.windows(sample.greedy.len()).any(|window| window == sample.greedy),
            "{:?} is not in {:?}",
            sample.text,
            tokenizer.decode(&ids)
        );
    }
    assert!(whole >= 6, "only {whole} samples are whole");
}
