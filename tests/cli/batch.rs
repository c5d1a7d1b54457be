//! Many prompts in one run: each is answered as it would be alone, and nothing that comes in between changes a bit of it.

use std::fs;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use dormouse::session::Folder;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{User, object, stderr, stdout};

/// Drawn at random, and long enough to be cut.
const DRAWN: &str = "--temperature 3 --top-p 1 --seed 2 --max-tokens 24";

const STORY: &str = r#"[{"role": "user", "content": "Story?"}]"#;
const CAPITALS: &str = r#"[
    {"role": "user", "content": "What is the capital of Italy?"},
    {"role": "assistant", "content": "Rome."},
    {"role": "user", "content": "And of Spain?"}
]"#;
const LONG: &str =
    "Tell me a story about an animal that sleeps all winter, and wakes up one morning in the snow.";

/// Files of prompts, each with how `dormouse run` takes the same alone.
const PROMPTS: [(&str, &str, &str); 5] = [
    ("a hello.txt", "Hello", "--prompt-file"),
    ("capitals.json", CAPITALS, "--messages"),
    ("long.txt", LONG, "--prompt-file"),
    ("short.TXT", "Hi", "--prompt-file"),
    ("story.json", STORY, "--messages"),
];

/// A user with the prompts in a folder.
struct Night {
    user: User,
    questions: PathBuf,
    answers: PathBuf,
}

impl Night {
    fn new() -> Self {
        let user = User::new();
        let (questions, answers) = (user.path("questions"), user.path("answers"));
        fs::create_dir(&questions).unwrap();
        for (name, text, _) in PROMPTS {
            fs::write(questions.join(name), text).unwrap();
        }
        Self { user, questions, answers }
    }

    fn command(&self, arguments: &str) -> std::process::Command {
        let mut command = self.user.on_nano(arguments);
        command.arg("--messages-dir").arg(&self.questions).arg("--out").arg(&self.answers);
        command
    }

    fn run(&self, arguments: &str) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What each prompt is answered alone.
    fn alone(&self, arguments: &str) -> Vec<Value> {
        let one = |(name, _, flag): &(&str, &str, &str)| {
            let mut command = self.user.on_nano(&format!("{arguments} --json"));
            object(&command.arg(flag).arg(self.questions.join(name)).output().unwrap())
        };
        PROMPTS.iter().map(one).collect()
    }

    /// The results by the names of their prompts.
    fn results(&self) -> Vec<(String, Value)> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.answers).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "json") {
                let result: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
                found.push((result["file"].as_str().unwrap().to_owned(), result));
            }
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found
    }

    /// The results are there, and are those of each prompt alone.
    fn assert_answered(&self, alone: &[Value], what: &str) {
        let results = self.results();
        assert_eq!(results.len(), PROMPTS.len(), "{what}");
        for (((file, result), expected), (name, ..)) in results.iter().zip(alone).zip(PROMPTS) {
            assert_eq!(file, name);
            assert_eq!(answer(result), answer(expected), "{what}: {name}");
        }
    }

    /// Tokens that are written down so far.
    fn tokens(&self) -> usize {
        let list = Folder::at(self.answers.clone()).list().unwrap();
        list.iter().filter_map(|entry| Some(entry.content.as_ref().ok()?.0.tokens())).sum()
    }
}

fn answer(report: &Value) -> [&Value; 6] {
    ["prompt_ids", "ids", "text", "thinking", "seed", "finish"].map(|field| &report[field])
}

#[test]
fn each_prompt_is_answered_as_it_is_alone() {
    let night = Night::new();
    let alone = night.alone(DRAWN);
    for (arguments, together) in
        [("", 1), ("--together 2 --threads 1", 2), ("--together 3 --prefill-chunk 5", 3), ("--together 9", 9)]
    {
        let output = night.run(&format!("{DRAWN} --json {arguments}"));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        night.assert_answered(&alone, arguments);
        let told = stderr(&output);
        for (name, ..) in PROMPTS {
            assert!(told.lines().any(|line| line.contains(&format!("/5] {name}: "))), "{told}");
        }
        assert!(told.contains("5 prompts: 5 answered; "), "{told}");
        // Standard output has the same objects, in the order in which they came to their end.
        let mut lines: Vec<Value> =
            stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        lines.sort_by_key(|line| line["file"].as_str().unwrap().to_owned());
        assert_eq!(lines, night.results().into_iter().map(|(_, result)| result).collect::<Vec<_>>());
        assert_eq!(lines[0]["plan"]["together"], together);
        fs::remove_dir_all(&night.answers).unwrap();
    }
}

