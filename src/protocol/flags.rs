//! How a running turn is reached: flags that the engine reads, which queue behind nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set by whoever wants the turn to stop; read by the engine between row tiles, experts and waits.
#[derive(Clone, Debug, Default)]
pub struct CancelFlag(Arc<AtomicBool>);

impl CancelFlag {
    /// Asks the turn to stop.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the turn was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Set while the turn is to wait, for room on the disk for example; read by the engine between two tokens. A turn that is
/// held up can be stopped all the same.
#[derive(Clone, Debug, Default)]
pub struct PauseFlag(Arc<AtomicBool>);

impl PauseFlag {
    /// Holds the turn up, or lets it go on.
    pub fn set(&self, pause: bool) {
        self.0.store(pause, Ordering::Relaxed);
    }

    /// Whether the turn is to wait.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
