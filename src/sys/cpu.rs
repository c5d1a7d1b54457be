//! Processors of the machine.

/// Physical cores that this process may run on, at least one.
pub fn physical_cores() -> usize {
    // The affinity mask may allow fewer than the machine has; two threads of one core gain nothing here.
    let allowed = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    sysinfo::System::physical_core_count().map_or(allowed, |cores| cores.clamp(1, allowed))
}
