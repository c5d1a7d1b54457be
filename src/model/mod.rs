//! The forward pass.
