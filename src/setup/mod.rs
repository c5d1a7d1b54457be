//! What makes a machine and a model ready: looking at the machine, laying out the small model that is compiled in,
//! fetching the real one, sealing and checking a checkpoint, measuring disks; and the way through all of it, step by step.

mod bundled;
pub mod disk;
pub mod doctor;
pub mod download;
mod rates;
pub mod seal;
pub mod verify;
pub mod wizard;

pub use bundled::{Error, NAME, ensure, published};
pub use rates::{MeasuredRates, Measurement};
