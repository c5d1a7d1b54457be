//! The engine thread.
pub mod sampler;
