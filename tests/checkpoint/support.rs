//! Copies of the tiny checkpoint that a test may damage.

use std::fs;
use std::path::{Path, PathBuf};

use dormouse::checkpoint::{Checkpoint, Error};
use serde_json::{Map, Value};
use tempfile::TempDir;

/// The tiny checkpoint.
pub(crate) fn tiny() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tiny"))
}

/// Name of a shard of the tiny checkpoint, counted from one.
pub(crate) fn shard(number: usize) -> String {
    format!("model-{number:05}-of-000016.safetensors")
}

/// The config of the tiny checkpoint.
pub(crate) fn config() -> Value {
    serde_json::from_slice(&fs::read(tiny().join("config.json")).unwrap()).unwrap()
}

/// A copy of the tiny checkpoint. Its files are hard links where they can be, so they are replaced, never written to.
pub(crate) struct Copy(TempDir);

impl Copy {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(tiny()).unwrap() {
            let from = entry.unwrap().path();
            if from.is_file() {
                let to = dir.path().join(from.file_name().unwrap());
                fs::hard_link(&from, &to).or_else(|_| fs::copy(&from, &to).map(drop)).unwrap();
            }
        }
        Self(dir)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).unwrap();
    }

    pub(crate) fn replace(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let _ = fs::remove_file(self.path(name));
        fs::write(self.path(name), bytes).unwrap();
    }

    /// Changes the bytes of a file.
    pub(crate) fn bytes(&self, name: &str, edit: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(self.path(name)).unwrap();
        edit(&mut bytes);
        self.replace(name, bytes);
    }

    /// Changes the header of a shard; the data stay as they are.
    pub(crate) fn header(&self, name: &str, edit: impl FnOnce(&mut Map<String, Value>)) {
        self.bytes(name, |file| {
            let (length, rest) = file.split_first_chunk().unwrap();
            let (header, data) = rest.split_at(usize::try_from(u64::from_le_bytes(*length)).unwrap());
            let mut header = serde_json::from_slice(header).unwrap();
            edit(&mut header);
            let header = serde_json::to_vec(&header).unwrap();
            *file = [&(header.len() as u64).to_le_bytes(), header.as_slice(), data].concat();
        });
    }

    /// Changes the config. `pointer` is in the form of RFC 6901.
    pub(crate) fn config(&self, pointer: &str, value: impl Into<Value>) {
        let mut config = config();
        *config.pointer_mut(pointer).unwrap() = value.into();
        self.replace("config.json", config.to_string());
    }

    pub(crate) fn open(&self) -> Result<Checkpoint, Error> {
        Checkpoint::open(self.0.path())
    }

    /// What opening says, with the folder's name taken out.
    pub(crate) fn refusal(&self) -> String {
        let message = self.open().expect_err("a damaged checkpoint was opened").to_string();
        message.replace(self.0.path().to_str().unwrap(), "DIR")
    }
}
