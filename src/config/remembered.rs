//! What the screen remembers from one start to the next: `screen.json` in the folder of what the program has found out.
//! None of it is worth an error: a file that is not there, or not what it should be, is one with nothing in it.

use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::sys::file;

/// Nobody has switched that much.
const LIMIT: u64 = 1 << 16;

/// What was switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Remembered {
    /// Whether the panel of numbers is shown.
    pub panel: bool,
    /// Whether the strip of layers shows misses, and not time.
    pub misses: bool,
    /// Whether the end of a turn is announced to somebody who looks elsewhere.
    pub notify: bool,
}

impl Default for Remembered {
    fn default() -> Self {
        Self { panel: true, misses: false, notify: true }
    }
}

impl Remembered {
    /// What this file says.
    pub fn read(path: &Path) -> Self {
        serde_json::from_slice(&file::read_small(path, LIMIT).unwrap_or_default()).unwrap_or_default()
    }

    /// Writes it down, whole or not at all.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(self, path: &Path) -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let beside = path.with_extension("json.new");
        let mut text = serde_json::to_vec_pretty(&self)?;
        text.push(b'\n');
        std::fs::File::create(&beside)?.write_all(&text)?;
        std::fs::rename(&beside, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_switched_is_there_at_the_next_start() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/screen.json");
        assert_eq!(Remembered::read(&path), Remembered::default());
        let switched = Remembered { panel: false, misses: true, notify: false };
        switched.write(&path).unwrap();
        assert_eq!(Remembered::read(&path), switched);
        std::fs::write(&path, "{\"panel\": false, \"of a later version\": 1}").unwrap();
        assert_eq!(Remembered::read(&path), Remembered { panel: false, ..Remembered::default() });
        for damaged in ["", "{", "[]", "{\"panel\": 7}"] {
            std::fs::write(&path, damaged).unwrap();
            assert_eq!(Remembered::read(&path), Remembered::default());
        }
    }
}
