//! The disk that holds the model, or that it is to be fetched to: room, file system, ways of reading, rates.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{Check, Measure, Stopped, Subject, Target};
use crate::setup::disk::{self, LEAST, Limits, Next, Point, Scratch, Sweep};
use crate::setup::download;
use crate::store::ReaderKind;
use crate::sys::disk::{Room, link_rate_at, room};
use crate::sys::mounts::{Mount, mount_of};
use crate::sys::{memory, process};
use crate::units::{Bytes, Rate};

/// More than any device gives that does not tell how fast its link is: four drives side by side.
const MOST_RATE: f64 = 30e9;
/// What is counted is as exact as the link's own figure.
const TOLERANCE: f64 = 1.05;
/// A way that had fewer of its bytes from the device than this share was answered by a cache.
const FROM_DEVICE: f64 = 0.9;

/// Where the model lies or will lie, as far as it could be found out.
pub(super) struct Ground {
    place: PathBuf,
    mount: Option<Mount>,
    /// Whether something can be written there.
    writable: bool,
    room: io::Result<Room>,
}

impl Ground {
    pub(super) fn look(subject: &Subject, target: &Target) -> Self {
        let room = room(&target.folder);
        let place = room.as_ref().map_or_else(|_| target.folder.clone(), |room| room.place.clone());
        let mount = mount_of(&subject.root, &place);
        let read_only = mount.as_ref().is_some_and(Mount::is_read_only);
        Self { writable: !read_only && process::may_write(&place), place, mount, room }
    }

    fn kind(&self) -> String {
        self.mount
            .as_ref()
            .map_or_else(|| "a file system of unknown kind".to_owned(), |mount| mount.kind.clone())
    }

    fn is_in_memory(&self) -> bool {
        self.mount.as_ref().is_some_and(Mount::is_in_memory)
    }
}

/// Room and file system of the target.
pub(super) fn room_for_model(ground: &Ground, target: &Target) -> Check {
    const NAME: &str = "disk";
    // Without a wish of the user nothing is missing: the small model has its room.
    let bad = |finding: String, advice: &str| {
        if target.named { Check::fail(NAME, finding, advice) } else { Check::warn(NAME, finding, advice) }
    };
    let shown = target.folder.display();
    let room = match &ground.room {
        Ok(room) => room,
        Err(error) => {
            return bad(
                format!("{shown} cannot be looked at: {error}"),
                "Name another folder with --target.",
            );
        }
    };
    let at = if ground.place == target.folder {
        String::new()
    } else {
        format!(", which is on {}", ground.place.display())
    };
    let finding =
        format!("{shown}{at}: {}, {} free of {}", ground.kind(), Bytes(room.free), Bytes(room.total));
    if target.holds_model {
        return if ground.is_in_memory() {
            Check::warn(
                NAME,
                finding,
                "The model lies in memory, and is gone when the machine is turned off.",
            )
        } else {
            Check::ok(NAME, finding)
        };
    }
    if !ground.writable {
        let advice =
            "Nothing can be written there: name another folder with --target, or mend its permissions.";
        return bad(finding, advice);
    }
    let needed = download::ABOUT.saturating_sub(kept(&target.folder));
    if room.free < needed {
        let missing = Bytes(needed - room.free);
        let advice = format!(
            "Kimi K3 takes {} there, {missing} more than is free: make room, or name another disk with --target.",
            Bytes(needed)
        );
        return bad(finding, &advice);
    }
    if ground.is_in_memory() {
        let advice = "It lies in memory: what is there is gone when the machine is turned off, and takes what the model needs.";
        return bad(finding, advice);
    }
    Check::ok(NAME, finding)
}

/// Bytes that an earlier download has left in the folder, on its way or whole.
fn kept(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let files =
        entries.flatten().filter_map(|entry| entry.metadata().ok()).filter(std::fs::Metadata::is_file);
    files.map(|file| file.len()).sum()
}

