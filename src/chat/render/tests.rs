//! The worked examples of the spec, section 3.6, to the byte, and what else sections 3.2 and 3.3 ask for.

use serde_json::{Map, json};

use super::*;

const EFFORT: &str = "<|open|>message role=\"system\" type=\"thinking-effort\"<|sep|>`thinking_effort` guides on how much \
                      to think in your thinking channel (not including the response channel), supported values include \
                      `low`, `medium`, `high`, and `max`.\nNow the system is invoked with `thinking_effort=EFFORT`.\
                      <|close|>message<|sep|><|end_of_msg|>";
const ASK: &str = "<|open|>message role=\"assistant\"<|sep|><|open|>think<|sep|>";

fn effort(value: &str) -> String {
    EFFORT.replace("EFFORT", value)
}

fn system(text: &str) -> Message {
    Message::System { name: None, content: vec![text.to_owned()], tools: None }
}

fn assistant(thinking: &str, answer: &str, tool_calls: Vec<ToolCall>) -> Message {
    Message::Assistant {
        name: None,
        thinking: thinking.to_owned(),
        content: vec![answer.to_owned()],
        tool_calls,
    }
}

fn call(id: Option<&str>, name: &str, arguments: Arguments) -> ToolCall {
    ToolCall { id: id.map(str::to_owned), name: name.to_owned(), arguments }
}

fn object(value: &Value) -> Arguments {
    Arguments::Object(value.as_object().unwrap().clone())
}

fn result(name: Option<&str>, call_id: Option<&str>, text: &str) -> Message {
    Message::Tool {
        name: name.map(str::to_owned),
        call_id: call_id.map(str::to_owned),
        content: vec![text.to_owned()],
    }
}

fn conversation(thinking: Thinking, messages: Vec<Message>) -> Conversation {
    Conversation { messages, thinking, ..Conversation::default() }
}

fn concat(segments: &[Segment]) -> String {
    segments.iter().map(|segment| segment.text.as_str()).collect()
}

fn text(conversation: &Conversation) -> String {
    concat(&render(conversation).unwrap())
}

#[test]
fn example_a_one_turn_at_full_effort() {
    let prompt = text(&conversation(Thinking::Max, vec![Message::user("Name two primes.")]));
    let user = "<|open|>message role=\"user\"<|sep|>Name two primes.<|close|>message<|sep|><|end_of_msg|>";
    assert_eq!(prompt, effort("max") + user + ASK);
}

#[test]
fn example_b_system_and_user_without_thinking() {
    let messages = vec![system("Answer in one word."), Message::user("Sky colour?")];
    assert_eq!(
        text(&conversation(Thinking::Off, messages)),
        "<|open|>message role=\"system\"<|sep|>Answer in one word.<|close|>message<|sep|><|end_of_msg|><|open|>message \
         role=\"user\"<|sep|>Sky colour?<|close|>message<|sep|><|end_of_msg|><|open|>message \
         role=\"assistant\"<|sep|><|open|>response<|sep|>"
    );
}

#[test]
fn examples_c_and_d_history_with_its_thinking_and_without() {
    let messages =
        vec![Message::user("2+2?"), assistant("Simple sum.", "4", Vec::new()), Message::user("Double it.")];
    assert_eq!(
        text(&conversation(Thinking::Low, messages.clone())),
        effort("low")
            + "<|open|>message role=\"user\"<|sep|>2+2?<|close|>message<|sep|><|end_of_msg|><|open|>message \
               role=\"assistant\"<|sep|><|open|>think<|sep|>Simple sum.<|close|>think<|sep|><|open|>response<|sep|>4\
               <|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|><|open|>message role=\"user\"<|sep|>Double \
               it.<|close|>message<|sep|><|end_of_msg|>"
            + ASK
    );
    assert_eq!(
        text(&conversation(Thinking::Off, messages)),
        "<|open|>message role=\"user\"<|sep|>2+2?<|close|>message<|sep|><|end_of_msg|><|open|>message \
         role=\"assistant\"<|sep|><|open|>response<|sep|>4<|close|>response<|sep|><|close|>message<|sep|>\
         <|end_of_msg|><|open|>message role=\"user\"<|sep|>Double it.<|close|>message<|sep|><|end_of_msg|><|open|>message \
         role=\"assistant\"<|sep|><|open|>response<|sep|>"
    );
}

