use std::fs;
use std::path::Path;

use super::*;

const GIB: u64 = 1 << 30;
/// How v1 says that there is no limit.
const SENTINEL: &str = "9223372036854771712";

/// A `/proc` and `/sys` of our own: a host of 16 GiB with 12 GiB free.
struct Fake(tempfile::TempDir);

impl Fake {
    fn new(own: &str, mounts: &str) -> Self {
        let fake = Self(tempfile::tempdir().unwrap());
        fake.file(
            "proc/meminfo",
            "MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:   12582912 kB\n",
        );
        fake.file("proc/self/cgroup", own);
        fake.file("proc/self/mountinfo", mounts);
        fake
    }

    fn file(&self, path: &str, content: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// A group of the unified hierarchy.
    fn v2(&self, dir: &str, max: &str, current: u64, inactive: u64) {
        self.file(&format!("{dir}/memory.max"), &format!("{max}\n"));
        self.file(&format!("{dir}/memory.current"), &format!("{current}\n"));
        self.file(
            &format!("{dir}/memory.stat"),
            &format!("anon 5\ninactive_file {inactive}\nactive_file 7\n"),
        );
    }

    fn v1(&self, dir: &str, limit: &str, usage: u64, inactive: u64) {
        self.file(&format!("{dir}/memory.limit_in_bytes"), &format!("{limit}\n"));
        self.file(&format!("{dir}/memory.usage_in_bytes"), &format!("{usage}\n"));
        let stat = format!(
            "inactive_file 1\nhierarchical_memory_limit {SENTINEL}\ntotal_inactive_file {inactive}\n"
        );
        self.file(&format!("{dir}/memory.stat"), &stat);
    }

    fn machine(&self) -> Machine {
        machine_at(self.0.path()).unwrap()
    }
}

fn machine_of(total: u64, available: u64, limited_by: Option<&str>) -> Machine {
    Machine { total, available, limited_by: limited_by.map(str::to_owned) }
}

const V2: &str = "25 30 0:23 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
const V1: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                  36 31 0:33 / /sys/fs/cgroup/devices rw,relatime - cgroup cgroup rw,devices\n";

#[test]
fn without_groups_the_host_is_the_limit() {
    assert_eq!(Fake::new("", "").machine(), machine_of(16 * GIB, 12 * GIB, None));
    // Groups that are named and not mounted, or mounted and not there.
    assert_eq!(Fake::new("0::/a\n4:memory:/b\n", "").machine(), machine_of(16 * GIB, 12 * GIB, None));
    assert_eq!(Fake::new("0::/a\n4:memory:/b\n", V2).machine(), machine_of(16 * GIB, 12 * GIB, None));
    assert_eq!(machine_at(Path::new("/nowhere")), None);
}

#[test]
fn a_limit_of_v2_counts_and_cache_is_not_use() {
    let fake = Fake::new("0::/app\n", V2);
    fake.v2("sys/fs/cgroup/app", &(4 * GIB).to_string(), 3 * GIB, 2 * GIB);
    assert_eq!(fake.machine(), machine_of(4 * GIB, 3 * GIB, Some("/sys/fs/cgroup/app/memory.max")));
    fake.v2("sys/fs/cgroup/app", "max", 3 * GIB, 0);
    assert_eq!(fake.machine(), machine_of(16 * GIB, 12 * GIB, None));
    // More than the host has limits nothing; more in use than is allowed leaves nothing.
    fake.v2("sys/fs/cgroup/app", &(64 * GIB).to_string(), 3 * GIB, 0);
    assert_eq!(fake.machine(), machine_of(16 * GIB, 12 * GIB, None));
    fake.v2("sys/fs/cgroup/app", &GIB.to_string(), 3 * GIB, 0);
    assert_eq!(fake.machine().available, 0);
}

#[test]
fn every_group_above_counts_too() {
    let fake = Fake::new("0::/a/b/c\n", V2);
    fake.v2("sys/fs/cgroup/a/b/c", "max", GIB, 0);
    fake.v2("sys/fs/cgroup/a/b", &(8 * GIB).to_string(), GIB, 0);
    fake.v2("sys/fs/cgroup/a", &(6 * GIB).to_string(), 2 * GIB, GIB);
    assert_eq!(fake.machine(), machine_of(6 * GIB, 5 * GIB, Some("/sys/fs/cgroup/a/memory.max")));
    // The group with the least left is not always the one with the least limit.
    fake.v2("sys/fs/cgroup/a/b", &(8 * GIB).to_string(), 7 * GIB, 0);
    assert_eq!(fake.machine(), machine_of(6 * GIB, GIB, Some("/sys/fs/cgroup/a/memory.max")));
}

#[test]
fn a_limit_of_v1_counts_and_its_sentinel_is_none() {
    let fake = Fake::new("5:devices:/app\n4:cpu,memory:/app\n0::/\n", V1);
    fake.v1("sys/fs/cgroup/memory/app", &(2 * GIB).to_string(), GIB, GIB / 2);
    fake.v1("sys/fs/cgroup/memory", SENTINEL, 9 * GIB, 0);
    let file = "/sys/fs/cgroup/memory/app/memory.limit_in_bytes";
    assert_eq!(fake.machine(), machine_of(2 * GIB, 2 * GIB - GIB / 2, Some(file)));
    fake.v1("sys/fs/cgroup/memory/app", SENTINEL, 9 * GIB, 0);
    assert_eq!(fake.machine(), machine_of(16 * GIB, 12 * GIB, None));
    // A group above that the mount does not show stands in the statistics of the one below.
    fake.file("sys/fs/cgroup/memory/app/memory.stat", &format!("hierarchical_memory_limit {}\n", 3 * GIB));
    let machine = fake.machine();
    assert_eq!((machine.total, machine.available), (3 * GIB, 0));
    assert!(machine.limited_by.unwrap().ends_with("app/memory.stat"));
}

#[test]
fn in_a_hybrid_the_stricter_of_both_counts() {
    let fake = Fake::new(
        "4:memory:/app\n0::/app\n",
        &format!("{V1}{}", V2.replace("cgroup rw,n", "cgroup/unified rw,n")),
    );
    fake.v1("sys/fs/cgroup/memory/app", &(5 * GIB).to_string(), GIB, 0);
    fake.v2("sys/fs/cgroup/unified/app", &(3 * GIB).to_string(), GIB, 0);
    assert_eq!(fake.machine(), machine_of(3 * GIB, 2 * GIB, Some("/sys/fs/cgroup/unified/app/memory.max")));
}

#[test]
fn a_container_sees_a_part_of_the_hierarchy() {
    // The mount shows the container's group as its root, under a folder with a blank in its name.
    let mounts = "9 8 0:23 /docker/x /sys/fs/c\\040group ro - cgroup cgroup rw,memory\n";
    let fake = Fake::new("4:memory:/docker/x/job\n", mounts);
    fake.v1("sys/fs/c group/job", SENTINEL, 0, 0);
    fake.v1("sys/fs/c group", &GIB.to_string(), 0, 0);
    assert_eq!(fake.machine(), machine_of(GIB, GIB, Some("/sys/fs/c group/memory.limit_in_bytes")));
    // A namespace of its own says a path that the mount does not show, or one that climbs out of it.
    for own in ["4:memory:/\n", "4:memory:/elsewhere\n", "4:memory:/docker/x/../y\n"] {
        fake.file("proc/self/cgroup", own);
        assert_eq!(fake.machine().total, GIB, "{own}");
    }
}

#[test]
fn garbage_limits_nothing() {
    let garbage = "0::\n::\n4\n:memory\n\u{0}\n0::/../..\n";
    let fake = Fake::new(garbage, &format!("- - -\n1 2 3\n\n9 8 0:1 / - cgroup2\n{V2}"));
    for max in ["", "-1", "1e9", "maximum", "18446744073709551616"] {
        fake.file("sys/fs/cgroup/memory.max", max);
        assert_eq!(fake.machine(), machine_of(16 * GIB, 12 * GIB, None), "{max:?}");
    }
    fake.file("proc/meminfo", "MemTotal: lots kB\n");
    assert_eq!(machine_at(fake.0.path()), None);
}

#[test]
fn swap_and_large_pages_are_read_and_may_be_missing() {
    let fake = Fake::new("", "");
    assert_eq!(pages_at(fake.0.path()), Pages::default());
    fake.file("proc/meminfo", "SwapTotal:  2048 kB\nSwapFree:  1024 kB\n");
    fake.file("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    let pages = Pages { swap_total: 2 << 20, swap_free: 1 << 20, huge: Some("madvise".to_owned()) };
    assert_eq!(pages_at(fake.0.path()), pages);
}

#[test]
fn a_program_that_chooses_leaves_room_for_others() {
    assert_eq!(machine_of(16 * GIB, 10 * GIB, None).budget(), 8 * GIB);
    // Where little is free, a part of the whole stays free.
    assert_eq!(machine_of(16 * GIB, 2 * GIB, None).budget(), GIB);
    assert_eq!(machine_of(16 * GIB, GIB / 2, None).budget(), 0);
}

#[test]
fn the_machine_of_this_test_has_memory() {
    let machine = machine();
    assert!(machine.total >= machine.available && machine.total > 1 << 20, "{machine:?}");
    assert!(process().peak >= process().rss && process().rss > 1 << 20);
}
