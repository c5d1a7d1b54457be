//! The prompts of a folder, and what has become of them.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use xxhash_rust::xxh3::xxh3_64;

use crate::protocol::{ExitCode, Finish, UserError};
use crate::sys::file;

/// Letters of a name that a session can have.
const LONGEST: usize = 64;
/// Far above the object of any turn.
const LARGEST_RESULT: u64 = 1 << 30;

/// One prompt among many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prompt {
    pub(super) path: PathBuf,
    /// Name of its file.
    pub(super) name: String,
    /// What its result and its journal are called.
    pub(super) id: String,
}

impl Prompt {
    fn of(path: PathBuf) -> Self {
        let lossy = |part: Option<&OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        let (name, id) = (lossy(path.file_name()), id_of(path.file_stem().unwrap_or_default()));
        Self { path, name, id }
    }

    /// Where its result goes.
    pub(super) fn result(&self, out: &Path) -> PathBuf {
        out.join(format!("{}.json", self.id))
    }

    /// Whether its result is there, and is an answer: what failed is tried again.
    pub(super) fn is_answered(&self, out: &Path) -> bool {
        #[derive(Deserialize)]
        struct Ended {
            finish: String,
        }
        let Ok(bytes) = file::read_small(&self.result(out), LARGEST_RESULT) else { return false };
        let ended: Result<Ended, _> = serde_json::from_slice(&bytes);
        ended.is_ok_and(|ended| [Finish::Stop, Finish::Length].iter().any(|f| f.as_str() == ended.finish))
    }
}

/// All prompts of a folder, by name.
pub(super) fn find(dir: &Path) -> Result<Vec<Prompt>, UserError> {
    let unreadable = |error: std::io::Error| {
        let detail = format!("cannot list {}: {error}", dir.display());
        UserError::new(ExitCode::Usage, "The prompts cannot be read", detail)
    };
    let mut prompts = Vec::new();
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let known =
            |extension: &OsStr| ["json", "txt"].iter().any(|known| extension.eq_ignore_ascii_case(known));
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        // What is not a file is opened all the same if it looks like a prompt, so that the user hears of it.
        if path.extension().is_some_and(known) && !hidden {
            prompts.push(Prompt::of(path));
        }
    }
    if prompts.is_empty() {
        let detail = format!("there is no .txt and no .json file in {}", dir.display());
        return Err(UserError::new(ExitCode::Usage, "There are no prompts", detail));
    }
    prompts.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(prompts)
}

/// A name that a session can have: that of the file where it is one, else one that looks like it and is its own.
fn id_of(stem: &OsStr) -> String {
    let name = stem.to_string_lossy();
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
    if !name.is_empty() && name.len() <= LONGEST && !name.starts_with('.') && name.chars().all(fits) {
        return name.into_owned();
    }
    let digest = format!("-{:016x}", xxh3_64(stem.as_encoded_bytes()));
    let like: String = name
        .trim_start_matches('.')
        .chars()
        .map(|letter| if fits(letter) { letter } else { '_' })
        .take(LONGEST - digest.len())
        .collect();
    format!("{like}{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Folder;

    #[test]
    fn every_file_has_a_name_that_a_session_can_have() {
        let folder = Folder::at(PathBuf::from("/out"));
        assert_eq!(id_of(OsStr::new("Q-1_a.b")), "Q-1_a.b");
        let long = "x".repeat(300);
        let others = ["", ".a", "..", "two words", "two_words ", "ä", "a\nb", &long];
        let ids: Vec<String> = others.iter().map(|name| id_of(OsStr::new(name))).collect();
        for (id, name) in ids.iter().zip(others) {
            folder.path(id).unwrap();
            assert!(others.iter().all(|other| id != other), "{id} for {name:?}");
            assert_eq!(ids.iter().filter(|other| *other == id).count(), 1, "{id} twice");
        }
        assert!(ids[3].starts_with("two_words-"), "{}", ids[3]);
    }

    #[test]
    fn prompts_come_by_name_and_other_files_do_not() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(find(dir.path()).unwrap_err().title, "There are no prompts");
        for name in ["b.txt", "a.JSON", "c.md", ".hidden.txt", "txt"] {
            fs::write(dir.path().join(name), "Hi").unwrap();
        }
        let names: Vec<String> = find(dir.path()).unwrap().into_iter().map(|prompt| prompt.name).collect();
        assert_eq!(names, ["a.JSON", "b.txt"]);
        assert_eq!(find(&dir.path().join("none")).unwrap_err().code, ExitCode::Usage);
    }

    #[test]
    fn only_an_answer_is_an_answer() {
        let dir = tempfile::tempdir().unwrap();
        let prompt = Prompt::of(PathBuf::from("q.txt"));
        assert!(!prompt.is_answered(dir.path()));
        for (text, answered) in [
            ("{\"finish\":\"stop\",\"ids\":[]}", true),
            ("{\"finish\":\"length\"}", true),
            ("{\"finish\":\"error\"}", false),
            ("{\"finish\":\"cancelled\"}", false),
            ("{\"finish\":\"stop\"", false),
            ("", false),
        ] {
            fs::write(prompt.result(dir.path()), text).unwrap();
            assert_eq!(prompt.is_answered(dir.path()), answered, "{text}");
        }
    }
}
