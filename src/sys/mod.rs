//! What the operating system knows: memory, processors and their load, processes, file systems, signals, buffers,
//! positioned reads, files that others may not see.

pub mod buffer;
mod cgroup;
pub mod cpu;
pub mod disk;
pub mod file;
pub mod load;
pub mod memory;
pub mod mounts;
pub mod private;
pub mod process;
pub mod signals;
pub mod sink;
