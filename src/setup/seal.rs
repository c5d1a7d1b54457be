//! Reading a whole checkpoint: to write its manifest, or to hold every byte against the one that is there.
//!
//! Both go through the store's own readers, on several threads and in large pieces, in the order in which they lie in the
//! shards. Memory is one piece for each thread.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, unbounded};

use crate::checkpoint::{self, Checkpoint, Extent, Manifest, Shape, Tensor, grain_rows};
use crate::store::{Reader, expert_parts, expert_window};
use crate::sys::buffer::{Buffer, usize_of, window};
use crate::sys::file;

/// Threads that read and compute checksums.
const THREADS: usize = 8;
/// About how much of a matrix is read at once.
const PIECE: u64 = 8 << 20;
/// How often progress is told.
const TICK: Duration = Duration::from_millis(100);
/// Bad pieces that are named; the rest is counted.
const NAMED: usize = 16;

/// A checkpoint could not be sealed or checked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A piece could not be read, or the manifest not be written.
    #[error(transparent)]
    Checkpoint(#[from] checkpoint::Error),
    /// The files changed while they were read.
    #[error("the model's files changed while they were read")]
    Changed,
    /// The system gives no memory or no threads.
    #[error("the system gives no memory or threads for reading: {0}")]
    System(#[from] io::Error),
    /// Whoever watched wanted no more of it.
    #[error("reading was stopped")]
    Stopped,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Bytes that were looked at.
    pub bytes: u64,
    /// Pieces that have changed or cannot be read.
    pub bad: u64,
    /// The first of them, in the order of the shards.
    pub first: Vec<Finding>,
}

/// A piece that is not as it was sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub shard: String,
    /// The tensor, by its released name, or layer and expert.
    pub what: String,
    /// Where the piece begins in the file.
    pub offset: u64,
    /// Its bytes.
    pub len: u64,
    /// What is wrong, in one sentence that names all of this.
    pub problem: String,
}

