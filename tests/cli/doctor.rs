//! `dormouse doctor`, on this machine and on machines of files.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::nano::{copy_of_nano, nano};
use crate::support::{User, object, stderr, stdout};

/// A machine: 16 GiB, four cores, nothing in its way.
fn machine() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    file(&dir, "proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 12582912 kB\n");
    file(&dir, "proc/self/limits", "Max open files  1024  524288  files\n");
    cores(&dir, 4, "avx2 fma avx512f avx512bw avx512dq avx512vl");
    dir
}

fn file(dir: &tempfile::TempDir, path: &str, content: &str) {
    let path = dir.path().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn cores(dir: &tempfile::TempDir, count: usize, flags: &str) {
    let core = |n| format!("processor : {n}\nphysical id : 0\ncore id : {n}\nflags : {flags}\n\n");
    file(dir, "proc/cpuinfo", &(0..count).map(core).collect::<String>());
}

fn examined(user: &User, root: &Path, arguments: &str) -> (Option<i32>, Value) {
    let mut command = user.command("doctor --json --no-disk --root");
    let output = command.arg(root).args(arguments.split_whitespace()).output().unwrap();
    (output.status.code(), object(&output))
}

fn check(report: &Value, name: &str) -> Value {
    report["checks"].as_array().unwrap().iter().find(|check| check["name"] == name).unwrap().clone()
}

#[test]
fn a_machine_is_told_what_it_can_do_and_exits_well_whatever_it_lacks() {
    let user = User::new();
    let dir = machine();
    let (code, report) = examined(&user, dir.path(), "");
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(check(&report, "processor")["status"], "ok");
    assert_eq!(report["outlook"]["preset"], "laptop");
    let token = &report["outlook"]["token"];
    assert!(token["seconds"].as_f64().unwrap() > 1.0 && token["read"].as_u64().unwrap() > 100_000_000_000);
    // No AVX2, one core, little memory in a container of either generation: each works, and is told so.
    cores(&dir, 1, "sse2");
    file(&dir, "proc/self/cgroup", "4:memory:/app\n0::/app\n");
    let v1 = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
    let v2 = "36 31 0:33 / /sys/fs/cgroup/two rw - cgroup2 cgroup2 rw\n";
    for (limit, list) in [("memory/app/memory.limit_in_bytes", v1), ("two/app/memory.max", v2)] {
        file(&dir, "proc/self/mountinfo", list);
        file(&dir, &format!("sys/fs/cgroup/{limit}"), "536870912\n");
        let (code, report) = examined(&user, dir.path(), "");
        assert_eq!(code, Some(0), "{report}");
        for name in ["processor", "cores", "memory"] {
            assert_eq!(check(&report, name)["status"], "warn", "{name}");
        }
        let memory = check(&report, "memory");
        assert!(memory["finding"].as_str().unwrap().contains(limit), "{memory}");
        assert_eq!((&report["outlook"], &report["next"]), (&Value::Null, &"dormouse".into()));
    }
}

#[test]
fn what_was_asked_for_and_does_not_work_exits_with_one() {
    let user = User::new();
    let dir = machine();
    let at = dir.path().canonicalize().unwrap();
    let target = format!("--target {}", at.join("k3").display());
    for (kind, options, word) in [("ext4", "ro", "Nothing can be written"), ("tmpfs", "rw", "tmpfs")] {
        let list = format!("22 1 259:2 / {} {options} - {kind} /dev/x rw\n", at.display());
        file(&dir, "proc/self/mountinfo", &list);
        let (code, report) = examined(&user, dir.path(), &target);
        let disk = check(&report, "disk");
        assert_eq!((code, &disk["status"]), (Some(1), &"fail".into()), "{disk}");
        assert!(format!("{disk}").contains(word), "{disk}");
    }
    let model = copy_of_nano();
    let named = format!("--model {}", model.path().display());
    let (code, report) = examined(&user, machine().path(), &named);
    assert_eq!((code, &check(&report, "model")["status"]), (Some(0), &"warn".into()), "never verified");
    fs::remove_file(model.path().join("model-00002-of-00004.safetensors")).unwrap();
    let (code, report) = examined(&user, machine().path(), &named);
    assert_eq!((code, &check(&report, "model")["status"]), (Some(1), &"fail".into()));
    let text = format!("{report}");
    assert!(text.contains("model-00002-of-00004.safetensors"), "the shard is named: {text}");
    let output = user.command("doctor --no-disk --model /nowhere").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("model") && stdout(&output).contains("/nowhere"), "{}", stdout(&output));
}

/// A file system that is full, of a name space of its own.
#[test]
fn a_full_disk_is_a_finding() {
    let user = User::new();
    let disk = user.path("disk");
    fs::create_dir(&disk).unwrap();
    let script = "mount -t tmpfs -o size=64k tmpfs \"$1\" || exit 77; head -c 65536 /dev/zero > \"$1/filler\"; shift; exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", script, "sh"]).arg(&disk);
    command.arg(env!("CARGO_BIN_EXE_dormouse")).args(["doctor", "--json", "--target"]).arg(disk.join("k3"));
    command.env("DORMOUSE_HOME", user.path("home"));
    let output = match command.output() {
        Ok(output) if !output.stdout.is_empty() => output,
        refused => return eprintln!("skipped: no disk of its own for the test: {refused:?}"),
    };
    let report = object(&output);
    assert_eq!(output.status.code(), Some(1), "{report}");
    let found = check(&report, "disk")["finding"].as_str().unwrap().to_owned();
    assert!(found.contains("tmpfs, 0 B free of 64.0 KiB"), "{found}");
    assert!(check(&report, "disk rate")["finding"].as_str().unwrap().contains("too little room"), "{report}");
}

#[test]
fn a_person_reads_rows_and_what_to_do_next() {
    let user = User::new();
    let output: Output = user.command("doctor --no-disk --model").arg(nano()).output().unwrap();
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(text.lines().any(|line| line.starts_with("ok  tokenizer")), "{text}");
    assert!(text.lines().last().unwrap().starts_with("Next: dormouse --model "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
}

#[test]
fn a_signal_ends_it_at_once_and_nothing_is_left_behind() {
    for signal in [Signal::INT, Signal::TERM] {
        let user = User::new();
        let target = user.path("target");
        fs::create_dir(&target).unwrap();
        let mut command = user.command("doctor --json --target");
        let mut child = command.arg(&target).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(700));
        let began = Instant::now();
        kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
        let status = child.wait().unwrap();
        // A disk of this test that has no room for a measurement has been looked at by then.
        assert!(status.code() == Some(130) || status.code() == Some(1), "{status}");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
    }
}
