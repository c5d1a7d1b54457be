//! One download for one folder. A file in the folder says who has it: locks of the system do not hold on every network
//! file system, and say nothing about the holder.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::error::Error;
use crate::sys::{file, process};

const NAME: &str = ".dormouse-lock";
/// On another machine nobody can be asked whether a process lives, so the age of the file says it. Its holder makes it
/// young again far more often.
const OLD: Duration = Duration::from_mins(10);
/// How often it is made young.
pub(super) const TOUCH: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Holder {
    pid: u32,
    /// Tells the process from a later one with its number.
    started: Option<u64>,
    host: String,
}

impl Holder {
    fn this() -> Self {
        let pid = std::process::id();
        Self { pid, started: process::started(pid), host: process::host() }
    }

    /// Whether it still is at work, as far as can be told; `age` is that of its file.
    fn lives(&self, age: Duration) -> bool {
        if self.host != process::host() {
            return age < OLD;
        }
        process::exists(self.pid) && (self.started.is_none() || process::started(self.pid) == self.started)
    }
}

/// The folder is ours until this is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    text: String,
}

impl Lock {
    /// Takes the folder, which must exist; also from a holder that is no more.
    pub(super) fn take(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(NAME);
        let text = serde_json::to_string(&Holder::this()).unwrap_or_default();
        // Another may take it between our look and our try, so both are repeated a few times.
        for _ in 0..5 {
            match File::options().write(true).create_new(true).open(&path) {
                Ok(mut file) => {
                    file.write_all(text.as_bytes()).map_err(Error::io("write", &path))?;
                    return Ok(Self { path, text });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let Ok(found) = file::read_small(&path, 4096) else { continue };
                    if let Some(holder) = holder_of(&path, &found) {
                        return Err(Error::Locked { folder: folder.to_owned(), holder });
                    }
                    clear(&path, &found)?;
                }
                Err(error) => return Err(Error::io("create", &path)(error)),
            }
        }
        Err(Error::Locked { folder: folder.to_owned(), holder: "several others at once".to_owned() })
    }

    /// Says that we are still at it.
    pub(super) fn touch(&self) {
        // A lock that cannot be touched only looks old from another machine.
        if let Ok(file) = File::options().write(true).open(&self.path) {
            let _ = file.set_modified(SystemTime::now());
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Someone on another machine may have taken it from us.
        if fs::read(&self.path).is_ok_and(|found| found == self.text.as_bytes()) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Who holds the lock with this text, in words; `None` if nobody does any more.
fn holder_of(path: &Path, text: &[u8]) -> Option<String> {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified()).ok()?;
    let age = modified.elapsed().unwrap_or_default();
    match serde_json::from_slice::<Holder>(text) {
        Ok(holder) if holder.lives(age) => {
            Some(format!("process {} on {}", holder.pid, holder.host.escape_debug()))
        }
        // It is being written at this moment, or its holder died in the middle of that.
        Err(_) if age < Duration::from_secs(5) => Some("a process that has just begun".to_owned()),
        Ok(_) | Err(_) => None,
    }
}

/// Takes away the lock that held `text`, and no other: it is moved aside first and looked at again.
fn clear(path: &Path, text: &[u8]) -> Result<(), Error> {
    let aside = path.with_added_extension(format!("{}-old", std::process::id()));
    if fs::rename(path, &aside).is_err() {
        // Another was faster.
        return Ok(());
    }
    let same = fs::read(&aside).is_ok_and(|found| found == text);
    if !same && fs::hard_link(&aside, path).is_err() {
        // Neither can it be put back, where a third has taken its place; that one will be found to live.
    }
    fs::remove_file(&aside).map_err(Error::io("remove", &aside))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_by(folder: &Path, holder: &Holder) {
        fs::write(folder.join(NAME), serde_json::to_string(holder).unwrap()).unwrap();
    }

    #[test]
    fn d21_the_second_is_told_who_the_first_is() {
        let dir = tempfile::tempdir().unwrap();
        let lock = Lock::take(dir.path()).unwrap();
        let error = Lock::take(dir.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        drop(lock);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        Lock::take(dir.path()).unwrap();
    }

    #[test]
    fn d20_a_lock_of_the_dead_is_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        left_by(dir.path(), &Holder { pid: child.id(), ..Holder::this() });
        Lock::take(dir.path()).unwrap();
        // A later process with the same number is not the holder.
        if let Some(started) = Holder::this().started {
            left_by(dir.path(), &Holder { started: Some(started - 1), ..Holder::this() });
            Lock::take(dir.path()).unwrap();
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn d20_on_another_machine_the_age_says_it() {
        let dir = tempfile::tempdir().unwrap();
        left_by(dir.path(), &Holder { pid: 1, started: None, host: "elsewhere\u{1b}".to_owned() });
        let error = Lock::take(dir.path()).unwrap_err().to_string();
        assert!(error.contains("process 1 on elsewhere") && !error.contains('\u{1b}'), "{error}");
        let file = File::options().write(true).open(dir.path().join(NAME)).unwrap();
        file.set_modified(SystemTime::now() - OLD).unwrap();
        let lock = Lock::take(dir.path()).unwrap();
        // Ours is young again after a touch.
        let file = File::options().write(true).open(dir.path().join(NAME)).unwrap();
        file.set_modified(SystemTime::now() - OLD).unwrap();
        lock.touch();
        assert!(file.metadata().unwrap().modified().unwrap().elapsed().unwrap() < OLD);
    }

    #[test]
    fn a_torn_lock_is_respected_while_it_is_young() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(NAME), "{\"pi").unwrap();
        assert!(matches!(Lock::take(dir.path()), Err(Error::Locked { .. })));
        let file = File::options().write(true).open(dir.path().join(NAME)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_mins(1)).unwrap();
        Lock::take(dir.path()).unwrap();
    }
}
