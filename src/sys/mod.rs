//! What the operating system knows: memory, processors, positioned reads.

pub mod cpu;
pub mod file;
pub mod memory;
