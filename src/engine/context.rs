//! What a token takes after so many positions.
//!
//! Only the attention of the MLA layers grows with the context, and its arithmetic does not look at the numbers: so a
//! state of the right size is imagined, and none of the many tokens before it has to be read first.

use std::sync::Arc;
use std::time::Instant;

use super::load;
use crate::model::{Rows, State, Unwatched};
use crate::protocol::{ExitCode, ModelFacts, Settings, UserError};
use crate::units::Bytes;

/// What a token took.
#[derive(Clone, Debug, PartialEq)]
pub struct Spent {
    /// Positions before the first token.
    pub positions: usize,
    /// Seconds of each token.
    pub seconds: Vec<f64>,
    /// Bytes of the state with them.
    pub state: Bytes,
}

/// Loads a model and computes `tokens` tokens after each of these counts of positions, and as many before that to warm
/// up. The first count goes twice, and counts once: what is kept in memory is loaded then. `stopped` is asked now and
/// then, and ends it with what there is.
pub fn measure(
    settings: &Settings,
    positions: &[usize],
    tokens: usize,
    stopped: &dyn Fn() -> bool,
) -> Result<(ModelFacts, Vec<Spent>), UserError> {
    let mut loaded = load::prepare(settings, 0, &Arc::default())?.read(&mut |_, _| !stopped())?;
    let limit = loaded.facts.context_limit;
    let mut all = Vec::with_capacity(positions.len());
    for (round, &positions) in positions.iter().take(1).chain(positions).enumerate() {
        let needed = positions.saturating_add(tokens.saturating_mul(2));
        if needed > limit {
            let detail = format!("{needed} positions are asked for, and the context is {limit}");
            return Err(UserError::new(ExitCode::Usage, "The context is too short", detail)
                .with_hint("Ask for more --context, for more --memory, or for fewer positions."));
        }
        let mut state = State::imagined(loaded.model.config(), positions);
        let mut seconds = Vec::with_capacity(tokens);
        for step in 0..2 * tokens {
            if stopped() {
                return Ok((loaded.facts, all));
            }
            let id = u32::try_from(step % loaded.facts.vocabulary).unwrap_or_default();
            let began = Instant::now();
            loaded.model.forward(&mut state, &[id], Rows::Last, &Unwatched)?;
            if step >= tokens {
                seconds.push(began.elapsed().as_secs_f64());
            }
        }
        let state = Bytes(State::bytes(loaded.model.config(), state.len()));
        if round > 0 {
            all.push(Spent { positions, seconds, state });
        }
    }
    Ok((loaded.facts, all))
}
