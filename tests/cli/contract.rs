//! What scripts rely on.

use std::fs;
use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use crate::nano::nano;
use crate::support::{User, object, stderr, stdout};

#[test]
fn the_object_has_the_fields_of_the_contract() {
    let user = User::new();
    let report = user.json("--prompt Hello! --seed 7 --max-tokens 40 --memory 1GiB");
    let ids = |name: &str| -> Vec<u64> {
        report[name].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect()
    };
    assert_eq!(ids("prompt_ids")[..2], [2051, 262]);
    let count = ids("ids").len();
    assert!(count > 0 && count <= 40);
    assert!(!report["text"].as_str().unwrap().is_empty());
    assert!(!report["thinking"].as_str().unwrap().is_empty());
    assert_eq!(report["seed"], 7);
    assert_eq!(report["finish"], "stop");
    assert!(report["timings"]["load_s"].as_f64().unwrap() > 0.0);
    assert!(report["timings"]["prefill_s"].as_f64().unwrap() > 0.0);
    let decode = report["timings"]["decode_s"].as_array().unwrap();
    assert_eq!(decode.len(), count - 1);
    assert!(decode.iter().all(|seconds| seconds.as_f64().unwrap() > 0.0));
    assert!(report["bytes"]["trunk"].as_u64().is_some());
    assert!(report["bytes"]["experts"].as_u64().unwrap() > 0);
    let per_token = report["bytes"]["per_token"].as_array().unwrap();
    assert_eq!(per_token.len(), decode.len());
    for source in ["trunk", "experts"] {
        let sum: u64 = per_token.iter().map(|token| token[source].as_u64().unwrap()).sum();
        // The prompt has read the rest.
        assert!(sum <= report["bytes"][source].as_u64().unwrap(), "{source}");
    }
    let waits = &report["waits"];
    assert_eq!(waits["per_token_s"].as_array().unwrap().len(), decode.len());
    assert!(waits["late"].as_u64().unwrap() + waits["in_time"].as_u64().unwrap() > 0);
    assert_eq!(report["plan"]["budget"], 1 << 30);
    assert_eq!(report["checked"], false);
    assert!(report["reader"] == "direct" || report["reader"] == "buffered");
    let experts = |name: &str| report["experts"][name].as_u64().unwrap();
    assert!(experts("requests") >= experts("resident") && experts("reads") > 0);
    assert_eq!(report["memory"]["budget"], 1 << 30);
    let peak = report["memory"]["peak_rss"].as_u64().unwrap();
    assert!(peak > 0 && peak < 1 << 30, "{peak}");
    // Nothing but these, so that a script knows all of it.
    let mut names: Vec<_> = report.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    let expected = [
        "bytes",
        "checked",
        "experts",
        "finish",
        "ids",
        "memory",
        "plan",
        "prompt_ids",
        "reader",
        "seed",
        "state",
        "text",
        "thinking",
        "timings",
        "took",
        "waits",
    ];
    assert_eq!(names, expected);
}

#[test]
fn ids_give_the_greedy_ids_and_logits_of_the_reference() {
    let user = User::new();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/nano/golden.json");
    let golden: Vec<Value> = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let one = &golden[3];
    let count = one["greedy"].as_array().unwrap().len();
    let file = user.path("logits.f32");
    let arguments = format!(
        "--ids {} --temperature 0 --max-tokens {count} --logits {}",
        list(&one["prompt"]),
        file.display()
    );
    let report = user.json(&arguments);
    assert_eq!(report["ids"], one["greedy"]);
    assert_eq!(report["prompt_ids"], one["prompt"]);

    // One row for the last prompt position, then one for each generated step that was computed.
    let bytes = fs::read(&file).unwrap();
    let rows: Vec<Vec<f32>> = bytes.chunks_exact(2304 * 4).map(|row| floats(row).collect()).collect();
    assert_eq!((rows.len(), bytes.len()), (count, count * 2304 * 4));
    let likeliest = |row: &Vec<f32>| row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).unwrap().0;
    let drawn: Vec<usize> = rows.iter().map(likeliest).collect();
    assert_eq!(json!(drawn), one["greedy"]);
}

/// Another checkpoint of the same kind, with random weights, whose values the released code computed.
#[test]
fn the_released_code_agrees_through_the_program() {
    let user = User::new();
    let tiny = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny");
    let golden = |name: &str| -> Value {
        serde_json::from_slice(&fs::read(tiny.join("golden").join(name)).unwrap()).unwrap()
    };
    let on_tiny = |arguments: &str| {
        let arguments = format!("run {arguments} --model {} --temperature 0 --json", tiny.display());
        object(&user.command(&arguments).output().unwrap())
    };
    let expected = golden("ids.json");
    let file = user.path("logits.f32");
    let report = on_tiny(&format!(
        "--ids {} --max-tokens 24 --logits {}",
        list(&expected["prompt_ids"]),
        file.display()
    ));
    assert_eq!(report["ids"], expected["generated"]);
    let (ours, released) = (fs::read(&file).unwrap(), fs::read(tiny.join("golden/ids.logits.f32")).unwrap());
    assert_eq!(ours.len(), 24 * released.len());
    for (ours, theirs) in floats(&ours).zip(floats(&released)) {
        assert!((ours - theirs).abs() < 1e-3, "{ours} against {theirs}");
    }
    let messages = tiny.join("golden/chat.messages.json");
    let report = on_tiny(&format!("--messages {} --max-tokens 1", messages.display()));
    assert_eq!(report["prompt_ids"], golden("chat.json")["prompt_ids"]);
}

