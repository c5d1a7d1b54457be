//! What the model remembers of conversations, from one run of the program to the next.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use dormouse::session::Folder;
use serde_json::Value;

use crate::sessions::{Moments, answer, kills};
use crate::support::{User, object, stderr, stdout};

fn folder(user: &User) -> PathBuf {
    user.path("state/dormouse/states")
}

/// Names in the folder of the states.
fn names(user: &User) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder(user)) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn number(report: &Value, field: &str) -> u64 {
    report["state"][field].as_u64().unwrap()
}

fn len(report: &Value, field: &str) -> u64 {
    report[field].as_array().unwrap().len() as u64
}

#[test]
fn s06_a_second_run_computes_only_what_is_new() {
    let user = User::new();
    let logits = |name: &str| fs::read(user.path(name)).unwrap();
    let say = |text: &str, more: &str| {
        let mut command = user.on_nano(&format!("--session trip --temperature 0 --json {more}"));
        let output = command.args(["--prompt", text]).output().unwrap();
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
        object(&output)
    };
    let first = say("What is the capital of Italy?", "");
    assert_eq!((number(&first, "reused"), &first["state"]["from"]), (0, &Value::Null));
    assert_eq!(number(&first, "computed"), len(&first, "prompt_ids") + len(&first, "ids") - 1);
    // At the end of the prompt and of the answer.
    assert_eq!(number(&first, "saved"), 2);
    let sizes: u64 =
        names(&user).iter().map(|name| fs::metadata(folder(&user).join(name)).unwrap().len()).sum();
    assert_eq!(number(&first, "saved_bytes"), sizes);

    let warm = user.path("warm").to_str().unwrap().to_owned();
    let second = say("And of Spain?", &format!("--memory 64MiB --logits {warm}"));
    // All but the id that ended the first turn, which nobody had computed.
    let reused = len(&first, "prompt_ids") + len(&first, "ids") - 1;
    assert_eq!((number(&second, "reused"), &second["state"]["from"]), (reused, &Value::from("disk")));
    let new = len(&second, "prompt_ids") - reused;
    assert_eq!(number(&second, "computed"), new + len(&second, "ids") - 1);

    let ids: Vec<String> = second["prompt_ids"].as_array().unwrap().iter().map(Value::to_string).collect();
    let (ids, cold) = (ids.join(","), user.path("cold").to_str().unwrap().to_owned());
    let tokens = len(&second, "ids");
    let fresh = user
        .json(&format!("--ids {ids} --temperature 0 --max-tokens {tokens} --state-disk 0 --logits {cold}"));
    assert_eq!((number(&fresh, "reused"), number(&fresh, "saved")), (0, 0));
    assert_eq!(fresh["ids"], second["ids"]);
    assert!(logits("warm") == logits("cold"), "logits differ in some bit");

    let plan = stdout(&user.command("plan --model").arg(crate::nano::nano()).output().unwrap());
    assert!(plan.contains("States on disk") && plan.contains("by 4 of all models"), "{plan}");
}

#[cfg(unix)]
#[test]
fn states_are_private_and_go_with_their_session() {
    use std::os::unix::fs::MetadataExt;
    let user = User::new();
    for (session, text) in [("one", "Hello!"), ("one", "Again!"), ("other", "Story?")] {
        user.json(&format!("--session {session} --prompt {text} --max-tokens 3"));
    }
    let mode = |path: PathBuf| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(folder(&user)), 0o700);
    let before = names(&user);
    assert_eq!(before.len(), 6);
    assert!(before.iter().all(|name| mode(folder(&user).join(name)) == 0o600));
    assert!(user.command("sessions delete one").status().unwrap().success());
    let after = names(&user);
    assert_eq!(after.len(), 2, "those of the other session stay");
    let again = user.json("--session other --prompt More? --max-tokens 1");
    assert!(number(&again, "reused") > 0);
}

#[test]
fn a_damaged_state_is_told_of_and_a_wrong_size_is_refused() {
    let user = User::new();
    let arguments = "--prompt Hello! --temperature 0 --max-tokens 4";
    let first = user.json(arguments);
    for name in names(&user) {
        let path = folder(&user).join(name);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).unwrap();
    }
    let output = user.run(&format!("{arguments} --json"));
    assert!(stderr(&output).starts_with("note: A saved state of the conversation cannot be used: "));
    let again = object(&output);
    assert_eq!((&again["ids"], number(&again, "reused")), (&first["ids"], 0));
    assert!(again["notes"][0].as_str().unwrap().contains("is damaged"), "{again}");
    let output = user.run("--prompt Hello! --state-disk lots");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("state_disk = \"lots\" (from --state-disk)"), "{}", stderr(&output));
}

/// P03: a program that is killed while it reads a long prompt, or while a state is half written, leaves nothing behind that
/// is used as if it were whole, and the turn comes to the text of an undisturbed run.
#[test]
fn a_state_survives_kill_9_while_it_is_written_and_while_the_prompt_is_read() {
    let user = User::new();
    let file = user.path("prompt.txt");
    fs::write(&file, "Tell me a story about a mouse that sleeps all winter. ".repeat(30)).unwrap();
    let ask = format!(
        "--prompt-file {} --temperature 3 --top-p 1 --seed 2 --max-tokens 12 --prefill-chunk 8",
        file.display()
    );
    let undisturbed = user.json(&format!("{ask} --state-disk 0"));
    assert!(len(&undisturbed, "prompt_ids") > 200, "it takes a while to read");
    let sessions = Folder::at(user.path("data/dormouse/sessions"));
    let mut moments = Moments(7);
    let (mut killed, mut within_a_write, mut turn) = (0, 0, 0);
    while killed < kills() {
        turn += 1;
        let id = format!("long-{turn}");
        // Each turn begins with nothing remembered.
        for name in names(&user) {
            fs::remove_file(folder(&user).join(name)).unwrap();
        }
        let mut arguments = format!("{ask} --session {id}");
        let report = loop {
            let began = Instant::now();
            let mut command = user.on_nano(&format!("{arguments} --json"));
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let moment = Duration::from_millis(moments.below(500));
            let by_clock = moments.below(3) == 0;
            // Under a name with a dot until it is whole.
            let being_written = || names(&user).iter().any(|name| name.starts_with('.'));
            let ended = loop {
                if child.try_wait().unwrap().is_some() {
                    break true;
                }
                let now = if by_clock { began.elapsed() >= moment } else { being_written() };
                if now && killed < kills() {
                    child.kill().unwrap();
                    break false;
                }
                std::thread::sleep(Duration::from_micros(100));
            };
            let output = child.wait_with_output().unwrap();
            if ended {
                assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
                break object(&output);
            }
            killed += 1;
            within_a_write += u32::from(being_written());
            if sessions.read(&id).is_ok_and(|(session, _)| !session.turns.is_empty()) {
                arguments = format!("--session {id} --continue --prefill-chunk 8");
            }
        };
        assert_eq!(answer(&report), answer(&undisturbed), "after {killed} kills");
        // What lies there now is whole: the next turn uses it, and the writers that died have left nothing.
        let next = user.json(&format!("--session {id} --prompt More? --max-tokens 1"));
        assert!(number(&next, "reused") >= len(&undisturbed, "prompt_ids"), "{}", next["state"]);
        assert!(names(&user).iter().all(|name| !name.starts_with('.')), "{:?}", names(&user));
    }
    assert!(within_a_write > 0, "no kill met a state that was being written");
}
