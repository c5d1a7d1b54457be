//! Processes: whether the one that left a note is still there, how many files this one may open, and what its threads
//! have computed.

use std::path::Path;

/// When a process began, in the system's own count; tells it from a later one with the same number. `None` where the
/// system does not tell or there is no such process.
pub fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold anything; after it the fields are counted from the third.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

/// Whether there is a process with this number. One that may not be asked is there as well.
pub fn exists(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) else { return false };
    !matches!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH))
}

/// Files that this process may have open at once, and the most that it could ask for, on the Linux whose `/proc` lies
/// under `root`; `u64::MAX` where there is no limit.
pub fn open_files_at(root: &Path) -> Option<(u64, u64)> {
    let limits = std::fs::read_to_string(root.join("proc/self/limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let mut fields = line.split_whitespace();
    let mut next = || match fields.next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    };
    Some((next()?, next()?))
}

/// Seconds that each thread of this process has had of a processor, with the thread's name; none where the system does
/// not tell.
pub fn thread_seconds() -> Vec<(String, f64)> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
    let seconds = |task: std::path::PathBuf| {
        let name = std::fs::read_to_string(task.join("comm")).ok()?;
        let spent = std::fs::read_to_string(task.join("schedstat")).ok()?;
        let nanoseconds: u64 = spent.split_whitespace().next()?.parse().ok()?;
        Some((name.trim_end().to_owned(), nanoseconds as f64 * 1e-9))
    };
    // A thread may end between the look at the list and the look at it.
    tasks.filter_map(|task| seconds(task.ok()?.path())).collect()
}

/// Whether this process may make files in a folder. One that cannot be asked about is one where it may not.
pub fn may_write(folder: &Path) -> bool {
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok()
}

/// Bytes that this process has had from devices so far, whatever it read from caches; nothing where the system does not
/// tell.
pub fn bytes_from_devices() -> Option<u64> {
    let counts = std::fs::read_to_string("/proc/self/io").ok()?;
    counts.lines().find_map(|line| line.strip_prefix("read_bytes:"))?.trim().parse().ok()
}

/// The name of this machine.
pub fn host() -> String {
    sysinfo::System::host_name().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_there_and_one_that_ended_is_not() {
        assert!(exists(std::process::id()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert!(!exists(child.id()));
        assert!(!exists(0) && !exists(u32::MAX));
    }

    #[test]
    fn the_limit_of_open_files_is_read() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc/self")).unwrap();
        let limits = |text: &str| {
            std::fs::write(dir.path().join("proc/self/limits"), text).unwrap();
            open_files_at(dir.path())
        };
        let head = "Limit    Soft Limit   Hard Limit  Units\n";
        assert_eq!(limits(&format!("{head}Max open files   1024   524288   files\n")), Some((1024, 524_288)));
        assert_eq!(limits(&format!("{head}Max open files   64   unlimited   files\n")), Some((64, u64::MAX)));
        assert_eq!(limits(head), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_that_works_is_told_from_one_that_sleeps() {
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let (worked, told) = std::sync::mpsc::channel();
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let sleeper = named("sleeps-here").spawn(move || wait.recv()).unwrap();
        let worker = named("works-here").spawn(move || {
            let began = std::time::Instant::now();
            while began.elapsed() < std::time::Duration::from_millis(100) {
                std::hint::spin_loop();
            }
            worked.send(()).unwrap();
            // Lives on until it was looked at.
            std::thread::park_timeout(std::time::Duration::from_secs(10));
        });
        told.recv().unwrap();
        let all = thread_seconds();
        let of = |name: &str| all.iter().find(|(other, _)| other == name).unwrap().1;
        assert!(of("works-here") > of("sleeps-here") + 0.005, "{all:?}");
        drop(done);
        let _ = sleeper.join().unwrap();
        let worker = worker.unwrap();
        worker.thread().unpark();
        worker.join().unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_began_after_those_before_it() {
        let parent = started(std::process::id()).unwrap();
        let mut child = std::process::Command::new("sleep").arg("5").spawn().unwrap();
        assert!(started(child.id()).unwrap() >= parent);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(started(child.id()), None);
    }
}
