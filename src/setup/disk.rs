//! How fast a disk reads: pieces of several sizes, several at once, past the page cache and through it.
//!
//! Each point of the sweep reads whole pieces at distinct offsets, scattered over all files and never twice. Reads through
//! the page cache are of ranges that were dropped from it just before, without the system reading ahead, so that no number
//! here is that of memory.

mod scratch;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;

pub use scratch::{Next, Scratch};

use crate::store::ReaderKind;
use crate::sys::buffer::{ALIGN, Buffer};
use crate::sys::file::{self, Source};
use crate::units::{Bytes, Rate};

/// Sizes of pieces.
pub const PIECES: [Bytes; 5] =
    [Bytes(256 << 10), Bytes(1 << 20), Bytes(4 << 20), Bytes(8 << 20), Bytes(16 << 20)];
/// Reads under way at once.
pub const DEPTHS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// The two ways that are measured. A map goes through the page cache as well.
pub const WAYS: [ReaderKind; 2] = [ReaderKind::Direct, ReaderKind::Buffered];
/// The least that files must hold to say anything about a disk.
pub const LEAST: Bytes = Bytes(64 << 20);

/// No point is measured for less, as long as there is time at all.
const SHORTEST: f64 = 0.05;
/// The fastest points are measured again, for longer: of many short measurements the best one is best by luck as well...
const AGAIN: usize = 4;
/// ...in this share of the time.
const AGAIN_SHARE: f64 = 0.3;

/// How much longer than asked for it may take in the end.
const OVERTIME: f64 = 1.5;

/// A disk could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be opened or read.
    #[error(transparent)]
    File(#[from] file::Error),
    /// The system gives no memory, no threads or no room.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// Why not.
        source: io::Error,
    },
    /// There is too little to read.
    #[error("there are {found} to read, and a disk is measured with {LEAST} at least")]
    TooSmall {
        /// What is there.
        found: Bytes,
    },
    /// Whoever watched wanted no more of it.
    #[error("measuring was stopped")]
    Stopped,
}

/// One point of the sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The way.
    pub way: ReaderKind,
    /// Size of each read.
    pub piece: Bytes,
    /// Reads under way at once.
    pub depth: usize,
    /// Bytes that were read.
    pub bytes: Bytes,
    /// Seconds that it took.
    pub seconds: f64,
}

impl Point {
    /// What came of it.
    pub fn rate(&self) -> Rate {
        Rate::of(self.bytes, self.seconds)
    }
}

/// All points that were measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sweep {
    /// In the order of measurement.
    pub points: Vec<Point>,
    /// The fastest of them, measured again and for longer.
    pub confirmed: Vec<Point>,
    /// Why there are no direct reads, where the file system has none.
    pub no_direct: Option<String>,
    /// Points for which there was no time, no memory or not enough to read.
    pub skipped: usize,
}

impl Sweep {
    /// The fastest point of one way, or of both, among those that were measured twice; where there was no time for that,
    /// among all.
    pub fn best(&self, way: Option<ReaderKind>) -> Option<&Point> {
        fastest(&self.confirmed, way).or_else(|| fastest(&self.points, way))
    }
}

fn fastest(points: &[Point], way: Option<ReaderKind>) -> Option<&Point> {
    let points = points.iter().filter(|point| way.is_none_or(|way| point.way == way));
    points.max_by(|a, b| a.rate().0.total_cmp(&b.rate().0))
}

/// What a sweep may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Seconds, about.
    pub seconds: f64,
    /// Memory for buffers.
    pub memory: Bytes,
}

