//! What the operating system knows: memory, processors, signals, buffers, positioned reads.

pub mod buffer;
pub mod cpu;
pub mod file;
pub mod memory;
pub mod signals;
