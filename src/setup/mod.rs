//! Getting a model: laying out the small one that is compiled in, and fetching the real one.

mod bundled;
pub mod download;

pub use bundled::{Error, NAME, ensure};
