//! The thread that touches files for the screen: no slow disk holds a frame up.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::app::Msg;
use super::draft::Chip;
use super::{Error, past};

const NAME: &str = "clerk";
/// How long the end of the program waits for a disk.
const PATIENCE: Duration = Duration::from_secs(2);
/// The most bytes of a file that is put into a message.
const LARGEST: u64 = 256 << 10;
/// Files that are offered at most.
const OFFERED: usize = 200;

/// Where the screen keeps files of its own.
#[derive(Clone, Debug)]
pub struct Files {
    /// What was sent before.
    pub history: PathBuf,
    /// What was copied and did not go to the terminal's clipboard alone.
    pub copied: PathBuf,
    /// What is being written in the user's editor.
    pub draft: PathBuf,
}

/// Something to do.
pub(super) enum Job {
    /// Remember a message for the next start.
    Remember(String),
    /// Write down what was copied; the text that tells of it is followed by the file's name.
    Keep { text: String, told: String },
    /// Which files a word may become.
    List(String),
    /// Read the file that a word names.
    Attach(String),
}

/// The clerk's desk.
pub(super) struct Clerk {
    jobs: Option<Sender<Job>>,
    /// What came of the jobs; closed when the clerk has left.
    pub(super) answers: Receiver<Msg>,
}

