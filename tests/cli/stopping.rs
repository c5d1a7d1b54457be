//! Runs that are stopped, by a signal or by whoever reads them.

use std::io::Read;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::User;

/// Tokens come at random, so it goes on for long; this seed meets no stop id in its first thousand.
const LONG: &str = "--ids 2051,262 --temperature 5 --top-p 1 --seed 1";

fn interrupt(child: &Child) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
}

/// The exit code, unless it takes absurdly long.
fn exit_code(mut child: Child) -> Option<i32> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if began.elapsed() > Duration::from_secs(30) {
            child.kill().unwrap();
            panic!("it does not stop");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_interrupt_keeps_the_text_and_exits_130() {
    let user = User::new();
    let mut child = user.on_nano(LONG).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut first = [0; 1];
    out.read_exact(&mut first).unwrap();
    interrupt(&child);
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).unwrap();
    assert_eq!(exit_code(child), Some(130));
    assert_eq!(rest.last(), Some(&b'\n'), "the line is ended");
}

#[test]
fn an_interrupted_run_still_prints_its_object() {
    let user = User::new();
    // A prompt that takes a while to read, cut in the middle of it.
    let ids: Vec<String> = (0..4000).map(|i| (300 + i % 200).to_string()).collect();
    let logits = user.path("logits");
    let mut command = user.on_nano("--threads 1 --prefill-chunk 1 --json --logits");
    command.arg(&logits).args(["--ids", &ids.join(",")]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    // Signals are watched before the model is loaded; the file is there just before.
    while !logits.exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(1500));
    interrupt(&child);
    let mut line = String::new();
    child.stdout.take().unwrap().read_to_string(&mut line).unwrap();
    assert_eq!(exit_code(child), Some(130));
    let report: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(report["finish"], "cancelled");
    assert_eq!(report["ids"], serde_json::json!([]));
    assert_eq!(report["prompt_ids"].as_array().unwrap().len(), 4000);
    assert!(report.get("error").is_none());
}

#[test]
fn nobody_reading_is_no_failure() {
    let user = User::new();
    let mut child = user.on_nano(LONG).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut first = [0; 1];
    out.read_exact(&mut first).unwrap();
    drop(out);
    let mut message = String::new();
    child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
    assert_eq!(exit_code(child), Some(0));
    assert_eq!(message, "");
}
