//! The small model: compiled into the program, laid out under the user's data directory, and read from there by the
//! engine like any other checkpoint.
//!
//! Every start holds each file against its digest and writes anew what is missing or damaged. A file appears under
//! its name only when it is whole (it is written beside it and renamed), so two programs that repair at once write
//! the same bytes one after the other, and a third that reads meanwhile sees the old file or the new one.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ring::digest::{self, SHA256};

use super::download::{self, Entry, Published};
use crate::checkpoint::Manifest;
use crate::config::Paths;
use crate::sys::file;

/// Name of the small model's folder.
pub const NAME: &str = "dormouse-nano";

/// As `sha256sum` writes it.
const DIGESTS: &str = include_str!("../../assets/nano/SHA256SUMS");

macro_rules! files {
    ($($name:literal,)*) => {
        /// Name and content of each file.
        const FILES: &[(&str, &[u8])] = &[$(($name, include_bytes!(concat!("../../assets/nano/", $name))),)*];
    };
}

files! {
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "tiktoken.model",
    "model.safetensors.index.json",
    "model-00001-of-00004.safetensors",
    "model-00002-of-00004.safetensors",
    "model-00003-of-00004.safetensors",
    "model-00004-of-00004.safetensors",
}

/// The small model could not be laid out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused.
    #[error(transparent)]
    File(#[from] file::Error),
    /// The program itself is damaged, or was built of damaged files.
    #[error("the {name} that is compiled in has the digest {found}, expected {expected}")]
    Program {
        /// The file.
        name: &'static str,
        /// The digest on record.
        expected: String,
        /// Its digest.
        found: String,
    },
}

/// Lays out the small model where it is not yet, repairs what is damaged, and says where it lies.
///
/// Where all files are as they should be, nothing is written, so a data directory that cannot be written is fine then.
pub fn ensure(paths: &Paths) -> Result<PathBuf, Error> {
    let folder = paths.models().join(NAME);
    for (name, content) in FILES {
        let path = folder.join(name);
        let expected = digest_on_record(name);
        if digest_of_file(&path).is_ok_and(|found| found == expected) {
            continue;
        }
        let found = hex(digest::digest(&SHA256, content).as_ref());
        if found != expected {
            return Err(Error::Program { name, expected: expected.to_owned(), found });
        }
        file::replace(&path, content)?;
        // Checksums of the files as they were say nothing about this one. Where there are none, all the better.
        let _ = fs::remove_file(folder.join(Manifest::FILE));
    }
    Ok(folder)
}

/// What the program knows of the small model's files, if `folder` is where it is laid out: the same as a download knows of
/// those that it fetched.
pub fn published(paths: &Paths, folder: &Path) -> Option<Published> {
    let same = |path: &Path| fs::canonicalize(path).ok();
    same(folder).filter(|folder| same(&paths.models().join(NAME)).as_ref() == Some(folder))?;
    let entry = |(name, content): &(&str, &[u8])| Entry {
        path: (*name).to_owned(),
        size: content.len() as u64,
        digest: download::Digest::Sha256(digest_on_record(name).to_owned()),
    };
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Some(Published {
        repo: "this program".to_owned(),
        revision: version.clone(),
        commit: version,
        files: FILES.iter().map(entry).collect(),
        complete: None,
    })
}

fn digest_on_record(name: &str) -> &'static str {
    let lines = DIGESTS.lines().filter_map(|line| line.split_once("  "));
    lines.into_iter().find_map(|(digest, file)| (file == name).then_some(digest)).unwrap_or_default()
}

fn digest_of_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = digest::Context::new(&SHA256);
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hex(hasher.finish().as_ref())),
            Ok(count) => hasher.update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn hex(digest: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> (tempfile::TempDir, Paths) {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths {
            data: dir.path().join("data"),
            config: dir.path().join("config"),
            state: dir.path().join("state"),
        };
        (dir, paths)
    }

    fn assert_whole(folder: &Path) {
        for (name, content) in FILES {
            assert!(fs::read(folder.join(name)).unwrap() == *content, "{name}");
        }
        assert_eq!(fs::read_dir(folder).unwrap().count(), FILES.len(), "nothing else is left behind");
    }

    #[test]
    fn what_is_compiled_in_is_what_the_digests_say() {
        for (name, content) in FILES {
            assert_eq!(hex(digest::digest(&SHA256, content).as_ref()), digest_on_record(name), "{name}");
        }
        assert_eq!(DIGESTS.lines().count(), FILES.len());
    }

    #[test]
    fn damage_is_repaired_and_what_is_whole_is_left_alone() {
        let (_dir, paths) = home();
        let folder = ensure(&paths).unwrap();
        assert_whole(&folder);
        let shard = folder.join("model-00002-of-00004.safetensors");
        let mut bytes = fs::read(&shard).unwrap();
        bytes[1_000_000] ^= 1;
        fs::write(&shard, &bytes).unwrap();
        fs::write(folder.join("config.json"), b"{}").unwrap();
        fs::remove_file(folder.join("tiktoken.model")).unwrap();
        let untouched = fs::metadata(folder.join("tokenizer_config.json")).unwrap().modified().unwrap();
        assert_eq!(ensure(&paths).unwrap(), folder);
        assert_whole(&folder);
        assert_eq!(
            fs::metadata(folder.join("tokenizer_config.json")).unwrap().modified().unwrap(),
            untouched
        );
    }

    #[test]
    fn several_at_once_do_not_break_each_other() {
        let (_dir, paths) = home();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(ensure(&paths).unwrap(), paths.models().join(NAME)));
            }
        });
        assert_whole(&paths.models().join(NAME));
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let (dir, paths) = home();
        // A file where the folder should be: fails for root too, which permissions do not.
        fs::write(dir.path().join("data"), b"").unwrap();
        let error = ensure(&paths).unwrap_err().to_string();
        assert!(error.starts_with("cannot create") && error.contains(NAME), "{error}");
    }

    #[test]
    fn a_write_that_fails_leaves_nothing_behind() {
        let (_dir, paths) = home();
        let folder = paths.models().join(NAME);
        fs::create_dir_all(folder.join("config.json")).unwrap();
        assert!(matches!(ensure(&paths), Err(Error::File(file::Error::Io { action: "replace", .. }))));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }
}
