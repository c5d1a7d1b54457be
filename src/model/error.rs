//! Why a forward pass did not come to its end.

use crate::store;

/// A forward pass that failed. Its state holds half a step and must be dropped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Weights could not be had.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The observer stopped it.
    #[error("the forward pass was stopped")]
    Cancelled,
    /// A score of the router is no number.
    #[error("layer {layer}: the router's score of expert {expert} is {value}")]
    Router {
        /// The layer, counted from zero.
        layer: usize,
        /// The expert whose score it is.
        expert: usize,
        /// What was found.
        value: f32,
    },
    /// A logit is no number.
    #[error("after layer {layer}: the logit of token {token} is {value}")]
    Logit {
        /// The last layer, counted from zero.
        layer: usize,
        /// The token whose logit it is.
        token: usize,
        /// What was found.
        value: f32,
    },
    /// The state was left behind by a pass that failed.
    #[error("the state was left in the middle of a pass that failed")]
    BrokenState,
    /// More positions than the model was made for.
    #[error("position {position} lies beyond the {limit} positions that the model was made for")]
    Context {
        /// The first position that does not fit.
        position: usize,
        /// Positions of the model.
        limit: usize,
    },
    /// A token outside the vocabulary.
    #[error("token id {id} lies outside the vocabulary of {vocabulary}")]
    Token {
        /// The token.
        id: u32,
        /// Ids of the model.
        vocabulary: usize,
    },
    /// The model's dimensions do not fit the kernels.
    #[error("layer {layer}: {source}")]
    Shape {
        /// The layer, counted from zero.
        layer: usize,
        /// What does not fit.
        source: crate::kernels::ShapeError,
    },
}
