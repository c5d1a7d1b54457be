//! The limits of a container, as this machine sets them: only where it has memory control groups that may be made.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::nano::nano;
use crate::support::{User, object, stderr};

const LIMIT: u64 = 256 << 20;
/// A budget that the small model fits into, most of it streamed.
const TIGHT: u64 = 38 << 20;

/// A group of our own, removed when it is dropped.
struct Group {
    dir: PathBuf,
    limit: &'static str,
}

impl Group {
    /// Beside the group that this test is in; nothing where the machine does not allow it.
    fn new() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let path =
            |kind: &str| own.lines().find_map(|line| Some(line.split_once(kind)?.1.trim_start_matches('/')));
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("dormouse-test-{}-{number}", std::process::id());
        let v1 = path(":memory:")
            .map(|own| (Path::new("/sys/fs/cgroup/memory").join(own), "memory.limit_in_bytes"));
        let v2 = path("0::").map(|own| (Path::new("/sys/fs/cgroup").join(own), "memory.max"));
        for (parent, limit) in [v1, v2].into_iter().flatten() {
            let dir = parent.join(&name);
            if fs::create_dir(&dir).is_err() {
                continue;
            }
            let group = Self { dir, limit };
            if fs::write(group.dir.join(limit), LIMIT.to_string()).is_ok() {
                return Some(group);
            }
        }
        None
    }

    fn limit_file(&self) -> PathBuf {
        self.dir.join(self.limit)
    }

    /// Runs a command in the group: a shell enters it and becomes the command.
    fn run(&self, command: &Command) -> Output {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg("echo $$ > \"$0\" && exec \"$@\"").arg(self.dir.join("cgroup.procs"));
        shell.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        shell.output().unwrap()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.dir);
    }
}

#[test]
fn the_limit_of_a_real_group_is_known_and_kept() {
    let Some(group) = Group::new() else {
        // Past the harness, so that a run shows what it did not cover.
        writeln!(std::io::stderr(), "container: skipped, no memory control group can be made here").unwrap();
        return;
    };
    let user = User::new();
    let command = |arguments: &str| {
        let mut command = user.command(arguments);
        command.arg("--model").arg(nano());
        command
    };
    let output = group.run(&command("plan --json"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let plan = object(&output);
    assert_eq!(plan["machine"]["total"], LIMIT);
    assert_eq!(plan["machine"]["limited_by"], group.limit_file().display().to_string());
    assert!(plan["machine"]["available"].as_u64().unwrap() <= LIMIT);
    assert!(plan["budget"].as_u64().unwrap() < LIMIT);

    // Sized by itself it stays within the limit, which would end it otherwise.
    let output = group.run(&command("run --prompt Hello! --max-tokens 3 --json"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(object(&output)["memory"]["peak_rss"].as_u64().unwrap() < LIMIT);

    let output = group.run(&command("run --prompt Hello! --memory 512MiB"));
    assert_eq!(output.status.code(), Some(4));
    let message = stderr(&output);
    let file = group.limit_file();
    assert!(
        message.contains(&format!("the machine has 256 MiB (the limit in {})", file.display())),
        "{message}"
    );
}

/// What is read through the page cache counts in the group as well, and fills it: the system gives it back rather than
/// end the program, whichever way is read, and the answer is the same.
#[test]
fn a_full_group_slows_a_run_and_changes_nothing() {
    let Some(group) = Group::new() else {
        writeln!(std::io::stderr(), "container: skipped, no memory control group can be made here").unwrap();
        return;
    };
    // A budget that leaves the group next to nothing beside it.
    fs::write(group.limit_file(), (TIGHT + (4 << 20)).to_string()).unwrap();
    let user = User::new();
    let mut ids = Vec::new();
    for reader in ["auto", "buffered", "mmap"] {
        let mut command = user.command(
            "run --ids 300,301,302,303 --max-tokens 8 --temperature 0 --context 64 --state-disk 0 --json",
        );
        command.args(["--memory", &TIGHT.to_string(), "--reader", reader, "--model"]).arg(nano());
        let output = group.run(&command);
        assert_eq!(output.status.code(), Some(0), "{reader}: {}", stderr(&output));
        let result = object(&output);
        assert!(
            result["bytes"]["trunk"].as_u64().unwrap() > TIGHT,
            "{reader} read too little to fill the group"
        );
        ids.push(result["ids"].clone());
    }
    assert!(ids.iter().all(|other| *other == ids[0]), "{ids:?}");
}
