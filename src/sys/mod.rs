//! What the operating system knows: memory, processors, processes, file systems, signals, buffers, positioned reads,
//! files that others may not see.

pub mod buffer;
mod cgroup;
pub mod cpu;
pub mod disk;
pub mod file;
pub mod memory;
pub mod mounts;
pub mod private;
pub mod process;
pub mod signals;
pub mod sink;
