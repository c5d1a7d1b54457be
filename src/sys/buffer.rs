//! Memory for reads: page-aligned, as direct reads demand, and given back to the system when it is dropped.

use std::io;
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// Alignment of buffers, and of offsets and lengths of direct reads. No disk asks for more.
pub const ALIGN: usize = 4096;

/// A page-aligned buffer of zeros that the system backs with memory as it is written to.
#[derive(Debug)]
pub struct Buffer(MmapMut);

impl Buffer {
    /// A buffer of `len` bytes, rounded up to whole pages.
    pub fn new(len: usize) -> io::Result<Self> {
        let len = len.max(1).checked_next_multiple_of(ALIGN).ok_or(io::ErrorKind::OutOfMemory)?;
        MmapMut::map_anon(len).map(Self)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// A length or an offset of a file as memory counts it. What does not fit is the most there can be, which no buffer holds.
pub fn usize_of(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// Bytes that a buffer needs to hold `len` bytes read from any offset: the enclosing pages.
pub const fn window(len: usize) -> usize {
    (len + 2 * ALIGN - 2) / ALIGN * ALIGN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_whole_pages() {
        for len in [0, 1, 4096, 5000] {
            let buffer = Buffer::new(len).unwrap();
            assert!(buffer.len() >= len && buffer.len().is_multiple_of(ALIGN));
            assert!(buffer.as_ptr().align_offset(ALIGN) == 0);
        }
    }

    #[test]
    fn a_window_holds_its_bytes_wherever_they_begin() {
        for len in [1, 2, 4095, 4096, 4097, 10_000] {
            let worst = (0..ALIGN).map(|skip| (skip + len).next_multiple_of(ALIGN)).max().unwrap();
            assert_eq!(window(len), worst, "{len}");
        }
    }
}
