//! Signals that ask the program to stop.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

/// Whether the program was asked to stop, by Ctrl-C or by whoever runs it.
#[derive(Clone, Debug)]
pub struct StopSignal(Arc<AtomicBool>);

impl StopSignal {
    /// Begins to watch. From now on the first signal is only noted; a second one ends the process at once with
    /// `exit_code`, whatever it is doing.
    pub fn watch(exit_code: u8) -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first handler looks at what the second has noted of an earlier signal.
            signal_hook::flag::register_conditional_shutdown(
                signal,
                i32::from(exit_code),
                Arc::clone(&asked),
            )?;
            signal_hook::flag::register(signal, Arc::clone(&asked))?;
        }
        Ok(Self(asked))
    }

    /// Whether a signal came.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
