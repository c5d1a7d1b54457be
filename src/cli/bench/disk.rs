//! `dormouse bench disk`: how fast a disk reads.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::checkpoint::Checkpoint;
use crate::cli::args::{BenchDisk, Common};
use crate::cli::progress::Progress;
use crate::cli::settings::{self, Resolved};
use crate::cli::{Done, no_resource, output};
use crate::protocol::{ExitCode, UserError};
use crate::setup::MeasuredRates;
use crate::setup::disk::{self, DEPTHS, Limits, PIECES, Point, Scratch, Sweep, WAYS};
use crate::store::ReaderKind;
use crate::sys::memory;
use crate::sys::signals::StopSignal;
use crate::units::{Bytes, Day};

/// Measures the disk of a model's folder, or of any other, and remembers the best rates for later plans.
pub(in crate::cli) fn disk(common: &Common, args: &BenchDisk) -> Result<Done, UserError> {
    let resolved = settings::resolve(common)?;
    let stop = StopSignal::watch(ExitCode::Stopped as u8).map_err(|error| no_resource("signals", &error))?;
    let mut progress = Progress::new();
    let ended = prepared(&resolved, args, &stop, &mut progress)
        .and_then(|target| Ok((sweep(&target.files, args.seconds, &stop, &mut progress)?, target)));
    progress.finish();
    let (sweep, target) = match ended {
        Ok(done) => done,
        Err(error) if error.code == ExitCode::Stopped => return Ok(Done::Stopped),
        Err(error) => return Err(error),
    };
    if args.json {
        output::print_json(&Object::new(&target.folder, &sweep))?;
    } else {
        output::print(&text(&target.folder, &sweep))?;
    }
    remember(&resolved, |rates| set_disk(rates, &target.folder, &sweep))?;
    Ok(Done::Well)
}

/// What is read, and the folder that it speaks for.
struct Target {
    folder: PathBuf,
    files: Vec<PathBuf>,
    /// Held until the end, and deleted then.
    _scratch: Option<Scratch>,
}

fn prepared(
    resolved: &Resolved,
    args: &BenchDisk,
    stop: &StopSignal,
    progress: &mut Progress,
) -> Result<Target, UserError> {
    if let Some(folder) = &args.target {
        let mut told = |done, total| {
            progress.draw(|| format!("writing: {} of {}", Bytes(done), Bytes(total)));
            !stop.is_set()
        };
        let scratch = Scratch::create(folder, args.size, &mut told)?;
        let files = vec![scratch.path().to_owned()];
        return Ok(Target { folder: folder.clone(), files, _scratch: Some(scratch) });
    }
    let Some(folder) = &resolved.model else {
        let detail = "the model that comes with the program is too small to measure a disk";
        return Err(UserError::new(ExitCode::Usage, "There is nothing to read", detail)
            .with_hint("Name a checkpoint with --model, or a folder for a temporary file with --target."));
    };
    Ok(Target { folder: folder.clone(), files: shards(folder)?, _scratch: None })
}

/// The shards of a checkpoint.
pub(super) fn shards(folder: &Path) -> Result<Vec<PathBuf>, UserError> {
    let checkpoint = Checkpoint::open(folder)?;
    Ok(checkpoint.shards().iter().map(|source| source.path().to_owned()).collect())
}

/// Measures the disk that holds `files`.
pub(super) fn sweep(
    files: &[PathBuf],
    seconds: f64,
    stop: &StopSignal,
    progress: &mut Progress,
) -> Result<Sweep, UserError> {
    // Buffers come out of what is free, and leave most of it alone.
    let limits = Limits { seconds, memory: Bytes(memory::machine().available / 4) };
    let mut told = |done, total| {
        progress.draw(|| format!("measuring the disk: {done} of {total} points"));
        !stop.is_set()
    };
    Ok(disk::sweep(files, limits, &mut told)?)
}

/// Takes the best rates of a disk down.
pub(super) fn set_disk(rates: &mut MeasuredRates, folder: &Path, sweep: &Sweep) {
    let best = |way| sweep.best(Some(way)).map(Point::rate);
    rates.set_disk(folder, best(ReaderKind::Direct), best(ReaderKind::Buffered));
}

