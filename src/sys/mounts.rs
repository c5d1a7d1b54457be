//! File systems that this process sees, as Linux lists them in `/proc/self/mountinfo`.

use std::fs;
use std::path::{Path, PathBuf};

/// Kinds of file systems that lie in memory.
const IN_MEMORY: [&str; 3] = ["tmpfs", "ramfs", "devtmpfs"];

/// A file system, or a part of it, and where it can be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Numbers of the device, as `/sys/dev/block` names it.
    pub device: (u32, u32),
    /// The folder of the file system that lies at the mount point.
    pub part: PathBuf,
    /// Where.
    pub point: PathBuf,
    /// The kind: `ext4`, `tmpfs`.
    pub kind: String,
    /// Options of this mount.
    options: String,
    /// Options of the file system wherever it is mounted.
    pub all_options: String,
}

impl Mount {
    /// Whether nothing can be written here.
    pub fn is_read_only(&self) -> bool {
        self.options.split(',').chain(self.all_options.split(',')).any(|option| option == "ro")
    }

    /// Whether what is written here takes memory, and is gone when the machine is turned off.
    pub fn is_in_memory(&self) -> bool {
        IN_MEMORY.contains(&self.kind.as_str())
    }

    /// A line of the list: number, parent, device, part, point, options, any number of tags, `-`, kind, source, options.
    fn parse(line: &str) -> Option<Self> {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(2);
        let (major, minor) = place.next()?.split_once(':')?;
        let (part, point) = (place.next()?, place.next()?);
        let options = place.next().unwrap_or_default().to_owned();
        let mut rest = kind.split(' ');
        let (kind, _source, all_options) = (rest.next()?, rest.next()?, rest.next()?);
        Some(Self {
            device: (major.parse().ok()?, minor.parse().ok()?),
            part: unescaped(part),
            point: unescaped(point),
            kind: kind.to_owned(),
            options,
            all_options: all_options.to_owned(),
        })
    }
}

/// All mounts, in the order in which they were made, for the Linux whose `/proc` lies under `root`. Lines that are not
/// understood are left out.
pub fn mounts_at(root: &Path) -> Vec<Mount> {
    let list = fs::read_to_string(root.join("proc/self/mountinfo")).unwrap_or_default();
    list.lines().filter_map(Mount::parse).collect()
}

/// The mount that `path` lies on; it must be absolute and hold no links.
pub fn mount_of(root: &Path, path: &Path) -> Option<Mount> {
    let above = |mount: &Mount| path.starts_with(&mount.point);
    // Of several at one point the last one covers the others.
    mounts_at(root).into_iter().filter(above).max_by_key(|mount| mount.point.components().count())
}

/// The list writes blanks and backslashes as three octal digits.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(list: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("proc/self")).unwrap();
        fs::write(dir.path().join("proc/self/mountinfo"), list).unwrap();
        dir
    }

    #[test]
    fn a_path_lies_on_the_innermost_mount_and_there_on_the_last() {
        let tree = tree(
            "22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw\n\
             30 22 0:30 / /data rw - tmpfs tmpfs rw,size=4k\n\
             31 22 8:1 /k3 /data ro,relatime - xfs /dev/sda1 rw\n\
             garbage\n\
             32 22 0:31 / /my\\040disk rw - zfs tank ro,xattr\n",
        );
        let of = |path: &str| mount_of(tree.path(), Path::new(path)).unwrap();
        assert_eq!((of("/home/x").kind.as_str(), of("/home/x").device), ("ext4", (259, 2)));
        assert_eq!(of("/datax").kind, "ext4", "a name that only begins alike is elsewhere");
        let data = of("/data/k3");
        assert!(data.kind == "xfs" && data.is_read_only() && !data.is_in_memory());
        assert!(of("/my disk/a").is_read_only() && !of("/").is_read_only());
        assert_eq!(mounts_at(tree.path()).len(), 4);
        assert!(mounts_at(tree.path())[1].is_in_memory());
        assert_eq!(mount_of(Path::new("/nowhere"), Path::new("/")), None);
    }
}
