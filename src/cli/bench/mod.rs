//! `dormouse bench`: what this machine gives.

pub(super) mod context;
pub(super) mod decode;
pub(super) mod disk;
pub(super) mod kernels;
