//! Disks that are too small, or fill up.

use std::process::Command;
use std::time::Duration;

use dormouse::setup::download::Error;

use crate::hub::{Act, Hub, Served};
use crate::support::{KIB, Place, model};

#[test]
fn d23_d24_too_little_room_is_said_before_anything_is_fetched() {
    // As many and as large files as the real model has.
    let mut files = model();
    for shard in 1..=96 {
        let mut file = Served::large(&format!("model-{shard:05}-of-000096.safetensors"), 1);
        file.listed = Some(1 << 52);
        files.push(file);
    }
    let (hub, place) = (Hub::good(files), Place::named("not/yet/there"));
    let outcome = place.fetch(&hub);
    match outcome.error() {
        Error::NoSpace { place: looked_at, remaining, free, missing, spare } => {
            // Not at the home, not at the root: where the files would lie.
            assert_eq!(looked_at, place.above());
            assert!(*remaining > 96 << 52 && missing + free == remaining + spare);
            assert!(outcome.error().to_string().contains(&format!("{missing} bytes")));
        }
        other => panic!("{other}"),
    }
    assert!(hub.fetches().is_empty() && !place.above().join("not").exists());
}

/// Runs the program on a small disk of its own: in a name space where it may mount one.
#[test]
fn d23_a_disk_that_fills_up_is_a_pause() {
    let able = Command::new("unshare")
        .args(["-rm", "sh", "-c", "mount -t tmpfs -o size=1m none /tmp"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !able {
        eprintln!("skipped: a small file system cannot be mounted here");
        return;
    }
    let files = vec![Served::large("model.safetensors", 2048 * KIB)];
    let hub = Hub::new(files.clone(), |request| {
        if request.at_store { Act::Slow(32 * KIB, Duration::from_millis(10)) } else { Act::Well }
    });
    let place = Place::new();
    std::fs::create_dir(&place.folder).unwrap();
    // Another program fills the disk once the download has begun, and leaves when it has paused.
    let script = r#"
        mount -t tmpfs -o size=4m none "$1" || exit 90
        folder=$1; program=$2; hub=$3; log=$4
        "$program" download "$folder" --endpoint "$hub" --json --block 64KiB >"$log" &
        until grep -q '"state":"fetching"' "$log"; do sleep 0.02; done
        dd if=/dev/zero of="$folder/filler" bs=64k count=40 2>/dev/null
        for _ in $(seq 500); do grep -q '"state":"paused"' "$log" && break; sleep 0.02; done
        rm "$folder/filler"
        wait $!; code=$?
        sha256sum "$folder/model.safetensors" | cut -d' ' -f1
        exit $code
    "#;
    let log = place.above().join("log");
    let mut unshare = Command::new("unshare");
    unshare.args(["-rm", "sh", "-c", script, "sh"]);
    unshare.arg(&place.folder).arg(env!("CARGO_BIN_EXE_dormouse")).arg(&hub.url).arg(&log);
    let output = unshare.env_remove("HF_TOKEN").output().unwrap();
    let log = std::fs::read_to_string(&log).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}\n{log}", String::from_utf8_lossy(&output.stderr));
    let paused = log.lines().find(|line| line.contains("the disk is full")).unwrap();
    assert!(paused.contains("bytes") && paused.contains("missing"), "{paused}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), files[0].sha256());
}
