//! Other processes: whether the one that left a note is still there.

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
