//! Memory of the machine and of this process.

mod cgroup;
#[cfg(test)]
mod tests;

use std::path::Path;

use sysinfo::{MemoryRefreshKind, System};

/// What the machine has, within the limits of the container that this process runs in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Bytes in all, or of the strictest limit where that is less.
    pub total: u64,
    /// Bytes that can be had without swapping and without meeting any limit.
    pub available: u64,
    /// The file that holds the limit, where [`Self::total`] is one.
    pub limited_by: Option<String>,
}

/// What the machine has now. A system that does not tell leaves zeros.
pub fn machine() -> Machine {
    if cfg!(target_os = "linux")
        && let Some(machine) = machine_at(Path::new("/"))
    {
        return machine;
    }
    let Ok(mut system) = System::new() else { return Machine::default() };
    system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
    Machine { total: system.total_memory(), available: system.available_memory(), limited_by: None }
}

/// The same for the Linux whose `/proc` and `/sys` lie under `root`; nothing where its `meminfo` does not tell.
///
/// A limit counts wherever it stands: in the process's own group or in any group above it, under the unified hierarchy
/// (v2) or the older one (v1). What a group uses is counted without the file cache that the system would give back.
pub fn machine_at(root: &Path) -> Option<Machine> {
    let meminfo = std::fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let host = Machine {
        total: kib_field(&meminfo, "MemTotal:")?,
        available: kib_field(&meminfo, "MemAvailable:").or_else(|| kib_field(&meminfo, "MemFree:"))?,
        limited_by: None,
    };
    let host_total = host.total;
    Some(cgroup::groups(root).into_iter().fold(host, |machine, group| {
        // A limit of the host's size or above limits nothing; that is also how v1 spells that there is none.
        let Some(limit) = group.limit.filter(|limit| *limit < host_total) else { return machine };
        let available = machine.available.min(limit.saturating_sub(group.used));
        if limit < machine.total {
            Machine { total: limit, available, limited_by: Some(group.file.display().to_string()) }
        } else {
            Machine { available, ..machine }
        }
    }))
}

impl Machine {
    /// Memory for a program that is left to choose: what is free, with room for others. They may want a little more soon,
    /// and the system's cache of files wants some as well; where little is free others have much, so a part of the
    /// whole stays free too.
    pub fn budget(&self) -> u64 {
        self.available.saturating_sub((self.available / 5).max(self.total / 16))
    }
}

/// Memory beside the memory: what can be swapped out, and pages of a larger size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// Bytes of swap in all.
    pub swap_total: u64,
    /// Of these free.
    pub swap_free: u64,
    /// When the system makes large pages of small ones: `always`, `madvise` or `never`; nothing where it does not tell.
    pub huge: Option<String>,
}

/// The pages of the Linux whose `/proc` and `/sys` lie under `root`.
pub fn pages_at(root: &Path) -> Pages {
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap_or_default();
    let meminfo = read("proc/meminfo");
    let huge = read("sys/kernel/mm/transparent_hugepage/enabled");
    // The choice stands in brackets among the others.
    let chosen =
        huge.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word.to_owned());
    Pages {
        swap_total: kib_field(&meminfo, "SwapTotal:").unwrap_or(0),
        swap_free: kib_field(&meminfo, "SwapFree:").unwrap_or(0),
        huge: chosen,
    }
}

/// What this process has in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Bytes now.
    pub rss: u64,
    /// Most of it so far.
    pub peak: u64,
}

/// What this process has in memory now; zeros where the system does not tell.
pub fn process() -> Process {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name| kib_field(&status, name).unwrap_or(0);
    Process { rss: field("VmRSS:"), peak: field("VmHWM:") }
}

/// A line like `MemTotal:  24610516 kB`, in bytes.
fn kib_field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}
