//! What the operating system knows: memory, processors, processes, file systems, signals, buffers, positioned reads.

pub mod buffer;
pub mod cpu;
pub mod disk;
pub mod file;
pub mod memory;
pub mod process;
pub mod signals;
