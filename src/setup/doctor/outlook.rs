//! What follows from all checks: the preset that fits, what a token would cost, the next command.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use super::{Check, Status, Target};
use crate::config::Preset;
use crate::sys::memory::Machine;
use crate::units::{Bytes, Rate, Seconds};

/// What a token would cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Expected {
    /// Seconds.
    pub seconds: f64,
    /// Bytes that it reads from the disk.
    pub read: u64,
    /// Bytes of weights that it multiplies.
    pub touched: u64,
    /// What it waits for: `disk` or `compute`.
    pub bound: &'static str,
    /// What the disk is thought to give, in bytes a second.
    pub disk: f64,
    /// Whether that was measured.
    pub disk_measured: bool,
    /// How fast weights are thought to be multiplied, in bytes a second.
    pub compute: f64,
    /// Whether that was measured.
    pub compute_measured: bool,
}

/// Works out what a token of the model at this place would cost with so much memory, at this rate of the disk if one was
/// measured; nothing where so little memory is not enough. Who plans is not this room's business.
#[derive(Clone)]
pub struct Planner(Arc<Plan>);

type Plan = dyn Fn(&Target, Bytes, Option<Rate>) -> Option<Expected> + Send + Sync;

impl Planner {
    /// One that asks `plan`.
    pub fn new(
        plan: impl Fn(&Target, Bytes, Option<Rate>) -> Option<Expected> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(plan))
    }

    fn ask(&self, target: &Target, memory: Bytes, disk: Option<Rate>) -> Option<Expected> {
        (self.0)(target, memory, disk)
    }
}

impl fmt::Debug for Planner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Planner")
    }
}

/// How Kimi K3, or the model that was named, would run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outlook {
    /// The largest preset that fits; nothing where what is free is less than the smallest, and enough nevertheless.
    pub preset: Option<&'static str>,
    /// Bytes of memory.
    pub memory: u64,
    /// What a token would cost with that.
    pub token: Expected,
}

impl Outlook {
    /// With the largest preset that fits into what is free, else with what is free.
    pub(super) fn of(
        planner: &Planner,
        target: &Target,
        machine: &Machine,
        disk: Option<Rate>,
    ) -> Option<Self> {
        let free = Bytes(machine.budget());
        let fits = |preset: &Preset| preset.memory().is_some_and(|memory| memory <= free);
        let preset = Preset::ALL.into_iter().filter(fits).max_by_key(|preset| preset.memory());
        let memory = preset.and_then(Preset::memory).unwrap_or(free);
        let token = planner.ask(target, memory, disk)?;
        Some(Self { preset: preset.map(Preset::as_str), memory: memory.0, token })
    }

    /// In words.
    pub fn in_words(&self) -> String {
        let token = &self.token;
        let memory = Bytes(self.memory);
        let with = match self.preset {
            Some(preset) => format!("preset {preset} ({memory})"),
            None => format!("{memory} of memory"),
        };
        let how = |measured: bool| if measured { "measured" } else { "assumed" };
        format!(
            "{with}: about {} a token, bound by {}: {} from the disk at {} ({}), {} multiplied at {} ({})",
            Seconds(token.seconds),
            if token.bound == "disk" { "the disk" } else { "processors and memory" },
            Bytes(token.read),
            Rate(token.disk),
            how(token.disk_measured),
            Bytes(token.touched),
            Rate(token.compute),
            how(token.compute_measured),
        )
    }

    fn flags(&self) -> String {
        self.preset.map_or_else(String::new, |preset| format!(" --preset {preset}"))
    }
}

/// The command to go on with. Only what was asked for, or what works, is proposed.
pub(super) fn next(target: &Target, checks: &[Check], begun: bool, outlook: Option<&Outlook>) -> String {
    let status =
        |name: &str| checks.iter().find(|check| check.name == name).map_or(Status::Ok, |check| check.status);
    let folder = shell_word(&target.folder);
    if target.holds_model {
        return match (status("model"), status("tokenizer"), outlook) {
            (Status::Fail, ..) | (_, Status::Fail, _) if begun => format!("dormouse download {folder}"),
            (Status::Fail, ..) | (_, Status::Fail, _) => format!("dormouse verify --repair --model {folder}"),
            (.., Some(outlook)) => format!("dormouse --model {folder}{}", outlook.flags()),
            (.., None) => "dormouse".to_owned(),
        };
    }
    if outlook.is_some() && status("disk") == Status::Ok {
        format!("dormouse download {folder}")
    } else {
        "dormouse".to_owned()
    }
}

/// A path as a shell wants it.
fn shell_word(path: &Path) -> String {
    let text = PathBuf::from(path).display().to_string();
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '~' | '+');
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    fn planner() -> Planner {
        Planner::new(|_, memory, disk| {
            let read = (134 * GB).saturating_sub(memory.0);
            let rate = disk.unwrap_or(Rate(3e9));
            (memory.0 >= 2 * GB).then(|| Expected {
                seconds: read as f64 / rate.0,
                read,
                touched: 134 * GB,
                bound: "disk",
                disk: rate.0,
                disk_measured: disk.is_some(),
                compute: 5e9,
                compute_measured: false,
            })
        })
    }

    fn target(holds_model: bool) -> Target {
        Target { folder: "/my disk/k3".into(), named: true, holds_model }
    }

    fn machine(gigabytes: u64) -> Machine {
        Machine { total: gigabytes * GB, available: gigabytes * GB, limited_by: None }
    }

    #[test]
    fn the_largest_preset_that_fits_is_proposed() {
        let of = |gigabytes| Outlook::of(&planner(), &target(false), &machine(gigabytes), Some(Rate(2e9)));
        assert_eq!(of(16).unwrap().preset, Some("laptop"));
        assert_eq!(of(64).unwrap().preset, Some("desktop"));
        assert_eq!(of(4).unwrap().preset, Some("ultra"));
        let little = of(3).unwrap();
        assert_eq!((little.preset, little.memory), (None, 2_400_000_000));
        assert_eq!(of(2), None, "too little for it");
        let words = of(16).unwrap().in_words();
        assert!(
            words.starts_with("preset laptop (7.45 GiB): about 1 min 03 s a token, bound by the disk"),
            "{words}"
        );
        assert!(words.contains("2.00 GB/s (measured)") && words.contains("5.00 GB/s (assumed)"), "{words}");
    }

    #[test]
    fn the_next_command_is_one_that_works() {
        let check = |name, status| Check::new(name, status, "", "");
        let outlook = Outlook::of(&planner(), &target(false), &machine(16), None);
        let command = |holds, checks: &[Check], begun| next(&target(holds), checks, begun, outlook.as_ref());
        assert_eq!(command(false, &[check("disk", Status::Ok)], false), "dormouse download '/my disk/k3'");
        assert_eq!(command(false, &[check("disk", Status::Fail)], false), "dormouse");
        assert_eq!(
            command(true, &[check("model", Status::Warn)], false),
            "dormouse --model '/my disk/k3' --preset laptop"
        );
        assert_eq!(
            command(true, &[check("model", Status::Fail)], false),
            "dormouse verify --repair --model '/my disk/k3'"
        );
        assert_eq!(command(true, &[check("model", Status::Fail)], true), "dormouse download '/my disk/k3'");
        assert_eq!(next(&target(false), &[], false, None), "dormouse", "the small model runs everywhere");
        assert_eq!(shell_word(Path::new("/it's")), r"'/it'\''s'");
    }
}
