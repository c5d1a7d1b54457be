//! What makes a machine and a model ready: laying out the small model that is compiled in, fetching the real one, sealing
//! and checking a checkpoint, measuring disks.

mod bundled;
pub mod disk;
pub mod download;
mod rates;
pub mod seal;

pub use bundled::{Error, NAME, ensure};
pub use rates::{MeasuredRates, Measurement};
