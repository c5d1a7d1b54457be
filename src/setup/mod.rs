//! Laying out the small model.
