//! What makes a machine and a model ready: laying out the small model that is compiled in, sealing and checking a
//! checkpoint, measuring disks.

mod bundled;
pub mod disk;
mod rates;
pub mod seal;

pub use bundled::{Error, NAME, ensure};
pub use rates::{MeasuredRates, Measurement};
