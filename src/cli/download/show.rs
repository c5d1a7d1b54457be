//! What a person sees of a download on standard error, and what a script reads of it on standard output.

use std::io::{IsTerminal, Write, stderr, stdout};
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};

use super::super::output::clean;
use crate::setup::download::{Error, Event, Snapshot, State, Summary, Trouble};
use crate::units::{Bytes, Percent, Rate, Seconds};

/// Names a commit among people.
const SHORT: usize = 12;

/// Events as they come.
pub(in crate::cli) struct Show {
    json: bool,
    terminal: bool,
    /// A line is on the terminal that is drawn over itself.
    drawn: bool,
}

impl Show {
    pub(in crate::cli) fn new(json: bool) -> Self {
        Self { json, terminal: !json && stderr().is_terminal(), drawn: false }
    }

    pub(in crate::cli) fn event(&mut self, event: &Event) {
        if self.json {
            return object(&as_json(event));
        }
        match event {
            Event::Progress(snapshot) => self.draw(snapshot),
            Event::File { state, .. } if !matters(*state) => {}
            _ => self.line(&in_words(event)),
        }
    }

    pub(in crate::cli) fn done(&mut self, summary: &Summary, next: &str) {
        if self.json {
            return object(&json!({
                "event": "done",
                "folder": summary.folder.to_string_lossy(),
                "commit": summary.commit,
                "files": summary.files,
                "bytes": summary.bytes,
                "received": summary.received,
                "unverified": summary.unverified,
                "seconds": summary.seconds,
            }));
        }
        let (bytes, received) = (Bytes(summary.bytes), Bytes(summary.received));
        let seconds = Seconds(summary.seconds);
        self.line(&format!(
            "{} files, {bytes}: complete. {received} were fetched, in {seconds}.",
            summary.files
        ));
        if !summary.unverified.is_empty() {
            let names = summary.unverified.join(", ");
            self.line(&format!("not verified, since no digest is published: {names}"));
        }
        self.line(next);
    }

    /// The model that was fetched can be talked to.
    pub(in crate::cli) fn ready(&mut self, folder: &Path, preset: &str, token_s: Option<f64>, config: &Path) {
        if self.json {
            return object(&json!({
                "event": "ready",
                "folder": folder.to_string_lossy(),
                "preset": preset,
                "token_s": token_s,
                "config": config.to_string_lossy(),
            }));
        }
        let token = token_s.map_or_else(String::new, |s| format!(" A token took {}.", Seconds(s)));
        self.line(&format!("{} can be talked to, with the budget {preset}.{token}", folder.display()));
        self.line(&format!("{} says so: `dormouse` chats with it.", config.display()));
    }

    pub(in crate::cli) fn stopped(&mut self) {
        if self.json {
            return object(&json!({ "event": "stopped" }));
        }
        self.line("stopped; what came is kept, and the same command goes on from here");
    }

    /// The error itself is printed by whoever ends the program.
    pub(in crate::cli) fn failed(&mut self, error: &Error) {
        if self.json {
            let mut value = json!({ "event": "failed", "error": error.to_string() });
            if let Error::NoSpace { missing, .. } = error {
                value["missing_bytes"] = json!(missing);
            }
            if let Error::Incomplete { missing, .. } = error {
                let files = missing.iter().map(|(path, why)| json!({ "path": path, "error": why }));
                value["missing"] = files.collect();
            }
            return object(&value);
        }
        self.wipe();
    }

    /// A line that stays.
    fn line(&mut self, text: &str) {
        self.wipe();
        // Where standard error is gone there is nobody left to tell.
        let _ = writeln!(stderr(), "{}", clean(text));
    }

    fn wipe(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }

    fn draw(&mut self, snapshot: &Snapshot) {
        if self.terminal {
            self.drawn = true;
            // The cursor stays off the last column, where a terminal would wrap.
            // One that does not tell its width says zero.
            let width = crossterm::terminal::size().map_or(0, |(width, _)| usize::from(width));
            let width = if width > 1 { width - 1 } else { 79 };
            let line: String = clean(&summary_line(snapshot)).chars().take(width).collect();
            let _ = write!(stderr(), "\r\x1b[K{line}");
        }
    }
}

