//! Disks: where a path will really lie, how much room there is, what its link can carry.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::mounts::Mount;

/// Links that lead to links are followed so often, as the system does.
const MOST_LINKS: usize = 40;

/// Room on the file system where a path lies or will lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// The path itself, or the nearest folder above it that exists.
    pub place: PathBuf,
    /// Bytes that this user may still write.
    pub free: u64,
    /// Bytes in all.
    pub total: u64,
}

/// The room for `path`, which need not exist yet.
pub fn room(path: &Path) -> io::Result<Room> {
    let place = place(path)?;
    let found = rustix::fs::statvfs(&place)?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Ok(Room { free: bytes(found.f_bavail), total: bytes(found.f_blocks), place })
}

/// Where `path` lies, without links; where it does not exist yet, the nearest folder above it that does. A link that leads
/// to nothing yet is followed: what is made there will lie where it leads.
pub fn place(path: &Path) -> io::Result<PathBuf> {
    let mut place = std::path::absolute(path)?;
    let mut links = 0;
    loop {
        match place.canonicalize() {
            Ok(place) => return Ok(place),
            Err(error) if links == MOST_LINKS => return Err(error),
            Err(_missing) => {}
        }
        if let Ok(target) = place.read_link() {
            links += 1;
            // One that is relative is so to the folder that it stands in.
            place = place.parent().unwrap_or(Path::new("/")).join(target);
        } else if !place.pop() {
            return Err(io::ErrorKind::NotFound.into());
        }
    }
}

/// Bytes in a second that the link to a mount's device can carry, where it is one that says so (PCI Express does), on
/// the Linux whose `/sys` lies under `root`.
pub fn link_rate_at(root: &Path, mount: &Mount) -> Option<f64> {
    let (major, minor) = mount.device;
    let device = root.join(format!("sys/dev/block/{major}:{minor}"));
    // A partition lies in the folder of its disk, the disk in that of its controller, and that in that of the slot.
    let mut folder = fs::canonicalize(device).ok()?;
    loop {
        let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
        if let (Some(speed), Some(width)) = (read("current_link_speed"), read("current_link_width")) {
            // `16.0 GT/s PCIe`: so many bits for each lane, of which 128 in 130 are ours (at the older 2.5 and 5, 8 in 10).
            let speed = speed.split_whitespace().next()?.parse::<f64>().ok()?;
            let width = width.trim().parse::<f64>().ok()?;
            let share = if speed > 5.0 { 128.0 / 130.0 } else { 0.8 };
            return Some(speed * 1e9 * width * share / 8.0).filter(|rate| *rate > 0.0);
        }
        if !folder.pop() || !folder.starts_with(root) {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d24_a_folder_that_is_missing_lies_where_the_one_above_it_does() {
        let dir = tempfile::tempdir().unwrap();
        let room = room(&dir.path().join("not/yet/there")).unwrap();
        assert_eq!(room.place, dir.path().canonicalize().unwrap());
        assert!(room.total > 0 && room.free <= room.total);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn d24_other_file_systems_are_told_apart() {
        let (proc, dir) = (room(Path::new("/proc/none")).unwrap(), tempfile::tempdir().unwrap());
        assert_eq!((proc.place.as_path(), proc.free), (Path::new("/proc"), 0));
        assert_ne!(room(dir.path()).unwrap().total, proc.total);
    }

    #[cfg(unix)]
    #[test]
    fn d24_a_link_is_followed_also_where_it_leads_to_nothing_yet() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let above = dir.path().canonicalize().unwrap();
        fs::create_dir_all(above.join("disk/models")).unwrap();
        symlink("disk/models", above.join("whole")).unwrap();
        symlink("disk/models/k3/new", above.join("dangling")).unwrap();
        symlink(above.join("dangling"), above.join("twice")).unwrap();
        symlink("round", above.join("round")).unwrap();
        for (path, expected) in [
            ("whole", "disk/models"),
            ("whole/k3", "disk/models"),
            ("dangling", "disk/models"),
            ("twice/a/b", "disk/models"),
            ("none", ""),
        ] {
            assert_eq!(place(&above.join(path)).unwrap(), above.join(expected), "{path}");
        }
        assert!(place(&above.join("round")).is_err(), "a link to itself leads nowhere");
    }

    #[cfg(unix)]
    #[test]
    fn e18_the_link_of_a_device_bounds_its_rate() {
        let tree = tempfile::tempdir().unwrap();
        let write = |path: &str, content: &str| {
            let path = tree.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        let slot = "sys/devices/pci0000:00/0000:01:00.0";
        write(&format!("{slot}/nvme/nvme0/nvme0n1/nvme0n1p2/partition"), "2\n");
        write(&format!("{slot}/current_link_speed"), "16.0 GT/s PCIe\n");
        write(&format!("{slot}/current_link_width"), "4\n");
        fs::create_dir_all(tree.path().join("sys/dev/block")).unwrap();
        let device = tree.path().join("sys/dev/block/259:2");
        std::os::unix::fs::symlink(format!("../../../{slot}/nvme/nvme0/nvme0n1/nvme0n1p2"), device).unwrap();
        write(
            "proc/self/mountinfo",
            "22 1 259:2 / / rw - ext4 /dev/x rw\n30 22 0:30 / /tmp rw - tmpfs tmpfs rw\n",
        );
        let root = tree.path().canonicalize().unwrap();
        let rate =
            |path: &str| link_rate_at(&root, &crate::sys::mounts::mount_of(&root, Path::new(path)).unwrap());
        let gigabytes = rate("/data").unwrap() / 1e9;
        assert!((gigabytes - 7.877).abs() < 0.001, "{gigabytes}");
        assert_eq!(rate("/tmp/x"), None);
    }
}
