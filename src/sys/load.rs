//! What this process takes of the processors, how hard the machine is pressed, and how hot it is, where the system tells.

use std::path::{Path, PathBuf};
use std::time::Instant;

/// What somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressure {
    /// The disk.
    Io,
    /// Memory.
    Memory,
    /// A processor.
    Cpu,
}

/// Share of the last ten seconds in which somebody had to wait, in hundredths of a percent.
pub fn pressure(of: Pressure) -> Option<u64> {
    let name = match of {
        Pressure::Io => "io",
        Pressure::Memory => "memory",
        Pressure::Cpu => "cpu",
    };
    some_avg10(&std::fs::read_to_string(Path::new("/proc/pressure").join(name)).ok()?)
}

/// Temperature of the hottest processor, in thousandths of a degree Celsius.
pub fn temperature() -> Option<u64> {
    temperature_at(Path::new("/sys/class"))
}

/// A line like `some avg10=1.53 avg60=0.87 avg300=0.29 total=...`.
fn some_avg10(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let value = line.split_whitespace().find_map(|field| field.strip_prefix("avg10="))?;
    let (whole, part) = value.split_once('.')?;
    let whole: u64 = whole.parse().ok()?;
    let part: u64 = part.get(..2)?.parse().ok()?;
    whole.checked_mul(100)?.checked_add(part)
}

/// Sensors of processors under `hwmon`, else the zones that the firmware calls processors.
fn temperature_at(class: &Path) -> Option<u64> {
    const CHIPS: [&str; 4] = ["coretemp", "k10temp", "zenpower", "cpu_thermal"];
    let text = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let chips = entries(&class.join("hwmon"))
        .into_iter()
        .filter(|chip| CHIPS.contains(&text(chip.join("name")).as_str()));
    let is_input = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("temp") && name.ends_with("_input")
    };
    let inputs = chips.flat_map(|chip| entries(&chip)).filter(is_input);
    let hottest = inputs.filter_map(|input| text(input).parse().ok()).max();
    hottest.or_else(|| {
        let zones = entries(&class.join("thermal")).into_iter().filter(|zone| {
            let kind = text(zone.join("type")).to_ascii_lowercase();
            kind.contains("cpu") || kind.contains("x86_pkg")
        });
        zones.filter_map(|zone| text(zone.join("temp")).parse().ok()).max()
    })
}

/// What lies in a folder; nothing where it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(Result::ok).map(|entry| entry.path()).collect()
}

/// Processor time that this process has spent, and when that was asked.
#[derive(Clone, Copy, Debug)]
pub struct Spent {
    at: Instant,
    ticks: u64,
}

/// Ticks of `/proc/self/stat` in a second: the same on every Linux.
const TICKS: u64 = 100;

impl Spent {
    /// Until now; nothing where the system does not tell.
    pub fn now() -> Self {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        Self { at: Instant::now(), ticks: ticks(&stat).unwrap_or(0) }
    }

    /// Share of one core that was spent since, in thousandths; two busy cores are 2000.
    pub fn permille_since(&self, earlier: &Self) -> u64 {
        let millis = self.at.duration_since(earlier.at).as_millis();
        let millis = u64::try_from(millis).unwrap_or(u64::MAX);
        let spent = self.ticks.saturating_sub(earlier.ticks).saturating_mul(1000 / TICKS);
        spent.saturating_mul(1000).checked_div(millis).unwrap_or(0)
    }
}

/// Ticks in user and system mode, from a line of `/proc/PID/stat`. The name in it may hold anything, so fields are counted
/// from its closing parenthesis on.
fn ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    user.checked_add(system)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::Duration;

    #[test]
    fn pressure_is_read_to_the_hundredth() {
        let text =
            "some avg10=12.05 avg60=0.87 avg300=0.29 total=1234\nfull avg10=1.00 avg60=0 avg300=0 total=0\n";
        assert_eq!(some_avg10(text), Some(1205));
        for other in ["", "full avg10=1.00", "some avg60=1.00", "some avg10=x.00", "some avg10=1"] {
            assert_eq!(some_avg10(other), None, "{other}");
        }
    }

    #[test]
    fn the_hottest_sensor_of_a_processor_counts() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(temperature_at(dir.path()), None);
        write("thermal/thermal_zone0/type", "x86_pkg_temp\n");
        write("thermal/thermal_zone0/temp", "41000\n");
        write("thermal/thermal_zone1/type", "acpitz\n");
        write("thermal/thermal_zone1/temp", "99000\n");
        assert_eq!(temperature_at(dir.path()), Some(41_000));
        write("hwmon/hwmon0/name", "nvme\n");
        write("hwmon/hwmon0/temp1_input", "70000\n");
        write("hwmon/hwmon1/name", "coretemp\n");
        write("hwmon/hwmon1/temp1_input", "52000\n");
        write("hwmon/hwmon1/temp3_input", "55000\n");
        assert_eq!(temperature_at(dir.path()), Some(55_000));
    }

    #[test]
    fn ticks_stand_behind_any_name() {
        let line = "7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 41 9 0 0 20 0 3 0 100 1000 200";
        assert_eq!(ticks(line), Some(50));
        assert_eq!(ticks("7 (dormouse) S 1"), None);
        assert_eq!(ticks(""), None);
    }

    #[test]
    fn shares_are_of_one_core() {
        let earlier = Spent { at: Instant::now(), ticks: 100 };
        let later = Spent { at: earlier.at + Duration::from_secs(2), ticks: 500 };
        assert_eq!(later.permille_since(&earlier), 2000);
        assert_eq!(earlier.permille_since(&earlier), 0);
    }
}
