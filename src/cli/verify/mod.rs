//! `dormouse verify`: whether a checkpoint's files are what they should be.
//!
//! Three things can be held against each other, and each has its own flag: files against the config and the list of the
//! download (`--quick`), bytes against what the publisher says (`--deep`), bytes against what they were on the day of a
//! seal.

mod published;

use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use super::args::{Common, Verify};
use super::progress::Progress;
use super::settings::Resolved;
use super::{Done, no_resource, output, settings};
use crate::checkpoint::{Checkpoint, Manifest};
use crate::protocol::{ExitCode, UserError};
use crate::setup;
use crate::setup::download::Published;
use crate::setup::seal::{self, Finding, Findings};
use crate::store::reader;
use crate::sys::file;
use crate::sys::signals::StopSignal;
use crate::units::{Bytes, Percent, Rate, Seconds};

/// What a script is told.
#[derive(Clone, Debug, Default, Serialize)]
struct Object {
    folder: String,
    shards: usize,
    tensors: u64,
    parameters: u64,
    bytes: u64,
    /// How the content was looked at: `none`, `checked` or `sealed`.
    content: &'static str,
    /// Bytes of content that were read.
    read: u64,
    seconds: f64,
    /// Pieces that have changed or cannot be read.
    bad: u64,
    /// The first of them.
    first: Vec<Bad>,
    manifest: Option<String>,
    /// What came of holding files against published digests, where that was asked for.
    published: Option<published::Object>,
}

#[derive(Clone, Debug, Serialize)]
struct Bad {
    shard: String,
    what: String,
    offset: u64,
    len: u64,
    problem: String,
}

impl From<&Finding> for Bad {
    fn from(found: &Finding) -> Self {
        let Finding { shard, what, offset, len, problem } = found.clone();
        Self { shard, what, offset, len, problem }
    }
}

/// Checks a checkpoint; with `--seal`, reads all of it and writes its manifest.
pub(super) fn verify(common: &Common, args: &Verify) -> Result<Done, UserError> {
    let resolved = settings::resolve(common)?;
    let stop = StopSignal::watch(ExitCode::Stopped as u8).map_err(|error| no_resource("signals", &error))?;
    let mut progress = Progress::new();
    let ended = checked(&resolved, args, &stop, &mut progress);
    progress.finish();
    let (object, refusal) = match ended? {
        Ok(found) => found,
        Err(done) => return Ok(done),
    };
    if args.json {
        output::print_json(&object)?;
    } else {
        output::print(&text(&object))?;
    }
    refusal.map_or(Ok(Done::Well), Err)
}

/// What was found, and what is wrong with it if anything is; or how it was ended early.
type Checked = Result<(Object, Option<UserError>), Done>;

fn checked(
    resolved: &Resolved,
    args: &Verify,
    stop: &StopSignal,
    progress: &mut Progress,
) -> Result<Checked, UserError> {
    let settings = resolved.settings()?;
    let folder = &settings.model;
    let mut object = Object { folder: folder.display().to_string(), content: "none", ..Object::default() };
    if args.deep || args.repair {
        let (found, refusal) = match against_published(resolved, args, folder, stop, progress)? {
            Ok(found) => found,
            Err(done) => return Ok(Err(done)),
        };
        object.published = Some(found);
        if refusal.is_some() {
            return Ok(Ok((object, refusal)));
        }
    } else {
        published::quick(folder, published_of(resolved, folder).as_ref())?;
    }
    // Headers, sizes, and every tensor against the config.
    let checkpoint = Checkpoint::open(folder)?;
    object.shards = checkpoint.shards().len();
    object.tensors = checkpoint.tensors();
    object.parameters = checkpoint.parameters();
    object.bytes = checkpoint.tensor_bytes();
    if args.quick || args.deep || args.repair {
        return Ok(Ok((object, None)));
    }
    let manifest = if args.seal { None } else { Manifest::read(&checkpoint)? };
    let mut findings = Findings::default();
    if args.seal || manifest.is_some() {
        let reader =
            reader::open(checkpoint.shards(), resolved.reader).map_err(|error| unreadable(&error))?;
        let began = Instant::now();
        let mut told = |done: u64, total: u64| {
            let rate = Rate::of(Bytes(done), began.elapsed().as_secs_f64());
            let share = Percent::of(done, total);
            progress.draw(|| format!("reading: {} of {}, {share}, {rate}", Bytes(done), Bytes(total)));
            !stop.is_set()
        };
        let ended = match &manifest {
            Some(manifest) => {
                object.content = "checked";
                object.manifest = Some(checkpoint.dir().join(Manifest::FILE).display().to_string());
                seal::check(&checkpoint, manifest, reader.as_ref(), &mut told).map(|found| findings = found)
            }
            None => seal::seal(&checkpoint, reader.as_ref(), &mut told).map(|(path, bytes)| {
                object.content = "sealed";
                object.manifest = Some(path.display().to_string());
                findings.bytes = bytes;
            }),
        };
        object.seconds = began.elapsed().as_secs_f64();
        match ended {
            Err(seal::Error::Stopped) => return Ok(Err(Done::Stopped)),
            ended => ended?,
        }
    }
    object.read = findings.bytes;
    object.bad = findings.bad;
    object.first = findings.first.iter().map(Bad::from).collect();
    let refusal = (findings.bad > 0).then(|| bad(&findings));
    Ok(Ok((object, refusal)))
}

