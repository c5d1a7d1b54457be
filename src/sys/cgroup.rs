//! Linux's control groups: which folders hold the limits that count for this process.
//!
//! `/proc/self/cgroup` says in which group of each hierarchy this process is, the mounts say where that hierarchy can be
//! looked at. In a container a mount may show a part of it only; what is above cannot be seen.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::mounts::{Mount, mounts_at};

/// The two generations of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// A hierarchy for each controller, or for some together.
    One,
    /// One for all.
    Two,
}

/// The folder of a group that this process is in, itself or by a group below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Folder {
    pub(super) version: Version,
    /// Where it is read.
    pub(super) dir: PathBuf,
    /// What it is called.
    pub(super) shown: PathBuf,
}

/// The folders of the groups that count for this process, in every hierarchy with a say over `controller` (like
/// `memory`), from its own group upwards.
pub(super) fn folders(root: &Path, controller: &str) -> Vec<Folder> {
    let own = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mounts = mounts_at(root);
    let mut folders = Vec::new();
    for (version, own) in own.lines().filter_map(|line| own_group(line, controller)) {
        let shown = || mounts.iter().filter(|mount| hierarchy(mount, controller) == Some(version));
        // A namespace may say a path that no mount shows: then the process's own group is what lies at the mount point.
        let below: Vec<(&Mount, &Path)> =
            shown().filter_map(|mount| Some((mount, inside(&own, &mount.part)?))).collect();
        let seen =
            if below.is_empty() { shown().map(|mount| (mount, Path::new(""))).collect() } else { below };
        for (mount, below) in seen {
            let point = root.join(mount.point.strip_prefix("/").unwrap_or(&mount.point));
            folders.extend(below.ancestors().map(|path| Folder {
                version,
                dir: point.join(path),
                shown: mount.point.join(path),
            }));
        }
    }
    folders
}

/// The process's group in one hierarchy, of a line like `4:memory:/a/b` or `0::/a/b`; nothing for hierarchies that have no
/// say over `controller`.
fn own_group(line: &str, controller: &str) -> Option<(Version, PathBuf)> {
    let mut fields = line.splitn(3, ':');
    let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let version = match (number, controllers) {
        ("0", "") => Version::Two,
        (_, list) if list.split(',').any(|name| name == controller) => Version::One,
        _ => return None,
    };
    Some((version, PathBuf::from(path)))
}

/// Which hierarchy with a say over `controller` is mounted here, if any.
fn hierarchy(mount: &Mount, controller: &str) -> Option<Version> {
    match mount.kind.as_str() {
        "cgroup2" => Some(Version::Two),
        "cgroup" if mount.all_options.split(',').any(|name| name == controller) => Some(Version::One),
        _ => None,
    }
}

/// What is left of `own` below `group`; nothing where it does not lie there, or climbs out of what can be seen.
fn inside<'a>(own: &'a Path, group: &Path) -> Option<&'a Path> {
    let below = own.strip_prefix(group).ok()?;
    below.components().all(|part| matches!(part, Component::Normal(_))).then_some(below)
}
