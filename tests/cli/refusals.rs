//! What is refused: with which exit code, and naming what.

use std::fs::{self, OpenOptions};

use crate::nano::{copy_of_nano, nano};
use crate::support::{User, object, stderr, stdout};

/// Runs, and holds exit code and message against what they should be. Nothing may have panicked.
fn refused(user: &User, arguments: &str, code: i32, names: &str) {
    let output = user.run(arguments);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{arguments}: {message}");
    assert!(message.contains(names), "{arguments}: {message}");
    assert!(!message.contains("panicked"), "{arguments}: {message}");
    assert_eq!(stdout(&output), "", "{arguments}");
}

#[test]
fn bad_usage_is_refused_before_anything_is_loaded() {
    let user = User::new();
    fs::write(user.path("no-json"), "[{").unwrap();
    fs::write(user.path("no-text"), b"\xff\xfe").unwrap();
    fs::write(user.path("no-messages"), r#"[{"role": "wizard", "content": "x"}]"#).unwrap();
    let file = |name: &str| user.path(name).display().to_string();
    for (arguments, names) in [
        (String::new(), "--prompt <TEXT>"),
        ("--prompt a --ids 1".to_owned(), "cannot be used with"),
        ("--ids 1 --raw".to_owned(), "cannot be used with"),
        ("--prompt a --max-tokens abc".to_owned(), "abc"),
        ("--prompt a --max-tokens -3".to_owned(), "-3"),
        ("--prompt a --seed 1.5".to_owned(), "1.5"),
        ("--prompt a --prefill-chunk 0".to_owned(), "at least one token"),
        ("--prompt a --memory nan".to_owned(), "memory = \"nan\" (from --memory)"),
        ("--prompt a --memory -5GiB".to_owned(), "memory = \"-5GiB\" (from --memory)"),
        ("--prompt a --preset huge".to_owned(), "preset = \"huge\" (from --preset)"),
        ("--prompt a --preset laptop --memory 1GiB".to_owned(), "say the same thing"),
        ("--prompt a --preset auto --memory 1GiB".to_owned(), "say the same thing"),
        ("--prompt a --context 0".to_owned(), "context = \"0\" (from --context)"),
        ("--prompt a --context many".to_owned(), "context = \"many\" (from --context)"),
        ("--prompt a --context 4097".to_owned(), "asked for 4097 positions, the model was made for 4096"),
        ("--prompt a --reader telepathy".to_owned(), "reader = \"telepathy\" (from --reader)"),
        ("--prompt a --threads 0".to_owned(), "threads = \"0\" (from --threads)"),
        ("--prompt a --threads 100000".to_owned(), "from 1 to 1024"),
        ("--prompt a --temperature nan".to_owned(), "temperature = \"nan\" (from --temperature)"),
        ("--prompt a --temperature -1".to_owned(), "temperature = \"-1\" (from --temperature)"),
        ("--prompt a --top-p 0".to_owned(), "top_p = \"0\" (from --top-p)"),
        ("--prompt a --top-p 1.1".to_owned(), "above 0 and at most 1"),
        ("--prompt a --think hard".to_owned(), "thinking = \"hard\" (from --think)"),
        ("--ids 1,two,3".to_owned(), "`two`, item 2"),
        ("--ids 5,-1".to_owned(), "`-1`, item 2"),
        ("--ids 5,2304".to_owned(), "token 2 of the prompt is 2304, and ids end at 2303"),
        (format!("--prompt-file {}", file("none")), "none"),
        (format!("--prompt-file {}", file("")), "Is a directory"),
        ("--prompt-file /dev/zero".to_owned(), "/dev/zero is longer than 64.0 MiB"),
        (format!("--prompt-file {}", file("no-text")), "is not UTF-8 from byte 0 on"),
        (format!("--messages {}", file("no-json")), "no-json"),
        (format!("--messages {}", file("no-messages")), "wizard"),
        (format!("--prompt a --logits {}", file("none/logits")), "none/logits"),
        ("--prompt a --colour".to_owned(), "--colour"),
    ] {
        refused(&user, &arguments, 2, names);
    }
    let too_long = vec!["300"; 4096].join(",");
    refused(
        &user,
        &format!("--ids {too_long}"),
        2,
        "the prompt has 4096 tokens, and the context has room for 4096",
    );
}

#[test]
fn bad_settings_name_their_place() {
    let user = User::new();
    let output = user.on_nano("--prompt a").env("DORMOUSE_MEMORY", "lots").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("memory = \"lots\" (from DORMOUSE_MEMORY)"), "{}", stderr(&output));

    let output = user.on_nano("--prompt a").env("DORMOUSE_CPU", "quantum").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("quantum"), "{}", stderr(&output));

    fs::create_dir_all(user.path("config/dormouse")).unwrap();
    let config = user.path("config/dormouse/config.toml");
    fs::write(&config, "# mine\nmemmory = \"1GiB\"\n").unwrap();
    refused(
        &user,
        "--prompt a",
        2,
        "config.toml, line 2: there is no setting `memmory`; did you mean `memory`?",
    );
    fs::write(&config, "\ntop_p = 7\n").unwrap();
    refused(&user, "--prompt a", 2, "config.toml, line 2): top-p must be");
    fs::remove_file(&config).unwrap();
    fs::create_dir(&config).unwrap();
    refused(&user, "--prompt a", 2, "config.toml: it is not a file\n  Nobody needs a config file");
}

