//! The program itself, as a user or a script runs it.

use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::hub::{Act, Hub, Served};
use crate::support::{KIB, OTHER, Place, SHARD, model};

/// The program with these arguments, and nothing of the tester's own settings.
pub(crate) fn command(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dormouse"));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("DORMOUSE_") || text.starts_with("HF_") {
            command.env_remove(name);
        }
    }
    command.args(arguments.split_whitespace());
    command
}

fn download(place: &Place, hub: &Hub, arguments: &str) -> Command {
    let mut command = command("download --endpoint");
    command.arg(&hub.url).arg(&place.folder).args(arguments.split_whitespace());
    command
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn events(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_script_reads_events_and_a_person_reads_lines() {
    let (hub, place) = (Hub::good(model()), Place::new());
    let output = download(&place, &hub, "--json").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
    let events = events(&output);
    assert_eq!(events[0]["event"], "resolved");
    assert_eq!(events[0]["commit"], "a".repeat(40));
    assert_eq!(events[1]["event"], "listed");
    let done = events.last().unwrap();
    assert_eq!((&done["event"], &done["files"]), (&"done".into(), &4.into()));
    place.assert_whole(&model());

    let output = download(&place, &hub, "").output().unwrap();
    let text = stderr(&output);
    assert!(output.stdout.is_empty() && !text.contains('\u{1b}'), "{text}");
    assert!(text.contains(&format!("{SHARD}: complete")) && text.contains("0 B were fetched"), "{text}");
    assert!(text.trim_end().ends_with(&format!("dormouse --model {}", place.folder.display())), "{text}");
}

#[test]
fn the_environment_names_hub_and_token_and_neither_is_printed_where_it_should_not() {
    let hub = Hub::new(model(), |request| match &request.authorization {
        Some(token) if token == "Bearer hf_secret" || request.at_store => Act::Well,
        _ if request.at_store => Act::Well,
        _ => Act::Status(401, vec![], "who are you"),
    });
    let place = Place::new();
    let with = |variable: &str, arguments: &str| {
        let mut command = command("download --json");
        command.arg(&place.folder).args(arguments.split_whitespace());
        command.env("HF_ENDPOINT", &hub.url).env(variable, "hf_secret");
        let output = command.output().unwrap();
        let all = format!("{}{}", String::from_utf8_lossy(&output.stdout), stderr(&output));
        assert!(!all.contains("hf_secret"), "{all}");
        output
    };
    let output = with("OTHER", "");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("wants a token"), "{}", stderr(&output));
    assert_eq!(with("OTHER", "--token-env MINE").status.code(), Some(2), "one that is not set");
    assert_eq!(with("OTHER", "--token-env OTHER --only config.json").status.code(), Some(0));
    assert_eq!(with("HF_TOKEN", "").status.code(), Some(0));
    place.assert_whole(&model());
}

#[test]
fn what_cannot_be_is_refused_with_its_exit_code() {
    let hub = Hub::new(model(), |request| match &request.file {
        Some(file) if file == OTHER && request.at_store => Act::Flip(0),
        _ => Act::Well,
    });
    let place = Place::new();
    for line in ["--jobs 0", "--limit fast", "--limit 0", "--revision"] {
        assert_eq!(download(&place, &hub, line).output().unwrap().status.code(), Some(2), "{line}");
    }
    let output = download(&place, &hub, "--json").output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains(OTHER), "{}", stderr(&output));
    let failed = events(&output).pop().unwrap();
    assert_eq!((&failed["event"], &failed["missing"][0]["path"]), (&"failed".into(), &OTHER.into()));
}

#[test]
fn ctrl_c_ends_it_soon_even_when_the_server_is_silent() {
    let hub =
        Hub::new(model(), |request| if request.at_store { Act::Stall(70 * KIB as u64) } else { Act::Well });
    let place = Place::new();
    let mut child = download(&place, &hub, "--json --block 32KiB").stdout(Stdio::null()).spawn().unwrap();
    let part = place.folder.join(format!(".{SHARD}.part"));
    while !std::fs::metadata(&part).is_ok_and(|metadata| metadata.len() >= 64 * KIB as u64) {
        thread::sleep(Duration::from_millis(5));
    }
    let began = std::time::Instant::now();
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
}

