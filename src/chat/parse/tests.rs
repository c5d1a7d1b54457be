//! Output as models write it, token by token: well-formed, sloppy and cut.

use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::protocol::{Arguments, ToolCall};

fn tiny() -> Tokenizer {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny");
    Tokenizer::load(&dir, 768).unwrap()
}

/// The ids of output in which `{open}`, `{close}`, `{sep}` and `{end}` are control tokens, and all else is ordinary
/// text, one token a byte: every place is a place to cut.
fn ids(tokenizer: &Tokenizer, output: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    let mut rest = output;
    while !rest.is_empty() {
        let controls = [
            ("{open}", "<|open|>"),
            ("{close}", "<|close|>"),
            ("{sep}", "<|sep|>"),
            ("{end}", "<|end_of_msg|>"),
        ];
        let control =
            controls.into_iter().find_map(|(name, marker)| Some((rest.strip_prefix(name)?, marker)));
        if let Some((tail, marker)) = control {
            ids.extend(tokenizer.special(marker));
            rest = tail;
        } else {
            let byte = &rest.as_bytes()[..1];
            ids.extend((0..512).find(|&id| tokenizer.token(id) == Some(byte)));
            let end = (1..=4).find(|&end| rest.is_char_boundary(end)).unwrap();
            for byte in &rest.as_bytes()[1..end] {
                ids.extend((0..512).find(|&id| tokenizer.token(id) == Some(&[*byte])));
            }
            rest = &rest[end..];
        }
    }
    ids
}

/// What came of it: thinking, answer and calls, and the channel at the end.
#[derive(Debug, Default, PartialEq)]
struct Read {
    thinking: String,
    answer: String,
    calls: Vec<(String, Arguments)>,
}

impl Read {
    fn take(&mut self, parts: Vec<Part>) {
        for part in parts {
            match part {
                Part::Thinking(text) => self.thinking += &text,
                Part::Answer(text) => self.answer += &text,
                Part::ToolCall(ToolCall { name, arguments, .. }) => self.calls.push((name, arguments)),
            }
        }
    }

    /// Everything that may be shown.
    fn shown(&self) -> String {
        format!("{}|{}", self.thinking, self.answer)
    }
}

fn parse_ids(tokenizer: &Tokenizer, ids: &[u32], thinking: Thinking) -> (Read, Channel) {
    let mut parser = Parser::new(Markers::of(tokenizer).unwrap(), thinking);
    let mut read = Read::default();
    for &id in ids {
        read.take(parser.push(tokenizer, id));
    }
    read.take(parser.finish());
    assert!(parser.finish().is_empty() && parser.push(tokenizer, 5).is_empty());
    (read, parser.channel())
}

fn parse(output: &str, thinking: Thinking) -> Read {
    let tokenizer = tiny();
    parse_ids(&tokenizer, &ids(&tokenizer, output), thinking).0
}

fn said(thinking: &str, answer: &str) -> Read {
    Read { thinking: thinking.to_owned(), answer: answer.to_owned(), calls: Vec::new() }
}

const END: &str = "{close}message{sep}{end}";
const CLOSE_THINK: &str = "{close}think{sep}";
const ANSWER: &str = "{open}response{sep}";
const CLOSE_ANSWER: &str = "{close}response{sep}";

#[test]
fn well_formed_output() {
    for (output, thinking, expected) in [
        (format!("hm{CLOSE_THINK}{ANSWER}yes{CLOSE_ANSWER}{END}"), Thinking::Low, said("hm", "yes")),
        (format!("yes{CLOSE_ANSWER}{END}"), Thinking::Off, said("", "yes")),
        (format!("{CLOSE_THINK}{ANSWER}{CLOSE_ANSWER}{END}"), Thinking::Low, said("", "")),
        (
            format!("\n h m \n{CLOSE_THINK}{ANSWER}\n\n y \n{CLOSE_ANSWER}{END}"),
            Thinking::Max,
            said("\n h m \n", "\n\n y \n"),
        ),
        (
            format!("é你🎉{CLOSE_THINK}{ANSWER}👩\u{200d}🚀{CLOSE_ANSWER}{END}"),
            Thinking::Low,
            said("é你🎉", "👩\u{200d}🚀"),
        ),
        (
            format!("hm{CLOSE_THINK}{ANSWER}yes{CLOSE_ANSWER}{END}more{CLOSE_THINK}"),
            Thinking::Low,
            said("hm", "yes"),
        ),
    ] {
        assert_eq!(parse(&output, thinking), expected, "{output}");
    }
}

