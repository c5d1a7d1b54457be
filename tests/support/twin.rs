//! A reader for tests: it reads as another one does, keeps a log, and does harm where it is told to.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dormouse::checkpoint::Extent;
use dormouse::store::{Reader, ReaderKind};
use dormouse::sys::buffer::Buffer;
use dormouse::sys::file;

/// What happens to a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The device fails.
    Broken,
    /// The file ends in the middle of what was asked for.
    Short,
    /// One bit of what was asked for is another one.
    Flipped,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Twin {
    inner: Arc<dyn Reader>,
    log: Mutex<Vec<Extent>>,
    /// Reads of this extent come to harm.
    fault: Mutex<Option<(Extent, Fault)>>,
    /// Reads take a time that has no pattern, up to so many microseconds.
    delay_us: AtomicU64,
    /// No read ends while this is set.
    pub(crate) held: AtomicBool,
    calls: AtomicU64,
}

impl Twin {
    pub(crate) fn new(inner: Arc<dyn Reader>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            log: Mutex::default(),
            fault: Mutex::default(),
            delay_us: AtomicU64::new(0),
            held: AtomicBool::new(false),
            calls: AtomicU64::new(0),
        })
    }

    /// All reads since the last call.
    pub(crate) fn take_log(&self) -> Vec<Extent> {
        std::mem::take(&mut self.log.lock().unwrap())
    }

    pub(crate) fn harm(&self, extent: Extent, fault: Fault) {
        *self.fault.lock().unwrap() = Some((extent, fault));
    }

    pub(crate) fn heal(&self) {
        *self.fault.lock().unwrap() = None;
    }

    pub(crate) fn delay(&self, up_to_us: u64) {
        self.delay_us.store(up_to_us, Ordering::Relaxed);
    }
}

impl Reader for Twin {
    fn kind(&self) -> ReaderKind {
        self.inner.kind()
    }

    fn read(&self, extent: Extent, buffer: &mut Buffer, at: usize) -> Result<usize, file::Error> {
        while self.held.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let delay = self.delay_us.load(Ordering::Relaxed);
        if delay > 0 {
            let mixed = (call + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            std::thread::sleep(Duration::from_micros(mixed % delay));
        }
        self.log.lock().unwrap().push(extent);
        let fault = self.fault.lock().unwrap().filter(|(harmed, _)| overlap(*harmed, extent));
        let len = usize::try_from(extent.len).unwrap();
        let path = PathBuf::from(format!("shard {}", extent.shard));
        match fault {
            Some((_, Fault::Broken)) => {
                Err(file::Error::Io { action: "read", path, source: io::Error::from_raw_os_error(5) })
            }
            Some((_, Fault::Short)) => {
                Err(file::Error::Short { path, offset: extent.offset, wanted: len, got: len / 2 })
            }
            Some((harmed, Fault::Flipped)) => {
                let place = self.inner.read(extent, buffer, at)?;
                let byte = usize::try_from(harmed.offset - extent.offset).unwrap();
                buffer[place + byte] ^= 0x10;
                Ok(place)
            }
            None => self.inner.read(extent, buffer, at),
        }
    }
}

/// Whether the first byte of `harmed` is among those of `extent`.
fn overlap(harmed: Extent, extent: Extent) -> bool {
    harmed.shard == extent.shard && (extent.offset..extent.offset + extent.len).contains(&harmed.offset)
}
