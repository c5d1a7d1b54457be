//! `dormouse bench`: what this machine gives.

pub(super) mod decode;
pub(super) mod disk;