/// What was found out about reading.
pub(super) struct Reading {
    pub(super) checks: Vec<Check>,
    /// The better rate of those that can be believed.
    pub(super) rate: Option<Rate>,
    /// Direct, and through the page cache.
    pub(super) rates: [Option<Rate>; 2],
}

/// Measures how the disk reads: the model's own shards where there are some, else a file that is written and gone again.
pub(super) fn reading(
    subject: &Subject,
    ground: &Ground,
    shards: &[PathBuf],
    stop: &dyn Fn() -> bool,
) -> Result<Reading, Stopped> {
    const NAME: &str = "disk rate";
    let nothing = |check| Ok(Reading { checks: vec![check], rate: None, rates: [None; 2] });
    let Some(measure) = subject.measure else {
        return nothing(Check::ok(NAME, "not measured"));
    };
    let bytes: u64 =
        shards.iter().filter_map(|path| std::fs::metadata(path).ok()).map(|file| file.len()).sum();
    let scratch = if bytes >= LEAST.0 {
        None
    } else {
        if !ground.writable {
            let advice = "With a model there, `dormouse bench disk --model DIR` measures it.";
            return nothing(Check::warn(NAME, "not measured, since nothing can be written there", advice));
        }
        let free = ground.room.as_ref().map_or(0, |room| room.free);
        let size = Bytes(measure.size.0.min(free / 4));
        if size < LEAST {
            let advice = "With more room there it can be.";
            return nothing(Check::warn(NAME, "not measured, since there is too little room for it", advice));
        }
        match written(&ground.place, Measure { size, ..measure }, stop) {
            Ok(scratch) => Some(scratch),
            Err(disk::Error::Stopped) => return Err(Stopped),
            Err(error) => {
                let advice = "Make room there, and look again.";
                return nothing(Check::warn(NAME, format!("not measured: {error}"), advice));
            }
        }
    };
    let files = scratch.as_ref().map_or_else(|| shards.to_vec(), |scratch| vec![scratch.path().to_owned()]);
    let limits = Limits { seconds: measure.seconds, memory: Bytes(memory::machine().available / 4) };
    let before = process::bytes_from_devices();
    let swept = disk::sweep(&files, limits, &mut |_, _| !stop());
    let from_devices =
        process::bytes_from_devices().zip(before).map(|(after, before)| after.saturating_sub(before));
    drop(scratch);
    let sweep = match swept {
        Ok(sweep) => sweep,
        Err(disk::Error::Stopped) => return Err(Stopped),
        Err(error) => {
            let advice = "Check the disk: `dmesg` may say more.";
            return nothing(Check::warn(NAME, format!("not measured: {error}"), advice));
        }
    };
    let link = ground.mount.as_ref().and_then(|mount| link_rate_at(&subject.root, mount));
    Ok(judged(ground, &sweep, from_devices, link))
}

/// Writes a file to measure with: as much of it as there is time for.
fn written(place: &Path, measure: Measure, stop: &dyn Fn() -> bool) -> Result<Scratch, disk::Error> {
    let until = Instant::now() + Duration::from_secs_f64(measure.seconds);
    // A disk is measured with so much at least, however long that takes to write; within reason.
    let at_last = until + Duration::from_secs_f64(measure.seconds);
    Scratch::create_within(place, measure.size, &mut |done| {
        let now = Instant::now();
        if stop() {
            Next::Stop
        } else if now < until || (done < LEAST.0 && now < at_last) {
            Next::Write
        } else {
            Next::Enough
        }
    })
}

