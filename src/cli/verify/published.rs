//! The part of `verify` that holds files against their published digests, and fetches those that are wrong.

use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use crate::cli::progress::Progress;
use crate::cli::{Done, download as by_hand};
use crate::config::Paths;
use crate::protocol::{ExitCode, UserError};
use crate::setup::download::{self, Event, Options, Published};
use crate::setup::verify::{self, Finding, Marks, Verdict};
use crate::sys::signals::StopSignal;
use crate::units::{Bytes, Percent, Rate};

/// Files that are named one by one; the rest is counted.
const NAMED: usize = 16;

/// What a script is told of published digests.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Object {
    repo: String,
    commit: String,
    files: usize,
    /// Files whose digest is the published one.
    right: usize,
    /// Of these, found right by an earlier check that was stopped.
    right_before: usize,
    /// Files for which none is published.
    unpublished: usize,
    /// Bytes that were read and hashed.
    pub(super) read: u64,
    pub(super) seconds: f64,
    pub(super) bad: Vec<Bad>,
    /// Bytes that a repair fetched.
    pub(super) fetched: u64,
}

/// A file that must be fetched again.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Bad {
    path: String,
    problem: String,
}

impl Object {
    fn new(published: &Published, findings: &[Finding]) -> Self {
        let count = |wanted: &Verdict| findings.iter().filter(|finding| finding.verdict == *wanted).count();
        let before = count(&Verdict::RightBefore);
        let read = |finding: &&Finding| matches!(finding.verdict, Verdict::Right | Verdict::Wrong(_));
        Self {
            repo: published.repo.clone(),
            commit: published.commit.clone(),
            files: published.files.len(),
            right: count(&Verdict::Right) + before,
            right_before: before,
            unpublished: count(&Verdict::Unpublished),
            read: findings.iter().filter(read).map(|finding| finding.entry.size).sum(),
            bad: bad(findings),
            ..Self::default()
        }
    }
}

fn bad(findings: &[Finding]) -> Vec<Bad> {
    let bad = |finding: &Finding| {
        let problem = finding.problem()?;
        Some(Bad { path: finding.entry.path.clone(), problem })
    };
    findings.iter().filter_map(bad).collect()
}

/// Missing files and wrong lengths, where it is known what belongs there.
pub(super) fn quick(folder: &Path, published: Option<&Published>) -> Result<(), UserError> {
    let Some(published) = published else { return Ok(()) };
    let bad = bad(&verify::quick(folder, &published.files));
    if bad.is_empty() { Ok(()) } else { Err(refusal(ExitCode::ModelFiles, folder, &bad)) }
}

/// Every byte. Nothing if it was stopped.
pub(super) fn deep(
    paths: &Paths,
    folder: &Path,
    published: &Published,
    stop: &StopSignal,
    progress: &mut Progress,
) -> Result<Option<Object>, UserError> {
    let began = Instant::now();
    let mut marks = Marks::read(paths, folder);
    let mut told = |done: u64, total: u64| {
        let rate = Rate::of(Bytes(done), began.elapsed().as_secs_f64());
        let share = Percent::of(done, total);
        progress.draw(|| format!("hashing: {} of {}, {share}, {rate}", Bytes(done), Bytes(total)));
        !stop.is_set()
    };
    match verify::deep(folder, &published.files, &mut marks, &mut told) {
        Ok(findings) => {
            let seconds = began.elapsed().as_secs_f64();
            Ok(Some(Object { seconds, ..Object::new(published, &findings) }))
        }
        Err(verify::Error::Stopped) => Ok(None),
        Err(error) => {
            Err(UserError::new(ExitCode::Resources, "The model's files cannot be read", error.to_string()))
        }
    }
}

/// Fetches the files that are bad, or looks at all of them where nobody knows which are. Gives the bytes that came.
pub(super) fn repair(
    folder: &Path,
    published: Option<&Published>,
    bad: &[Bad],
    stop: &StopSignal,
    progress: &mut Progress,
) -> Result<Result<u64, Done>, UserError> {
    let mut options = by_hand::from_environment(folder.to_owned())?;
    if let Some(published) = published {
        options = Options {
            repo: published.repo.clone(),
            revision: Some(published.revision.clone()),
            only: bad.iter().map(|bad| bad.path.clone()).collect(),
            ..options
        };
    }
    let mut tell = |event: Event| match event {
        Event::Progress(shown) => {
            let (done, total) = (Bytes(shown.verified), Bytes(shown.total));
            progress.draw(|| format!("fetching: {done} of {total}, {}", Rate(shown.rate)));
        }
        Event::Trouble(trouble) => progress.note(&format!("{} {}", trouble.path, trouble.message)),
        Event::Resolved { .. } | Event::Listed { .. } | Event::File { .. } => {}
    };
    match download::run(&options, &|| stop.is_set(), &mut tell) {
        Ok(summary) => Ok(Ok(summary.received)),
        Err(download::Error::Stopped) => Ok(Err(Done::Stopped)),
        Err(error) => Err(error.into()),
    }
}

/// What to say of bad files, and the way out.
pub(super) fn refusal(code: ExitCode, folder: &Path, bad: &[Bad]) -> UserError {
    let named = bad.iter().take(NAMED).map(|bad| bad.problem.as_str());
    let more = bad.len().checked_sub(NAMED + 1).map(|more| format!("and {} more", more + 1));
    let detail: Vec<&str> = named.chain(more.as_deref()).collect();
    let title = match bad {
        [_] => "One of the model's files is not what was published".to_owned(),
        _ => format!("{} of the model's files are not what was published", bad.len()),
    };
    UserError::new(code, title, detail.join("\n  ")).with_hint(format!(
        "`dormouse verify --repair --model {}` fetches these files again, and no others.",
        by_hand::quoted(&folder.display().to_string())
    ))
}

/// There is nothing to hold the files against.
pub(super) fn no_digests(folder: &Path) -> UserError {
    let shown = by_hand::quoted(&folder.display().to_string());
    let detail =
        format!("{shown} was not fetched by `dormouse download`, so nobody here knows what was published");
    UserError::new(ExitCode::CheckFailed, "There are no published digests in the folder", detail).with_hint(format!(
        "`dormouse verify --repair --model {shown}` asks the hub for them, checks every byte, and fetches only what is \
         damaged."
    ))
}

/// What came of it, for a person.
pub(super) fn text(object: &Object) -> String {
    let rate = Rate::of(Bytes(object.read), object.seconds);
    let before = match object.right_before {
        0 => String::new(),
        count => format!(", {count} files were found right before"),
    };
    let unpublished = match object.unpublished {
        0 => String::new(),
        count => format!(", {count} have none"),
    };
    let commit = object.commit.get(..12).unwrap_or(&object.commit);
    format!(
        "{} of {} files have the digests published by {} at {commit}{unpublished}: {} hashed in {} ({rate}){before}.",
        object.right,
        object.files,
        object.repo,
        Bytes(object.read),
        crate::units::Seconds(object.seconds),
    )
}