#[test]
fn example_e_a_tool_and_its_result() {
    let arguments = object(&json!({"port": "Brest", "hours": 6}));
    let mut conversation = conversation(
        Thinking::High,
        vec![
            Message::user("Tide at Brest for 6 h?"),
            assistant("Call the tool.", "", vec![call(None, "get_tide", arguments)]),
            result(None, None, "{\"m\": 4.2}"),
        ],
    );
    conversation.tools = Some(json!([{"type": "function", "function": {
        "name": "get_tide",
        "description": "Tide height at a port.",
        "parameters": {
            "type": "object",
            "properties": {"port": {"type": "string"}, "hours": {"type": "integer"}},
            "required": ["port"],
        },
    }}]));
    assert_eq!(
        text(&conversation),
        "<|open|>message role=\"system\" type=\"tool-declare\"<|sep|># Tools\nHere are the available tools, described in \
         JSONSchema.\n\n```json\n[{\"function\":{\"description\":\"Tide height at a port.\",\"name\":\"get_tide\",\
         \"parameters\":{\"properties\":{\"hours\":{\"type\":\"integer\"},\"port\":{\"type\":\"string\"}},\"required\":\
         [\"port\"],\"type\":\"object\"}},\"type\":\"function\"}]\n```<|close|>message<|sep|><|end_of_msg|>"
            .to_owned()
            + &effort("high")
            + "<|open|>message role=\"user\"<|sep|>Tide at Brest for 6 h?<|close|>message<|sep|><|end_of_msg|><|open|>\
               message role=\"assistant\"<|sep|><|open|>think<|sep|>Call the tool.<|close|>think<|sep|><|open|>response\
               <|sep|><|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool=\"get_tide\" index=\"1\"<|sep|>\
               <|open|>argument key=\"port\" type=\"string\"<|sep|>Brest<|close|>argument<|sep|><|open|>argument \
               key=\"hours\" type=\"number\"<|sep|>6<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>\
               <|close|>message<|sep|><|end_of_msg|><|open|>message role=\"tool\" tool=\"get_tide\" index=\"1\"<|sep|>\
               {\"m\": 4.2}<|close|>message<|sep|><|end_of_msg|>"
            + ASK
    );
}

#[test]
fn example_f_names_are_escaped_and_bodies_are_not() {
    let asked = "Say <|end_of_msg|> & \"hi\"";
    let messages = vec![
        Message::User { name: Some("A \"B\" & C".to_owned()), content: vec![asked.to_owned()] },
        assistant(" \n\u{1c}", "ok", Vec::new()),
        Message::user("Go on"),
    ];
    let segments = render_with(&conversation(Thinking::Low, messages), None).unwrap();
    assert_eq!(
        concat(&segments),
        "<|open|>message role=\"user\" name=\"A &quot;B&quot; &amp; C\"<|sep|>Say <|end_of_msg|> & \"hi\"\
         <|close|>message<|sep|><|end_of_msg|><|open|>message role=\"assistant\"<|sep|><|open|>think<|sep|>\
         <|close|>think<|sep|><|open|>response<|sep|>ok<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>\
         <|open|>message role=\"user\"<|sep|>Go on<|close|>message<|sep|><|end_of_msg|>"
            .to_owned()
            + ASK
    );
    assert!(segments.contains(&Segment { text: asked.to_owned(), special: false }));
}

#[test]
fn example_g_the_segments_of_a_small_prompt() {
    let segments = render_with(&conversation(Thinking::Low, vec![Message::user("Hi")]), None).unwrap();
    let marker = |text: &str| Segment { text: text.to_owned(), special: true };
    let plain = |text: &str| Segment { text: text.to_owned(), special: false };
    let message = |role: &str| {
        [
            marker("<|open|>"),
            plain("message"),
            plain(" role"),
            plain("=\""),
            plain(role),
            plain("\""),
            marker("<|sep|>"),
        ]
    };
    let mut expected = Vec::from(message("user"));
    expected.extend([
        plain("Hi"),
        marker("<|close|>"),
        plain("message"),
        marker("<|sep|>"),
        marker("<|end_of_msg|>"),
    ]);
    expected.extend(message("assistant"));
    expected.extend([marker("<|open|>"), plain("think"), marker("<|sep|>")]);
    assert_eq!(segments, expected);
}

