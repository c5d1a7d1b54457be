//! A disk that is full for a while, where the system lets a test have a small one of its own.

use std::fs;
use std::process::Command;

use dormouse::session::Folder;

use crate::nano::nano;
use crate::support::{User, object, stderr};

/// Mounts four pages, fills three, runs the program, and makes room once it has said that there is none.
/// Takes a folder to mount on, one to leave things in, the program, and its arguments.
const SCRIPT: &str = r#"
disk=$1; out=$2; program=$3; shift 3
mount -t tmpfs -o size=16k tmpfs "$disk" || exit 77
head -c 12288 /dev/zero > "$disk/filler"
: > "$out/err"
(until grep -q "disk is full" "$out/err"; do sleep 0.05; done; sleep 0.3; rm "$disk/filler") &
watch=$!
DORMOUSE_HOME=$disk timeout 100 "$program" "$@" 2> "$out/err"
code=$?
kill $watch 2> /dev/null
cp "$disk/sessions/s.journal" "$out"
exit $code
"#;

#[test]
fn a_full_disk_holds_a_turn_up_until_there_is_room() {
    let user = User::new();
    let story = "--prompt Story? --temperature 3 --top-p 1 --seed 9 --max-tokens 300 --json";
    let (disk, out) = (user.path("disk"), user.path("out"));
    for folder in [&disk, &out] {
        fs::create_dir(folder).unwrap();
    }
    // As root of a namespace of its own, which leaves nothing mounted behind.
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", SCRIPT, "sh"]).arg(&disk).arg(&out);
    command.arg(env!("CARGO_BIN_EXE_dormouse")).args(["run", "--session", "s", "--model"]).arg(nano());
    command.args(story.split(' '));
    let output = match command.output() {
        Ok(output) if output.status.code() != Some(77) && out.join("err").exists() => output,
        refused => {
            eprintln!("skipped: no disk of its own for the test: {refused:?}");
            return;
        }
    };
    let told = fs::read_to_string(out.join("err")).unwrap();
    assert_eq!(output.status.code(), Some(0), "{told}{}", stderr(&output));
    assert!(told.contains("the disk is full; ") && told.contains("of the session wait for room"), "{told}");
    let held_up = object(&output);
    let undisturbed = user.json(story.trim_end_matches(" --json"));
    for field in ["ids", "text", "thinking", "finish"] {
        assert_eq!(held_up[field], undisturbed[field], "{field}");
    }
    let (session, damage) = Folder::at(out).read("s").unwrap();
    assert_eq!(damage, None);
    let ids: Vec<u64> =
        undisturbed["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
    assert!(session.turns[0].ids.iter().map(|id| u64::from(*id)).eq(ids), "all of it is written down");
    assert_eq!(session.turns[0].finish(), undisturbed["finish"].as_str().unwrap());
}

/// Mounts a disk of four pages for the program's own files, fills it whole, and runs the program on a model elsewhere.
const FULL_HOME: &str = r#"
disk=$1; program=$2; shift 2
mount -t tmpfs -o size=16k tmpfs "$disk" || exit 77
head -c 16384 /dev/zero > "$disk/filler" 2> /dev/null
DORMOUSE_HOME=$disk exec "$program" "$@"
"#;

#[test]
fn d25_a_full_disk_keeps_no_program_from_starting() {
    let user = User::new();
    let disk = user.path("disk");
    fs::create_dir(&disk).unwrap();
    let run = |arguments: &str| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", FULL_HOME, "sh"]).arg(&disk);
        command.arg(env!("CARGO_BIN_EXE_dormouse")).args(arguments.split(' ')).arg("--model").arg(nano());
        command.output().unwrap()
    };
    let output = run("run --prompt Hello --max-tokens 4 --json");
    if output.status.code() == Some(77) || output.stdout.is_empty() {
        eprintln!("skipped: no disk of its own for the test: {output:?}");
        return;
    }
    // Settings, verification marks and measured rates cannot be written there, and nobody needs them to be.
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for arguments in ["plan", "verify", "verify --quick", "doctor --no-disk", "config show"] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments}: {}", stderr(&output));
    }
    let refused = run("config set threads 2");
    assert_eq!(refused.status.code(), Some(4), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("Make room there"), "{}", stderr(&refused));
}
