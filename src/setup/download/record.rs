//! What a folder is a copy of: the repository and the one commit that all of its files come from.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::Error;
use crate::sys::file;

const NAME: &str = ".dormouse-download.json";

/// Lies in the folder from the first byte on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) repo: String,
    /// What was asked for: a branch, a tag, a commit.
    pub(super) revision: String,
    /// What that was when the download began.
    pub(super) commit: String,
    /// Every file of the commit is here, and its digest was right when it was last looked at.
    pub(super) complete: bool,
}

/// What a folder's record makes of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) revision: String,
    pub(super) commit: String,
    /// Where the revision has moved meanwhile, if the folder stays where it is.
    pub(super) moved: Option<String>,
}

impl Record {
    /// That of `folder`; one that is not there or not understood is none, for then every file is looked at anyway.
    pub(super) fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&file::read_small(&folder.join(NAME), 1 << 16).ok()?).ok()
    }

    /// Writes it, whole or not at all.
    pub(super) fn write(&self, folder: &Path) -> Result<(), Error> {
        let path = folder.join(NAME);
        let text = serde_json::to_string_pretty(self).unwrap_or_default() + "\n";
        let beside = path.with_added_extension("part");
        let mut file = File::create(&beside).map_err(Error::io("create", &beside))?;
        file.write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(Error::io("write", &beside))?;
        fs::rename(&beside, &path).map_err(Error::io("name", &path))
    }
}

/// The revision to ask the hub about: what the user names, else that of the folder, else the main one.
pub(super) fn revision(asked: Option<&str>, record: Option<&Record>) -> String {
    asked.map_or_else(|| record.map_or_else(|| "main".to_owned(), |r| r.revision.clone()), str::to_owned)
}

/// The commit to fetch: a folder that was begun stays with its commit while the same revision is asked for, so that it
/// never holds files of two.
pub(super) fn choose(revision: String, resolved: String, record: Option<&Record>) -> Choice {
    match record {
        Some(record) if record.revision == revision && record.commit != resolved => {
            Choice { revision, commit: record.commit.clone(), moved: Some(resolved) }
        }
        _ => Choice { revision, commit: resolved, moved: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(revision: &str, commit: &str) -> Record {
        Record { repo: "o/n".into(), revision: revision.into(), commit: commit.into(), complete: false }
    }

    #[test]
    fn d36_a_folder_stays_with_its_commit() {
        let begun = record("main", "old");
        assert_eq!(revision(None, Some(&begun)), "main");
        let choice = choose("main".into(), "new".into(), Some(&begun));
        assert_eq!((choice.commit.as_str(), choice.moved.as_deref()), ("old", Some("new")));
        let choice = choose("new".into(), "new".into(), Some(&begun));
        assert_eq!((choice.commit.as_str(), choice.moved), ("new", None), "the user says so");
        assert_eq!(choose("main".into(), "new".into(), None).commit, "new");
        assert_eq!(revision(None, Some(&record("v1", "old"))), "v1");
        assert_eq!(revision(None, None), "main");
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Record::read(dir.path()), None);
        let record = record("main", "c");
        record.write(dir.path()).unwrap();
        assert_eq!(Record::read(dir.path()), Some(record));
        fs::write(dir.path().join(NAME), "{").unwrap();
        assert_eq!(Record::read(dir.path()), None);
    }
}
