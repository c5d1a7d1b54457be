//! What there is to fetch: the hub's list of files, and the digest that each must have.

use std::collections::BTreeSet;

use serde::Deserialize;

/// More than any checkpoint has, and little enough to hold.
const MOST_FILES: usize = 100_000;

/// The hub's list is not one that can be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The answer is no JSON of the expected form.
    #[error("the hub's answer is not understood: {0}")]
    Json(String),
    /// A commit that is no commit.
    #[error("the hub says that the commit is `{}`, which is no commit", .0.escape_debug())]
    Commit(String),
    /// A path that would lead out of the folder, or cannot be a file's name.
    #[error("the hub lists a file as `{}`: {problem}", path.escape_debug())]
    Path {
        /// As it was listed.
        path: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A digest that is no digest.
    #[error("the hub gives {path} the digest `{}`, which is none", found.escape_debug())]
    Digest {
        /// The file.
        path: String,
        /// What stands there.
        found: String,
    },
    /// The two sizes of one file differ.
    #[error("the hub lists {path} with {listed} bytes and with {stored}")]
    Size {
        /// The file.
        path: String,
        /// In the list.
        listed: u64,
        /// Of what is stored.
        stored: u64,
    },
    /// More files than are sensible.
    #[error("the hub lists more than {MOST_FILES} files")]
    TooMany,
}

/// What a file must hash to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Digest {
    /// SHA-256 of its content, in lower-case hexadecimal digits.
    Sha256(String),
    /// Git's blob id: SHA-1 of `blob SIZE`, a zero byte and the content.
    GitBlob(String),
    /// The hub publishes none, so nobody can say whether the content is right.
    Unknown,
}

impl Digest {
    /// With its kind before it; empty if there is none.
    pub fn label(&self) -> String {
        match self {
            Self::Sha256(hex) => format!("sha256:{hex}"),
            Self::GitBlob(hex) => format!("git:{hex}"),
            Self::Unknown => String::new(),
        }
    }

    /// The digest with this label, if it is one.
    pub(super) fn of_label(label: &str) -> Option<Self> {
        match label.split_once(':') {
            None if label.is_empty() => Some(Self::Unknown),
            Some(("sha256", hex)) if is_hex(hex, 64) => Some(Self::Sha256(hex.to_owned())),
            Some(("git", hex)) if is_hex(hex, 40) => Some(Self::GitBlob(hex.to_owned())),
            _ => None,
        }
    }
}

/// A file that the hub has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Relative, with `/` between folders; holds nothing that leads out of the folder.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// What it must hash to.
    pub digest: Digest,
}

impl Entry {
    /// The same, if its path is the name of a file below the folder.
    pub(super) fn sound(self) -> Option<Self> {
        problem_of(&self.path).is_none().then_some(self)
    }
}

#[derive(Deserialize)]
struct Revision {
    sha: String,
}

/// The commit in the hub's answer about a revision.
pub(super) fn commit(json: &str) -> Result<String, Error> {
    let revision: Revision = serde_json::from_str(json).map_err(|error| Error::Json(error.to_string()))?;
    if is_hex(&revision.sha, 40) { Ok(revision.sha) } else { Err(Error::Commit(revision.sha)) }
}

#[derive(Deserialize)]
struct Item {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    oid: Option<String>,
    #[serde(default)]
    lfs: Option<Large>,
}

/// Of a file that git holds only a pointer to.
#[derive(Deserialize)]
struct Large {
    oid: String,
    #[serde(default)]
    size: Option<u64>,
}

/// The hub's list, page by page.
#[derive(Debug, Default)]
pub(super) struct Listing {
    entries: Vec<Entry>,
    paths: BTreeSet<String>,
}

impl Listing {
    /// Adds a page. Folders are skipped; the list names what is in them as well.
    pub(super) fn add(&mut self, json: &str) -> Result<(), Error> {
        let items: Vec<Item> = serde_json::from_str(json).map_err(|error| Error::Json(error.to_string()))?;
        for item in items.into_iter().filter(|item| item.kind == "file") {
            if self.entries.len() >= MOST_FILES {
                return Err(Error::TooMany);
            }
            let entry = entry(item)?;
            if !self.paths.insert(entry.path.clone()) {
                return Err(Error::Path { path: entry.path, problem: "it is listed twice" });
            }
            self.entries.push(entry);
        }
        Ok(())
    }

    /// All files, in order of their paths.
    pub(super) fn finish(mut self) -> Vec<Entry> {
        self.entries.sort_by(|a, b| a.path.cmp(&b.path));
        self.entries
    }
}