#[test]
fn a_model_that_is_not_there_or_damaged_is_refused() {
    let user = User::new();
    let run = |model: &std::path::Path| {
        let output = user.command("run --prompt a --json --model").arg(model).output().unwrap();
        let report = object(&output);
        assert_eq!(output.status.code(), Some(3), "{report}");
        assert_eq!(report["finish"], "error");
        assert_eq!(report["ids"], serde_json::json!([]));
        let detail = report["error"]["detail"].as_str().unwrap().to_owned();
        assert!(stderr(&output).contains(&detail));
        assert!(report["error"]["title"].is_string() && report["error"]["hint"].is_string());
        detail
    };
    assert!(run(&user.path("nowhere")).contains("nowhere"));
    let file = nano().join("config.json");
    assert!(run(&file).contains("config.json/config.json"));
    let message = stderr(&user.command("run --prompt a --model").arg(&file).output().unwrap());
    assert!(message.contains("Name the model's folder"), "{message}");
    let model = copy_of_nano();
    let shard = "model-00002-of-00004.safetensors";
    OpenOptions::new().write(true).open(model.path().join(shard)).unwrap().set_len(100_000).unwrap();
    assert!(run(model.path()).contains(shard));
    fs::remove_file(model.path().join("tiktoken.model")).unwrap();
    fs::copy(nano().join(shard), model.path().join(shard)).unwrap();
    assert!(run(model.path()).contains("tiktoken.model"));
}

#[test]
fn memory_that_does_not_do_is_refused_with_the_numbers() {
    let user = User::new();
    refused(&user, "--prompt a --memory 1MiB", 4, "the budget is 1.00 MiB");
    refused(&user, "--prompt a --memory 900TiB", 4, "asked for 900 TiB, the machine has");
}

#[test]
fn a_data_folder_that_cannot_be_written_is_refused_with_a_way_out() {
    let user = User::new();
    fs::write(user.path("data"), b"not a folder").unwrap();
    let output = user.command("run --prompt a").output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    let message = stderr(&output);
    assert!(message.contains("cannot create") && message.contains("DORMOUSE_HOME"), "{message}");
}

#[test]
fn an_answer_that_cannot_be_written_is_a_failure() {
    let user = User::new();
    for arguments in ["--prompt Hello! --seed 1", "--prompt Hello! --seed 1 --json"] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = user.on_nano(arguments).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(4));
        let message = stderr(&output);
        assert!(message.contains("Cannot write") && message.contains("to standard output"), "{message}");
    }
    let output = user.run("--prompt Hello! --seed 1 --max-tokens 1 --logits /dev/full");
    assert_eq!(output.status.code(), Some(4));
    assert!(stderr(&output).contains("Cannot write the logits to /dev/full"), "{}", stderr(&output));
}

#[test]
fn numbers_that_are_none_are_an_invalid_run() {
    let user = User::new();
    let model = copy_of_nano();
    poison(&model.path().join("model-00004-of-00004.safetensors"), "language_model.lm_head.weight");
    let output = user.command("run --prompt a --json --model").arg(model.path()).output().unwrap();
    let report = object(&output);
    assert_eq!(output.status.code(), Some(5), "{report}");
    assert!(report["error"]["detail"].as_str().unwrap().contains("layer"), "{report}");
    assert_eq!(report["ids"], serde_json::json!([]));
}

/// Makes the first element of a bf16 tensor no number.
fn poison(shard: &std::path::Path, tensor: &str) {
    let mut bytes = fs::read(shard).unwrap();
    let (header, metadata) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    let at = 8 + header + metadata.info(tensor).unwrap().data_offsets.0;
    bytes[at..at + 2].copy_from_slice(&0x7fc0_u16.to_le_bytes());
    fs::write(shard, bytes).unwrap();
}

/// Without a terminal the chat goes line by line, with no code for a terminal in it.
#[test]
fn a_chat_through_a_pipe_goes_line_by_line() {
    let user = User::new();
    let path = user.path("lines");
    fs::write(&path, "/temperature 0\nHello!\n/nonsense\n").unwrap();
    let output = user.command("").stdin(fs::File::open(&path).unwrap()).output().unwrap();
    let (said, told) = (stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(0), "{said}{told}");
    let report = user.json("--prompt Hello! --temperature 0");
    assert!(said.contains(report["text"].as_str().unwrap().trim()), "{said}");
    assert!(format!("{said}{told}").contains("/nonsense is no command"), "{said}{told}");
    assert!(!said.contains('\x1b') && !told.contains('\x1b'), "{said:?}{told:?}");
    // What was said is kept as any other conversation is.
    let output = user.command("sessions list").output().unwrap();
    assert!(stdout(&output).contains("Hello!"), "{}", stdout(&output));
}
