//! The released model's 96 shards in their real sizes, of which no byte need exist: the list, the room, the sums, the
//! memory. On a disk of zeros that claims to be as large as it takes.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::hub::{Act, Hub, Served};
use crate::support::Place;

const NO_DISK: &str = "a file system of that size cannot be mounted here";

/// The small files beside the shards.
const SMALL: [(&str, &str); 2] =
    [("config.json", "{\"model_type\": \"kimi_k3\"}\n"), ("tokenizer_config.json", "{}\n")];

/// Every shard and its bytes, as the hub lists them, beside two small files.
pub(crate) fn released() -> Vec<Served> {
    let list = include_str!("../fixtures/released_sizes.txt");
    let shard = |line: &str| {
        let (name, size) = line.split_once(' ').unwrap();
        Served::zeros(name, size.parse().unwrap())
    };
    let mut files: Vec<Served> = list.lines().map(shard).collect();
    files.extend(SMALL.map(|(name, text)| Served::small(name, text)));
    files
}

/// A hub that sends them slowly enough for the memory of this machine, in which they land.
pub(crate) fn hub() -> Hub {
    Hub::new(released(), |request| {
        if request.at_store { Act::Slow(256 << 10, std::time::Duration::from_millis(10)) } else { Act::Well }
    })
}

/// Bytes of all files.
fn total() -> u64 {
    let list = include_str!("../fixtures/released_sizes.txt");
    let shards = list.lines().map(|line| line.split_once(' ').unwrap().1.parse::<u64>().unwrap());
    shards.sum::<u64>() + SMALL.iter().map(|(_, text)| text.len() as u64).sum::<u64>()
}

/// Runs a script in a name space of its own, where its first argument is a disk of `size` that holds what is written to it
/// in memory. None where such a disk cannot be made.
fn on_a_disk(place: &Place, size: &str, script: &str, arguments: &[&Path]) -> Option<std::process::Output> {
    let able = Command::new("unshare")
        .args(["-rm", "sh", "-c", "mount -t tmpfs -o size=4t none /tmp"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !able {
        return None;
    }
    std::fs::create_dir_all(&place.folder).unwrap();
    let script = format!("mount -t tmpfs -o size={size} none \"$1\" || exit 90\n{script}");
    let mut unshare = Command::new("unshare");
    unshare.args(["-rm", "sh", "-c", &script, "sh"]).arg(&place.folder).args(arguments);
    Some(unshare.env_remove("HF_TOKEN").output().unwrap())
}

fn events(log: &str) -> Vec<Value> {
    log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn d23_the_room_for_the_released_model_is_counted_to_the_byte() {
    let (hub, place) = (hub(), Place::new());
    assert_eq!((released().len(), total()), (98, 1_560_936_091_448 + 26 + 3));
    let script = r#""$2" download "$1" --endpoint "$3" --json"#;
    let program = Path::new(env!("CARGO_BIN_EXE_dormouse"));
    let Some(output) = on_a_disk(&place, "1t", script, &[program, Path::new(&hub.url)]) else {
        eprintln!("skipped: {NO_DISK}");
        return;
    };
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
    let failed = events(&String::from_utf8_lossy(&output.stdout)).pop().unwrap();
    // The disk is empty, and a gibibyte of so much is to spare.
    assert_eq!(failed["missing_bytes"], total() + (1 << 30) - (1 << 40));
    assert!(hub.fetches().is_empty());
}

#[test]
fn the_released_model_takes_little_memory_and_its_sums_are_right() {
    let (hub, place) = (hub(), Place::new());
    let log = place.above().join("log");
    // It is stopped once something is safe, and then told how much memory it took at most.
    let script = r#"
        "$2" download "$1" --endpoint "$3" --json --jobs 4 --block 4MiB >"$4" 2>"$4.err" &
        for _ in $(seq 1000); do grep -q '"verified":[1-9][0-9]\{7\}' "$4" && break; sleep 0.02; done
        grep VmHWM /proc/$!/status
        kill -INT $!
        wait $!; code=$?
        "$2" download "$1" --endpoint "$3" --json --jobs 4 --block 4MiB >"$4.again" 2>>"$4.err" &
        for _ in $(seq 500); do grep -q '"event":"listed"' "$4.again" && break; sleep 0.02; done
        kill -INT $!; wait $!
        exit $code
    "#;
    let program = Path::new(env!("CARGO_BIN_EXE_dormouse"));
    let arguments = [program, Path::new(&hub.url), &log];
    let Some(output) = on_a_disk(&place, "2t", script, &arguments) else {
        eprintln!("skipped: {NO_DISK}");
        return;
    };
    let text = std::fs::read_to_string(&log).unwrap();
    assert_eq!(output.status.code(), Some(130), "{}\n{text}", String::from_utf8_lossy(&output.stderr));
    let peak = String::from_utf8_lossy(&output.stdout);
    let kib: u64 = peak.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kib < 200 << 10, "{peak}");
    let events = events(&text);
    let listed = events.iter().find(|event| event["event"] == "listed").unwrap();
    assert_eq!((&listed["files"], &listed["bytes"]), (&98.into(), &total().into()));
    let looks: Vec<&Value> = events.iter().filter(|event| event["event"] == "progress").collect();
    assert!(looks.iter().all(|look| look["total"] == total()));
    assert!(looks.is_sorted_by_key(|look| look["verified"].as_u64()));
    let last = looks.last().unwrap();
    let busy = looks.iter().map(|look| look["connections"].as_array().unwrap().len()).max();
    assert_eq!((busy, last["files_done"].as_u64()), (Some(4), Some(2)));
    // At this pace it takes days, and that is what is said.
    let told = looks.iter().rev().find(|look| look["left_s"].as_f64().is_some()).unwrap();
    let (rate, left) = (told["rate"].as_f64().unwrap(), told["left_s"].as_f64().unwrap());
    let expected = (total() - told["verified"].as_u64().unwrap()) as f64 / rate;
    assert!((left / expected - 1.0).abs() < 1e-6, "{left} s at {rate} bytes/s");
    // What was made safe before the stop is what the next run begins with.
    let again = std::fs::read_to_string(log.with_extension("again")).unwrap();
    let listed: Value = again
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .find(|event: &Value| event["event"] == "listed")
        .unwrap();
    assert!(listed["kept"].as_u64() >= last["verified"].as_u64(), "{listed} after {last}");
}
