use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use super::*;

/// A machine of files: 16 GiB with 12 GiB free, four cores with AVX-512, nothing in its way.
struct Fake(tempfile::TempDir);

impl Fake {
    fn new() -> Self {
        let fake = Self(tempfile::tempdir().unwrap());
        fake.file("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 12582912 kB\nSwapTotal: 0 kB\n");
        fake.file("proc/self/limits", "Max open files  1024  524288  files\n");
        fake.file("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
        fake.cores(4, "avx2 fma avx512f avx512bw avx512dq avx512vl");
        fake
    }

    fn file(&self, path: &str, content: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn cores(&self, count: usize, flags: &str) {
        let core = |n: usize| {
            format!("processor : {n}\nmodel name : Fast\nphysical id : 0\ncore id : {n}\nflags : {flags}\n\n")
        };
        self.file("proc/cpuinfo", &(0..count).map(core).collect::<String>());
    }

    fn paths(&self) -> Paths {
        let home = self.0.path().join("home");
        Paths { data: home.clone(), config: home.clone(), state: home }
    }

    fn subject(&self) -> Subject {
        Subject {
            root: self.0.path().to_owned(),
            forced_tier: None,
            now: UNIX_EPOCH + Duration::from_secs(1_796_083_199),
            planner: Some(Planner::new(|_, memory, disk| {
                (memory.0 >= 2_600_000_000).then(|| Expected {
                    seconds: 40.0,
                    read: 1 << 37,
                    touched: 1 << 37,
                    bound: "disk",
                    disk: disk.map_or(3e9, |rate| rate.0),
                    disk_measured: disk.is_some(),
                    compute: 5e9,
                    compute_measured: false,
                })
            })),
            ..Subject::here(self.paths(), self.target(false, false))
        }
    }

    fn target(&self, named: bool, holds_model: bool) -> Target {
        Target { folder: self.0.path().join("models/k3"), named, holds_model }
    }

    fn report(&self) -> Report {
        examine(&self.subject(), &|| false, &mut |_| {}).unwrap()
    }

    fn check(&self, name: &str) -> Check {
        named(&self.report(), name)
    }
}

fn named(report: &Report, name: &str) -> Check {
    report.checks.iter().find(|check| check.name == name).unwrap().clone()
}

/// The check has this status, and these words in what it found or advises.
fn assert_says(check: &Check, status: Status, words: &[&str]) {
    assert_eq!(check.status, status, "{check:?}");
    let all = format!("{} {}", check.finding, check.advice);
    for word in words {
        assert!(all.contains(word), "{word:?} is not in {all:?}");
    }
    assert_eq!(check.status == Status::Ok, check.advice.is_empty(), "{check:?}");
}

#[test]
fn a_machine_with_everything_has_nothing_to_do() {
    let report = Fake::new().report();
    // The disk of this test may have no room for the model; nobody asked for that.
    for check in report.checks.iter().filter(|check| check.name != "disk") {
        assert_says(check, Status::Ok, &[]);
    }
    assert!(report.status() < Status::Fail);
    assert_eq!(report.outlook.as_ref().unwrap().preset, Some("laptop"));
    assert_says(&named(&report, "processor"), Status::Ok, &["Fast: avx512"]);
    assert_says(&named(&report, "memory"), Status::Ok, &["12.0 GiB free of 16.0 GiB"]);
    assert_says(&named(&report, "clock"), Status::Ok, &["2026-11-30"]);
    let names: std::collections::BTreeSet<_> = report.checks.iter().map(|check| check.name).collect();
    assert_eq!(names.len(), report.checks.len(), "each name once");
}

#[test]
fn a_processor_without_avx2_works_and_is_told_so() {
    let fake = Fake::new();
    fake.cores(4, "sse2");
    assert_says(&fake.check("processor"), Status::Warn, &["scalar", "neither AVX2", "slower"]);
    fake.cores(4, "avx2 fma");
    assert_says(&fake.check("processor"), Status::Ok, &["avx2"]);
    let forced = |name: &str| {
        let subject = Subject { forced_tier: Some(name.to_owned()), ..fake.subject() };
        named(&examine(&subject, &|| false, &mut |_| {}).unwrap(), "processor")
    };
    assert_says(&forced("avx512"), Status::Fail, &["DORMOUSE_CPU asks for avx512"]);
    assert_says(&forced("avx9"), Status::Fail, &["`avx9`"]);
    assert_says(&forced("scalar"), Status::Warn, &["as DORMOUSE_CPU asks", "Unset"]);
    assert_says(&forced(""), Status::Ok, &["avx2"]);
}

#[test]
fn e24_e26_cores_are_physical_and_those_that_may_be_used() {
    let fake = Fake::new();
    fake.file("proc/self/status", "Cpus_allowed_list:\t0\n");
    assert_says(&fake.check("cores"), Status::Warn, &["4 physical of 4 threads, 1 of them", "taskset"]);
    fake.file("proc/self/status", "Cpus_allowed_list:\t0-3\n");
    fake.cores(1, "avx2 fma");
    assert_says(&fake.check("cores"), Status::Warn, &["1 physical", "It works"]);
    fake.cores(4, "avx2 fma");
    fake.file("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
    fake.file("proc/self/cgroup", "0::/\n");
    fake.file("proc/self/mountinfo", "25 30 0:23 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    fake.file("sys/fs/cgroup/cpu.max", "150000 100000\n");
    assert_says(&fake.check("cores"), Status::Warn, &["1.5 cores' time", "--threads", "powersave"]);
}

#[test]
fn e09_e10_memory_is_what_the_container_leaves_in_both_generations() {
    let fake = Fake::new();
    fake.file("proc/self/cgroup", "4:memory:/app\n0::/app\n");
    let v1 = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
    let v2 = "36 31 0:33 / /sys/fs/cgroup/two rw - cgroup2 cgroup2 rw\n";
    fake.file("proc/self/mountinfo", &format!("{v1}{v2}"));
    fake.file("sys/fs/cgroup/two/app/memory.max", "2147483648\n");
    let file = "/sys/fs/cgroup/two/app/memory.max";
    assert_says(&fake.check("memory"), Status::Warn, &["of 2.00 GiB", file, "small model", "a higher limit"]);
    fake.file("sys/fs/cgroup/two/app/memory.max", "max\n");
    fake.file("sys/fs/cgroup/memory/app/memory.limit_in_bytes", "1073741824\n");
    assert_says(&fake.check("memory"), Status::Warn, &["of 1.00 GiB", "memory.limit_in_bytes"]);
    fake.file("sys/fs/cgroup/memory/app/memory.limit_in_bytes", "9223372036854771712\n");
    assert_says(&fake.check("memory"), Status::Ok, &["12.0 GiB free of 16.0 GiB"]);
    // A machine that can only run the small model is no failure.
    fake.file("proc/meminfo", "MemTotal: 2097152 kB\nMemAvailable: 1048576 kB\n");
    assert_says(&fake.check("memory"), Status::Warn, &["Enough for the small model", "a larger machine"]);
    let report = fake.report();
    assert_eq!((report.status(), report.outlook, report.next.as_str()), (Status::Warn, None, "dormouse"));
    fake.file("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 2097152 kB\n");
    assert_says(&fake.check("memory"), Status::Warn, &["close other programs"]);
}

#[test]
fn what_is_scarce_is_said() {
    let fake = Fake::new();
    fake.file(
        "proc/meminfo",
        "MemTotal: 16777216 kB\nMemAvailable: 12582912 kB\nSwapTotal: 1024 kB\nSwapFree: 100 kB\n",
    );
    assert_says(&fake.check("swap"), Status::Warn, &["of 1.00 MiB in use", "--memory"]);
    fake.file("proc/self/limits", "Max open files  64  524288  files\n");
    assert_says(&fake.check("open files"), Status::Warn, &["only 64", "ulimit -n 1024"]);
    fake.file("proc/self/limits", "Max open files  64  128  files\n");
    assert_says(&fake.check("open files"), Status::Warn, &["only 64", "limits.conf"]);
    let subject = Subject { now: UNIX_EPOCH + Duration::from_hours(24), ..fake.subject() };
    let report = examine(&subject, &|| false, &mut |_| {}).unwrap();
    assert_says(&named(&report, "clock"), Status::Warn, &["1970-01-02", "certificate"]);
}

#[test]
fn a_system_that_tells_nothing_breaks_nothing() {
    let empty = tempfile::tempdir().unwrap();
    let subject = Subject { root: empty.path().to_owned(), ..Fake::new().subject() };
    let report = examine(&subject, &|| false, &mut |_| {}).unwrap();
    assert_says(&named(&report, "memory"), Status::Warn, &["does not tell", "--memory"]);
    assert!(report.status() < Status::Fail, "{report:?}");
}

#[test]
fn checks_are_told_as_they_end_and_a_wish_to_stop_is_heard() {
    let fake = Fake::new();
    let mut told = Vec::new();
    let report = examine(&fake.subject(), &|| false, &mut |check| told.push(check.clone())).unwrap();
    assert_eq!(told, report.checks);
    let asked = std::cell::Cell::new(0);
    let stop = || {
        asked.set(asked.get() + 1);
        asked.get() > 2
    };
    let mut count = 0;
    assert_eq!(examine(&fake.subject(), &stop, &mut |_| count += 1), Err(Stopped));
    assert_eq!(count, 2);
}

#[test]
fn a_terminal_says_what_it_can_show() {
    let check = |size: Option<(u16, u16)>, variables: &[(&str, &str)]| {
        let find = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        let subject = Subject { terminal: Some(Terminal::of(size, find)), ..Fake::new().subject() };
        named(&examine(&subject, &|| false, &mut |_| {}).unwrap(), "terminal")
    };
    let good = [("TERM", "xterm-256color"), ("COLORTERM", "truecolor"), ("LANG", "de_DE.UTF-8")];
    assert_says(&check(Some((80, 24)), &good), Status::Ok, &["80 by 24", "16 million", "Unicode", "paste"]);
    assert_says(&check(Some((60, 20)), &good), Status::Warn, &["60 by 20", "80 columns"]);
    let plain = [("TERM", "xterm-256color"), ("LC_ALL", "C"), ("LANG", "de_DE.UTF-8"), ("NO_COLOR", "1")];
    assert_says(&check(None, &plain), Status::Warn, &["unknown size", "no colours", "no Unicode", "LANG"]);
    assert_says(&check(Some((80, 24)), &[("TERM", "dumb")]), Status::Warn, &["dumb", "dormouse run"]);
    assert_says(&check(Some((80, 24)), &[]), Status::Warn, &["TERM is not set"]);
    let tmux = check(Some((80, 24)), &[&good[..], &[("TMUX", "/tmp/x,1,0")]].concat());
    assert_eq!(tmux.status, Status::Ok);
    assert!(tmux.finding.contains("in tmux") && tmux.advice.contains("set-clipboard"), "{tmux:?}");
    let screen = check(Some((80, 24)), &[&good[..], &[("STY", "1.x")]].concat());
    assert_says(&screen, Status::Warn, &["in screen", "paste"]);
    let console = check(Some((80, 24)), &[("TERM", "linux"), ("LANG", "C.UTF-8")]);
    assert_says(&console, Status::Warn, &["no bracketed paste", "16 colours"]);
}

#[cfg(target_os = "linux")]
#[test]
fn the_machine_of_this_test_can_be_examined() {
    let fake = Fake::new();
    let subject = Subject::here(fake.paths(), fake.target(false, false));
    let report = examine(&subject, &|| false, &mut |_| {}).unwrap();
    assert!(report.checks.iter().all(|check| !check.finding.is_empty()));
    assert!(Path::new("/proc/cpuinfo").exists() && !named(&report, "processor").finding.contains("tell"));
}

#[test]
fn a_model_elsewhere_is_looked_at_beside_another_target() {
    let fake = Fake::new();
    let model = fake.0.path().join("elsewhere");
    fetched(&model);
    let subject = Subject {
        model: Some(Target { folder: model, named: true, holds_model: true }),
        target: fake.target(true, false),
        ..fake.subject()
    };
    let report = examine(&subject, &|| false, &mut |_| {}).unwrap();
    assert!(named(&report, "model").finding.contains("elsewhere: "), "{:?}", named(&report, "model"));
    assert!(named(&report, "disk").finding.contains("models/k3"), "{:?}", named(&report, "disk"));
}

#[test]
fn a_target_on_a_file_system_that_cannot_hold_the_model_is_refused_where_it_was_asked_for() {
    let fake = Fake::new();
    let mount = |kind: &str, options: &str| {
        let at = fake.0.path().canonicalize().unwrap();
        let list = format!("22 1 259:2 / {} {options} - {kind} /dev/x rw\n", at.display());
        fake.file("proc/self/mountinfo", &list);
    };
    let check = |named| {
        let subject = Subject { target: fake.target(named, false), ..fake.subject() };
        let report = examine(&subject, &|| false, &mut |_| {}).unwrap();
        let disk = report.checks.iter().find(|check| check.name == "disk").unwrap().clone();
        (disk, report.next)
    };
    mount("ext4", "ro");
    assert_says(&check(true).0, Status::Fail, &["ext4", "Nothing can be written"]);
    assert_says(&check(false).0, Status::Warn, &["Nothing can be written"]);
    mount("tmpfs", "rw");
    let (disk, next) = check(true);
    assert_says(&disk, Status::Fail, &["tmpfs"]);
    assert_eq!(next, "dormouse");
}

/// A copy of the small model of the repository, as if it had been fetched.
fn fetched(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/nano")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
    }
}

#[test]
fn d26_a_models_files_are_looked_at_and_the_wrong_one_is_named() {
    let fake = Fake::new();
    let target = fake.target(true, true);
    let report =
        || examine(&Subject { target: target.clone(), ..fake.subject() }, &|| false, &mut |_| {}).unwrap();
    assert_says(&named(&report(), "model"), Status::Fail, &["config.json"]);
    fetched(&target.folder);
    let whole = report();
    assert_says(&named(&whole, "model"), Status::Warn, &["4 shards", "nobody here knows", "--repair"]);
    assert_says(&named(&whole, "tokenizer"), Status::Ok, &["ids"]);
    assert!(
        whole.next.starts_with("dormouse --model ") && whole.next.ends_with(" --preset laptop"),
        "{}",
        whole.next
    );
    // With a list it is known what is missing.
    let shard = "model-00002-of-00004.safetensors";
    let size = fs::metadata(target.folder.join(shard)).unwrap().len();
    let record = serde_json::json!({
        "repo": "o/n", "revision": "main", "commit": "a".repeat(40), "complete": false,
        "files": [{ "path": shard, "size": size, "digest": format!("sha256:{}", "a".repeat(64)) }],
    });
    fs::write(target.folder.join(".dormouse-download.json"), record.to_string()).unwrap();
    assert_says(&named(&report(), "model"), Status::Warn, &["1 of 1 files were never held", "verify --deep"]);
    fs::write(target.folder.join(shard), b"short").unwrap();
    let short = report();
    assert_says(&named(&short, "model"), Status::Fail, &[shard, "5 bytes long", "dormouse download"]);
    assert!(short.next.starts_with("dormouse download "), "{}", short.next);
    fs::write(target.folder.join("tiktoken.model"), b"").unwrap();
    fs::remove_file(target.folder.join(".dormouse-download.json")).unwrap();
    fs::copy(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/nano").join(shard),
        target.folder.join(shard),
    )
    .unwrap();
    let report = report();
    assert_says(&named(&report, "tokenizer"), Status::Fail, &["tiktoken.model", "--repair"]);
    assert_eq!(report.status(), Status::Fail);
}

#[test]
fn a_disk_is_measured_and_nothing_is_left_behind() {
    let fake = Fake::new();
    fs::create_dir_all(fake.target(true, false).folder).unwrap();
    let measure = Some(Measure { size: Bytes(64 << 20), seconds: 0.3 });
    let subject = Subject { measure, target: fake.target(true, false), ..fake.subject() };
    let report = examine(&subject, &|| false, &mut |_| {}).unwrap();
    let rate = named(&report, "disk rate");
    assert!(rate.finding.contains("B/s") || rate.status == Status::Warn, "{rate:?}");
    assert_eq!(fs::read_dir(&subject.target.folder).unwrap().count(), 0);
    // Stopped in the middle of it, nothing is left either.
    let asked = std::cell::Cell::new(0);
    let stop = || {
        asked.set(asked.get() + 1);
        asked.get() > 14
    };
    assert_eq!(examine(&subject, &stop, &mut |_| {}).map(|_| ()), Err(Stopped));
    assert_eq!(fs::read_dir(&subject.target.folder).unwrap().count(), 0);
}
