//! Numbers for whoever watches.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};

use crate::protocol::Telemetry;
use crate::store::Store;
use crate::sys::load::{self, Pressure, Spent};
use crate::sys::memory;

/// How often memory is sampled.
const EVERY: Duration = Duration::from_secs(1);

/// Samples memory and load once a second until the other end of `ended` is dropped.
pub(super) fn monitor(telemetry: &Telemetry, ended: &Receiver<()>) {
    let mut before = Spent::now();
    loop {
        sample_memory(telemetry);
        let now = Spent::now();
        telemetry.cpu_permille.store(now.permille_since(&before), Relaxed);
        before = now;
        sample_load(telemetry);
        if let Err(RecvTimeoutError::Disconnected) = ended.recv_timeout(EVERY) {
            return;
        }
    }
}

/// Writes down what the process and the machine have now.
pub(super) fn sample_memory(telemetry: &Telemetry) {
    let process = memory::process();
    telemetry.rss.store(process.rss, Relaxed);
    telemetry.peak_rss.store(process.peak, Relaxed);
    telemetry.machine_memory.store(memory::machine().total, Relaxed);
}

/// Writes down how hard the machine is pressed, and how hot it is.
fn sample_load(telemetry: &Telemetry) {
    let told = |pressure: Option<u64>| pressure.map_or(0, |hundredths| hundredths + 1);
    telemetry.pressure_io.store(told(load::pressure(Pressure::Io)), Relaxed);
    telemetry.pressure_memory.store(told(load::pressure(Pressure::Memory)), Relaxed);
    telemetry.pressure_cpu.store(told(load::pressure(Pressure::Cpu)), Relaxed);
    telemetry.temperature.store(load::temperature().unwrap_or(0), Relaxed);
}

/// Writes down what the store has counted and holds.
pub(super) fn publish(telemetry: &Telemetry, store: &Store) {
    let counters = store.counters();
    telemetry.trunk_bytes.store(counters.trunk_bytes, Relaxed);
    telemetry.expert_bytes.store(counters.expert_bytes, Relaxed);
    telemetry.expert_requests.store(counters.requests, Relaxed);
    telemetry.expert_resident.store(counters.resident, Relaxed);
    telemetry.expert_reads.store(counters.reads, Relaxed);
    telemetry.late.store(counters.late, Relaxed);
    telemetry.in_time.store(counters.in_time, Relaxed);
    telemetry.waited_ns.store(counters.waited_ns, Relaxed);
    telemetry.trunk_resident.store(store.resident_bytes(), Relaxed);
    telemetry.slots_used.store(store.slots_used() as u64, Relaxed);
    telemetry.slots_total.store(store.slots() as u64, Relaxed);
}
