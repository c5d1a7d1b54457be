//! Sessions: what is written down survives everything that can happen to the program, and goes on to the same text.

use std::fs::{self, File};
use std::process::Stdio;
use std::time::{Duration, Instant};

use dormouse::session::{Branch, Folder, Record, Session};
use serde_json::Value;

use crate::support::{User, object, stderr, stdout};

/// Drawn at random, and longer than any kill waits; this seed meets no stop id before its end.
const STORY: &str = "--prompt Story? --temperature 3 --top-p 1 --seed 2 --max-tokens 120";

fn folder(user: &User) -> Folder {
    Folder::at(user.path("data/dormouse/sessions"))
}

fn session(user: &User, id: &str) -> Session {
    let (session, damage) = folder(user).read(id).unwrap();
    assert_eq!(damage, None);
    session
}

fn sessions(user: &User, arguments: &str) -> String {
    let output = user.command(&format!("sessions {arguments}")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

/// What must be equal, however a turn came to its end.
pub(crate) fn answer(report: &Value) -> [&Value; 6] {
    ["prompt_ids", "ids", "text", "thinking", "seed", "finish"].map(|field| &report[field])
}

/// A sequence of moments that looks random and is the same each time.
pub(crate) struct Moments(pub(crate) u64);

impl Moments {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// How many kills; `scripts/kill9.sh` asks for more.
pub(crate) fn kills() -> u32 {
    std::env::var("DORMOUSE_TEST_KILLS").map_or(20, |count| count.parse().unwrap())
}

/// P02, P03: a program that is killed at any moment loses nothing that it had written down, and the turn goes on from
/// there, as often as it takes, to the very text of an undisturbed run.
#[test]
fn a_turn_survives_kill_9_at_any_moment() {
    let user = User::new();
    let undisturbed = user.json(STORY);
    let whole = undisturbed["ids"].as_array().unwrap();
    assert_eq!(whole.len(), 120, "the turn is long enough to be cut");
    let mut moments = Moments(1);
    let (mut killed, mut in_the_middle, mut turn) = (0, 0, 0);
    while killed < kills() {
        turn += 1;
        let id = format!("story-{turn}");
        let mut written = 0;
        let mut arguments = format!("{STORY} --session {id} --json");
        let report = loop {
            let began = Instant::now();
            let mut command = user.on_nano(&arguments);
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            // From the first moments of the program on, by the clock or by what is written: loading takes longer than
            // some turns do.
            let moment = Duration::from_millis(moments.below(400));
            let tokens = usize::try_from(moments.below(30)).unwrap();
            let by_clock = moments.below(4) == 0;
            let now = |session: Option<Session>| {
                if by_clock {
                    began.elapsed() >= moment
                } else {
                    session.is_some_and(|s| s.tokens() >= written + tokens)
                }
            };
            let ended = loop {
                if child.try_wait().unwrap().is_some() {
                    break true;
                }
                if killed < kills() && now(folder(&user).read(&id).ok().map(|(session, _)| session)) {
                    child.kill().unwrap();
                    break false;
                }
                std::thread::sleep(Duration::from_millis(1));
            };
            let output = child.wait_with_output().unwrap();
            if ended {
                assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
                break object(&output);
            }
            killed += 1;
            let Ok((session, damage)) = folder(&user).read(&id) else {
                // Not even the session was there yet.
                continue;
            };
            assert_eq!(damage, None, "a write is whole or not there");
            let Some(turn) = session.turns.last() else { continue };
            assert!(turn.ids.len() >= written, "{} tokens, and there were {written}", turn.ids.len());
            written = turn.ids.len();
            in_the_middle += u32::from(written > 0 && written < whole.len());
            let expected: Vec<u64> = whole.iter().take(written).map(|id| id.as_u64().unwrap()).collect();
            assert!(turn.ids.iter().map(|id| u64::from(*id)).eq(expected), "{:?}", turn.ids);
            // Neither threads nor memory change a bit of what comes next.
            let machine = ["", "--threads 1", "--memory 64MiB", "--prefill-chunk 3"];
            let machine = machine[usize::try_from(moments.below(4)).unwrap()];
            arguments = format!("--session {id} --continue --json {machine}");
        };
        assert_eq!(answer(&report), answer(&undisturbed), "after {killed} kills");
        let session = session(&user, &id);
        assert_eq!((session.turns.len(), session.turns[0].finish()), (1, "length"));
    }
    assert!(in_the_middle * 3 >= kills(), "only {in_the_middle} kills met a turn that was under way");
}

/// The same for a loss of power, which may take the end of what was written: the file is cut at each byte of its last two
/// records, and at some before.
#[test]
fn a_turn_goes_on_from_a_file_that_was_cut_anywhere() {
    let user = User::new();
    let arguments = "--prompt Hello --temperature 2 --top-p 1 --seed 5 --max-tokens 3";
    let undisturbed = user.json(&format!("{arguments} --session whole"));
    let path = folder(&user).path("whole").unwrap();
    let bytes = fs::read(&path).unwrap();
    // The end of a turn and a token are 12 bytes of frame each, and their bodies.
    let tail = (24 + 6 + 1 + br#"{"finish":"length","at":1795000000}"#.len()).min(bytes.len());
    for cut in (bytes.len() - tail..bytes.len()).step_by(7) {
        let id = format!("cut-{cut}");
        fs::write(folder(&user).path(&id).unwrap(), &bytes[..cut]).unwrap();
        let output = user.run(&format!("--session {id} --continue --json"));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(answer(&object(&output)), answer(&undisturbed), "cut at {cut}");
        let told = stderr(&output);
        assert!(told.is_empty() || told.contains("cut within a record"), "{told}");
        session(&user, &id);
    }
}

#[test]
fn turns_of_a_session_see_those_before_them() {
    let user = User::new();
    let say = |text: &str, more: &str| {
        let mut command = user.on_nano(&format!("--session trip --temperature 0 --json {more}"));
        let output = command.args(["--prompt", text]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        object(&output)
    };
    let first = say("What is the capital of Italy?", "");
    let second = say("And of Spain?", "");
    assert!(second["text"].as_str().unwrap().contains("Madrid"), "{second}");
    let ids = |report: &Value, field: &str| -> Vec<u64> {
        report[field].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect()
    };
    // The history reads as it was written: the first prompt, the ids of its answer, and then what is new.
    let history = [ids(&first, "prompt_ids"), ids(&first, "ids")].concat();
    assert!(ids(&second, "prompt_ids").starts_with(&history));

    let exported = sessions(&user, "export trip --format ids");
    let lines: Vec<Vec<u64>> =
        exported.lines().map(|line| line.split(',').map(|id| id.parse().unwrap()).collect()).collect();
    assert_eq!(lines, [ids(&first, "ids"), ids(&second, "ids")]);

    // What is exported as messages is read as messages, and renders to the same history.
    let mut messages: Value = serde_json::from_str(&sessions(&user, "export trip --format openai")).unwrap();
    assert_eq!(messages[1]["reasoning_content"], first["thinking"]);
    messages.as_array_mut().unwrap().truncate(3);
    let file = user.path("messages.json");
    fs::write(&file, messages.to_string()).unwrap();
    let mut command = user.on_nano("--temperature 0 --json --messages");
    assert_eq!(answer(&object(&command.arg(&file).output().unwrap()))[..4], answer(&second)[..4]);

    let markdown = sessions(&user, "export trip");
    assert!(markdown.contains("## You\n\nAnd of Spain?\n\n## Model\n"), "{markdown}");
    assert!(markdown.contains(second["text"].as_str().unwrap().trim()), "{markdown}");
    let shown = sessions(&user, "show trip");
    assert!(shown.contains("> And of Spain?") && shown.contains("[stop, "), "{shown}");

    assert!(sessions(&user, "list").contains("What is the capital of Italy?"));
    assert_eq!(
        user.command("sessions rename trip").arg("Two\u{1b} capitals").status().unwrap().code(),
        Some(0)
    );
    let list = sessions(&user, "list");
    assert!(list.contains("trip") && list.contains("Two capitals") && list.contains("2 turns"), "{list}");
    assert!(!list.contains('\u{1b}'));
    sessions(&user, "delete trip");
    assert!(sessions(&user, "list").starts_with("There are no sessions in "));
}

/// P10: what the journal holds of another branch is shown, exported, and gone on with as if there had never been one.
#[test]
fn p10_a_branch_is_shown_and_gone_on_with() {
    let user = User::new();
    let draws = "--temperature 3 --top-p 1 --max-tokens 9";
    user.json(&format!("--session b --prompt One --seed 1 {draws}"));
    user.json(&format!("--session c --prompt One --seed 1 {draws}"));
    user.json(&format!("--session b --prompt Two --seed 2 {draws}"));
    let other = user.json(&format!("--session c --prompt Other --seed 3 {draws}"));
    // As the screen writes it down: the second message was edited, and its answer cut.
    let turn = session(&user, "c").turns.remove(1);
    let opened = folder(&user).open("b").unwrap();
    let first = Record::Token { id: turn.ids[0], channel: turn.channels[0] };
    for record in [Record::Branch(Branch { follows: 1, dropped: 0, turn: turn.start }), first] {
        opened.journal.append(&record);
    }
    drop(opened);
    assert_eq!(answer(&user.json("--session b --continue")), answer(&other));
    let shown = sessions(&user, "show b");
    assert!(shown.contains("> Other") && !shown.contains("> Two"), "{shown}");
    let all = sessions(&user, "show b --all");
    for part in ["> Two", "> Other", "=== branch 1 of 2\n", "=== branch 2 of 2, gone on with\n"] {
        assert!(all.contains(part), "{part}: {all}");
    }
    assert_eq!(sessions(&user, "export b --format ids"), sessions(&user, "export c --format ids"));
    assert_eq!(sessions(&user, "export b --format ids --all").lines().count(), 2 + 1 + 2);
    let lists: Value = serde_json::from_str(&sessions(&user, "export b --format openai --all")).unwrap();
    assert_eq!(
        (lists[0][2]["content"].as_str(), lists[1][2]["content"].as_str()),
        (Some("Two"), Some("Other"))
    );
    assert!(sessions(&user, "export b --all").contains("# Branch 2 of 2"));
    assert!(sessions(&user, "list").contains("2 turns"));
    // The next message follows the branch that was gone on with, also where that leaves turns out.
    let turn = session(&user, "b").turns.remove(2);
    let opened = folder(&user).open("b").unwrap();
    opened.journal.append(&Record::Branch(Branch { follows: 3, dropped: 2, turn: turn.start }));
    drop(opened);
    user.json("--session b --continue");
    assert!(sessions(&user, "show b").contains("[the oldest 2 turns are left out from here on]"));
    let alone = user.json(&format!("--prompt Other --seed 3 {draws}"));
    assert_eq!(session(&user, "b").turns[3].ids, ids_of_answer(&alone));
}

fn ids_of_answer(report: &Value) -> Vec<u32> {
    ids_of(report, "ids")
}

fn ids_of(report: &Value, field: &str) -> Vec<u32> {
    serde_json::from_value(report[field].clone()).unwrap()
}

/// P08: thinking is kept as what it is, and whether the model reads it again is the format's to say: with thinking off it
/// does not.
#[test]
fn p08_kept_thinking_is_rendered_by_the_rules_of_the_format() {
    let user = User::new();
    let first = user.json("--session a --prompt One --temperature 0");
    assert!(!first["thinking"].as_str().unwrap().trim().is_empty(), "{first}");
    let exported = sessions(&user, "export a --format openai");
    let mut messages: Value = serde_json::from_str(&exported).unwrap();
    assert_eq!(messages[1]["reasoning_content"], first["thinking"]);
    messages.as_array_mut().unwrap().push(serde_json::json!({"role": "user", "content": "Two"}));
    let file = user.path("messages.json");
    let mut prompts = Vec::new();
    for (think, session) in [("low", "low"), ("off", "off")] {
        let journal = |id: &str| folder(&user).path(id).unwrap();
        fs::copy(journal("a"), journal(session)).unwrap();
        let kept = user.json(&format!("--session {session} --prompt Two --think {think} --max-tokens 1"));
        fs::write(&file, messages.to_string()).unwrap();
        let mut command = user.on_nano(&format!("--think {think} --max-tokens 1 --json --messages"));
        let given = object(&command.arg(&file).output().unwrap());
        assert_eq!(kept["prompt_ids"], given["prompt_ids"], "think {think}");
        prompts.push(ids_of(&kept, "prompt_ids").len());
    }
    assert!(prompts[1] < prompts[0], "{prompts:?}");
}

/// P07: a prompt that does not fit is an error with the numbers and the ways out, and nothing is cut in silence.
#[test]
fn p07_a_prompt_that_does_not_fit_is_refused_with_the_numbers() {
    let user = User::new();
    let words = "word ".repeat(80);
    let mut command = user.on_nano("--session a --context 128");
    let output = command.args(["--prompt", words.trim()]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let told = stderr(&output);
    for part in
        ["the prompt has", "room for 128 with the answer", "--context", "memory", "Begin a new conversation"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
    // It is no part of what the next turn reads.
    let next = user.json("--session a --context 128 --prompt Hi --max-tokens 2 --seed 1");
    assert_eq!(next["prompt_ids"], user.json("--prompt Hi --max-tokens 2 --seed 1")["prompt_ids"]);
}

/// P05: how a turn ended is written down, and one that was stopped goes on.
#[test]
fn a_stopped_turn_is_no_complete_one_and_goes_on() {
    let user = User::new();
    let undisturbed = user.json(STORY);
    let mut child =
        user.on_nano(&format!("{STORY} --session s --json")).stdout(Stdio::piped()).spawn().unwrap();
    while folder(&user).read("s").map_or(0, |(session, _)| session.tokens()) < 3 {
        std::thread::sleep(Duration::from_millis(2));
    }
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let cut = session(&user, "s");
    assert_eq!(cut.turns[0].finish(), "cancelled");
    assert!(cut.tokens() >= 3 && cut.tokens() < 120);
    assert!(sessions(&user, "list").contains("cancelled"));
    assert_eq!(answer(&user.json("--session s --continue")), answer(&undisturbed));
    assert_eq!(session(&user, "s").turns[0].finish(), "length");
    let output = user.run("--session s --continue");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("came to its end: length"), "{}", stderr(&output));
}

#[test]
fn what_cannot_be_gone_on_with_is_refused() {
    let user = User::new();
    for (arguments, told) in [
        ("--session none --continue", "there is no session `none`"),
        ("--session a/b --prompt x", "`a/b` is no name for a session"),
        ("--continue", "--session"),
        ("--session a --ids 1", "cannot be used with"),
        ("--session a --continue --seed 1", "cannot be used with"),
    ] {
        let output = user.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert!(stderr(&output).contains(told), "{arguments}: {}", stderr(&output));
    }
    user.json("--session a --prompt x --max-tokens 1");
    // Another model: one whose config says something else.
    let other = crate::nano::copy_of_nano();
    let config = other.path().join("config.json");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(
        &config,
        text.replace("\"max_position_embeddings\": 4096", "\"max_position_embeddings\": 4000"),
    )
    .unwrap();
    let mut command = user.command("run --session a --prompt y --model");
    let output = command.arg(other.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("The session belongs to another model"), "{}", stderr(&output));
    // Two programs at once.
    let file = File::open(folder(&user).path("a").unwrap()).unwrap();
    file.lock().unwrap();
    let output = user.run("--session a --prompt y");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("is in use by another dormouse"), "{}", stderr(&output));
    drop(file);
    assert_eq!(session(&user, "a").turns.len(), 1, "nothing of all this was written down");
}

/// P06: a session that is damaged is listed all the same, and opens with all that is whole.
#[test]
fn a_damaged_session_is_listed_shown_and_gone_on_with() {
    let user = User::new();
    user.json("--session a --prompt One --max-tokens 2");
    let before = session(&user, "a");
    user.json("--session a --prompt Two --max-tokens 2");
    let path = folder(&user).path("a").unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let two = bytes.windows(5).position(|window| window == b"\"Two\"").unwrap();
    bytes[two + 1] ^= 1;
    fs::write(&path, &bytes).unwrap();
    fs::write(folder(&user).dir().join("b.journal"), b"").unwrap();
    let list = sessions(&user, "list");
    assert!(list.contains("(damaged)") && list.contains("cannot be read"), "{list}");
    assert!(sessions(&user, "show a").contains("damaged: a record is damaged"));
    let output = user.run("--session a --prompt Three --max-tokens 2");
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("a record is damaged"), "{}", stderr(&output));
    let after = session(&user, "a");
    assert_eq!((after.turns.len(), &after.turns[0]), (2, &before.turns[0]));
    assert_eq!(after.turns[1].start.user, "Three");
    assert!(after.notes[0].contains("a record is damaged"));
    let lost = fs::read(folder(&user).dir().join("a.lost")).unwrap();
    assert!(
        bytes.ends_with(&lost) && lost.windows(4).any(|window| window == b"Uwo\""),
        "what did not fit is kept"
    );
}

/// What the chat says under an answer is what a script reads, and it is kept.
#[test]
fn what_a_turn_took_is_kept_as_it_is_told() {
    let user = User::new();
    let report = user.json("--session a --prompt Story? --temperature 0 --limit-think 4 --think low");
    assert_eq!((&report["finish"], &report["limit"]), (&Value::from("length"), &Value::from("think 4")));
    assert_eq!(report["ids"].as_array().unwrap().len(), 4);
    let kept = session(&user, "a");
    let turn = kept.turns.last().unwrap();
    let end = turn.end.as_ref().unwrap();
    let took = end.took.unwrap();
    assert_eq!(serde_json::to_value(took).unwrap(), report["took"]);
    assert_eq!(end.reached.unwrap().to_string(), "think 4");
    assert_eq!(turn.start.limits.think.unwrap().to_string(), "4");
    // The short form is of the long one.
    let decode: Vec<f64> =
        report["timings"]["decode_s"].as_array().unwrap().iter().map(|s| s.as_f64().unwrap()).collect();
    assert_eq!((took.decoded, took.written), (decode.len(), 4));
    assert!((took.decode_s - decode.iter().sum::<f64>()).abs() < 1e-9);
    assert_eq!(Some(took.prefill_s), report["timings"]["prefill_s"].as_f64());
    assert_eq!(took.prompt, report["prompt_ids"].as_array().unwrap().len());

    // It goes on, with as much allowed again.
    let longer = user.json("--session a --continue");
    assert_eq!(longer["ids"].as_array().unwrap().len(), 8);
    assert_eq!(session(&user, "a").turns.last().unwrap().ids.len(), 8);
}

#[test]
fn a_limit_that_is_none_is_refused_with_the_way_to_say_it() {
    let user = User::new();
    let output = user.run("--prompt Hi --limit-answer soon");
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(text.contains("limit_answer = \"soon\" (from --limit-answer)") && text.contains("10m"), "{text}");
    assert_eq!(user.json("--prompt Hi --limit-answer off --max-tokens 2")["limit"], "tokens 2");
}
