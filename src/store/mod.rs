//! Where bytes live.