/// What was published of a folder's files. Of the small model the program itself knows it.
fn published_of(resolved: &Resolved, folder: &Path) -> Option<Published> {
    Published::of(folder).or_else(|| setup::published(&resolved.paths, folder))
}

/// Holds every byte against the published digests and, if asked to, fetches what is bad.
fn against_published(
    resolved: &Resolved,
    args: &Verify,
    folder: &Path,
    stop: &StopSignal,
    progress: &mut Progress,
) -> Result<Result<(published::Object, Option<UserError>), Done>, UserError> {
    let known = published_of(resolved, folder);
    let mut fetched = 0;
    if args.repair {
        let bad = match &known {
            None => Vec::new(),
            Some(known) => match published::deep(&resolved.paths, folder, known, stop, progress)? {
                Some(found) if found.bad.is_empty() => return Ok(Ok((found, None))),
                Some(found) => found.bad,
                None => return Ok(Err(Done::Stopped)),
            },
        };
        if setup::published(&resolved.paths, folder).is_some() {
            // The program has the small model with it.
            setup::ensure(&resolved.paths)?;
        } else {
            fetched = match published::repair(folder, known.as_ref(), &bad, stop, progress)? {
                Ok(fetched) => fetched,
                Err(done) => return Ok(Err(done)),
            };
        }
    }
    let known = if args.repair { published_of(resolved, folder) } else { known };
    let Some(known) = known else { return Err(published::no_digests(folder)) };
    let Some(mut found) = published::deep(&resolved.paths, folder, &known, stop, progress)? else {
        return Ok(Err(Done::Stopped));
    };
    found.fetched = fetched;
    let refusal =
        (!found.bad.is_empty()).then(|| published::refusal(ExitCode::CheckFailed, folder, &found.bad));
    Ok(Ok((found, refusal)))
}

fn unreadable(error: &file::Error) -> UserError {
    UserError::new(ExitCode::ModelFiles, "The model's files cannot be read that way", error.to_string())
        .with_hint("Leave --reader out, and the program finds a way that works.")
}

fn bad(findings: &Findings) -> UserError {
    let mut detail = String::new();
    for found in &findings.first {
        // Writing to a string cannot fail.
        let _ = write!(detail, "{}{}", if detail.is_empty() { "" } else { "\n  " }, found.problem);
    }
    let rest = findings.bad.saturating_sub(findings.first.len() as u64);
    if rest > 0 {
        let _ = write!(detail, "\n  and {rest} more");
    }
    let title = format!("{} of the model's pieces are not as they were sealed", findings.bad);
    UserError::new(ExitCode::CheckFailed, title, detail)
        .with_hint("Check the disk, download these shards again, and seal the model anew.")
}

fn text(object: &Object) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{text}");
    };
    if object.shards > 0 {
        line(format!(
            "{}: {} tensors in {} shards, {}",
            object.folder,
            object.tensors,
            object.shards,
            Bytes(object.bytes)
        ));
        line("Headers, sizes and shapes are what the config demands.".to_owned());
    }
    if let Some(published) = &object.published {
        line(published::text(published));
        return out;
    }
    let rate = Rate::of(Bytes(object.read), object.seconds);
    let read = format!("{} read in {} ({rate})", Bytes(object.read), Seconds(object.seconds));
    match (object.content, &object.manifest) {
        ("checked", _) if object.bad == 0 => line(format!("The content is as it was sealed: {read}.")),
        ("checked", _) => line(format!("The content is not as it was sealed: {read}.")),
        ("sealed", Some(path)) => line(format!("Sealed: {read}; the checksums are in {path}.")),
        _ => line(
            "The content was not looked at. --deep holds it against the published digests; --seal writes checksums that \
             every later read is held against."
                .to_owned(),
        ),
    }
    out
}
