//! Processors, memory, swap, pages, open files, the clock.

use std::time::{Duration, UNIX_EPOCH};

use super::{Check, Subject};
use crate::kernels::Tier;
use crate::sys::{cpu, memory, process};
use crate::units::{Bytes, Day};

/// The least that Kimi K3 runs in, with a little to spare: what `dormouse plan` says of the release.
pub(super) const LEAST_MEMORY: Bytes = Bytes(2_800_000_000);
/// Each shard is opened twice at most (for direct reads, and for others), and some files are not shards.
const FILES: u64 = 2 * 96 + 32;
/// The clock was set wrong if it says a day before this one: 2026 had begun when this was written.
const EPOCH: u64 = 1_767_225_600;

/// The instruction set.
pub(super) fn processor(subject: &Subject) -> Check {
    const NAME: &str = "processor";
    let Some(found) = cpu::processors_at(&subject.root) else {
        return Check::ok(NAME, "the system does not tell; what it has is found out when the program begins");
    };
    let has = |tier: &Tier| tier.features().iter().all(|feature| found.features.contains(*feature));
    let best = Tier::ALL.into_iter().rev().find(has).unwrap_or(Tier::Scalar);
    let model = if found.model.is_empty() { "unnamed".to_owned() } else { found.model };
    let forced = subject.forced_tier.as_deref().filter(|name| !name.is_empty());
    if let Some(name) = forced {
        let advice = "Unset DORMOUSE_CPU, and the program takes the best that there is.";
        return match Tier::ALL.into_iter().find(|tier| tier.as_str() == name) {
            None => Check::fail(NAME, format!("DORMOUSE_CPU asks for `{name}`, which is none"), advice),
            Some(tier) if !has(&tier) => {
                Check::fail(NAME, format!("{model}: DORMOUSE_CPU asks for {name}, which it has not"), advice)
            }
            Some(tier) if tier < best => {
                Check::warn(NAME, format!("{model}: {name}, as DORMOUSE_CPU asks"), advice)
            }
            Some(_) => Check::ok(NAME, format!("{model}: {name}, as DORMOUSE_CPU asks")),
        };
    }
    let finding = format!("{model}: {}", best.as_str());
    match best {
        Tier::Scalar => Check::warn(
            NAME,
            format!("{finding} code, since it has neither AVX2 nor AVX-512"),
            "Answers are the same, and several times slower. There is nothing to set.",
        ),
        _ => Check::ok(NAME, finding),
    }
}

/// Physical cores, and how many of them this process may use.
pub(super) fn cores(subject: &Subject) -> Check {
    const NAME: &str = "cores";
    let Some(found) = cpu::processors_at(&subject.root) else {
        return Check::ok(NAME, format!("{} may be used", cpu::physical_cores()));
    };
    let mut finding = format!(
        "{} physical of {} threads, {} of them for this process",
        found.cores, found.threads, found.allowed_cores
    );
    let mut advice = Vec::new();
    if found.allowed_cores < found.cores {
        advice.push("The process may not use all cores: look at taskset, or at the container's cpuset.");
    } else if found.allowed_cores == 1 {
        advice.push("With one core, reading and computing get in each other's way. It works.");
    }
    if let Some(quota) = found.quota.filter(|quota| *quota < found.allowed_cores as f64) {
        finding = format!("{finding}, limited to {quota:.1} cores' time");
        advice.push("The container limits processor time: --threads no larger than that is best.");
    }
    if found.governor.as_deref() == Some("powersave") {
        finding += ", governor powersave";
        advice.push("A governor like performance or schedutil may be faster.");
    }
    if advice.is_empty() { Check::ok(NAME, finding) } else { Check::warn(NAME, finding, advice.join(" ")) }
}

/// Memory within the limits of the container.
pub(super) fn memory(subject: &Subject) -> Check {
    const NAME: &str = "memory";
    let Some(machine) = memory::machine_at(&subject.root) else {
        let advice = "Say how much to use with --memory, like --memory 8GiB.";
        return Check::warn(NAME, "the system does not tell how much there is", advice);
    };
    let limit = machine.limited_by.as_ref();
    let place = limit.map_or_else(String::new, |file| format!(" (the limit in {file})"));
    let finding = format!("{} free of {}{place}", Bytes(machine.available), Bytes(machine.total));
    let least = LEAST_MEMORY;
    if machine.total < least.0 {
        let way = if limit.is_some() { "a higher limit" } else { "a larger machine" };
        let advice = format!("Enough for the small model. Kimi K3 needs {least}: that takes {way}.");
        Check::warn(NAME, finding, advice)
    } else if machine.budget() < least.0 {
        let advice =
            format!("Enough for the small model. For Kimi K3, close other programs until {least} are free.");
        Check::warn(NAME, finding, advice)
    } else {
        Check::ok(NAME, finding)
    }
}

/// Swap, which hurts only when it is used up.
pub(super) fn swap(subject: &Subject) -> Check {
    const NAME: &str = "swap";
    let pages = memory::pages_at(&subject.root);
    if pages.swap_total == 0 {
        return Check::ok(NAME, "none, and none is needed");
    }
    let used = pages.swap_total.saturating_sub(pages.swap_free);
    let finding = format!("{} of {} in use", Bytes(used), Bytes(pages.swap_total));
    if used > pages.swap_total / 2 {
        let advice =
            "Memory is scarce already: take a smaller --memory or --preset, or close other programs.";
        return Check::warn(NAME, finding, advice);
    }
    Check::ok(NAME, finding)
}

/// Pages of a larger size.
pub(super) fn huge_pages(subject: &Subject) -> Check {
    const NAME: &str = "huge pages";
    match memory::pages_at(&subject.root).huge.as_deref() {
        None => Check::ok(NAME, "the system does not tell"),
        Some("never") => Check::ok(NAME, "never: memory is had in small pages, which costs little"),
        Some(choice) => Check::ok(NAME, choice),
    }
}

/// How many files may be open.
pub(super) fn open_files(subject: &Subject) -> Check {
    const NAME: &str = "open files";
    let Some((soft, hard)) = process::open_files_at(&subject.root) else {
        return Check::ok(NAME, "the system does not tell");
    };
    let shown = |limit: u64| if limit == u64::MAX { "no limit".to_owned() } else { limit.to_string() };
    if soft >= FILES {
        return Check::ok(NAME, format!("{} may be open at once", shown(soft)));
    }
    let finding = format!("only {soft} may be open at once, and Kimi K3 needs {FILES}");
    let advice = if hard >= FILES {
        format!("Raise it in the shell: ulimit -n {}", hard.min(1024))
    } else {
        format!("The most that may be asked for is {}: raise it in /etc/security/limits.conf.", shown(hard))
    };
    Check::warn(NAME, finding, advice)
}

/// The clock: certificates are held against it.
pub(super) fn clock(subject: &Subject) -> Check {
    const NAME: &str = "clock";
    let since = subject.now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let day = Day(since.as_secs());
    if since < Duration::from_secs(EPOCH) {
        let advice =
            "Set the clock: with a wrong one no certificate is accepted, and nothing can be fetched.";
        return Check::warn(NAME, format!("it says {day}, which is past"), advice);
    }
    Check::ok(NAME, format!("it says {day} (UTC)"))
}
