//! `dormouse verify`: whether a checkpoint's files are what they should be.

use std::fmt::Write;
use std::time::Instant;

use serde::Serialize;

use super::args::{Common, Verify};
use super::progress::Progress;
use super::{Done, no_resource, output, settings};
use crate::checkpoint::{Checkpoint, Manifest};
use crate::protocol::{ExitCode, UserError};
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
    let settings = resolved.settings()?;
    // Headers, sizes, and every tensor against the config.
    let checkpoint = Checkpoint::open(&settings.model)?;
    let mut object = Object {
        folder: checkpoint.dir().display().to_string(),
        shards: checkpoint.shards().len(),
        tensors: checkpoint.tensors(),
        parameters: checkpoint.parameters(),
        bytes: checkpoint.tensor_bytes(),
        content: "none",
        ..Object::default()
    };
    let manifest = if args.seal { None } else { Manifest::read(&checkpoint)? };
    let mut findings = Findings::default();
    if args.seal || manifest.is_some() {
        let reader =
            reader::open(checkpoint.shards(), resolved.reader).map_err(|error| unreadable(&error))?;
        let (mut progress, began) = (Progress::new(), Instant::now());
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
        progress.finish();
        object.seconds = began.elapsed().as_secs_f64();
        match ended {
            Err(seal::Error::Stopped) => return Ok(Done::Stopped),
            ended => ended?,
        }
    }
    object.read = findings.bytes;
    object.bad = findings.bad;
    object.first = findings.first.iter().map(Bad::from).collect();
    if args.json {
        output::print_json(&object)?;
    } else {
        output::print(&text(&object))?;
    }
    if findings.bad == 0 {
        return Ok(Done::Well);
    }
    Err(bad(&findings))
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
        let _ = writeln!(out, "{text}");
    };
    line(format!(
        "{}: {} tensors in {} shards, {}",
        object.folder,
        object.tensors,
        object.shards,
        Bytes(object.bytes)
    ));
    line("Headers, sizes and shapes are what the config demands.".to_owned());
    let rate = Rate::of(Bytes(object.read), object.seconds);
    let read = format!("{} read in {} ({rate})", Bytes(object.read), Seconds(object.seconds));
    match (object.content, &object.manifest) {
        ("checked", _) if object.bad == 0 => line(format!("The content is as it was sealed: {read}.")),
        ("checked", _) => line(format!("The content is not as it was sealed: {read}.")),
        ("sealed", Some(path)) => line(format!("Sealed: {read}; the checksums are in {path}.")),
        _ => line(
            "The content was not looked at: there is no manifest. Seal the model with --seal.".to_owned(),
        ),
    }
    out
}
