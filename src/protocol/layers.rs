//! What each layer cost in the last pass: numbers that the engine writes and the screen samples.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::units::Percent;

/// Layers that are watched; the released model has 93.
pub const WATCHED_LAYERS: usize = 256;

macro_rules! layer_costs {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[derive(Debug, Default)]
        struct Meter {
            $($name: AtomicU64,)*
        }

        /// What one layer cost in the last pass that went through it.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct LayerCost {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Meter {
            fn store(&self, cost: &LayerCost) {
                $(self.$name.store(cost.$name, Relaxed);)*
            }

            fn load(&self) -> LayerCost {
                LayerCost { $($name: self.$name.load(Relaxed),)* }
            }
        }
    };
}

layer_costs! {
    /// Nanoseconds.
    ns,
    /// Of these, nanoseconds of waits for the disk.
    waited_ns,
    /// Bytes of the trunk that landed meanwhile. Some were read ahead for the layers after it.
    trunk_bytes,
    /// Bytes of its experts read from disk.
    expert_bytes,
    /// Experts that it woke: distinct ones.
    requests,
    /// Of these, in memory before the pass began.
    resident,
}

impl LayerCost {
    /// Share of the woken experts that had to be read.
    pub fn misses(&self) -> Percent {
        Percent::of(self.requests.saturating_sub(self.resident), self.requests)
    }
}

/// The costs of all layers: one writer, any number of readers.
#[derive(Debug)]
pub(super) struct Layers(Box<[Meter]>);

impl Default for Layers {
    fn default() -> Self {
        Self((0..WATCHED_LAYERS).map(|_| Meter::default()).collect())
    }
}

impl Layers {
    /// Writes down what a layer cost. One beyond [`WATCHED_LAYERS`] is not watched.
    pub(super) fn set(&self, layer: usize, cost: &LayerCost) {
        if let Some(meter) = self.0.get(layer) {
            meter.store(cost);
        }
    }

    /// The costs of the first `count` layers.
    pub(super) fn get(&self, count: usize) -> Vec<LayerCost> {
        self.0.iter().take(count).map(Meter::load).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_keep_their_last_cost() {
        let layers = Layers::default();
        let cost = LayerCost { ns: 5, requests: 16, resident: 4, ..LayerCost::default() };
        layers.set(1, &LayerCost { ns: 9, ..cost });
        layers.set(1, &cost);
        layers.set(WATCHED_LAYERS, &cost);
        assert_eq!(layers.get(3), [LayerCost::default(), cost, LayerCost::default()]);
        assert_eq!(layers.get(usize::MAX).len(), WATCHED_LAYERS);
        assert_eq!(cost.misses(), Percent(0.75));
    }
}