fn entry(item: Item) -> Result<Entry, Error> {
    if let Some(problem) = problem_of(&item.path) {
        return Err(Error::Path { path: item.path, problem });
    }
    let path = item.path;
    let digest = match (&item.lfs, item.oid) {
        (Some(large), _) => {
            let hex = large.oid.strip_prefix("sha256:").unwrap_or(&large.oid);
            if !is_hex(hex, 64) {
                return Err(Error::Digest { path, found: large.oid.clone() });
            }
            Digest::Sha256(hex.to_owned())
        }
        (None, Some(oid)) if is_hex(&oid, 40) => Digest::GitBlob(oid),
        (None, Some(oid)) => return Err(Error::Digest { path, found: oid }),
        (None, None) => Digest::Unknown,
    };
    match item.lfs.and_then(|large| large.size) {
        Some(stored) if stored != item.size => Err(Error::Size { path, listed: item.size, stored }),
        _ => Ok(Entry { path, size: item.size, digest }),
    }
}

/// How names of a file on its way end.
pub(super) const OWN: [&str; 2] = [".part", ".part.journal"];

/// What keeps `path` from being the name of a file below the folder.
fn problem_of(path: &str) -> Option<&'static str> {
    if path.is_empty() || path.len() > 1024 {
        return Some("its length is not that of a path");
    }
    if path.chars().any(|c| c.is_control() || matches!(c, '\\' | ':')) {
        return Some("it holds characters that a name must not hold");
    }
    for part in path.split('/') {
        if matches!(part, "" | "." | "..") {
            return Some("it leads out of the folder");
        }
        if part.len() > 200 {
            return Some("a name in it is too long");
        }
        if part.starts_with(".dormouse-")
            || OWN.iter().any(|suffix| part.starts_with('.') && part.ends_with(suffix))
        {
            return Some("the name is one of the download's own");
        }
    }
    None
}

fn is_hex(text: &str, len: usize) -> bool {
    text.len() == len && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(json: &str) -> Result<Vec<Entry>, Error> {
        let mut listing = Listing::default();
        listing.add(json)?;
        Ok(listing.finish())
    }

    #[test]
    fn large_files_have_a_sha256_and_small_ones_a_blob_id() {
        let (sha, blob) = ("a".repeat(64), "b".repeat(40));
        let json = format!(
            r#"[{{"type":"directory","oid":"{blob}","size":0,"path":"d"}},
                {{"type":"file","oid":"{blob}","size":7,"path":"d/m","lfs":{{"oid":"{sha}","size":7,"pointerSize":1}}}},
                {{"type":"file","oid":"{blob}","size":2,"path":"config.json","new":1}},
                {{"type":"file","size":3,"path":"e"}}]"#
        );
        let entries = listed(&json).unwrap();
        let found: Vec<_> = entries.iter().map(|e| (e.path.as_str(), e.size, &e.digest)).collect();
        assert_eq!(
            found,
            [
                ("config.json", 2, &Digest::GitBlob(blob)),
                ("d/m", 7, &Digest::Sha256(sha)),
                ("e", 3, &Digest::Unknown),
            ]
        );
    }

    #[test]
    fn paths_stay_in_the_folder() {
        for path in [
            "",
            "../x",
            "/etc/passwd",
            "a//b",
            "a/./b",
            "a\\\\b",
            "c:x",
            "a\\u001b[2J",
            ".x.part",
            ".x.part.journal",
            ".dormouse-lock",
        ] {
            let json = format!(r#"[{{"type":"file","size":1,"path":"{path}"}}]"#);
            assert!(matches!(listed(&json), Err(Error::Path { .. })), "{path}");
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let item = |rest: &str| listed(&format!(r#"[{{"type":"file","path":"a","size":1,{rest}}}]"#));
        assert!(matches!(item(r#""oid":"xyz""#), Err(Error::Digest { .. })));
        assert!(matches!(item(r#""lfs":{"oid":"12"}"#), Err(Error::Digest { .. })));
        let sha = "a".repeat(64);
        let error = item(&format!(r#""lfs":{{"oid":"{sha}","size":2}}"#)).unwrap_err();
        assert_eq!(error, Error::Size { path: "a".into(), listed: 1, stored: 2 });
        let twice = r#"[{"type":"file","path":"a","size":1},{"type":"file","path":"a","size":1}]"#;
        assert!(matches!(listed(twice), Err(Error::Path { problem: "it is listed twice", .. })));
        assert!(matches!(listed("<html>"), Err(Error::Json(_))));
    }

    #[test]
    fn a_commit_is_forty_digits() {
        let sha = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(commit(&format!(r#"{{"id":"o/n","sha":"{sha}"}}"#)).unwrap(), sha);
        assert!(matches!(commit(r#"{"sha":"main"}"#), Err(Error::Commit(_))));
        assert!(matches!(commit("{}"), Err(Error::Json(_))));
    }
}
