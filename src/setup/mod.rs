//! Laying out the small model that is compiled in.

mod bundled;

pub use bundled::{Error, NAME, ensure};