/// Reads every byte of the language model, and writes its manifest. `progress` is told of bytes done and in all, and stops
/// it by returning `false`. Gives the manifest's path, and how many bytes it stands for.
pub fn seal(
    checkpoint: &Checkpoint,
    reader: &dyn Reader,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<(PathBuf, u64), Error> {
    // One lock for all threads: a checksum takes a tenth of what the read before it took.
    let manifest = Mutex::new(Manifest::blank(checkpoint)?);
    let take_down = |piece: &Piece, parts: &[&[u8]]| {
        let mut manifest = manifest.lock().unwrap_or_else(PoisonError::into_inner);
        match piece.part {
            Part::Rows { tensor, first } => {
                manifest.seal_rows(tensor, first, parts.first().copied().unwrap_or_default());
            }
            Part::Expert { layer, expert } => manifest.seal_expert(checkpoint, layer, expert, parts),
        }
        Ok(())
    };
    let mut done = 0;
    sweep(checkpoint, reader, &take_down, progress, &mut |piece, result| {
        done += piece.len();
        result
    })?;
    let manifest = manifest.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !manifest.is_current(checkpoint)? {
        return Err(Error::Changed);
    }
    Ok((manifest.write(checkpoint)?, done))
}

/// Reads every byte that `manifest` stands for and holds it against its checksum. `progress` is as for [`seal`].
pub fn check(
    checkpoint: &Checkpoint,
    manifest: &Manifest,
    reader: &dyn Reader,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Findings, Error> {
    let compare = |piece: &Piece, parts: &[&[u8]]| match piece.part {
        Part::Rows { tensor, first } => {
            manifest.check_rows(checkpoint, tensor, first, parts.first().copied().unwrap_or_default())
        }
        Part::Expert { layer, expert } => manifest.check_expert(checkpoint, layer, expert, parts),
    };
    let mut findings = Findings::default();
    // By place, since pieces come back in any order.
    let mut first = BTreeMap::new();
    sweep(checkpoint, reader, &compare, progress, &mut |piece, result| {
        findings.bytes += piece.len();
        if let Err(error) = result {
            findings.bad += 1;
            first.insert(piece.place(), piece.finding(checkpoint, &error));
            if first.len() > NAMED {
                first.pop_last();
            }
        }
        Ok(())
    })?;
    findings.first = first.into_values().collect();
    Ok(findings)
}

/// A part of the language model that is read at once.
#[derive(Clone, Debug)]
struct Piece {
    part: Part,
    /// What to read, and where in the buffer its window begins.
    extents: Vec<(Extent, usize)>,
}

#[derive(Clone, Copy, Debug)]
enum Part {
    Rows { tensor: Tensor, first: usize },
    Expert { layer: usize, expert: usize },
}

impl Piece {
    fn len(&self) -> u64 {
        self.extents.iter().map(|(extent, _)| extent.len).sum()
    }

    fn place(&self) -> (u16, u64) {
        self.extents.first().map_or((0, 0), |(extent, _)| (extent.shard, extent.offset))
    }

    fn finding(&self, checkpoint: &Checkpoint, error: &checkpoint::Error) -> Finding {
        if let checkpoint::Error::Altered { shard, what, offset, len } = error {
            let (shard, what) = (shard.clone(), what.clone());
            return Finding { shard, what, offset: *offset, len: *len as u64, problem: error.to_string() };
        }
        let (shard, offset) = self.place();
        let path = checkpoint.shards().get(usize::from(shard)).and_then(|source| source.path().file_name());
        let what = match self.part {
            Part::Rows { tensor, .. } => checkpoint.describe(tensor),
            Part::Expert { layer, expert } => format!("expert {expert} of layer {layer}"),
        };
        Finding {
            shard: path.unwrap_or_default().to_string_lossy().into_owned(),
            problem: format!("{what}: {error}"),
            what,
            offset,
            len: self.len(),
        }
    }
}

/// All pieces, in the order in which they lie in the shards.
fn pieces(checkpoint: &Checkpoint) -> Vec<Piece> {
    let config = checkpoint.config();
    let mut pieces = Vec::new();
    for (tensor, dtype, shape, extent) in checkpoint.trunk() {
        let whole = (1, extent.len.max(1));
        let (rows, bytes) = match shape {
            Shape::Matrix(_, columns) => {
                let grain = grain_rows(config, tensor, columns);
                let grain_bytes = ((grain * columns * dtype.size()) as u64).max(1);
                let grains = (PIECE / grain_bytes).max(1);
                (usize::try_from(grains).unwrap_or(1) * grain, grains * grain_bytes)
            }
            Shape::Vector(_) | Shape::AtLeast(_) | Shape::Conv(..) => whole,
        };
        let begins = (0..extent.len).step_by(usize::try_from(bytes).unwrap_or(usize::MAX));
        for (i, begin) in begins.enumerate() {
            let len = bytes.min(extent.len - begin);
            let extent = Extent { offset: extent.offset + begin, len, ..extent };
            pieces.push(Piece { part: Part::Rows { tensor, first: i * rows }, extents: vec![(extent, 0)] });
        }
    }
    for layer in config.dense_layers..config.layers() {
        for expert in 0..config.moe.experts {
            let Some(extents) = checkpoint.expert(layer, expert) else { continue };
            pieces.push(Piece { part: Part::Expert { layer, expert }, extents: expert_parts(&extents) });
        }
    }
    pieces.sort_by_key(Piece::place);
    pieces
}

/// What came of a piece.
type Verdict = Result<(), checkpoint::Error>;
/// Looks at the bytes of a piece, all parts of it.
type Look<'a> = dyn Fn(&Piece, &[&[u8]]) -> Verdict + Sync + 'a;
/// Takes what came of a piece; an error ends the sweep.
type Landed<'a> = dyn FnMut(&Piece, Verdict) -> Verdict + 'a;

/// Reads all pieces, looks at each on the thread that read it, and hands what came of it to `landed` on this one.
fn sweep(
    checkpoint: &Checkpoint,
    reader: &dyn Reader,
    look: &Look<'_>,
    progress: &mut dyn FnMut(u64, u64) -> bool,
    landed: &mut Landed<'_>,
) -> Result<(), Error> {
    let pieces = pieces(checkpoint);
    let total = pieces.iter().map(Piece::len).sum();
    let largest = pieces.iter().map(|piece| window(usize_of(piece.len()))).max().unwrap_or(0);
    let room = largest.max(expert_window(checkpoint));
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (sender, results) = unbounded();
    std::thread::scope(|scope| {
        // However this ends, nobody reads on for long.
        let _stopper = Stopper(&stop);
        for i in 0..THREADS {
            let (sender, buffer) = (sender.clone(), Buffer::new(room)?);
            let (pieces, next, stop) = (&pieces, &next, &stop);
            let work = move || serve(pieces, next, stop, reader, buffer, look, &sender);
            std::thread::Builder::new().name(format!("seal-{i}")).spawn_scoped(scope, work)?;
        }
        drop(sender);
        let mut done = 0;
        loop {
            match results.recv_timeout(TICK) {
                Ok((number, result)) => {
                    let Some(piece) = pieces.get::<usize>(number) else { continue };
                    done += piece.len();
                    landed(piece, result)?;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if !progress(done, total) {
                return Err(Error::Stopped);
            }
        }
        Ok(())
    })
}

/// Says stop when it is dropped.
struct Stopper<'a>(&'a AtomicBool);

impl Drop for Stopper<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn serve(
    pieces: &[Piece],
    next: &AtomicUsize,
    stop: &AtomicBool,
    reader: &dyn Reader,
    mut buffer: Buffer,
    look: &Look<'_>,
    results: &Sender<(usize, Verdict)>,
) {
    while !stop.load(Relaxed) {
        let number = next.fetch_add(1, Relaxed);
        let Some(piece) = pieces.get(number) else { return };
        let result = read(reader, piece, &mut buffer)
            .map_err(checkpoint::Error::from)
            .and_then(|places| look(piece, &parts(piece, &places, &buffer)));
        if results.send((number, result)).is_err() {
            return;
        }
    }
}

fn read(reader: &dyn Reader, piece: &Piece, buffer: &mut Buffer) -> Result<Vec<usize>, file::Error> {
    piece.extents.iter().map(|(extent, at)| reader.read(*extent, buffer, *at)).collect()
}

fn parts<'a>(piece: &Piece, places: &[usize], buffer: &'a Buffer) -> Vec<&'a [u8]> {
    let part = |((extent, _), place): (&(Extent, usize), &usize)| {
        buffer.get(*place..place.saturating_add(usize_of(extent.len))).unwrap_or_default()
    };
    piece.extents.iter().zip(places).map(part).collect()
}

#[cfg(test)]
mod tests;
