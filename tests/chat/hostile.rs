//! Text that tries to be markers, output that is noise, files that are damaged.

use std::path::Path;

use dormouse::chat::{Markers, Parser, Transcript, encode, messages_from_openai, render};
use dormouse::protocol::{Conversation, Message, Part, Thinking, TurnId};
use dormouse::tokenizer::{Decoder, Tokenizer};
use proptest::prelude::*;

use super::{nano, read, repeatable, tiny};

/// Pieces that hostile text is made of: whole and half markers, names of other reserved ids, and awkward characters.
fn hostile_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "<|open|>",
            "<|close|>",
            "<|sep|>",
            "<|end_of_msg|>",
            "[EOS]",
            "[BOS]",
            "<|reserved_token_520|>",
            "<|",
            "|>",
            "<|op",
            "en|>",
            "<",
            "|",
            ">",
            "message",
            "think",
            " role=\"system\"",
            "\"",
            "&quot;",
            "&amp;",
            "```",
            "`",
            "\n",
            "\n\n",
            "\u{0}",
            "\u{1b}[2J",
            "\u{202e}",
            "\u{fffd}",
            "你",
            "🎉",
            "e\u{301}",
            "\u{1c}",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,6}",
    ];
    prop::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat())
}

fn specials(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<u32> {
    ids.iter().copied().filter(|&id| tokenizer.is_special(id)).collect()
}

/// The same conversation with these texts in every place where text of others goes.
fn conversation(texts: &[String; 4]) -> Conversation {
    let [system, user, thinking, answer] = texts.each_ref().map(Clone::clone);
    Conversation {
        messages: vec![
            Message::System { name: Some(user.clone() + "n"), content: vec![system.clone()], tools: None },
            Message::User { name: None, content: vec![user.clone(), system] },
            Message::Assistant {
                name: None,
                thinking,
                content: vec![answer.clone()],
                tool_calls: Vec::new(),
            },
            Message::Tool { name: Some(format!("t{answer}")), call_id: None, content: vec![user] },
        ],
        thinking: Thinking::High,
        ..Conversation::default()
    }
}

proptest! {
    #![proptest_config(repeatable())]

    #[test]
    fn no_text_can_forge_a_marker(texts in prop::array::uniform4(hostile_text())) {
        thread_local!(static TOKENIZER: Tokenizer = tiny());
        TOKENIZER.with(|tokenizer| {
            let segments = render(&conversation(&texts)).unwrap();
            let ids = encode(tokenizer, &segments);
            let empty = encode(tokenizer, &render(&conversation(&Default::default())).unwrap());
            prop_assert_eq!(specials(tokenizer, &ids), specials(tokenizer, &empty));
            let text: String = segments.iter().map(|segment| segment.text.as_str()).collect();
            prop_assert_eq!(tokenizer.decode(&ids), text);
            Ok(())
        })?;
    }

    #[test]
    fn both_ways_to_encode_keep_every_character(text in hostile_text()) {
        thread_local!(static TOKENIZER: Tokenizer = tiny());
        TOKENIZER.with(|tokenizer| {
            let ids = tokenizer.encode(&text);
            prop_assert!(specials(tokenizer, &ids).is_empty());
            prop_assert_eq!(tokenizer.decode(&ids), text.clone());
            let ids = tokenizer.encode_with_specials(&text);
            prop_assert_eq!(tokenizer.decode(&ids), text.clone());
            let markers = ["<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>", "[EOS]", "[BOS]"];
            if markers.iter().any(|marker| text.contains(marker)) {
                prop_assert!(!specials(tokenizer, &ids).is_empty());
            }
            // Token by token it is the same text.
            let mut decoder = Decoder::default();
            let mut streamed = String::new();
            for id in ids {
                streamed += &decoder.push(tokenizer.token(id).unwrap());
            }
            prop_assert_eq!(streamed + &decoder.finish(), text);
            Ok(())
        })?;
    }

    /// Whatever a model writes, the parser gives text, and the next prompt can be rendered.
    #[test]
    fn no_output_breaks_the_parser_or_the_next_prompt(
        ids in prop::collection::vec(prop_oneof![
            3 => 0_u32..768, 3 => 512_u32..520, 1 => any::<u32>(),
            6 => 1_000_000_u32..1_000_012,
        ], 0..60),
        off in any::<bool>(),
    ) {
        thread_local!(static TOKENIZER: Tokenizer = tiny());
        let words = ["think", "response", "tools", "call tool=\"f\"", "argument key=\"k\" type=\"number\"", "json", "message",
            "<|open|>", "<|close|>", "<|sep|", "```\n", "{\"a\":[1"];
        TOKENIZER.with(|tokenizer| {
            let ids: Vec<u32> = ids.iter().flat_map(|&id| match words.get((id as usize).wrapping_sub(1_000_000)) {
                Some(word) => tokenizer.encode(word),
                None => vec![id],
            }).collect();
            let thinking = if off { Thinking::Off } else { Thinking::Low };
            let mut parser = Parser::new(Markers::of(tokenizer).unwrap(), thinking);
            let mut transcript = Transcript::default();
            transcript.begin(TurnId(1), "hi".to_owned());
            let mut parts: Vec<Part> = ids.iter().flat_map(|&id| parser.push(tokenizer, id)).collect();
            parts.extend(parser.finish());
            for part in parts {
                if let Part::Thinking(text) | Part::Answer(text) = &part {
                    prop_assert!(!text.is_empty());
                }
                transcript.push(TurnId(1), part);
            }
            let prompt = render(&transcript.conversation(thinking)).unwrap();
            prop_assert!(encode(tokenizer, &prompt).len() > 10);
            Ok(())
        })?;
    }

    /// What was rendered as history is read back as it was said.
    #[test]
    fn the_parser_undoes_the_renderer(thinking in "(\\PC|[ \n`])*", answer in "(\\PC|[ \n`])*") {
        prop_assume!(!thinking.contains("<|") && !answer.contains("<|"));
        thread_local!(static TOKENIZER: Tokenizer = tiny());
        TOKENIZER.with(|tokenizer| {
            let said = Message::Assistant {
                name: None, thinking: thinking.clone(), content: vec![answer.clone()], tool_calls: Vec::new(),
            };
            let ids = encode(tokenizer, &render(&Conversation { messages: vec![said], ..Conversation::default() }).unwrap());
            // Behind the second `<|open|>` + `think` + `<|sep|>` begins what a model would write.
            let head = encode(tokenizer, &render(&Conversation::default()).unwrap());
            let mut parser = Parser::new(Markers::of(tokenizer).unwrap(), Thinking::Low);
            let (mut thoughts, mut text) = (String::new(), String::new());
            for part in ids[head.len()..].iter().flat_map(|&id| parser.push(tokenizer, id)) {
                match part {
                    Part::Thinking(piece) => thoughts += &piece,
                    Part::Answer(piece) => text += &piece,
                    Part::ToolCall(call) => prop_assert!(false, "{call:?}"),
                }
            }
            let is_blank = thinking.chars().all(|c| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c));
            prop_assert_eq!(thoughts, if is_blank { String::new() } else { thinking });
            prop_assert_eq!(text, answer);
            Ok(())
        })?;
    }

    #[test]
    fn no_bytes_break_the_reader_of_messages(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = messages_from_openai(&bytes);
    }
}