/// Measures the disk that holds `files`. `progress` is told of points done and in all, and stops it by returning `false`.
pub fn sweep(
    files: &[PathBuf],
    limits: Limits,
    progress: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<Sweep, Error> {
    let mut disk = Disk::open(files, limits.memory)?;
    let mut grid = Vec::new();
    for piece in PIECES {
        for depth in DEPTHS {
            grid.extend(WAYS.map(|way| (way, piece, depth)));
        }
    }
    let total = grid.len() + AGAIN * WAYS.len();
    let began = Instant::now();
    let mut sweep = Sweep { no_direct: disk.no_direct.clone(), ..Sweep::default() };
    let mut top = Rate(0.0);
    for (number, (way, piece, depth)) in grid.iter().copied().enumerate() {
        if !progress(number, total) {
            return Err(Error::Stopped);
        }
        let passed = began.elapsed().as_secs_f64();
        let left = limits.seconds * (1.0 - AGAIN_SHARE) - passed;
        // Reads that are under way when the time is over take theirs as well.
        let tail = top.seconds(Bytes(piece.0 * depth as u64)).unwrap_or(0.0);
        let seconds = left / (grid.len() - number) as f64 - tail;
        let is_late = passed > limits.seconds;
        match if is_late { None } else { disk.point(way, piece, depth, seconds)? } {
            Some(point) => {
                top = Rate(top.0.max(point.rate().0));
                sweep.points.push(point);
            }
            None => sweep.skipped += 1,
        }
    }
    for (i, way) in WAYS.into_iter().enumerate() {
        let mut points: Vec<Point> = sweep.points.iter().filter(|point| point.way == way).copied().collect();
        points.sort_by(|a, b| b.rate().0.total_cmp(&a.rate().0));
        let seconds = limits.seconds * AGAIN_SHARE / (AGAIN * WAYS.len()) as f64;
        for (j, point) in points.into_iter().take(AGAIN).enumerate() {
            if !progress(grid.len() + i * AGAIN + j, total) {
                return Err(Error::Stopped);
            }
            // The first look may have taken longer than its share. What matters most is worth some more time.
            if began.elapsed().as_secs_f64() <= limits.seconds * OVERTIME {
                sweep.confirmed.extend(disk.point(way, point.piece, point.depth, seconds)?);
            }
        }
    }
    progress(total, total);
    Ok(sweep)
}

/// Files on a disk that is measured.
#[derive(Debug)]
pub struct Disk {
    buffered: Vec<Source>,
    /// Nothing where the file system has no direct reads.
    direct: Option<Vec<Source>>,
    no_direct: Option<String>,
    memory: Bytes,
    /// Points so far: each begins at other places.
    number: u64,
}

impl Disk {
    /// Opens files whose disk is to be measured, with so much memory for buffers.
    pub fn open(files: &[PathBuf], memory: Bytes) -> Result<Self, Error> {
        let buffered = files.iter().map(|path| Source::open(path)).collect::<Result<Vec<_>, _>>()?;
        let found = Bytes(buffered.iter().map(Source::len).sum());
        if found < LEAST {
            return Err(Error::TooSmall { found });
        }
        let (direct, no_direct) = match open_direct(files) {
            Ok(sources) => (Some(sources), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Ok(Self { buffered, direct, no_direct, memory, number: 0 })
    }

    /// Reads distinct pieces for about so many seconds; nothing where that cannot be done in this way, in this memory, or
    /// for want of pieces.
    pub fn point(
        &mut self,
        way: ReaderKind,
        piece: Bytes,
        depth: usize,
        seconds: f64,
    ) -> Result<Option<Point>, Error> {
        let sources = match way {
            ReaderKind::Direct => self.direct.as_deref(),
            _ => Some(self.buffered.as_slice()),
        };
        let Some(sources) = sources else { return Ok(None) };
        let places = Places::new(sources, piece.0, self.number);
        if piece.0 * depth as u64 > self.memory.0 || places.count < depth as u64 {
            return Ok(None);
        }
        self.number += 1;
        if way == ReaderKind::Buffered {
            sources.iter().for_each(Source::forget);
        }
        let time = Duration::from_secs_f64(seconds.max(SHORTEST));
        let (bytes, seconds) = measure(sources, &places, depth, time)?;
        Ok(Some(Point { way, piece, depth, bytes: Bytes(bytes), seconds }))
    }
}

/// Opens the files for direct reads, and reads a page of each: some file systems only refuse the read.
fn open_direct(files: &[PathBuf]) -> Result<Vec<Source>, Error> {
    let mut page = buffer(ALIGN)?;
    let open = |path: &PathBuf| {
        let source = Source::open_direct(path)?;
        let there = usize::try_from(source.len()).unwrap_or(ALIGN).min(ALIGN);
        source.read_pages(&mut page, 0, ALIGN, there)?;
        Ok(source)
    };
    files.iter().map(open).collect()
}

fn buffer(len: usize) -> Result<Buffer, Error> {
    let no_memory = |source| Error::System { what: "there is no memory for a buffer".to_owned(), source };
    Buffer::new(len).map_err(no_memory)
}

/// All whole pieces of some files, in an order that jumps about and names each once.
#[derive(Debug)]
struct Places {
    piece: u64,
    /// Pieces in each file.
    each: Vec<u64>,
    count: u64,
    first: u64,
    step: u64,
}

impl Places {
    fn new(sources: &[Source], piece: u64, seed: u64) -> Self {
        let each: Vec<u64> = sources.iter().map(|source| source.len() / piece).collect();
        let count = each.iter().sum::<u64>();
        // Steps of about the golden ratio leave no two neighbours close together; without a common divisor they come
        // by every place before they come back.
        let golden = u64::try_from(u128::from(count) * 618_034 / 1_000_000).unwrap_or(1).max(1);
        let step = (golden..=count.max(golden)).find(|step| gcd(*step, count) == 1).unwrap_or(1);
        // Each point of a sweep begins somewhere else.
        let first = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % count.max(1);
        Self { piece, each, count, first, step }
    }

    /// File and offset of the n-th piece; nothing after the last.
    fn get(&self, n: u64) -> Option<(usize, u64)> {
        if n >= self.count {
            return None;
        }
        let sum = u128::from(self.first) + u128::from(n) * u128::from(self.step);
        let mut place = u64::try_from(sum % u128::from(self.count)).ok()?;
        for (file, pieces) in self.each.iter().enumerate() {
            match place.checked_sub(*pieces) {
                Some(beyond) => place = beyond,
                None => return Some((file, place * self.piece)),
            }
        }
        None
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Reads pieces on `depth` threads for about `time`. Gives the bytes and the seconds until the last read had ended.
fn measure(sources: &[Source], places: &Places, depth: usize, time: Duration) -> Result<(u64, f64), Error> {
    let len = usize::try_from(places.piece).unwrap_or(usize::MAX);
    let (next, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut buffers = (0..depth).map(|_| buffer(len)).collect::<Result<Vec<_>, _>>()?;
    for buffer in &mut buffers {
        // Memory that the system has yet to find would be counted as the disk's time.
        buffer.iter_mut().step_by(ALIGN).for_each(|byte| *byte = 1);
    }
    // All begin when the other end of this is dropped.
    let (ready, start) = bounded::<()>(0);
    std::thread::scope(|scope| {
        let (next, bytes, start) = (&next, &bytes, &start);
        let work = move |mut buffer: Buffer| -> Result<(Instant, Instant), file::Error> {
            let _ = start.recv();
            let began = Instant::now();
            while began.elapsed() < time {
                let Some((file, offset)) = places.get(next.fetch_add(1, Relaxed)) else { break };
                let Some(source) = sources.get(file) else { break };
                source.read_pages(&mut buffer[..len], offset, ALIGN, len)?;
                bytes.fetch_add(len as u64, Relaxed);
            }
            Ok((began, Instant::now()))
        };
        let mut threads = Vec::with_capacity(depth);
        for (i, buffer) in buffers.into_iter().enumerate() {
            let thread = std::thread::Builder::new().name(format!("disk-{i}"));
            let no_thread =
                |source| Error::System { what: "there is no thread to read with".to_owned(), source };
            threads.push(thread.spawn_scoped(scope, move || work(buffer)).map_err(no_thread)?);
        }
        drop(ready);
        let (mut began, mut ended): (Option<Instant>, Option<Instant>) = (None, None);
        for thread in threads {
            let Ok(times) = thread.join() else { continue };
            let (first, last) = times?;
            began = Some(began.map_or(first, |other| other.min(first)));
            ended = Some(ended.map_or(last, |other| other.max(last)));
        }
        let seconds = began.zip(ended).map_or(0.0, |(began, ended)| (ended - began).as_secs_f64());
        Ok((bytes.load(Relaxed), seconds))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn places_are_all_pieces_once() {
        let dir = tempfile::tempdir().unwrap();
        let source = |name: &str, len: usize| {
            let path = dir.path().join(name);
            std::fs::write(&path, vec![0; len]).unwrap();
            Source::open(&path).unwrap()
        };
        let sources = [source("a", 92_000), source("b", 4095), source("c", 8192), source("d", 50_001)];
        for piece in [4096, 8192] {
            for seed in 0..5 {
                let places = Places::new(&sources, piece, seed);
                let found: Vec<_> = (0..places.count).map(|n| places.get(n).unwrap()).collect();
                let distinct: BTreeSet<_> = found.iter().copied().collect();
                assert_eq!(distinct.len() as u64, places.count);
                assert!(found.iter().all(|(file, at)| at % piece == 0 && at + piece <= sources[*file].len()));
                assert_eq!(places.get(places.count), None);
                // Neighbours in time are none in place.
                assert!(found.array_windows().any(|[a, b]| a.0 != b.0 || a.1.abs_diff(b.1) > piece));
            }
        }
        assert_eq!(Places::new(&sources[1..2], 4096, 7).get(0), None);
    }

    #[test]
    fn a_sweep_keeps_its_limits_and_finds_a_best_point() {
        let scratch =
            Scratch::create(std::path::Path::new(env!("CARGO_MANIFEST_DIR")), LEAST, &mut |_, _| true)
                .unwrap();
        let limits = Limits { seconds: 0.5, memory: Bytes(64 << 20) };
        let mut told = 0;
        let sweep = sweep(&[scratch.path().to_owned()], limits, &mut |_, _| {
            told += 1;
            true
        })
        .unwrap();
        assert_eq!(sweep.points.len() + sweep.skipped, PIECES.len() * DEPTHS.len() * WAYS.len());
        assert!(told > PIECES.len() * DEPTHS.len() * WAYS.len());
        let best = sweep.best(None).unwrap();
        assert!(best.rate().0 > 0.0 && sweep.confirmed.iter().all(|point| point.rate().0 <= best.rate().0));
        assert!(sweep.points.iter().all(|point| point.piece.0 * point.depth as u64 <= limits.memory.0));
        // Nothing is read twice within a point.
        assert!(sweep.points.iter().all(|point| point.bytes <= LEAST));
        assert!(sweep.best(Some(ReaderKind::Mmap)).is_none());
    }

    #[test]
    fn too_little_to_read_is_refused_and_a_wish_to_stop_is_heard() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("small");
        std::fs::write(&path, [0; 5000]).unwrap();
        let limits = Limits { seconds: 1.0, memory: Bytes(1 << 20) };
        let error = sweep(&[path], limits, &mut |_, _| true).unwrap_err().to_string();
        assert!(error.contains("4.88 KiB") && error.contains("64.0 MiB"), "{error}");
        let scratch = Scratch::create(dir.path(), LEAST, &mut |_, _| true).unwrap();
        let stopped = sweep(&[scratch.path().to_owned()], limits, &mut |_, _| false);
        assert!(matches!(stopped, Err(Error::Stopped)));
    }
}
