//! Limits that Linux's control groups put on memory. What lies above the part of a hierarchy that can be seen is unknown,
//! except for v1, whose statistics repeat the strictest limit of all groups above.

use std::fs;
use std::path::{Path, PathBuf};

use crate::sys::cgroup::{Folder, Version, folders};

/// What a group that this process is in says of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// Bytes that it may use; nothing where it may use all there are, or where that cannot be told.
    pub(super) limit: Option<u64>,
    /// Bytes in use that the system cannot simply take back.
    pub(super) used: u64,
    /// The file with the limit.
    pub(super) file: PathBuf,
}

const fn limit_file(version: Version) -> &'static str {
    match version {
        Version::One => "memory.limit_in_bytes",
        Version::Two => "memory.max",
    }
}

const fn usage_file(version: Version) -> &'static str {
    match version {
        Version::One => "memory.usage_in_bytes",
        Version::Two => "memory.current",
    }
}

/// File cache that nobody has used for a while: of the group and all below it.
const fn reclaimable(version: Version) -> &'static str {
    match version {
        Version::One => "total_inactive_file",
        Version::Two => "inactive_file",
    }
}

/// The groups that count for this process, in every hierarchy that governs memory.
pub(super) fn groups(root: &Path) -> Vec<Group> {
    folders(root, "memory").iter().map(group).collect()
}

/// What a group may use and uses. A file that is missing or holds anything unknown sets no limit.
fn group(Folder { version, dir, shown }: &Folder) -> Group {
    let version = *version;
    let number = |file| fs::read_to_string(dir.join(file)).ok()?.trim().parse::<u64>().ok();
    let stat = fs::read_to_string(dir.join("memory.stat")).unwrap_or_default();
    let field = |name: &str| {
        stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok())
    };
    let above = match version {
        Version::One => field("hierarchical_memory_limit"),
        Version::Two => None,
    };
    let used =
        number(usage_file(version)).unwrap_or(0).saturating_sub(field(reclaimable(version)).unwrap_or(0));
    let own = number(limit_file(version));
    let (limit, file) = match (own, above) {
        (own, Some(above)) if own.is_none_or(|own| above < own) => (Some(above), "memory.stat"),
        (own, _) => (own, limit_file(version)),
    };
    Group { limit, used, file: shown.join(file) }
}
