//! `dormouse doctor`: what this machine can do.

use std::fmt::Write;
use std::io::{IsTerminal, stderr, stdout};

use super::args::{Common, Doctor};
use super::{Done, no_resource, output, settings};
use crate::protocol::{ExitCode, UserError};
use crate::setup::doctor::{self, Check, Report, Status, Stopped, Subject, Terminal};
use crate::sys::signals::StopSignal;

/// Width of the words before what was found.
const NAME_WIDTH: usize = 16;
/// Where a line ends that has no terminal to tell how wide it is.
const WIDTH: usize = 100;

/// Examines the machine, and tells a person each check as it ends.
pub(super) fn doctor(common: &Common, args: &Doctor) -> Result<Done, UserError> {
    let _resolved = settings::resolve(common)?;
    let stop = StopSignal::watch(ExitCode::Stopped as u8).map_err(|error| no_resource("signals", &error))?;
    let mut subject = Subject { terminal: terminal(), ..Subject::here() };
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
    }
    verdict(&report)
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
