//! Limits that Linux's control groups put on memory.
//!
//! `/proc/self/cgroup` says in which group of each hierarchy this process is, `/proc/self/mountinfo` where that hierarchy
//! can be looked at. In a container the mount may show a part of it only; what is above cannot be seen, except for v1,
//! whose statistics repeat the strictest limit of all groups above.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// One group that this process is in, itself or by a group below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// Bytes that it may use; nothing where it may use all there are, or where that cannot be told.
    pub(super) limit: Option<u64>,
    /// Bytes in use that the system cannot simply take back.
    pub(super) used: u64,
    /// The file with the limit.
    pub(super) file: PathBuf,
}

/// The two generations of control groups, and what they call things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    const fn limit(self) -> &'static str {
        match self {
            Self::One => "memory.limit_in_bytes",
            Self::Two => "memory.max",
        }
    }

    const fn usage(self) -> &'static str {
        match self {
            Self::One => "memory.usage_in_bytes",
            Self::Two => "memory.current",
        }
    }

    /// File cache that nobody has used for a while: of the group and all below it.
    const fn reclaimable(self) -> &'static str {
        match self {
            Self::One => "total_inactive_file",
            Self::Two => "inactive_file",
        }
    }
}

/// Where a hierarchy, or a part of it, is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    version: Version,
    /// The group that lies at the mount point.
    group: PathBuf,
    point: PathBuf,
}

/// The groups that count for this process, in every hierarchy that governs memory.
pub(super) fn groups(root: &Path) -> Vec<Group> {
    let read = |file: &str| fs::read_to_string(root.join(file)).unwrap_or_default();
    let (own, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
    let mounts: Vec<Mount> = mounts.lines().filter_map(mount).collect();
    let mut groups = Vec::new();
    for (version, own) in own.lines().filter_map(own_group) {
        let shown = || mounts.iter().filter(|mount| mount.version == version);
        // A namespace may say a path that no mount shows: then the process's own group is what lies at the mount point.
        let below: Vec<(&Mount, &Path)> =
            shown().filter_map(|mount| Some((mount, inside(&own, &mount.group)?))).collect();
        let seen =
            if below.is_empty() { shown().map(|mount| (mount, Path::new(""))).collect() } else { below };
        for (mount, below) in seen {
            let point = root.join(mount.point.strip_prefix("/").unwrap_or(&mount.point));
            // From the process's own group up to the mount point.
            groups.extend(
                below.ancestors().map(|path| group(version, &point.join(path), &mount.point.join(path))),
            );
        }
    }
    groups
}

/// The process's group in one hierarchy, of a line like `4:memory:/a/b` or `0::/a/b`; nothing for hierarchies that have no
/// say over memory.
fn own_group(line: &str) -> Option<(Version, PathBuf)> {
    let mut fields = line.splitn(3, ':');
    let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let version = match (number, controllers) {
        ("0", "") => Version::Two,
        (_, list) if list.split(',').any(|name| name == "memory") => Version::One,
        _ => return None,
    };
    Some((version, PathBuf::from(path)))
}

/// A mounted hierarchy of control groups, of a line of `mountinfo`.
fn mount(line: &str) -> Option<Mount> {
    let (place, kind) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (group, point) = (place.next()?, place.next()?);
    let mut kind = kind.split(' ');
    let version = match (kind.next()?, kind.nth(1)?) {
        ("cgroup2", _) => Version::Two,
        ("cgroup", options) if options.split(',').any(|name| name == "memory") => Version::One,
        _ => return None,
    };
    Some(Mount { version, group: unescaped(group), point: unescaped(point) })
}

/// What is left of `own` below `group`; nothing where it does not lie there, or climbs out of what can be seen.
fn inside<'a>(own: &'a Path, group: &Path) -> Option<&'a Path> {
    let below = own.strip_prefix(group).ok()?;
    below.components().all(|part| matches!(part, Component::Normal(_))).then_some(below)
}

/// `mountinfo` writes blanks and backslashes as three octal digits.
fn unescaped(field: &str) -> PathBuf {
    let mut out = String::new();
    let mut rest = field;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let code = after.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(u8::is_ascii);
        out.push(code.map_or('\\', char::from));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    out.push_str(rest);
    PathBuf::from(out)
}

/// What the group in the folder `dir` may use and uses. A file that is missing or holds anything unknown sets no limit.
fn group(version: Version, dir: &Path, shown: &Path) -> Group {
    let number = |file| fs::read_to_string(dir.join(file)).ok()?.trim().parse::<u64>().ok();
    let stat = fs::read_to_string(dir.join("memory.stat")).unwrap_or_default();
    let field = |name: &str| {
        stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok())
    };
    let above = match version {
        Version::One => field("hierarchical_memory_limit"),
        Version::Two => None,
    };
    let used = number(version.usage()).unwrap_or(0).saturating_sub(field(version.reclaimable()).unwrap_or(0));
    let own = number(version.limit());
    let (limit, file) = match (own, above) {
        (own, Some(above)) if own.is_none_or(|own| above < own) => (Some(above), "memory.stat"),
        (own, _) => (own, version.limit()),
    };
    Group { limit, used, file: shown.join(file) }
}
