//! Memory of the machine and of this process.

use sysinfo::{MemoryRefreshKind, System};

/// What the machine has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Bytes in all, or of the container's limit where that is less.
    pub total: u64,
    /// Bytes that can be had without swapping.
    pub available: u64,
}

/// What the machine has now.
pub fn machine() -> Machine {
    // A system that does not tell leaves zeros, and the caller asks for an explicit budget.
    let Ok(mut system) = System::new() else { return Machine::default() };
    system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
    Machine { total: system.total_memory(), available: system.available_memory() }
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
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    };
    Process { rss: field("VmRSS:"), peak: field("VmHWM:") }
}
