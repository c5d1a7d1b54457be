//! What the operating system knows: memory, processors, signals, positioned reads.

pub mod cpu;
pub mod file;
pub mod memory;
pub mod signals;