#[test]
fn sloppy_output_is_understood() {
    for (output, thinking, expected) in [
        // No wrapper around the answer, or none of its ends.
        (format!("hm{CLOSE_THINK}\n\nyes. \n{END}"), Thinking::Low, said("hm", "yes. \n")),
        (format!("hm{CLOSE_THINK}{ANSWER}yes{END}"), Thinking::Low, said("hm", "yes")),
        (format!("hm{ANSWER}yes{CLOSE_ANSWER}{END}"), Thinking::Low, said("hm", "yes")),
        (
            format!("hm{CLOSE_THINK}{ANSWER}yes{CLOSE_ANSWER}\nand no{END}"),
            Thinking::Low,
            said("hm", "yesand no"),
        ),
        ("hm{end}".to_owned(), Thinking::Low, said("hm", "")),
        // A close without its opener, an opener twice.
        (format!("yes{CLOSE_THINK}, no{CLOSE_ANSWER}{END}"), Thinking::Off, said("", "yes, no")),
        (format!("{{open}}think{{sep}}hm{CLOSE_THINK}{ANSWER}yes{END}"), Thinking::Low, said("hm", "yes")),
        (format!("{{open}}think{{sep}}hm{CLOSE_THINK}{ANSWER}yes{END}"), Thinking::Off, said("hm", "yes")),
        (format!("{ANSWER}yes{CLOSE_ANSWER}{END}"), Thinking::Off, said("", "yes")),
        // Tags without their end, or with something else in its place.
        (
            "hm{close}think{open}response{sep}yes{close}response{close}message{end}".to_owned(),
            Thinking::Low,
            said("hm", "yes"),
        ),
        (format!("hm{{close}}think\n\nyes{END}"), Thinking::Low, said("hm", "yes")),
        (format!("hm{{close}}thinkYes{END}"), Thinking::Low, said("hm", "Yes")),
        (format!("hm{CLOSE_THINK}{{open}}response: yes{END}"), Thinking::Low, said("hm", ": yes")),
        (
            "hm{close}think<|sep|>{open}response<|sep|yes{close}response{end}".to_owned(),
            Thinking::Low,
            said("hm", "yes"),
        ),
        (format!("hm{{close}}think \n{{sep}}{ANSWER}yes{{end}}"), Thinking::Low, said("hm", "yes")),
        // Unknown tags vanish, what they hold stays.
        (
            format!("a{{open}}note kind=\"x\"{{sep}}b{{close}}note{{sep}}c{CLOSE_THINK}{ANSWER}yes{END}"),
            Thinking::Low,
            said("abc", "yes"),
        ),
        ("a{sep}b{close}{open}{close}{sep}c{open}, d{end}".to_owned(), Thinking::Off, said("", "abc, d")),
        // A new message begins instead of an end.
        (
            format!(
                "yes{CLOSE_ANSWER}{{close}}message{{sep}}{{open}}message role=\"assistant\"{{sep}}{ANSWER} no{{end}}"
            ),
            Thinking::Off,
            said("", "yes no"),
        ),
    ] {
        assert_eq!(parse(&output, thinking), expected, "{output}");
    }
}

#[test]
fn markers_in_ordinary_tokens_are_tags_but_never_the_end() {
    let tag = |text: &str| {
        text.replace("{open}", "<|open|>").replace("{close}", "<|close|>").replace("{sep}", "<|sep|>")
    };
    for (output, expected) in [
        (
            tag(&format!("hm{CLOSE_THINK}{ANSWER}yes{CLOSE_ANSWER}{{close}}message{{sep}}<|end_of_msg|>")),
            said("hm", "yes"),
        ),
        (
            "hm<|close|>think<|sep|<|open|>response<|sep|\nyes<|close|>response".to_owned(),
            said("hm", "\nyes"),
        ),
        (format!("hm{CLOSE_THINK}{ANSWER}yes<|close|>{END}"), said("hm", "yes")),
        (format!("hm{CLOSE_THINK}{ANSWER}yes<|close|>response{END}"), said("hm", "yes")),
        (format!("hm{CLOSE_THINK}{ANSWER}yes<|close|>response\n"), said("hm", "yes")),
        (format!("hm<|close|>think\n\n{ANSWER}yes"), said("hm", "yes")),
        (format!("hm{CLOSE_THINK}{ANSWER}yes<|end_of_msg|> and no"), said("hm", "yes and no")),
        // No tag: only the markers go.
        (
            format!(
                "hm{CLOSE_THINK}{ANSWER}a <|open|> b <|close|>marker ends, <|close|>message (x) <|close|>message tags"
            ),
            said("hm", "a  b marker ends, message (x) message tags"),
        ),
        (format!("hm{CLOSE_THINK}{ANSWER}use <|open|>name<|sep|>."), said("hm", "use name.")),
        // In code all is text.
        (
            format!("hm{CLOSE_THINK}{ANSWER}`<|open|>think<|sep|>`\n```\n<|end_of_msg|>\n```\n<|sep|>{END}"),
            said("hm", "`<|open|>think<|sep|>`\n```\n<|end_of_msg|>\n```\n"),
        ),
        // A tag behind a fence that closes ends the code for good.
        (
            "```\nx\n```<|close|>think<|sep|><|open|>response<|sep|>a <|close|>response".to_owned(),
            said("```\nx\n```", "a "),
        ),
        // And what only looks like a marker.
        (
            format!("a <| b |> c <|x|>{CLOSE_THINK}{ANSWER}1 <|2 < 3{CLOSE_ANSWER}{END}"),
            said("a <| b |> c <|x|>", "1 <|2 < 3"),
        ),
        (format!("hm{CLOSE_THINK}{ANSWER}x <|{CLOSE_ANSWER}{END}"), said("hm", "x <|")),
    ] {
        assert_eq!(parse(&output, Thinking::Low), expected, "{output}");
    }
}