impl Clerk {
    /// Starts the thread. Without files it keeps nothing.
    pub(super) fn start(files: Option<Files>) -> Result<Self, Error> {
        let (jobs, inbox) = bounded::<Job>(64);
        let (send, answers) = bounded(64);
        let work = move || {
            while let Ok(job) = inbox.recv() {
                if let Some(answer) = done(job, files.as_ref())
                    && send.send(answer).is_err()
                {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name(NAME.to_owned()).spawn(work);
        thread.map_err(|source| Error::Thread { name: NAME, source })?;
        Ok(Self { jobs: Some(jobs), answers })
    }

    /// Hands a job over; false where the clerk has too many.
    pub(super) fn give(&self, job: Job) -> bool {
        self.jobs.as_ref().is_some_and(|jobs| jobs.try_send(job).is_ok())
    }
}

impl Drop for Clerk {
    fn drop(&mut self) {
        // What was handed over is done before the program ends, unless a disk does not answer.
        self.jobs = None;
        let deadline = Instant::now() + PATIENCE;
        while self.answers.recv_deadline(deadline).is_ok() {}
    }
}

fn done(job: Job, files: Option<&Files>) -> Option<Msg> {
    match job {
        Job::Remember(text) => {
            let error = past::append(&files?.history, &text).err()?;
            Some(Msg::Told(format!("Messages are not remembered for the next start: {error}")))
        }
        Job::Keep { text, told } => Some(Msg::Told(match files.map(|files| &files.copied) {
            None => told,
            Some(path) => match write_private(path, text.as_bytes()) {
                Ok(()) => format!("{told} {}", short(path)),
                Err(error) => format!("The copy could not be written to {}: {error}", short(path)),
            },
        })),
        Job::List(word) => {
            let files = list(&word);
            Some(Msg::Listed { word, files })
        }
        Job::Attach(word) => {
            let file = attach(&word);
            Some(Msg::Attached { word, file })
        }
    }
}

/// Writes a file that only its owner can read, at once or not at all.
pub(super) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let beside = path.with_extension(format!("{}.part", std::process::id()));
    let written =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside).and_then(
            |mut file| {
                file.write_all(bytes)?;
                fs::rename(&beside, path)
            },
        );
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

/// How a file of the user is told: `~` stands for his home.
fn short(path: &Path) -> String {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    match home.and_then(|home| path.strip_prefix(home).ok().map(Path::to_owned)) {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}

/// The path that a word names: below the user's home after `~/`, else as it stands.
fn path_of(word: &str) -> PathBuf {
    let name = word.strip_prefix('@').unwrap_or(word);
    match (name.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(name),
    }
}

/// What a word may become: entries of its folder that begin with its last part, folders first.
fn list(word: &str) -> Vec<String> {
    let name = word.strip_prefix('@').unwrap_or(word);
    // With its slash, where there is one.
    let (folder, begin) = name.split_at(name.rfind('/').map_or(0, |at| at + 1));
    let dir = if folder.is_empty() { PathBuf::from(".") } else { path_of(folder) };
    let prefix = format!("@{folder}");
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut out = Vec::new();
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let fits = name.starts_with(begin) && (!name.starts_with('.') || begin.starts_with('.'));
        // Links are followed: a folder behind one is a folder.
        let Some(kind) = fits.then(|| fs::metadata(entry.path()).ok()).flatten() else { continue };
        // A word ends at white space, and nothing that a terminal would obey comes into the draft.
        if name.contains(|c: char| c.is_whitespace() || c.is_control()) {
            continue;
        }
        if kind.is_dir() {
            out.push((0, format!("{prefix}{name}/")));
        } else if kind.is_file() {
            out.push((1, format!("{prefix}{name}")));
        }
    }
    out.sort();
    out.truncate(OFFERED);
    out.into_iter().map(|(_, name)| name).collect()
}

/// Reads the file that a word names, or says why it cannot go into a message.
fn attach(word: &str) -> Result<Chip, String> {
    let path = path_of(word);
    let name = word.strip_prefix('@').unwrap_or(word);
    let failed = |error: &io::Error| format!("{name} cannot be read: {error}.");
    let kind = fs::metadata(&path).map_err(|error| failed(&error))?;
    if !kind.is_file() {
        return Err(format!("{name} is no file."));
    }
    let mut bytes = Vec::new();
    let file = File::open(&path).map_err(|error| failed(&error))?;
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
    if bytes.len() as u64 > LARGEST {
        return Err(format!(
            "{name} is larger than {}, too much for a message.",
            crate::units::Bytes(LARGEST)
        ));
    }
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(Chip::file(name, &text)),
        _ => Err(format!("{name} is no text: the model could not read it.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn files_are_offered_by_their_beginning() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["main.rs", "make.sh", "a b", ".hidden", "\u{1b}[2J"] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        fs::create_dir(dir.path().join("maps")).unwrap();
        let root = format!("@{}", dir.path().display());
        let listed = |rest: &str| {
            let found = list(&format!("{root}{rest}"));
            found.iter().map(|name| name.strip_prefix(&root).unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(listed("/ma"), ["/maps/", "/main.rs", "/make.sh"]);
        assert_eq!(listed("/"), ["/maps/", "/main.rs", "/make.sh"]);
        assert_eq!(listed("/.h"), ["/.hidden"]);
        assert_eq!(listed("/maps/"), [""; 0]);
        assert_eq!(listed("/none/x"), [""; 0]);
        assert!(list("@Cargo.to").contains(&"@Cargo.toml".to_owned()));
        assert!(list("@/et").contains(&"@/etc/".to_owned()));
    }

    #[test]
    fn what_cannot_go_into_a_message_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            fs::write(&path, bytes).unwrap();
            format!("@{}", path.display())
        };
        assert!(attach(&file("a.txt", b"text\n")).unwrap().label().ends_with("a.txt, 1 line, 5 B]"));
        let said = |word: &str| attach(word).unwrap_err();
        assert!(said(&file("b", b"a\0b")).contains("is no text"));
        assert!(said(&file("c", &[0xff, 0xfe])).contains("is no text"));
        assert!(
            said(&file("d", &vec![b'x'; usize::try_from(LARGEST + 1).unwrap()]))
                .contains("too much for a message")
        );
        assert!(said("@/nowhere/at/all").contains("cannot be read"));
        assert!(said("@/dev/zero").contains("is no file"));
        assert!(said(&format!("@{}", dir.path().display())).contains("is no file"));
    }

    #[test]
    fn what_is_written_is_private_and_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/copied.txt");
        for text in ["one", "two"] {
            write_private(&path, text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        assert!(write_private(&path.join("x"), b"").is_err());
    }

    #[test]
    fn the_clerk_does_what_was_handed_over_before_it_leaves() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files {
            history: dir.path().join("history.jsonl"),
            copied: dir.path().join("copied.txt"),
            draft: dir.path().join("draft.md"),
        };
        let clerk = Clerk::start(Some(files.clone())).unwrap();
        assert!(clerk.give(Job::Remember("first".to_owned())));
        assert!(clerk.give(Job::Keep { text: "copy".to_owned(), told: "It is in".to_owned() }));
        let Ok(Msg::Told(told)) = clerk.answers.recv() else { panic!("no answer") };
        assert_eq!(told, format!("It is in {}", files.copied.display()));
        assert!(clerk.give(Job::Remember("second".to_owned())));
        drop(clerk);
        assert_eq!(past::read(&files.history), ["first", "second"]);
    }
}