/// Keeps what was measured for later plans.
pub(in crate::cli) fn remember(
    resolved: &Resolved,
    change: impl FnOnce(&mut MeasuredRates),
) -> Result<(), UserError> {
    let mut rates = MeasuredRates::read(&resolved.paths);
    change(&mut rates);
    rates.write(&resolved.paths).map_err(|error| {
        UserError::new(ExitCode::Resources, "What was measured cannot be kept", error.to_string())
            .with_hint("Make room there, or set DORMOUSE_HOME to a folder that can be written.")
    })
}

impl From<disk::Error> for UserError {
    fn from(error: disk::Error) -> Self {
        let detail = error.to_string();
        match error {
            disk::Error::File(_) => Self::new(ExitCode::ModelFiles, "The disk cannot be measured", detail)
                .with_hint("Check the disk and the folder."),
            disk::Error::System { .. } => {
                Self::new(ExitCode::Resources, "The disk cannot be measured", detail)
                    .with_hint("Make room there, or name another folder or a smaller --size.")
            }
            disk::Error::TooSmall { .. } => Self::new(ExitCode::Usage, "There is too little to read", detail)
                .with_hint(
                    "Name a larger checkpoint with --model, or a folder for a temporary file with --target.",
                ),
            disk::Error::Stopped => Self::new(ExitCode::Stopped, "Measuring was stopped", ""),
        }
    }
}

/// A sweep as scripts read it. Sizes are bytes, rates bytes in a second.
#[derive(Clone, Debug, Serialize)]
struct Object {
    folder: String,
    measured_unix_s: u64,
    points: Vec<PointObject>,
    /// The fastest of them, measured again and for longer: the best are among these.
    confirmed: Vec<PointObject>,
    skipped: usize,
    no_direct: Option<String>,
    best: Option<PointObject>,
    best_direct: Option<PointObject>,
    best_buffered: Option<PointObject>,
}

/// A point as scripts read it.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct PointObject {
    reader: &'static str,
    piece: u64,
    depth: usize,
    bytes: u64,
    seconds: f64,
    bytes_per_s: f64,
}

impl From<&Point> for PointObject {
    fn from(point: &Point) -> Self {
        Self {
            reader: point.way.as_str(),
            piece: point.piece.0,
            depth: point.depth,
            bytes: point.bytes.0,
            seconds: point.seconds,
            bytes_per_s: point.rate().0,
        }
    }
}

impl Object {
    fn new(folder: &Path, sweep: &Sweep) -> Self {
        let best = |way| sweep.best(way).map(PointObject::from);
        Self {
            folder: folder.display().to_string(),
            measured_unix_s: Day::today().0,
            points: sweep.points.iter().map(PointObject::from).collect(),
            confirmed: sweep.confirmed.iter().map(PointObject::from).collect(),
            skipped: sweep.skipped,
            no_direct: sweep.no_direct.clone(),
            best: best(None),
            best_direct: best(Some(ReaderKind::Direct)),
            best_buffered: best(Some(ReaderKind::Buffered)),
        }
    }
}

/// How a point was read, in words.
pub(super) fn described(point: &Point) -> String {
    format!("{} in pieces of {}, {} at once", point.way.as_str(), point.piece, point.depth)
}

fn text(folder: &Path, sweep: &Sweep) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "Disk of {}, by size of the pieces and reads at once", folder.display());
    for way in WAYS {
        if let (ReaderKind::Direct, Some(problem)) = (way, &sweep.no_direct) {
            let _ = writeln!(out, "\ndirect: not here ({problem})");
            continue;
        }
        let _ = write!(out, "\n{:<10}", way.as_str());
        for depth in DEPTHS {
            let _ = write!(out, "{depth:>11}");
        }
        for piece in PIECES {
            let _ = write!(out, "\n{piece:<10}");
            for depth in DEPTHS {
                let is_it = |point: &&Point| (point.way, point.piece, point.depth) == (way, piece, depth);
                let rate = sweep.points.iter().find(is_it).map(|point| point.rate().to_string());
                let _ = write!(out, "{:>11}", rate.unwrap_or_else(|| "–".to_owned()));
            }
        }
        let _ = writeln!(out);
    }
    let best = sweep.best(None).map(|point| format!("{}, {}", point.rate(), described(point)));
    let best = best.unwrap_or_else(|| "none".to_owned());
    let _ = writeln!(out, "\nBest, measured again and for longer: {best}");
    out
}
