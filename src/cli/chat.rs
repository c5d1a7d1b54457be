//! `dormouse`: the full-screen chat.

use super::Done;
use super::args::Common;
use crate::protocol::UserError;

/// Starts the engine and hands it to the screen.
pub(super) fn chat(common: &Common) -> Result<Done, UserError> {
    let _ = super::settings::resolve(common)?;
    Ok(Done::Well)
}
