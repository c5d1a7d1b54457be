//! What a forward pass tells while it runs, as numbers for whoever watches.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use super::telemetry::publish;
use crate::model::{Observer, Wait};
use crate::protocol::{self, CancelFlag, LayerCost, Telemetry};
use crate::store::{Counters, Store};

/// Watches a pass: writes down the layer and what was read, and stops when the user wants none of its turns any more.
/// While one of them goes on, the others end after the pass.
pub(super) struct Watch<'a> {
    telemetry: &'a Telemetry,
    cancels: Vec<CancelFlag>,
    beside: &'a dyn Observer,
    mark: Mutex<Mark>,
}

/// Where the layer that is computed began.
#[derive(Debug, Default)]
struct Mark {
    /// The layer that begins, until the counters of its beginning are known.
    begins: Option<usize>,
    /// The layer that is computed.
    layer: Option<usize>,
    at_ns: u64,
    counters: Counters,
}

impl<'a> Watch<'a> {
    pub(super) fn new(telemetry: &'a Telemetry, cancels: Vec<CancelFlag>, beside: &'a dyn Observer) -> Self {
        Self { telemetry, cancels, beside, mark: Mutex::default() }
    }
}

impl Observer for Watch<'_> {
    fn layer(&self, layer: usize) {
        self.telemetry.layer.store(layer as u64, Relaxed);
        self.mark.lock().unwrap_or_else(PoisonError::into_inner).begins = Some(layer);
        self.beside.layer(layer);
    }

    fn store(&self, store: &Store) {
        publish(self.telemetry, store);
        let (now, counters) = (self.telemetry.now_ns(), store.counters());
        let mut mark = self.mark.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(layer) = mark.layer {
            let before = mark.counters;
            self.telemetry.set_layer(
                layer,
                &LayerCost {
                    ns: now.saturating_sub(mark.at_ns),
                    waited_ns: counters.waited_ns.saturating_sub(before.waited_ns),
                    trunk_bytes: counters.trunk_bytes.saturating_sub(before.trunk_bytes),
                    expert_bytes: counters.expert_bytes.saturating_sub(before.expert_bytes),
                    requests: counters.requests.saturating_sub(before.requests),
                    resident: counters.resident.saturating_sub(before.resident),
                },
            );
        }
        *mark = Mark { begins: None, layer: mark.begins, at_ns: now, counters };
        drop(mark);
        self.beside.store(store);
    }

    fn piece(&self) {
        // Experts are computed on several threads.
        self.telemetry.pieces.fetch_add(1, Relaxed);
        self.beside.piece();
    }

    fn waiting(&self, what: Wait) {
        self.telemetry.set_waiting(match what {
            Wait::Trunk => protocol::Wait::Trunk,
            Wait::Experts => protocol::Wait::Experts,
        });
        self.beside.waiting(what);
    }

    fn cancelled(&self) -> bool {
        self.cancels.iter().all(CancelFlag::is_cancelled) || self.beside.cancelled()
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