#[test]
fn every_part_of_a_text_is_a_segment_and_empty_ones_are_none() {
    let content = vec!["a".to_owned(), String::new(), "b".to_owned()];
    let messages = vec![Message::User { name: Some(String::new()), content }];
    let segments = render(&conversation(Thinking::Off, messages)).unwrap();
    assert_eq!(concat(&segments[..7]), "<|open|>message role=\"user\"<|sep|>");
    assert_eq!((segments[7].text.as_str(), segments[8].text.as_str()), ("a", "b"));
    assert!(segments.iter().all(|segment| !segment.text.is_empty()));
}

#[test]
fn choices_and_formats_are_announced_behind_the_messages() {
    let mut asked = conversation(Thinking::Off, vec![]);
    let announced = |asked: &Conversation| {
        let prompt = text(asked);
        prompt
            .strip_suffix("<|open|>message role=\"assistant\"<|sep|><|open|>response<|sep|>")
            .unwrap()
            .to_owned()
    };
    assert_eq!(announced(&asked), "");
    asked.tool_choice = ToolChoice::Required;
    let required = "<|open|>message role=\"system\" type=\"tool-choice\"<|sep|>The system is invoked with \
                    `tool_choice=required`.\nYou MUST call tools in the next message.<|close|>message<|sep|>\
                    <|end_of_msg|>";
    assert_eq!(announced(&asked), required);
    asked.response_format =
        ResponseFormat::JsonSchema(json!({"type": "object", "additionalProperties": false}));
    let schema = "<|open|>message role=\"system\" type=\"response-format\"<|sep|>The system is invoked with \
                  `response_format=json_schema`.\nYour response must be raw JSON data without markdown code blocks \
                  (```json) or any additional formatting.\nThe JSON data must match the following schema:\n```json\n\
                  {\"additionalProperties\":false,\"type\":\"object\"}\n```<|close|>message<|sep|><|end_of_msg|>";
    assert_eq!(announced(&asked), required.to_owned() + schema);
    asked.tool_choice = ToolChoice::None;
    asked.response_format = ResponseFormat::JsonObject;
    assert_eq!(
        announced(&asked),
        "<|open|>message role=\"system\" type=\"tool-choice\"<|sep|>The system is invoked with `tool_choice=none`.\nYou \
         MUST NOT call any tools in the next message.<|close|>message<|sep|><|end_of_msg|><|open|>message \
         role=\"system\" type=\"response-format\"<|sep|>The system is invoked with `response_format=json_object`.\nYour \
         response must be raw JSON data without markdown code blocks (```json) or any additional formatting.\
         <|close|>message<|sep|><|end_of_msg|>"
    );
}

#[test]
fn tools_may_be_added_on_the_way() {
    let more = |tools| Message::System { name: None, content: vec!["ignored".to_owned()], tools };
    let declared = text(&conversation(Thinking::Off, vec![more(Some(json!([{"b": 1, "a": "é"}])))]));
    assert!(
        declared.starts_with(
            "<|open|>message role=\"system\" type=\"tool-declare\"<|sep|>## New Tools Available\nThe system dynamically \
             extends the toolset via lazy-loading.\nYou have access to all existing and extended tools.\nHere are the \
             specs for the extended tools.\n\n```json\n[{\"a\":\"é\",\"b\":1}]\n```<|close|>message<|sep|>"
        ),
        "{declared}"
    );
    // No tools are no declaration.
    for none in [None, Some(Value::Null), Some(json!([]))] {
        assert!(
            text(&conversation(Thinking::Off, vec![more(none.clone())])).contains("<|sep|>ignored<|close|>")
        );
        let asked = Conversation { tools: none, thinking: Thinking::Off, ..Conversation::default() };
        assert!(!text(&asked).contains("tool-declare"));
    }
    let error =
        render(&Conversation { tools: Some(json!({})), ..Conversation::default() }).unwrap_err().to_string();
    assert_eq!(error, "tools: expected a list of declarations, found object");
}

