//! Settings and paths.
