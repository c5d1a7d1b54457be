//! Processors of the machine.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::cgroup::{Version, folders};

/// Physical cores that this process may run on, at least one.
pub fn physical_cores() -> usize {
    // The affinity mask may allow fewer than the machine has; two threads of one core gain nothing here.
    let allowed = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    sysinfo::System::physical_core_count().map_or(allowed, |cores| cores.clamp(1, allowed))
}

/// What Linux says of the processors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Processors {
    /// As the maker calls them; may be empty.
    pub model: String,
    /// Names of instruction sets and other features, as the system spells them.
    pub features: BTreeSet<String>,
    /// Threads that run at once.
    pub threads: usize,
    /// Physical cores.
    pub cores: usize,
    /// Threads of those that this process may run on.
    pub allowed_threads: usize,
    /// Physical cores that these belong to.
    pub allowed_cores: usize,
    /// Processors' worth of time that a container may use, where it has such a limit.
    pub quota: Option<f64>,
    /// How the clock is governed, where the system tells.
    pub governor: Option<String>,
}

/// One thread of a processor.
#[derive(Default)]
struct Thread {
    number: Option<usize>,
    package: Option<usize>,
    core: Option<usize>,
}

/// The processors of the Linux whose `/proc` and `/sys` lie under `root`; nothing where its `cpuinfo` names none.
pub fn processors_at(root: &Path) -> Option<Processors> {
    let list = fs::read_to_string(root.join("proc/cpuinfo")).ok()?;
    let mut found = Processors::default();
    let mut threads: Vec<Thread> = Vec::new();
    for line in list.lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        if name.trim_end() == "processor" {
            threads.push(Thread { number: value.parse().ok(), ..Thread::default() });
            continue;
        }
        let Some(thread) = threads.last_mut() else { continue };
        match name.trim_end() {
            "physical id" => thread.package = value.parse().ok(),
            "core id" => thread.core = value.parse().ok(),
            "model name" if found.model.is_empty() => value.clone_into(&mut found.model),
            // ARM has its own word for it.
            "flags" | "Features" if found.features.is_empty() => {
                found.features = value.split_whitespace().map(str::to_owned).collect();
            }
            _ => {}
        }
    }
    if threads.is_empty() {
        return None;
    }
    let status = fs::read_to_string(root.join("proc/self/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(ranges);
    let may = |thread: &&Thread| {
        mask.as_ref().is_none_or(|mask| thread.number.is_none_or(|number| mask.contains(&number)))
    };
    found.threads = threads.len();
    found.cores = cores(threads.iter());
    found.allowed_threads = threads.iter().filter(may).count();
    found.allowed_cores = cores(threads.iter().filter(may));
    found.quota = quota_at(root);
    found.governor = fs::read_to_string(root.join("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"))
        .ok()
        .map(|governor| governor.trim().to_owned());
    Some(found)
}

/// Distinct cores. A thread that does not say which core it is of counts as one.
fn cores<'a>(threads: impl Iterator<Item = &'a Thread>) -> usize {
    let mut known = BTreeSet::new();
    let mut unknown = 0;
    for thread in threads {
        match thread.core {
            Some(core) => {
                known.insert((thread.package, core));
            }
            None => unknown += 1,
        }
    }
    known.len() + unknown
}

/// A list like `0-3,8`. What is not understood is left out.
fn ranges(text: &str) -> BTreeSet<usize> {
    /// No machine has more, and a damaged list must not become a long one.
    const MOST: usize = 1 << 16;
    let mut numbers = BTreeSet::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            numbers.extend(first..=last.min(MOST));
        }
    }
    numbers
}

/// The strictest limit on processor time of all control groups.
fn quota_at(root: &Path) -> Option<f64> {
    let quotas = folders(root, "cpu").into_iter().filter_map(|folder| {
        let read = |file: &str| fs::read_to_string(folder.dir.join(file)).ok();
        // Microseconds of processor time in each period.
        let (quota, period) = match folder.version {
            Version::Two => {
                let text = read("cpu.max")?;
                let (quota, period) = text.trim().split_once(' ')?;
                (quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?)
            }
            Version::One => {
                let number = |file| read(file)?.trim().parse::<f64>().ok();
                (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
            }
        };
        // Without a limit it says `max`, or a negative number.
        (quota > 0.0 && period > 0.0).then(|| quota / period)
    });
    quotas.min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        dir
    }

    /// Two packages of two cores of two threads.
    fn eight_threads() -> String {
        let thread = |n: usize| {
            let (package, core) = (n % 8 / 4, n % 4 / 2);
            format!(
                "processor\t: {n}\nmodel name\t: Fast\nphysical id\t: {package}\ncore id\t\t: {core}\nflags\t\t: fpu avx2 fma\n\n"
            )
        };
        (0..8).map(thread).collect()
    }

    #[test]
    fn e24_threads_of_one_core_count_once_and_e26_the_mask_of_the_parent_counts() {
        let tree = tree(&[
            ("proc/cpuinfo", &eight_threads()),
            ("proc/self/status", "Name:\tx\nCpus_allowed:\tb\nCpus_allowed_list:\t0-1,4\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
        ]);
        let found = processors_at(tree.path()).unwrap();
        assert_eq!((found.threads, found.cores), (8, 4));
        assert_eq!((found.allowed_threads, found.allowed_cores), (3, 2));
        assert_eq!((found.model.as_str(), found.governor.as_deref()), ("Fast", Some("powersave")));
        assert!(found.features.contains("avx2") && found.quota.is_none());
    }

    #[test]
    fn limits_on_processor_time_count_in_both_generations() {
        let own = "4:cpu,cpuacct:/app\n0::/app\n";
        let v1 = "35 31 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n";
        let v2 = "36 31 0:33 / /sys/fs/cgroup/two rw - cgroup2 cgroup2 rw\n";
        let quota = |files: &[(&str, &str)]| {
            let mounts = format!("{v1}{v2}");
            let all =
                [&[("proc/self/cgroup", own), ("proc/self/mountinfo", mounts.as_str())], files].concat();
            quota_at(tree(&all).path())
        };
        assert_eq!(quota(&[("sys/fs/cgroup/two/app/cpu.max", "150000 100000\n")]), Some(1.5));
        assert_eq!(quota(&[("sys/fs/cgroup/two/app/cpu.max", "max 100000\n")]), None);
        let one = [
            ("sys/fs/cgroup/cpu/app/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu/app/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ];
        assert_eq!(quota(&one), Some(0.5), "that of a group above");
    }

    #[test]
    fn other_machines_say_less() {
        let arm = "processor\t: 0\nFeatures\t: fp asimd\n\nprocessor\t: 1\nFeatures\t: fp asimd\n";
        let found = processors_at(tree(&[("proc/cpuinfo", arm)]).path()).unwrap();
        assert_eq!((found.cores, found.allowed_cores, found.model.as_str()), (2, 2, ""));
        assert!(found.features.contains("asimd"));
        assert_eq!(processors_at(tree(&[("proc/cpuinfo", "nothing : here\n")]).path()), None);
        assert_eq!(ranges("0-2, x,7,9-8\n"), BTreeSet::from([0, 1, 2, 7]));
        assert_eq!(ranges("0-99999999999").len(), (1 << 16) + 1);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_has_processors() {
        let found = processors_at(Path::new("/")).unwrap();
        assert!(
            found.allowed_cores >= 1 && found.allowed_cores <= found.cores && found.cores <= found.threads
        );
    }
}