#[test]
fn every_id_of_the_vocabulary_decodes() {
    for tokenizer in [tiny(), nano()] {
        let len = u32::try_from(tokenizer.len()).unwrap();
        for id in 0..len {
            assert!(!tokenizer.token(id).unwrap().is_empty());
            assert_eq!(tokenizer.is_special(id), id >= len - 256);
        }
        for id in len - 256..len {
            let name = tokenizer.decode(&[id]);
            assert_eq!(tokenizer.special(&name), Some(id), "{name}");
            assert_eq!(
                tokenizer.encode_with_specials(&format!("a{name}b")).iter().filter(|&&i| i == id).count(),
                1
            );
        }
        assert_eq!(tokenizer.decode(&[len - 200]), format!("<|reserved_token_{}|>", len - 200));
        for id in [len, len + 7, u32::MAX] {
            assert!(tokenizer.token(id).is_none() && !tokenizer.is_special(id));
            assert_eq!(tokenizer.decode(&[id]), "");
        }
    }
}

/// A copy of the tiny checkpoint's tokenizer in which `file` was changed.
fn damaged(file: &str, change: impl FnOnce(&Path, Vec<u8>)) -> String {
    let dir = tempfile::tempdir().unwrap();
    for name in ["tiktoken.model", "tokenizer_config.json"] {
        std::fs::write(dir.path().join(name), read(&format!("tests/fixtures/tiny/{name}"))).unwrap();
    }
    let path = dir.path().join(file);
    let bytes = std::fs::read(&path).unwrap();
    change(&path, bytes);
    Tokenizer::load(dir.path(), 768).unwrap_err().to_string()
}

#[test]
fn damaged_files_are_refused_by_name() {
    for (file, limit) in [("tiktoken.model", 64 << 20), ("tokenizer_config.json", 8 << 20)] {
        let error = damaged(file, |path, _| std::fs::remove_file(path).unwrap());
        assert!(error.contains("cannot open") && error.contains(file), "{error}");
        let error = damaged(file, |path, _| std::fs::File::create(path).unwrap().set_len(limit + 1).unwrap());
        assert!(error.contains(file) && error.contains("more than"), "{error}");
        let error = damaged(file, |path, bytes| std::fs::write(path, &bytes[..bytes.len() / 2]).unwrap());
        assert!(error.contains(file) && error.contains("expected"), "{error}");
        let error = damaged(file, |path, _| std::fs::write(path, b"").unwrap());
        assert!(error.contains(file) && error.contains("expected"), "{error}");
        // Half a megabyte of noise.
        let noise: Vec<u8> = (0..500_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let error = damaged(file, |path, _| std::fs::write(path, noise).unwrap());
        assert!(error.contains(file) && error.contains("expected") && error.len() < 600, "{error}");
    }
}

#[test]
fn the_vocabulary_must_be_the_one_of_the_config() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny");
    for (vocabulary, message) in [
        (769, "tiktoken.model: expected 513 ranks (`vocab_size` less 256), found 512; rank 512 is missing"),
        (
            767,
            "tiktoken.model, line 512: expected a rank from 0 to 510 (`vocab_size` less 256 reserved ids), found \"511\"",
        ),
        (511, "config.json: `vocab_size` must be at least 512"),
        (0, "config.json: `vocab_size` must be at least 512"),
        (usize::MAX, "config.json: `vocab_size` must be"),
        (4_294_000_000, "tiktoken.model: expected 4293999744 ranks"),
    ] {
        let error = Tokenizer::load(&dir, vocabulary).unwrap_err().to_string();
        assert!(error.contains(message), "{error}\nnot: {message}");
    }
}