/// Whether a person wants to hear that a file is in this state now.
fn matters(state: State) -> bool {
    state.is_there() || matches!(state, State::Mismatch | State::Failed | State::Paused)
}

fn summary_line(snapshot: &Snapshot) -> String {
    let (verified, total) = (Bytes(snapshot.verified), Bytes(snapshot.total));
    let left = snapshot.left_s.map_or_else(String::new, |left| format!(", {} to go", Seconds(left)));
    let again = match snapshot.again {
        0 => String::new(),
        again => format!(", {} again", Bytes(again)),
    };
    format!(
        "{} of {} files, {verified} of {total} ({}), {}{left}{again}",
        snapshot.files_done,
        snapshot.files,
        Percent::of(snapshot.verified, snapshot.total),
        Rate(snapshot.rate)
    )
}

fn in_words(event: &Event) -> String {
    match event {
        Event::Resolved { repo, revision, commit, moved } => {
            let begun = short(commit);
            let first = format!("{repo}, {revision}: commit {begun}");
            match moved {
                None => first,
                Some(moved) => format!(
                    "{first}\n{revision} is at {} by now; this folder was begun with {begun} and stays with it \
                     (--revision {moved} changes that)",
                    short(moved)
                ),
            }
        }
        Event::Listed { files, bytes, kept, .. } => {
            format!("{files} files, {}; {} are here already", Bytes(*bytes), Bytes(*kept))
        }
        Event::File { path, state } => format!("{path}: {}", word(*state)),
        Event::Trouble(trouble) => trouble.to_string(),
        Event::Progress(snapshot) => summary_line(snapshot),
    }
}

const fn word(state: State) -> &'static str {
    match state {
        State::Waiting => "waiting",
        State::Checking => "checking",
        State::Fetching => "fetching",
        State::Paused => "paused",
        State::Verifying => "verifying",
        State::Complete => "complete",
        State::Unverified => "here, but not verified",
        State::Mismatch => "mismatch",
        State::Failed => "failed",
    }
}

fn short(commit: &str) -> &str {
    commit.get(..SHORT).unwrap_or(commit)
}

fn as_json(event: &Event) -> Value {
    match event {
        Event::Resolved { repo, revision, commit, moved } => json!({
            "event": "resolved", "repo": repo, "revision": revision, "commit": commit, "moved": moved,
        }),
        Event::Listed { files, bytes, kept, .. } => {
            json!({ "event": "listed", "files": files, "bytes": bytes, "kept": kept })
        }
        Event::File { path, state } => json!({ "event": "file", "path": path, "state": state }),
        Event::Trouble(trouble) => {
            let mut value = trouble_json(trouble);
            value["event"] = json!("trouble");
            value
        }
        Event::Progress(snapshot) => {
            let connections = snapshot.connections.iter().map(|connection| {
                json!({
                    "path": connection.path,
                    "state": connection.state,
                    "verified": connection.at,
                    "total": connection.size,
                    "rate": connection.rate,
                })
            });
            json!({
                "event": "progress",
                "verified": snapshot.verified,
                "total": snapshot.total,
                "received": snapshot.received,
                "again": snapshot.again,
                "rate": snapshot.rate,
                "left_s": snapshot.left_s,
                "files_done": snapshot.files_done,
                "files": snapshot.files,
                "connections": connections.collect::<Value>(),
                "error": snapshot.trouble.as_ref().map(trouble_json),
            })
        }
    }
}

fn trouble_json(trouble: &Trouble) -> Value {
    let at = trouble.at.duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
    json!({ "at": at, "path": trouble.path, "message": trouble.message })
}

fn object(value: &Value) {
    // Whoever stopped reading wants no more; the download itself goes on.
    let mut out = stdout().lock();
    let _ = writeln!(out, "{value}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_says_how_far_it_is() {
        let snapshot = Snapshot {
            verified: 1 << 30,
            total: 4 << 30,
            received: 1 << 30,
            again: 0,
            rate: 1e8,
            left_s: Some(32.0),
            files_done: 3,
            files: 12,
            connections: Vec::new(),
            trouble: None,
        };
        let line = summary_line(&snapshot);
        assert_eq!(line, "3 of 12 files, 1.00 GiB of 4.00 GiB (25 %), 100 MB/s, 32 s to go");
    }
}