#[test]
fn tool_calls_come_whole() {
    let call = "{open}call tool=\"get &quot;x&quot;\" index=\"1\"{sep}{open}argument key=\"s\" type=\"string\"{sep}a `b` \
                <|close|>argument<|sep|>{close}argument{sep}{open}argument key=\"n\" type=\"number\"{sep}1.50{close}argument{sep}\
                {open}argument key=\"b\" type=\"boolean\"{sep}true{close}argument{sep}{open}argument key=\"z\" type=\"null\"{sep}\
                null{close}argument{sep}{open}argument key=\"o\" type=\"object\"{sep}{\"k\": [1]}{close}argument{sep}\
                {open}argument key=\"a\" type=\"array\"{sep}[]{close}argument{sep}{open}argument key=\"bad\" type=\"number\"{sep}\
                six{close}argument{sep}{close}call{sep}";
    let object = |value: &Value| Arguments::Object(value.as_object().unwrap().clone());
    let full = object(&json!({
        "s": "a `b` <|close|>argument<|sep|>", "n": 1.5, "b": true, "z": null, "o": {"k": [1]}, "a": [], "bad": "six",
    }));
    let read = parse(
        &format!(
            "hm{CLOSE_THINK}{ANSWER}yes{CLOSE_ANSWER}{{open}}tools{{sep}}{call}\n{call}{{close}}tools{{sep}}{END}"
        ),
        Thinking::Low,
    );
    assert_eq!(read.shown(), "hm|yes");
    let expected = ("get \"x\"".to_owned(), full);
    assert_eq!(read.calls, [expected.clone(), expected]);

    for (calls, name, arguments) in [
        (
            "{open}call tool=\"f\"{sep}{open}json type=\"object\"{sep}{\"a\": 1}{close}json{sep}{close}call{sep}",
            "f",
            object(&json!({"a": 1})),
        ),
        (
            "{open}call tool=\"f\"{sep}{open}json type=\"object\"{sep}{\"a\": {close}json{sep}{close}call{sep}",
            "f",
            Arguments::Raw("{\"a\": ".to_owned()),
        ),
        ("{open}call tool=\"f\"{sep}{\"a\": 1}{close}call{sep}", "f", object(&json!({"a": 1}))),
        ("{open}call tool=\"f\"{sep}[1]{close}call{sep}", "f", Arguments::Raw("[1]".to_owned())),
        ("{open}call tool=\"f\"{sep}{close}call{sep}", "f", object(&json!({}))),
        // A marker that is spelled in a name is a part of it.
        (
            "{open}call tool=\"<|sep|>f<|open|>\" index=\"1\"{sep}{close}call{sep}",
            "<|sep|>f<|open|>",
            object(&json!({})),
        ),
        // Without closes, without types, and cut.
        (
            "{open}call tool=\"f\"{sep}{open}argument key=\"a\"{sep}x{open}argument key=\"b\" type=\"number\"{sep}2{end}",
            "f",
            object(&json!({"a": "x", "b": 2})),
        ),
        (
            "{open}call tool=\"f\"{sep}{open}argument key=\"a\" type=\"object\"{sep}{\"k\": ",
            "f",
            object(&json!({"a": "{\"k\": "})),
        ),
        (
            "{open}call tool=\"f\"{sep}{open}argument key=\"a\" type=\"string\"{sep}x{close}argu",
            "f",
            object(&json!({"a": "x"})),
        ),
        ("{open}call tool=\"f\"{sep}{open}argument ke", "f", object(&json!({}))),
        ("{open}call{sep}{open}argument key=\"a\"{sep}x{end}", "", object(&json!({"a": "x"}))),
        // With ordinary tokens for the markers: then they count inside an argument too.
        (
            "<|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument key=\"a\" type=\"string\"<|sep|>it's `x<|close|>argument<|sep|><|close|>call<|sep|>",
            "f",
            object(&json!({"a": "it's `x"})),
        ),
    ] {
        for prefix in [
            "{open}tools{sep}",
            "",
            "{close}think{sep}{open}response{sep}yes{close}response{sep}{open}tools{sep}",
        ] {
            let read = parse(&format!("{prefix}{calls}"), Thinking::Low);
            assert_eq!(read.calls, [(name.to_owned(), arguments.clone())], "{calls}");
            assert!(!read.shown().contains('x') && !read.shown().contains("<|"), "{read:?}");
        }
    }
    assert_eq!(parse("{open}call tool=\"get_", Thinking::Low), said("", ""));
    assert_eq!(parse("{open}call{sep}{close}call{sep}", Thinking::Low), said("", ""));
    assert_eq!(parse("{open}argument key=\"a\"{sep}x", Thinking::Off), said("", "x"));
}

