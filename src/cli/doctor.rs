//! `dormouse doctor`: what this machine can do.

use std::fmt::Write;
use std::io::{IsTerminal, stderr, stdout};

use super::args::{Common, Doctor};
use super::bench::disk;
use super::settings::Resolved;
use super::{Done, download, no_resource, output, settings};
use crate::engine::plan;
use crate::protocol::{ExitCode, KnownRates, Measured, Settings, UserError};
use crate::setup::doctor::{
    self, Check, Expected, Measure, Planner, Report, Status, Stopped, Subject, Target, Terminal,
};
use crate::setup::{MeasuredRates, Measurement};
use crate::sys::signals::StopSignal;
use crate::units::Day;

/// Width of the words before what was found.
const NAME_WIDTH: usize = 16;
/// Where a line ends that has no terminal to tell how wide it is.
const WIDTH: usize = 100;

/// Examines the machine, and tells a person each check as it ends.
pub(super) fn doctor(common: &Common, args: &Doctor) -> Result<Done, UserError> {
    let resolved = settings::resolve(common)?;
    let stop = StopSignal::watch(ExitCode::Stopped as u8).map_err(|error| no_resource("signals", &error))?;
    let target = target(&resolved, args)?;
    // Another place may be asked about than that of the model there is.
    let model = resolved.model.as_ref().filter(|folder| args.target.is_some() && **folder != target.folder);
    let model = model.map(|folder| Target { folder: folder.clone(), named: true, holds_model: true });
    let mut subject = Subject {
        model,
        terminal: terminal(),
        measure: (!args.no_disk).then(Measure::default),
        planner: Some(planner(&resolved)),
        ..Subject::here(resolved.paths.clone(), target)
    };
    if let Some(root) = &args.root {
        subject.root.clone_from(root);
    }
    let width = subject.terminal.as_ref().and_then(|terminal| terminal.size);
    let width = width.map_or(WIDTH, |(columns, _)| usize::from(columns).clamp(40, WIDTH));
    let mut failed = None;
    let mut tell = |check: &Check| {
        if !args.json
            && let Err(error) = output::print(&line(check, width))
        {
            failed = Some(error);
        }
    };
    let ended = doctor::examine(&subject, &|| stop.is_set(), &mut tell);
    let report = match ended {
        Ok(report) => report,
        Err(Stopped) => return Ok(Done::Stopped),
    };
    if let Some(error) = failed {
        return Err(error);
    }
    if args.json {
        output::print_json(&report)?;
    } else {
        output::print(&conclusion(&report, width))?;
    }
    if report.rates.iter().any(Option::is_some) && subject.target.holds_model {
        let [direct, buffered] = report.rates;
        disk::remember(&resolved, |rates| rates.set_disk(&subject.target.folder, direct, buffered))?;
    }
    verdict(&report)
}

/// The model that counts, or where one is to go.
fn target(resolved: &Resolved, args: &Doctor) -> Result<Target, UserError> {
    if let Some(folder) = &args.target {
        if folder.as_os_str().is_empty() {
            let detail = "--target names no folder";
            return Err(UserError::new(ExitCode::Usage, "There is nothing to look at", detail));
        }
        // One that holds a model already needs no room for another.
        return Ok(Target { named: true, ..Target::at(folder) });
    }
    if let Some(folder) = &resolved.model {
        return Ok(Target { folder: folder.clone(), named: true, holds_model: true });
    }
    Ok(Target::at(&resolved.paths.models().join(download::NAME)))
}

/// What a token costs: of the model that is there, else of the release.
pub(super) fn planner(resolved: &Resolved) -> Planner {
    let measured = MeasuredRates::read(&resolved.paths);
    let known = |measurement: Measurement| Measured {
        bytes_per_s: measurement.rate().whole(),
        day: measurement.day(),
    };
    let compute = measured.compute().map(known);
    let reader = resolved.reader;
    let settings = Settings {
        threads: resolved.threads,
        reader: reader.map(|kind| kind.as_str().to_owned()),
        ..Settings::default()
    };
    Planner::new(move |target, memory, disk| {
        let before = measured.disk(&target.folder, reader).map(known);
        let now = disk.map(|rate| Measured { bytes_per_s: rate.whole(), day: Day::today() });
        let rates = KnownRates { disk: now.or(before), compute };
        let model = target.folder.clone();
        let settings = Settings { model, memory: Some(memory), rates, ..settings.clone() };
        let facts =
            if target.holds_model { plan::before_loading(&settings) } else { plan::of_release(&settings) };
        let facts = facts.ok()?;
        Some(Expected {
            seconds: facts.token_s,
            read: facts.token_trunk.0 + facts.token_experts.0,
            touched: facts.token_touched.0,
            bound: facts.bound,
            disk: facts.disk.rate.0,
            disk_measured: facts.disk.measured.is_some(),
            compute: facts.compute.rate.0,
            compute_measured: facts.compute.measured.is_some(),
        })
    })
}

/// What follows from the checks.
fn conclusion(report: &Report, width: usize) -> String {
    format!("\n{}\nNext: {}\n", wrapped(&report.conclusion(), width).join("\n"), report.next)
}

/// The terminal that the program was started in, if any of its streams is one.
fn terminal() -> Option<Terminal> {
    if !stdout().is_terminal() && !stderr().is_terminal() {
        return None;
    }
    Some(Terminal::of(crossterm::terminal::size().ok(), |name| std::env::var(name).ok()))
}

/// A check as a person reads it: a mark, the name, what was found, and below it what to do.
fn line(check: &Check, width: usize) -> String {
    let mark = match check.status {
        Status::Ok => "ok",
        Status::Warn => "!",
        Status::Fail => "no",
    };
    let mut out = String::new();
    let indent = 4 + NAME_WIDTH;
    let room = width.saturating_sub(indent).max(20);
    // Writing to a string cannot fail.
    for (i, row) in wrapped(&check.finding, room).iter().enumerate() {
        let _ = match i {
            0 => writeln!(out, "{mark:<4}{:<NAME_WIDTH$}{row}", check.name),
            _ => writeln!(out, "{:indent$}{row}", ""),
        };
    }
    for row in wrapped(&check.advice, room) {
        let _ = writeln!(out, "{:indent$}{row}", "");
    }
    out
}

/// Rows of whole words. A word that is longer than a row stays whole.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match rows.last_mut() {
            Some(row) if row.chars().count() + 1 + word.chars().count() <= width => {
                row.push(' ');
                row.push_str(word);
            }
            _ => rows.push(word.to_owned()),
        }
    }
    rows
}

/// A check that failed is what a script wants to hear of.
fn verdict(report: &Report) -> Result<Done, UserError> {
    let failed: Vec<&str> =
        report.checks.iter().filter(|check| check.status == Status::Fail).map(|check| check.name).collect();
    if failed.is_empty() {
        return Ok(Done::Well);
    }
    let detail = failed.join(", ");
    Err(UserError::new(ExitCode::CheckFailed, "Something does not work as asked for", detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_a_few_rows_of_whole_words() {
        let check = Check {
            name: "open files",
            status: Status::Warn,
            finding: "only 64 may be open at once, and Kimi K3 needs 224".to_owned(),
            advice: "Raise it in the shell".to_owned(),
        };
        let text = line(&check, 50);
        assert_eq!(
            text,
            "!   open files      only 64 may be open at once,\n\
             \x20                   and Kimi K3 needs 224\n\
             \x20                   Raise it in the shell\n"
        );
        assert!(text.lines().all(|line| line.len() <= 50));
        assert_eq!(wrapped("/a/very/long/path x", 5), ["/a/very/long/path", "x"]);
    }
}
