//! How far the wizard is, in a little file, so that the program goes on from there after it was left or has crashed.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Step;
use crate::sys::file;

/// A path and a few words.
const MOST: u64 = 1 << 16;

/// What is worth keeping. What a look at the machine or the folder finds is found again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// The step that is shown.
    pub step: Step,
    /// Whether it is shown, or the chat is.
    pub open: bool,
    /// Where the real model goes, as typed.
    pub place: String,
    /// Whether it is to be fetched: neither paused nor complete.
    pub fetching: bool,
    /// The budget that was chosen, by its name.
    pub preset: String,
    /// The real model is there and was chosen: nothing is left to do.
    pub done: bool,
}

impl Kept {
    /// What an earlier run has left. A file that is not there or not understood is none: every step can be taken again.
    pub fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&file::read_small(path, MOST).ok()?).ok()
    }

    /// Writes it, whole or not at all. That it cannot be written ends nothing: then the next start begins at the first
    /// step.
    pub(super) fn write(&self, path: &Path) -> Result<(), file::Error> {
        let text = serde_json::to_string_pretty(self).unwrap_or_default() + "\n";
        file::replace(path, text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written_and_a_torn_one_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/setup.json");
        assert_eq!(Kept::read(&path), None);
        let kept = Kept {
            step: Step::Download,
            open: true,
            place: "/my models/k3 è".to_owned(),
            fetching: true,
            preset: "auto".to_owned(),
            done: false,
        };
        kept.write(&path).unwrap();
        assert_eq!(Kept::read(&path), Some(kept));
        let text = std::fs::read_to_string(&path).unwrap();
        for end in 0..text.trim_end().len() {
            std::fs::write(&path, &text.as_bytes()[..end]).unwrap();
            assert_eq!(Kept::read(&path), None, "cut at {end}");
        }
    }
}
