//! What this machine's disks and processors were measured at, kept for the estimates of later plans.
//!
//! The record is a convenience and no setting: one that is missing or cannot be read is one in which nothing was measured
//! yet, and the next measurement writes it anew.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::Paths;
use crate::store::ReaderKind;
use crate::sys::file;
use crate::units::{Day, Rate};

/// Nobody has measured more folders than fit in this.
const LIMIT: u64 = 1 << 20;

/// Everything that was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasuredRates {
    disks: Vec<Disk>,
    compute: Option<Measurement>,
}

/// A rate, and when it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    bytes_per_s: f64,
    measured_unix_s: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Disk {
    folder: PathBuf,
    direct: Option<Measurement>,
    buffered: Option<Measurement>,
}

impl Measurement {
    fn now(rate: Rate) -> Self {
        Self { bytes_per_s: rate.0, measured_unix_s: Day::today().0 }
    }

    /// The rate.
    pub const fn rate(self) -> Rate {
        Rate(self.bytes_per_s)
    }

    /// When it was measured.
    pub const fn day(self) -> Day {
        Day(self.measured_unix_s)
    }

    fn is_sound(&self) -> bool {
        self.bytes_per_s.is_finite() && self.bytes_per_s > 0.0
    }
}

impl MeasuredRates {
    /// What was measured so far.
    pub fn read(paths: &Paths) -> Self {
        let bytes = file::read_small(&paths.disk_rates(), LIMIT).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    /// Writes it down, whole or not at all.
    pub fn write(&self, paths: &Paths) -> Result<(), file::Error> {
        let mut text = serde_json::to_vec_pretty(self).unwrap_or_default();
        text.push(b'\n');
        file::replace(&paths.disk_rates(), &text)
    }

    /// What reading from `folder` was measured at. Without a kind, what the program would choose: direct reads where
    /// they work. Maps go through the page cache, as buffered reads do.
    pub fn disk(&self, folder: &Path, kind: Option<ReaderKind>) -> Option<Measurement> {
        let folder = named(folder);
        let disk = self.disks.iter().find(|disk| disk.folder == folder)?;
        let measured = match kind {
            Some(ReaderKind::Direct) => disk.direct,
            Some(ReaderKind::Buffered | ReaderKind::Mmap) => disk.buffered,
            None => disk.direct.or(disk.buffered),
        };
        measured.filter(Measurement::is_sound)
    }

    /// What multiplying weights was measured at.
    pub fn compute(&self) -> Option<Measurement> {
        self.compute.filter(Measurement::is_sound)
    }

    /// Takes down what reading from `folder` was measured at today. What was not measured is not there.
    pub fn set_disk(&mut self, folder: &Path, direct: Option<Rate>, buffered: Option<Rate>) {
        let folder = named(folder);
        self.disks.retain(|disk| disk.folder != folder);
        let (direct, buffered) = (direct.map(Measurement::now), buffered.map(Measurement::now));
        self.disks.push(Disk { folder, direct, buffered });
    }

    /// Takes down what multiplying weights was measured at today.
    pub fn set_compute(&mut self, rate: Rate) {
        self.compute = Some(Measurement::now(rate));
    }
}

/// A folder has one name here, however it was typed.
fn named(folder: &Path) -> PathBuf {
    fs::canonicalize(folder).unwrap_or_else(|_unreadable| folder.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_found_again_under_any_name_of_its_folder() {
        let dir = tempfile::tempdir().unwrap();
        let paths =
            Paths { data: dir.path().into(), config: dir.path().into(), state: dir.path().join("state") };
        assert_eq!(MeasuredRates::read(&paths), MeasuredRates::default());
        let mut rates = MeasuredRates::default();
        rates.set_disk(dir.path(), Some(Rate(2e9)), None);
        rates.set_disk(dir.path(), Some(Rate(3e9)), Some(Rate(1e9)));
        rates.set_compute(Rate(9e9));
        rates.write(&paths).unwrap();
        let read = MeasuredRates::read(&paths);
        assert_eq!(read, rates);
        let rate = |kind| read.disk(&dir.path().join("state/.."), kind).map(Measurement::rate);
        assert_eq!(rate(None), Some(Rate(3e9)));
        assert_eq!(rate(Some(ReaderKind::Mmap)), Some(Rate(1e9)));
        assert_eq!(read.disk(Path::new("/nowhere"), None), None);
        assert_eq!(read.compute().map(|compute| compute.day().to_string()), Some(Day::today().to_string()));
    }

    #[test]
    fn a_damaged_record_is_an_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths { data: dir.path().into(), config: dir.path().into(), state: dir.path().into() };
        for text in ["", "{", "[1]", "{\"disks\": 3}"] {
            fs::write(paths.disk_rates(), text).unwrap();
            assert_eq!(MeasuredRates::read(&paths), MeasuredRates::default());
        }
        let zero = r#"{"disks": [], "compute": {"bytes_per_s": 0.0, "measured_unix_s": 1}}"#;
        fs::write(paths.disk_rates(), zero).unwrap();
        assert_eq!(MeasuredRates::read(&paths).compute(), None);
    }
}
