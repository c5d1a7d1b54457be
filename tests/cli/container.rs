//! The limits of a container, as this machine sets them: only where it has memory control groups that may be made.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::nano::nano;
use crate::support::{User, object, stderr};

const LIMIT: u64 = 256 << 20;

/// A group of our own, removed when it is dropped.
struct Group {
    dir: PathBuf,
    limit: &'static str,
}

impl Group {
    /// Beside the group that this test is in; nothing where the machine does not allow it.
    fn new() -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let path =
            |kind: &str| own.lines().find_map(|line| Some(line.split_once(kind)?.1.trim_start_matches('/')));
        let name = format!("dormouse-test-{}", std::process::id());
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