/// What is counted is bytes that were written to the disk and had to come again. What a kill leaves in the system's
/// socket buffers was never the program's.
#[test]
fn d16_d19_twenty_kills_lose_next_to_nothing() {
    const BLOCK: u64 = 16 << 10;
    let files = vec![Served::large(SHARD, 24 << 20), Served::large(OTHER, 24 << 20)];
    let hub = Hub::new(files.clone(), |request| {
        if request.at_store { Act::Slow(16 * KIB, Duration::from_millis(2)) } else { Act::Well }
    });
    let place = Place::new();
    let arguments = "--json --jobs 2 --block 16KiB";
    let part = |file: &Served| place.folder.join(format!(".{}.part", file.path));
    // Bytes of each file that lay on the disk when it was last being fetched.
    let mut on_disk = [0_u64; 2];
    let (mut resumed, mut twice) = (0, 0);
    let mut random = 12_345_u64;
    for round in 0..=20 {
        let before = hub.fetches().len();
        let mut child = download(&place, &hub, arguments).stdout(Stdio::null()).spawn().unwrap();
        if round < 20 {
            while hub.fetches().len() == before && child.try_wait().unwrap().is_none() {
                thread::sleep(Duration::from_millis(2));
            }
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            thread::sleep(Duration::from_millis(20 + (random >> 33) % 150));
            child.kill().unwrap();
        }
        let status = child.wait().unwrap();
        assert!(round < 20 || status.success(), "{status}");
        for (file, had) in files.iter().zip(&mut on_disk) {
            let requests = hub.fetches().split_off(before);
            let Some(first) = requests.iter().find(|r| r.file.as_ref() == Some(&file.path)) else { continue };
            let from = first.from.unwrap_or(0);
            let lost = had.saturating_sub(from);
            assert!(lost <= BLOCK, "{lost} bytes of {} came twice after kill {round}", file.path);
            twice += lost;
            resumed += u64::from(from > 0);
            *had = std::fs::metadata(part(file)).map_or(0, |metadata| metadata.len());
        }
    }
    place.assert_whole(&files);
    assert!(resumed >= 20, "only {resumed} requests went on where another had ended");
    let total = files.iter().map(|file| file.bytes.len() as u64).sum::<u64>();
    assert!(twice > 0 && twice * 50 < total, "{twice} of {total} bytes came twice");
}

/// The whole way for a script: fetched, looked at, tried, written down, and then talked to without a flag.
#[test]
fn setup_asks_nothing_and_ends_with_a_model_that_answers() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/nano");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<Served> = paths.filter(|path| path.is_file()).map(|path| Served::of(&path)).collect();
    let (hub, place) = (Hub::good(files.clone()), Place::new());
    let home = place.above().join("home");
    let program = |arguments: &str| {
        let mut command = command(arguments);
        command.env("DORMOUSE_HOME", &home);
        command
    };
    let setup = |arguments: &str| {
        let mut command = program(&format!("setup --yes {arguments} --endpoint"));
        command.arg(&hub.url).arg("--target").arg(&place.folder);
        command.output().unwrap()
    };
    let output = setup("--json --preset ultra");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let told = events(&output);
    let ready = told.last().unwrap();
    assert_eq!((&ready["event"], &ready["preset"]), (&"ready".into(), &"ultra".into()));
    assert!(ready["token_s"].as_f64().unwrap() > 0.0);
    place.assert_whole(&files);
    let config = std::fs::read_to_string(home.join("config.toml")).unwrap();
    assert!(config.contains("preset = \"ultra\"") && config.contains("k3\""), "{config}");
    let output = program("run --prompt Hello! --temperature 0 --max-tokens 5 --json").output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(!answer["ids"].as_array().unwrap().is_empty(), "{answer}");

    // Again, over a folder that is complete: nothing is fetched, and the user's own lines stay.
    std::fs::write(home.join("config.toml"), "# mine\nthreads = 1\npreset = \"laptop\"\n").unwrap();
    let before = hub.log().len();
    let output = setup("");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(hub.log().len(), before);
    let config = std::fs::read_to_string(home.join("config.toml")).unwrap();
    assert!(config.starts_with("# mine\nthreads = 1\npreset = \"laptop\"\nmodel = "), "{config}");
}

#[test]
fn setup_refuses_what_cannot_be() {
    let (hub, place) = (Hub::good(model()), Place::new());
    let home = place.above().join("home");
    let setup = |arguments: &str| {
        let mut command = command(&format!("setup --yes {arguments} --endpoint"));
        command.arg(&hub.url).env("DORMOUSE_HOME", &home);
        command.output().unwrap()
    };
    let target = |folder: &std::path::Path| format!("--target {}", folder.display());
    assert_eq!(setup("").status.code(), Some(2), "where to?");
    assert_eq!(setup(&format!("{} --memory 3GB", target(&place.folder))).status.code(), Some(2));
    std::fs::create_dir_all(&place.folder).unwrap();
    std::fs::write(place.folder.join("file"), "").unwrap();
    let output = setup(&target(&place.folder.join("file")));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("There is a file of that name"), "{}", stderr(&output));
    // What comes is no model, and is not asked for a second time.
    let output = setup(&target(&place.folder.join("k3")));
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(!home.join("config.toml").exists());
}