#[test]
fn arguments_of_every_type() {
    let arguments = object(&json!({
        "s": "a \"b\"\n<|close|>", "n": 1.0, "i": -3, "t": true, "z": null, "o": {"k": [1, "é"]}, "a": [], "q\"&": "",
    }));
    let calls = vec![
        call(None, "f", arguments),
        call(None, "g", Arguments::Raw("{\"a\": ".to_owned())),
        call(None, "h", Arguments::Raw(" {\"a\": 1} ".to_owned())),
        call(None, "i", Arguments::Raw("[1]".to_owned())),
        call(None, "j", Arguments::Raw(" ".to_owned())),
        call(None, "k", Arguments::Object(Map::new())),
    ];
    let prompt = text(&conversation(Thinking::Off, vec![assistant("", "", calls)]));
    let argument = |key: &str, kind: &str, value: &str| {
        format!("<|open|>argument key=\"{key}\" type=\"{kind}\"<|sep|>{value}<|close|>argument<|sep|>")
    };
    let tag = |tool: &str, index: usize, body: &str| {
        format!("<|open|>call tool=\"{tool}\" index=\"{index}\"<|sep|>{body}<|close|>call<|sep|>")
    };
    let json = |text: &str| format!("<|open|>json type=\"object\"<|sep|>{text}<|close|>json<|sep|>");
    let all = argument("s", "string", "a \"b\"\n<|close|>")
        + &argument("n", "number", "1.0")
        + &argument("i", "number", "-3")
        + &argument("t", "boolean", "true")
        + &argument("z", "null", "null")
        + &argument("o", "object", "{\"k\": [1, \"é\"]}")
        + &argument("a", "array", "[]")
        + &argument("q&quot;&amp;", "string", "");
    let expected = tag("f", 1, &all)
        + &tag("g", 2, &json("{\"a\": "))
        + &tag("h", 3, &argument("a", "number", "1"))
        + &tag("i", 4, &json("[1]"))
        + &tag("j", 5, "")
        + &tag("k", 6, "");
    assert!(prompt.contains(&format!("<|open|>tools<|sep|>{expected}<|close|>tools<|sep|>")), "{prompt}");
}

/// The tools that speak, in the order of the prompt, as `tool index text`.
fn spoken(messages: Vec<Message>) -> Result<Vec<String>, Error> {
    let prompt = concat(&render(&conversation(Thinking::Off, messages))?);
    let said = prompt.split("<|open|>message role=\"tool\" tool=\"").skip(1).map(|said| {
        let (tool, rest) = said.split_once("\" index=\"").unwrap();
        let (index, rest) = rest.split_once("\"<|sep|>").unwrap();
        format!("{tool} {index} {}", rest.split_once("<|close|>").unwrap().0)
    });
    Ok(said.collect())
}

#[test]
fn tools_speak_in_the_order_of_their_calls() {
    let none = || Arguments::Object(Map::new());
    let calls = || {
        let calls =
            vec![call(Some("x"), "f", none()), call(Some("y"), "g", none()), call(Some("z"), "h", none())];
        assistant("", "", calls)
    };
    // All match: sorted, and named after the calls whatever they call themselves.
    let run = vec![
        calls(),
        result(Some("me"), Some("z"), "3"),
        result(None, Some("x"), "1"),
        result(None, Some("y"), "2"),
    ];
    assert_eq!(spoken(run).unwrap(), ["f 1 1", "g 2 2", "h 3 3"]);
    // One does not: the order stays; own names count, then the call in that place.
    let run = vec![
        calls(),
        result(Some("me"), Some("z"), "3"),
        result(None, Some("w"), "1"),
        result(None, None, "2"),
    ];
    assert_eq!(spoken(run).unwrap(), ["me 1 3", "g 2 1", "h 3 2"]);
    // Counting goes on over other messages, and begins anew after an answer.
    let run = vec![
        calls(),
        result(None, Some("y"), "2"),
        Message::user("wait"),
        result(None, Some("x"), "1"),
        calls(),
        result(None, None, "4"),
    ];
    assert_eq!(spoken(run).unwrap(), ["g 1 2", "f 2 1", "f 1 4"]);
    let error = spoken(vec![Message::user("hi"), result(None, Some("x"), "1")]).unwrap_err().to_string();
    assert_eq!(
        error,
        "message 2, `name`: expected the tool that answers, found none, and no call number 1 before it"
    );
}
