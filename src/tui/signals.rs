//! The thread that waits for signals.

use std::thread;

use crossbeam_channel::{Receiver, bounded};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::{Handle, Signals};

use super::Error;

const NAME: &str = "signals";

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// Leave.
    Leave(i32),
    /// Stop until continued.
    Stop,
    /// It goes on after a stop.
    Continue,
}

/// Where signals arrive; the thread ends with it.
pub(super) struct Listener {
    pub(super) arrived: Receiver<Signal>,
    handle: Handle,
}

/// Takes the signals that end or stop a program.
pub(super) fn listen() -> Result<Listener, Error> {
    let failed = |source| Error::Thread { name: NAME, source };
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT]).map_err(failed)?;
    let handle = signals.handle();
    let (send, arrived) = bounded(16);
    thread::Builder::new()
        .name(NAME.to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                let signal = match signal {
                    SIGTSTP => Signal::Stop,
                    SIGCONT => Signal::Continue,
                    other => Signal::Leave(other),
                };
                if send.send(signal).is_err() {
                    return;
                }
            }
        })
        .map_err(failed)?;
    Ok(Listener { arrived, handle })
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.handle.close();
    }
}

/// Stops this process as its job was stopped, while another program has the terminal.
pub(super) fn stop_here() {
    // It goes on with the job; where it cannot be stopped it just goes on.
    let _ = signal_hook::low_level::raise(signal_hook::consts::SIGSTOP);
}

/// Stops the whole job, as the terminal does for Ctrl-Z outside raw mode, so that the shell takes over. False where
/// there is no shell to go back to: nobody would ever continue the process.
pub(super) fn stop_job() -> bool {
    let group = rustix::process::getpgrp();
    if rustix::process::getsid(None).is_ok_and(|session| session == group) {
        return false;
    }
    rustix::process::kill_current_process_group(rustix::process::Signal::TSTP).is_ok()
}