fn list(ids: &Value) -> String {
    ids.as_array().unwrap().iter().map(Value::to_string).collect::<Vec<_>>().join(",")
}

fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
}

#[test]
fn the_stream_is_the_text_of_the_object() {
    let user = User::new();
    let report = user.json("--prompt Tell-me-a-joke. --seed 3");
    let output = user.run("--prompt Tell-me-a-joke. --seed 3");
    assert_eq!(output.status.code(), Some(0));
    let text = report["text"].as_str().unwrap();
    assert_eq!(stdout(&output), format!("{}\n", text.trim_end_matches('\n')));
    assert_eq!(stderr(&output), "", "no progress where nobody watches");
}

#[test]
fn a_limit_that_ends_the_thinking_is_told() {
    let user = User::new();
    let arguments = "--prompt Tell-me-a-joke. --seed 3 --max-tokens 2";
    let output = user.run(arguments);
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), String::new()));
    assert!(
        stderr(&output).contains("a limit was reached while the model was still thinking"),
        "{}",
        stderr(&output)
    );
    let output = user.run(&format!("{arguments} --json"));
    assert_eq!(stderr(&output), "", "the object says it");
    let output = user.run(&format!("{arguments} --think off"));
    assert_eq!(stderr(&output), "", "there is an answer");
}

#[test]
fn threads_memory_and_chunks_change_nothing() {
    let user = User::new();
    let base = "--prompt What-is-the-capital-of-France? --seed 11 --temperature 1 --max-tokens 12";
    let reference = user.json(base);
    for more in [
        "--threads 1",
        "--threads 5",
        "--prefill-chunk 1",
        "--prefill-chunk 7",
        "--memory 200MiB",
        "--preset ultra",
        "--context 300",
        "--reader buffered",
        "--reader mmap",
    ] {
        let report = user.json(&format!("{base} {more}"));
        for field in ["ids", "prompt_ids", "text", "thinking", "seed"] {
            assert_eq!(report[field], reference[field], "{field} with {more}");
        }
    }
    // The smallest budget that is not refused.
    let (report, _) = smallest(&user, base);
    assert_eq!(report["ids"], reference["ids"]);
    let reads = |report: &Value| report["experts"]["reads"].as_u64().unwrap();
    assert!(reads(&report) > reads(&reference), "experts were evicted");
}

/// A run with the smallest budget that is not refused, and that budget in MiB. The refusal says which it is; the
/// program itself takes a little more or less each time, so it may take a second try.
fn smallest(user: &User, arguments: &str) -> (Value, u64) {
    let mut memory = 1;
    loop {
        let output = user.run(&format!("{arguments} --memory {memory}MiB --json"));
        if output.status.code() == Some(0) {
            return (object(&output), memory);
        }
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(4), "{said}");
        let needed =
            said.split("Give it --memory ").nth(1).unwrap().split("MiB").next().unwrap().parse().unwrap();
        assert!(needed > memory, "{said}");
        memory = needed;
    }
}

#[test]
fn the_budget_is_kept_by_long_prompts_in_large_chunks() {
    let user = User::new();
    let ids: Vec<String> = (0..500).map(|i| (300 + i % 200).to_string()).collect();
    let prompt = format!("--ids {} --max-tokens 1 --prefill-chunk 500", ids.join(","));
    let (report, memory) = smallest(&user, &prompt);
    let (peak, budget) = (&report["memory"]["peak_rss"], memory << 20);
    assert_eq!(report["memory"]["budget"], budget);
    assert!(peak.as_u64().unwrap() <= budget + budget / 20, "{peak} of {budget}");
}

#[test]
fn raw_text_has_no_format_and_thinking_can_be_off() {
    let user = User::new();
    let raw = user.json("--prompt abc --raw --max-tokens 3 --temperature 0");
    assert!(raw["prompt_ids"].as_array().unwrap().len() <= 3, "{raw}");
    assert_eq!(raw["thinking"], "");
    let marked = user.json("--prompt <|end_of_msg|> --raw --max-tokens 1");
    assert_eq!(marked["prompt_ids"], json!([2050]));
    // In a turn of the user the same characters are text.
    let typed = user.json("--prompt <|end_of_msg|> --max-tokens 1");
    let ends = typed["prompt_ids"].as_array().unwrap().iter().filter(|id| **id == 2050).count();
    let plain = user.json("--prompt hello --max-tokens 1");
    assert_eq!(ends, plain["prompt_ids"].as_array().unwrap().iter().filter(|id| **id == 2050).count());

    let off = user.json("--prompt Hello! --think off --seed 1");
    assert_eq!(off["thinking"], "");
    assert!(!off["text"].as_str().unwrap().is_empty());
}