#[test]
fn the_channel_tells_where_output_was_cut() {
    let tokenizer = tiny();
    let channel = |output: &str| parse_ids(&tokenizer, &ids(&tokenizer, output), Thinking::Low).1;
    assert_eq!(channel("hm"), Channel::Thinking);
    assert_eq!(channel("hm{close}thi"), Channel::Thinking);
    assert_eq!(channel("hm{open}respon"), Channel::Thinking);
    assert_eq!(channel("hm{end}"), Channel::Thinking);
    assert_eq!(channel("hm{close}think{sep}"), Channel::Between);
    assert_eq!(channel("hm{close}think{sep}yes"), Channel::Answer);
    assert_eq!(channel("hm{close}think{sep}{open}tools{sep}{open}call tool=\"f\"{sep}"), Channel::Tools);
}

/// Output that is cut anywhere shows a beginning of what the whole shows, and never a piece of a marker or tag.
#[test]
fn a_cut_shows_a_beginning_and_no_marker() {
    let tokenizer = tiny();
    for output in [
        format!(
            "h é你 m{CLOSE_THINK}{ANSWER}a <| 🎉 b{CLOSE_ANSWER}{{open}}tools{{sep}}{{open}}call tool=\"f\" index=\"1\"{{sep}}{{open}}argument key=\"k\" type=\"string\"{{sep}}v{{close}}argument{{sep}}{{close}}call{{sep}}{{close}}tools{{sep}}{END}"
        ),
        "h é你 m<|close|>think<|sep|><|open|>response<|sep|>a <| 🎉 b<|close|>response<|sep|".to_owned(),
    ] {
        let ids = ids(&tokenizer, &output);
        let (whole, _) = parse_ids(&tokenizer, &ids, Thinking::Low);
        assert_eq!(whole.shown(), "h é你 m|a <| 🎉 b");
        for cut in 0..=ids.len() {
            let (read, _) = parse_ids(&tokenizer, &ids[..cut], Thinking::Low);
            // A lone `<` is more likely a sign of the text than the beginning of a spelled marker, and is shown.
            let begins =
                |whole: &str, part: &str| whole.starts_with(part.trim_end_matches(['\u{fffd}', '<']));
            assert!(
                begins(&whole.thinking, &read.thinking) && begins(&whole.answer, &read.answer),
                "{read:?} at {cut}"
            );
            assert!(read.thinking.matches('\u{fffd}').count() + read.answer.matches('\u{fffd}').count() <= 1);
        }
    }
}

#[test]
fn text_comes_as_soon_as_it_is_certain() {
    let tokenizer = tiny();
    let mut parser = Parser::new(Markers::of(&tokenizer).unwrap(), Thinking::Low);
    let mut push = |text: &str| {
        let ids = ids(&tokenizer, text);
        let mut read = Read::default();
        for id in ids {
            read.take(parser.push(&tokenizer, id));
        }
        read.shown()
    };
    assert_eq!(push("hm <"), "hm |");
    assert_eq!(push("= 3"), "<= 3|");
    assert_eq!(push("{close}think{sep}{open}response{sep}a"), "|a");
    assert_eq!(push(" b"), "| b");
}
