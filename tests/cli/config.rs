//! `dormouse config`.

use std::fs;
use std::process::Output;

use serde_json::Value;

use crate::support::{User, object, stderr, stdout};

fn config(user: &User, arguments: &str) -> Output {
    user.command(&format!("config {arguments}")).output().unwrap()
}

fn value(user: &User, key: &str) -> String {
    let output = config(user, &format!("get {key}"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output).trim_end().to_owned()
}

fn row(shown: &Value, key: &str) -> Value {
    shown.as_array().unwrap().iter().find(|row| row["key"] == key).unwrap().clone()
}

#[test]
fn a_setting_is_written_read_and_counts() {
    let user = User::new();
    let file = user.path("config/dormouse/config.toml");
    assert_eq!(stdout(&config(&user, "path")), format!("{}\n", file.display()));
    assert_eq!(value(&user, "thinking"), "low");
    assert_eq!(config(&user, "set thinking off").status.code(), Some(0));
    assert_eq!(config(&user, "set temperature 0").status.code(), Some(0));
    assert_eq!(fs::read_to_string(&file).unwrap(), "thinking = \"off\"\ntemperature = 0\n");
    assert_eq!(value(&user, "thinking"), "off");
    let run = user.json("--prompt Hello --max-tokens 8");
    assert_eq!(run["thinking"], "", "the run follows it");
    // A folder is meant from where it is typed.
    let output = user.command("config set model k3").current_dir(user.path("")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let typed = user.path("k3");
    assert_eq!(value(&user, "model"), typed.canonicalize().unwrap_or(typed).display().to_string());
    assert_eq!(config(&user, "unset model").status.code(), Some(0));
    let output = config(&user, "unset model");
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("model was not set in"), "{}", stderr(&output));
}

#[test]
fn every_value_knows_its_source() {
    let user = User::new();
    config(&user, "set memory 2GiB");
    let mut command = user.command("config show --json --threads 2");
    let shown = object(&command.env("DORMOUSE_MEMORY", "1GiB").output().unwrap());
    let memory = row(&shown, "memory");
    assert_eq!((&memory["value"], &memory["source"]), (&"1GiB".into(), &"environment".into()));
    assert_eq!(memory["place"], "DORMOUSE_MEMORY");
    assert_eq!(row(&shown, "threads")["place"], "--threads");
    let reader = row(&shown, "reader");
    assert_eq!(
        (&reader["value"], &reader["source"], &reader["place"]),
        (&"auto".into(), &"default".into(), &Value::Null)
    );
    let file = row(&object(&config(&user, "show --json")), "memory");
    assert_eq!(file["source"], "file");
    assert!(file["place"].as_str().unwrap().ends_with("config.toml, line 1"), "{file}");
    let text = stdout(&config(&user, "show"));
    assert!(text.lines().any(|line| line.starts_with("memory ") && line.contains("2GiB")), "{text}");
    // What is written and does not count is said.
    let output = user.command("config set memory 3GiB").env("DORMOUSE_MEMORY", "1GiB").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("memory still is 1GiB, from DORMOUSE_MEMORY"), "{}", stderr(&output));
}

#[test]
fn what_cannot_be_is_refused_and_nothing_is_written() {
    let user = User::new();
    let file = user.path("config/dormouse/config.toml");
    config(&user, "set threads 2");
    let before = fs::read_to_string(&file).unwrap();
    for (arguments, why) in [
        ("set memmory 1GiB", "there is no setting `memmory`; did you mean `memory`?"),
        ("get gpu", "The keys are model, memory"),
        ("set memory lots", "memory = \"lots\""),
        ("set threads 0", "whole number from 1"),
        ("set preset huge", "not a preset"),
        ("set reader fast", "reader"),
    ] {
        let output = config(&user, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert!(stderr(&output).contains(why), "{arguments}: {}", stderr(&output));
        assert_eq!(fs::read_to_string(&file).unwrap(), before, "{arguments}");
    }
    // A value that is wrong already is shown with the complaint.
    fs::write(&file, "threads = 0\n").unwrap();
    let output = config(&user, "show");
    assert_eq!(output.status.code(), Some(2));
    assert!(stdout(&output).contains("config.toml, line 1") && stderr(&output).contains("threads"));
    assert_eq!(config(&user, "set threads 3").status.code(), Some(0), "and can be mended");
}
