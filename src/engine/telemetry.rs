//! Numbers for whoever watches.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};

use crate::model::Observer;
use crate::protocol::{CancelFlag, Telemetry};
use crate::store::Store;
use crate::sys::memory;

/// How often memory is sampled.
const EVERY: Duration = Duration::from_secs(1);

/// Samples memory once a second until the other end of `ended` is dropped.
pub(super) fn monitor(telemetry: &Telemetry, ended: &Receiver<()>) {
    loop {
        sample_memory(telemetry);
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

/// Watches the forward passes of one turn: writes down the layer and what was read, and stops when the user asks.
pub(super) struct Watch<'a> {
    pub(super) telemetry: &'a Telemetry,
    pub(super) cancel: &'a CancelFlag,
    pub(super) beside: &'a dyn Observer,
}

impl Observer for Watch<'_> {
    fn layer(&self, layer: usize) {
        self.telemetry.layer.store(layer as u64, Relaxed);
        self.beside.layer(layer);
    }

    fn store(&self, store: &Store) {
        publish(self.telemetry, store);
        self.beside.store(store);
    }

    fn cancelled(&self) -> bool {
        self.cancel.is_cancelled() || self.beside.cancelled()
    }

    fn mixer_output(&self, layer: usize, values: &[f32]) {
        self.beside.mixer_output(layer, values);
    }

    fn layer_output(&self, layer: usize, values: &[f32]) {
        self.beside.layer_output(layer, values);
    }

    fn final_norm(&self, values: &[f32]) {
        self.beside.final_norm(values);
    }
}