#[test]
fn files_and_messages_are_prompts_too() {
    let user = User::new();
    let direct = user.json("--prompt Hello! --seed 5");
    fs::write(user.path("prompt"), "Hello!").unwrap();
    fs::write(user.path("messages.json"), r#"[{"role": "user", "content": "Hello!"}]"#).unwrap();
    for (flag, name) in [("--prompt-file", "prompt"), ("--messages", "messages.json")] {
        let report = user.json(&format!("{flag} {} --seed 5", user.path(name).display()));
        assert_eq!(report["prompt_ids"], direct["prompt_ids"], "{flag}");
        assert_eq!(report["text"], direct["text"], "{flag}");
    }
    for place in ["-", "/dev/stdin"] {
        let mut command = user.on_nano(&format!("--prompt-file {place} --seed 5 --json"));
        let file = fs::File::open(user.path("prompt")).unwrap();
        assert_eq!(object(&command.stdin(file).output().unwrap())["text"], direct["text"], "{place}");
        // A pipe, as `--prompt-file <(git diff)` is one.
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"Hello!").unwrap();
        drop(writer);
        assert_eq!(object(&command.stdin(reader).output().unwrap())["text"], direct["text"], "{place}");
    }
}

#[test]
fn control_codes_of_the_model_reach_nobody() {
    let user = User::new();
    // At this temperature tokens come at random, single bytes among them.
    let wild = "--ids 2051,262 --temperature 9 --top-p 1 --max-tokens 100 --seed 4";
    let line = stdout(&user.run(&format!("{wild} --json")));
    assert!(!line.trim_end_matches('\n').contains(char::is_control));
    let report: Value = serde_json::from_str(&line).unwrap();
    let text = report["text"].as_str().unwrap();
    let is_code = |c: char| c.is_control() && c != '\n' && c != '\t';
    assert!(text.contains(is_code), "the model wrote none, so this shows nothing");
    let streamed = stdout(&user.run(wild));
    assert!(!streamed.contains(is_code));
    let expected: String = text.chars().filter(|c| !is_code(*c)).collect();
    assert_eq!(streamed.trim_end_matches('\n'), expected.trim_end_matches('\n'));
}

#[test]
fn a_first_start_lays_out_the_small_model_and_the_next_one_repairs_it() {
    let user = User::new();
    let run = || user.command("run --prompt Hello! --seed 1 --json").output().unwrap();
    let first = run();
    assert_eq!(first.status.code(), Some(0), "{}", stderr(&first));
    let shard = user.bundled().join("model-00003-of-00004.safetensors");
    let mut bytes = fs::read(&shard).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 0xff;
    fs::write(&shard, &bytes).unwrap();
    fs::remove_file(user.bundled().join("config.json")).unwrap();
    let second = run();
    assert_eq!(second.status.code(), Some(0), "{}", stderr(&second));
    assert_eq!(object(&first)["ids"], object(&second)["ids"]);
    let mut elsewhere = user.command("run --prompt Hello! --max-tokens 1");
    elsewhere.env("DORMOUSE_HOME", user.path("elsewhere"));
    assert_eq!(elsewhere.output().unwrap().status.code(), Some(0));
    assert!(user.path("elsewhere/models/dormouse-nano/config.json").exists());
    assert!(fs::read(&shard).unwrap() == fs::read(nano().join("model-00003-of-00004.safetensors")).unwrap());
}

#[test]
fn settings_come_from_file_and_environment_too() {
    let user = User::new();
    fs::create_dir_all(user.path("config/dormouse")).unwrap();
    let config = format!("model = {:?}\nmemory = \"300MiB\"\nthinking = \"off\"\ntemperature = 0\n", nano());
    fs::write(user.path("config/dormouse/config.toml"), config).unwrap();
    let run = |arguments: &str| {
        let mut command = user.command(&format!("run --prompt Hello! --json {arguments}"));
        command.env("DORMOUSE_MEMORY", "400MiB");
        object(&command.output().unwrap())
    };
    let report = run("");
    assert_eq!(report["memory"]["budget"], 400 << 20);
    assert_eq!(report["thinking"], "");
    assert_eq!(run("--memory 500MiB")["memory"]["budget"], 500 << 20);
    // Greedy by the file, so two runs with different seeds agree.
    assert_eq!(run("--seed 1")["ids"], run("--seed 2")["ids"]);
    assert!(!user.path("data").exists(), "the small model is not laid out where another one is named");
}

#[test]
fn help_and_version_are_printed_and_are_no_failure() {
    let user = User::new();
    for (arguments, text) in [
        ("--help", "dormouse run --prompt"),
        ("run --help", "Exit codes:"),
        ("--version", env!("CARGO_PKG_VERSION")),
    ] {
        let output = user.command(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert!(stdout(&output).contains(text), "{arguments}");
    }
}