/// What a sweep says, as far as it can be believed: of a rate that no device has, some cache gave the answer.
fn judged(ground: &Ground, sweep: &Sweep, from_devices: Option<u64>, link: Option<f64>) -> Reading {
    let mut checks = Vec::new();
    checks.push(match &sweep.no_direct {
        None => Check::ok("direct reads", format!("work on this {}", ground.kind())),
        Some(problem) => Check::warn(
            "direct reads",
            format!("not on this {}: {problem}", ground.kind()),
            "Reads go through the system's cache, which is slower on most disks. It works.",
        ),
    });
    let best = |way| sweep.best(Some(way)).map(Point::rate);
    let bytes = |way| {
        let all = sweep.points.iter().chain(&sweep.confirmed);
        all.filter(|point| point.way == way).map(|point| point.bytes.0).sum::<u64>()
    };
    let (direct, buffered) = (bytes(ReaderKind::Direct), bytes(ReaderKind::Buffered));
    let most = link.unwrap_or(MOST_RATE) * TOLERANCE;
    let mut doubts = Vec::new();
    let mut believed = |name: &str, rate: Option<Rate>, of: u64, found: Option<u64>| {
        let rate = rate?;
        if ground.is_in_memory() {
            doubts.push(format!("{name} {rate} is memory's"));
        } else if rate.0 > most {
            doubts.push(format!(
                "{name} {rate} is more than the device's link carries ({})",
                Rate(most / TOLERANCE)
            ));
        } else if found.is_some_and(|found| (found as f64) < of as f64 * FROM_DEVICE) {
            doubts.push(format!("{name} {rate} came out of a cache"));
        } else {
            return Some(rate);
        }
        None
    };
    let rates = [
        believed("direct", best(ReaderKind::Direct), direct, from_devices),
        // What direct reads had from the device, the others had not.
        believed(
            "buffered",
            best(ReaderKind::Buffered),
            buffered,
            from_devices.map(|found| found.saturating_sub(direct)),
        ),
    ];
    let told: Vec<String> = ["direct", "buffered"]
        .into_iter()
        .zip(rates)
        .filter_map(|(name, rate)| Some(format!("{name} {}", rate?)))
        .collect();
    let rate = rates.into_iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0));
    let rejected = if doubts.is_empty() { String::new() } else { format!("rejected: {}", doubts.join(", ")) };
    let finding = [told.join(", "), rejected].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
    let finding = finding.join("; ");
    checks.push(match rate {
        Some(_) => Check::ok("disk rate", finding),
        None if finding.is_empty() => Check::warn(
            "disk rate",
            "there was no time to measure it",
            "Look again when the machine is idle.",
        ),
        None => Check::warn(
            "disk rate",
            finding,
            "`dormouse bench disk --target DIR --size 8GiB` measures longer.",
        ),
    });
    Reading { checks, rate, rates }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::doctor::Status;

    const GB: u64 = 1_000_000_000;

    fn ground(kind: &str, options: &str, free: u64) -> Ground {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join("proc/self");
        std::fs::create_dir_all(&list).unwrap();
        std::fs::write(list.join("mountinfo"), format!("22 1 259:2 / / {options} - {kind} /dev/x rw\n"))
            .unwrap();
        let mount = mount_of(dir.path(), Path::new("/data"));
        let room = Ok(Room { place: "/data".into(), free, total: 4000 * GB });
        let writable = !mount.as_ref().unwrap().is_read_only();
        Ground { place: "/data".into(), mount, writable, room }
    }

    fn target(named: bool) -> Target {
        Target { folder: "/data/k3".into(), named, holds_model: false }
    }

    #[track_caller]
    fn says(check: &Check, status: Status, words: &[&str]) {
        assert_eq!(check.status, status, "{check:?}");
        let all = format!("{} {}", check.finding, check.advice);
        assert!(words.iter().all(|word| all.contains(word)), "{words:?}: {all}");
    }

    #[test]
    fn d23_d24_room_is_counted_where_the_model_will_lie() {
        let check = |kind, options, free, named| room_for_model(&ground(kind, options, free), &target(named));
        says(
            &check("ext4", "rw", 2000 * GB, true),
            Status::Ok,
            &["/data/k3, which is on /data: ext4", "1.82 TiB free"],
        );
        // The same disk is a fault only where it was asked for.
        says(&check("ext4", "rw", 1000 * GB, true), Status::Fail, &["more than is free", "--target"]);
        says(&check("ext4", "rw", 1000 * GB, false), Status::Warn, &["more than is free"]);
        says(&check("xfs", "ro", 2000 * GB, true), Status::Fail, &["Nothing can be written"]);
        says(&check("xfs", "ro", 2000 * GB, false), Status::Warn, &["Nothing can be written"]);
        says(&check("tmpfs", "rw", 2000 * GB, true), Status::Fail, &["tmpfs", "in memory"]);
        let full = check("ext4", "rw", 0, true);
        says(&full, Status::Fail, &["0 B free", &Bytes(download::ABOUT).to_string()]);
        // A model that is there needs no more room.
        let there = Target { holds_model: true, ..target(true) };
        says(&room_for_model(&ground("ext4", "ro", 0), &there), Status::Ok, &["0 B free"]);
        let gone = Ground { room: Err(io::ErrorKind::NotFound.into()), ..ground("ext4", "rw", 0) };
        says(&room_for_model(&gone, &target(true)), Status::Fail, &["cannot be looked at"]);
    }

    fn sweep(direct: Option<f64>, buffered: f64) -> Sweep {
        let point = |way, rate: f64| Point {
            way,
            piece: Bytes(1 << 20),
            depth: 8,
            bytes: Bytes(Rate(rate).whole()),
            seconds: 1.0,
        };
        let mut points = vec![point(ReaderKind::Buffered, buffered)];
        points.extend(direct.map(|rate| point(ReaderKind::Direct, rate)));
        let no_direct = direct.is_none().then(|| "Invalid argument".to_owned());
        Sweep { points, no_direct, ..Sweep::default() }
    }

    #[test]
    fn e17_e19_where_direct_reads_do_not_work_the_file_system_is_named() {
        let reading = judged(&ground("squashfs", "rw", GB), &sweep(None, 1e9), Some(GB), None);
        says(&reading.checks[0], Status::Warn, &["not on this squashfs", "Invalid argument", "It works"]);
        assert_eq!(reading.rate, Some(Rate(1e9)));
        let reading = judged(&ground("ext4", "rw", GB), &sweep(Some(2e9), 1e9), Some(3 * GB), None);
        says(&reading.checks[0], Status::Ok, &["work on this ext4"]);
    }

    #[test]
    fn e18_e20_a_rate_that_no_device_has_is_rejected() {
        let judge = |kind: &str, direct: f64, buffered: f64, from_devices: u64, link: Option<f64>| {
            judged(&ground(kind, "rw", GB), &sweep(Some(direct), buffered), Some(from_devices), link)
        };
        let both = judge("ext4", 1.5e9, 3.3e9, 5 * GB, Some(7.9e9));
        says(&both.checks[1], Status::Ok, &["direct 1.50 GB/s, buffered 3.30 GB/s"]);
        assert_eq!(both.rate, Some(Rate(3.3e9)), "the better one, whichever it is");
        // Answered by the page cache: faster than the link, or not from the device at all.
        let cached = judge("ext4", 1.5e9, 65e9, 100 * GB, Some(3.9e9));
        says(&cached.checks[1], Status::Ok, &["direct 1.50 GB/s; rejected: buffered 65.0 GB/s is more than"]);
        assert_eq!(cached.rate, Some(Rate(1.5e9)));
        let cached = judge("ext4", 1.5e9, 7e9, 1_500_000_000, Some(7.9e9));
        says(&cached.checks[1], Status::Ok, &["buffered 7.00 GB/s came out of a cache"]);
        assert_eq!(cached.rates, [Some(Rate(1.5e9)), None]);
        let none = judge("ext4", 40e9, 65e9, 500 * GB, None);
        says(&none.checks[1], Status::Warn, &["rejected: direct 40.0 GB/s", "bench disk"]);
        assert_eq!(none.rate, None);
        let memory = judge("tmpfs", 5e9, 5e9, 0, None);
        says(&memory.checks[1], Status::Warn, &["is memory's"]);
    }
}
