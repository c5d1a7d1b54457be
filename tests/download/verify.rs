//! A folder that was fetched, held against what was published, and repaired.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::hub::{Hub, Served};
use crate::program::{command, stderr};
use crate::support::Place;

const SHARD: &str = "model-00002-of-00004.safetensors";

/// The small model as a hub has it.
fn nano() -> Vec<Served> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/nano");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<Served> =
        entries.filter(|path| path.is_file()).map(|path| Served::of(&path)).collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

fn verify(place: &Place, hub: &Hub, arguments: &str) -> Output {
    let mut command = command("verify --model");
    command.arg(&place.folder).args(arguments.split_whitespace());
    command.env("DORMOUSE_HOME", place.above().join("home")).env("HF_ENDPOINT", &hub.url);
    command.output().unwrap()
}

fn object(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(output)))
}

/// Changes one bit in the middle of a file and sets the time of change back.
fn flip(path: &Path) {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
    fs::File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
}

#[test]
fn d08_d12_a_damaged_shard_is_named_and_only_it_is_fetched_again() {
    let (hub, place) = (Hub::good(nano()), Place::new());
    place.fetch(&hub).summary();
    let files = nano().len();
    let whole = verify(&place, &hub, "--deep --json");
    assert_eq!(whole.status.code(), Some(0), "{}", stderr(&whole));
    let published = object(&whole)["published"].clone();
    assert_eq!((&published["right"], &published["files"]), (&files.into(), &files.into()));
    assert_eq!(published["commit"], "a".repeat(40));

    flip(&place.folder.join(SHARD));
    assert_eq!(verify(&place, &hub, "--quick").status.code(), Some(0), "lengths say nothing of content");
    flip(&place.folder.join("config.json"));
    let bad = verify(&place, &hub, "--deep --json");
    assert_eq!(bad.status.code(), Some(1));
    let message = stderr(&bad);
    for word in [SHARD, "config.json", "published is", "verify --repair --model"] {
        assert!(message.contains(word), "{word}: {message}");
    }
    let named = object(&bad)["published"]["bad"].as_array().unwrap().len();
    assert_eq!(named, 2);

    let before = hub.fetches().len();
    let repaired = verify(&place, &hub, "--repair --json");
    assert_eq!(repaired.status.code(), Some(0), "{}", stderr(&repaired));
    let mut asked: Vec<_> = hub.fetches().split_off(before).into_iter().filter_map(|r| r.file).collect();
    asked.sort();
    asked.dedup();
    assert_eq!(asked, ["config.json", SHARD], "no others");
    assert!(object(&repaired)["published"]["fetched"].as_u64().unwrap() > 1_000_000);
    place.assert_whole(&nano());
    assert_eq!(verify(&place, &hub, "--deep").status.code(), Some(0));
}

#[test]
fn d13_d26_what_is_missing_or_empty_is_named_without_reading_and_repaired() {
    let (hub, place) = (Hub::good(nano()), Place::new());
    place.fetch(&hub).summary();
    fs::remove_file(place.folder.join(SHARD)).unwrap();
    fs::write(place.folder.join("tiktoken.model"), b"").unwrap();
    for arguments in ["", "--quick"] {
        let output = verify(&place, &hub, arguments);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{message}");
        assert!(message.contains(&format!("{SHARD} is missing")), "{message}");
        assert!(message.contains("tiktoken.model is empty"), "{message}");
    }
    assert_eq!(verify(&place, &hub, "--repair").status.code(), Some(0));
    place.assert_whole(&nano());
}

#[test]
fn d11_a_folder_copied_by_hand_has_no_digests_until_the_hub_is_asked() {
    let (hub, place) = (Hub::good(nano()), Place::new());
    fs::create_dir(&place.folder).unwrap();
    for file in nano() {
        fs::write(place.folder.join(&file.path), &*file.bytes).unwrap();
    }
    flip(&place.folder.join(SHARD));
    assert_eq!(verify(&place, &hub, "").status.code(), Some(0), "headers and sizes are right");
    let output = verify(&place, &hub, "--deep");
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("no published digests") && message.contains("--repair"), "{message}");
    let output = verify(&place, &hub, "--repair --json");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let asked: Vec<_> = hub.fetches().into_iter().filter_map(|request| request.file).collect();
    assert!(asked.iter().all(|file| file == SHARD), "only what was damaged: {asked:?}");
    place.assert_whole(&nano());
    assert_eq!(verify(&place, &hub, "--deep").status.code(), Some(0), "now there are some");
}

#[test]
fn a_hub_that_is_gone_leaves_what_is_there_alone() {
    let place = Place::new();
    {
        let hub = Hub::good(nano());
        place.fetch(&hub).summary();
    }
    let gone = Hub::new(nano(), |_| crate::hub::Act::Status(404, vec![], "gone"));
    flip(&place.folder.join(SHARD));
    let damaged = fs::read(place.folder.join(SHARD)).unwrap();
    let output = verify(&place, &gone, "--repair");
    assert!(matches!(output.status.code(), Some(2 | 3)), "{}", stderr(&output));
    assert_eq!(fs::read(place.folder.join(SHARD)).unwrap(), damaged);
    // Nothing but the hub is needed to find it.
    assert_eq!(verify(&place, &gone, "--deep").status.code(), Some(1));
}
