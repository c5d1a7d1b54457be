//! The forward pass (spec, section 4): KDA, gated MLA, residual mixes, router, experts.
//!
//! [`Model::forward`] takes `T` tokens through all layers and gives the logits of the last or of all of them. It gives
//! the bits that it would give for one token at a time, whatever `T` is: every sum belongs to one token and has a fixed
//! order (see [`crate::kernels`]), so chunks, threads and caches change when something is computed and never what.
//! [`Model::pass`] does so with tokens of several sequences at once: they share every read, and meet nowhere.
//!
//! All activations are `[tokens, width]`, row-major, f32.

mod error;
mod forward;
pub mod kda;
mod linear;
pub mod mla;
pub mod moe;
pub mod residual;
mod state;

use crate::store::Store;

pub use error::Error;
pub use forward::{Model, Rows, Segment};
pub use state::State;

/// Epsilon of the norms inside MLA (spec, section 4.1): the released class is built with its default, not with the
/// config's.
pub const MLA_NORM_EPS: f32 = 1e-6;

/// Epsilon of the L2 norm of KDA's queries and keys, added to the sum of squares (spec, section 4.1).
pub const L2_NORM_EPS: f32 = 1e-6;

/// What a pass waits for while nothing can be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Rows of a matrix of the trunk.
    Trunk,
    /// Experts that the router has woken.
    Experts,
}

/// Watches a forward pass from outside, and may stop it.
pub trait Observer: Sync {
    /// Layer `layer`, counted from zero, begins.
    fn layer(&self, _layer: usize) {}

    /// The weights' store as a layer begins, and after the last one, for what it has counted so far. A pass may take half
    /// a minute.
    fn store(&self, _store: &Store) {}

    /// Another tile of a matrix or another expert is about to be computed.
    fn piece(&self) {}

    /// The pass still waits for the disk, so that nothing can be computed. Told every few moments of a wait.
    fn waiting(&self, _what: Wait) {}

    /// Whether to stop. Asked between matrices and between experts.
    fn cancelled(&self) -> bool {
        false
    }

    /// The output of a layer's mixer, `[tokens, hidden]`.
    fn mixer_output(&self, _layer: usize, _values: &[f32]) {}

    /// The running sum of the residual stream after a layer, `[tokens, hidden]`.
    fn layer_output(&self, _layer: usize, _values: &[f32]) {}

    /// What the head reads, after the final norm, `[tokens, hidden]`.
    fn final_norm(&self, _values: &[f32]) {}
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Observer for Unwatched {}