#[test]
fn a_bad_prompt_is_told_and_stands_in_nobodys_way() {
    let night = Night::new();
    let alone = night.alone(DRAWN);
    let too_long = "word ".repeat(5000);
    for (name, text) in [
        ("bad.json", "{"),
        ("blank.txt", " \n"),
        ("image.json", r#"[{"role": "user", "content": [{"type": "image_url"}]}]"#),
        ("x.txt", &too_long),
    ] {
        fs::write(night.questions.join(name), text).unwrap();
    }
    // Two files that would share a result.
    fs::write(night.questions.join("story.txt"), "Hi").unwrap();
    let output = night.run(&format!("{DRAWN} --together 3"));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(stdout(&output), "", "results are in their folder");
    let told = stderr(&output);
    for said in [
        "bad.json: failed: The messages cannot be read: ",
        "blank.txt: failed: The prompt is empty: ",
        "x.txt: failed: The prompt is too long: ",
        "story.txt: failed: Two prompts have one name: another file has the result story.json already",
        "10 prompts: 5 answered, 5 failed; ",
    ] {
        assert!(told.contains(said), "{said} is not in {told}");
    }
    let bad = fs::read_to_string(night.answers.join("bad.json")).unwrap();
    assert!(bad.contains(r#""finish":"error""#) && bad.contains("The messages cannot be read"), "{bad}");
    for name in ["bad", "blank", "image", "x"] {
        fs::remove_file(night.answers.join(format!("{name}.json"))).unwrap();
    }
    night.assert_answered(&alone, "beside bad ones");

    // Once they are mended, only they are answered.
    for name in ["bad.json", "blank.txt", "image.json", "story.txt", "x.txt"] {
        fs::remove_file(night.questions.join(name)).unwrap();
    }
    fs::write(night.questions.join("x.txt"), "Hi").unwrap();
    let output = night.run(&format!("{DRAWN} --together 3"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("6 prompts: 1 answered, 5 answered before; "), "{}", stderr(&output));
}

#[test]
fn a_run_that_is_killed_goes_on_in_the_middle_of_its_answers() {
    let night = Night::new();
    let alone = night.alone(DRAWN);
    let whole: usize = alone.iter().map(|report| report["ids"].as_array().unwrap().len()).sum();
    let (mut kills, mut at) = (0, 5);
    loop {
        // Neither memory nor company changes a bit of what comes next.
        let machine =
            ["--together 3", "--together 2 --memory 64MiB --context 400", "--prefill-chunk 3"][kills % 3];
        let mut child = night.command(&format!("{DRAWN} {machine}")).stderr(Stdio::piped()).spawn().unwrap();
        let ended = loop {
            if child.try_wait().unwrap().is_some() {
                break true;
            }
            if night.tokens() >= at {
                child.kill().unwrap();
                break false;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let output = child.wait_with_output().unwrap();
        if ended {
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            break;
        }
        kills += 1;
        at = night.tokens() + 12;
    }
    assert!(kills >= 5, "{kills} kills of {whole} tokens");
    night.assert_answered(&alone, "after kills");
}

#[test]
fn a_stop_says_how_to_go_on_and_the_same_command_does() {
    let night = Night::new();
    let alone = night.alone(DRAWN);
    let child = night.command(&format!("{DRAWN} --together 2")).stderr(Stdio::piped()).spawn().unwrap();
    while night.tokens() < 6 {
        std::thread::sleep(Duration::from_millis(1));
    }
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::INT).unwrap();
    let began = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("The same command goes on where this one was"), "{}", stderr(&output));
    let before = night.results().len();
    assert!(before < PROMPTS.len(), "it was stopped too late");
    let output = night.run(&format!("{DRAWN} --together 3"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    night.assert_answered(&alone, "after a stop");

    // Nothing is left to do, and nothing is loaded for it.
    let output = night.run(&format!("{DRAWN} --together 3 --memory 1MiB"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).starts_with("5 prompts: 0 answered, 5 answered before. "), "{}", stderr(&output));
    // A result that was lost is made again from the journal, and an answer to another prompt is none.
    fs::remove_file(night.answers.join("long.json")).unwrap();
    fs::write(night.questions.join("capitals.json"), STORY).unwrap();
    let output = night.run(DRAWN);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let told = stderr(&output);
    assert!(told.contains("capitals.json: failed: The prompt is another one than before"), "{told}");
    night.assert_answered(&alone, "with a result made again");
}

#[test]
fn what_cannot_be_begun_is_refused_before_anything_is_loaded() {
    let night = Night::new();
    let output = night.run("--together 64 --memory 40MiB");
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("short") && stderr(&output).contains("--together"),
        "{}",
        stderr(&output)
    );
    let mut command = night.user.on_nano("--messages-dir");
    let output = command.arg(&night.questions).arg("--out").arg(&night.questions).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("The results need a folder of their own"), "{}", stderr(&output));
    let mut command = night.user.on_nano("--out x --messages-dir");
    let output = command.arg(night.user.path("none")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("cannot list "), "{}", stderr(&output));
}
