//! What a folder is a copy of: the repository, the one commit that all of its files come from, and what the hub publishes
//! of each of them, so that they can be held against it without a network.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::error::Error;
use super::manifest::{Digest, Entry};
use crate::sys::file;

const NAME: &str = ".dormouse-download.json";
/// A hundred thousand files with long names.
const LIMIT: u64 = 64 << 20;

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
    /// All files of the commit. An older record has none.
    #[serde(default)]
    pub(super) files: Vec<Listed>,
}

/// What the hub publishes of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Listed {
    path: String,
    size: u64,
    /// With its kind; empty if none is published.
    digest: String,
}

impl From<&Entry> for Listed {
    fn from(entry: &Entry) -> Self {
        Self { path: entry.path.clone(), size: entry.size, digest: entry.digest.label() }
    }
}

/// What the hub published of the files of a folder when they were fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// `owner/name`.
    pub repo: String,
    /// A branch, a tag, a commit.
    pub revision: String,
    /// What that was.
    pub commit: String,
    /// All files of the commit.
    pub files: Vec<Entry>,
    /// When every file was there with the right digest, if that was ever so.
    pub complete: Option<SystemTime>,
}

impl Published {
    /// That of `folder`; nothing where the files did not come by a download of this program, or by one of an older version.
    pub fn of(folder: &Path) -> Option<Self> {
        let record = Record::read(folder)?;
        // A record is a file like any other: what stands in it is looked at as the hub's own list was.
        let entry = |file: Listed| {
            Entry { path: file.path, size: file.size, digest: Digest::of_label(&file.digest)? }.sound()
        };
        let files = record.files.into_iter().map(entry).collect::<Option<Vec<_>>>()?;
        if files.is_empty() {
            return None;
        }
        let written = || fs::metadata(folder.join(NAME)).and_then(|metadata| metadata.modified()).ok();
        let complete = if record.complete { written() } else { None };
        Some(Self { repo: record.repo, revision: record.revision, commit: record.commit, files, complete })
    }
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
        serde_json::from_slice(&file::read_small(&folder.join(NAME), LIMIT).ok()?).ok()
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
        let (repo, files) = ("o/n".into(), Vec::new());
        Record { repo, revision: revision.into(), commit: commit.into(), complete: false, files }
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

    #[test]
    fn what_was_published_is_known_without_a_network() {
        let dir = tempfile::tempdir().unwrap();
        let entry = |path: &str, digest| Entry { path: path.to_owned(), size: 7, digest };
        let files = vec![
            entry("a", Digest::Sha256("a".repeat(64))),
            entry("b/c", Digest::GitBlob("b".repeat(40))),
            entry("d", Digest::Unknown),
        ];
        let mut record = record("main", "c");
        record.write(dir.path()).unwrap();
        assert_eq!(Published::of(dir.path()), None, "one of an older version");
        record.files = files.iter().map(Listed::from).collect();
        record.write(dir.path()).unwrap();
        let published = Published::of(dir.path()).unwrap();
        assert_eq!((&published.files, published.complete), (&files, None));
        record.complete = true;
        record.write(dir.path()).unwrap();
        assert!(Published::of(dir.path()).unwrap().complete.is_some());
        for (path, digest) in [("../x", "git:"), ("a", "sha256:xyz"), ("/a", ""), ("a", "md5:00")] {
            let digest = if digest == "git:" { format!("git:{}", "b".repeat(40)) } else { digest.to_owned() };
            record.files = vec![Listed { path: path.to_owned(), size: 7, digest }];
            record.write(dir.path()).unwrap();
            assert_eq!(Published::of(dir.path()), None, "{path}");
        }
    }
}
