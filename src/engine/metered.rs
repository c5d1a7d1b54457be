//! A reader that counts what has landed, the moment it has: a layer may take a quarter of a minute, and whoever watches
//! should see its bytes come.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::checkpoint::Extent;
use crate::protocol::Telemetry;
use crate::store::{Reader, ReaderKind};
use crate::sys::buffer::Buffer;
use crate::sys::file;

/// Reads as another one does.
#[derive(Debug)]
pub(super) struct Metered {
    pub(super) inner: Arc<dyn Reader>,
    pub(super) telemetry: Arc<Telemetry>,
}

impl Reader for Metered {
    fn kind(&self) -> ReaderKind {
        self.inner.kind()
    }

    fn read(&self, extent: Extent, buffer: &mut Buffer, at: usize) -> Result<usize, file::Error> {
        let place = self.inner.read(extent, buffer, at)?;
        // Several threads read.
        self.telemetry.landed_bytes.fetch_add(extent.len, Relaxed);
        Ok(place)
    }
}
