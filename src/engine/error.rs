//! What went wrong elsewhere, as a person is told: what, where, and the way out.

use super::{sampler, saved};
use crate::protocol::{ExitCode, UserError};
use crate::{chat, checkpoint, kernels, model, store, tokenizer};

const READ_HINT: &str =
    "Check the disk and the model's folder; a file that was cut short must be downloaded again.";
const FILES: &str = "The model's files cannot be used";

impl From<checkpoint::Error> for UserError {
    fn from(error: checkpoint::Error) -> Self {
        Self::from(&error)
    }
}

impl From<&checkpoint::Error> for UserError {
    fn from(error: &checkpoint::Error) -> Self {
        Self::new(ExitCode::ModelFiles, FILES, error.to_string()).with_hint(error.hint())
    }
}

impl From<tokenizer::Error> for UserError {
    fn from(error: tokenizer::Error) -> Self {
        Self::new(ExitCode::ModelFiles, FILES, error.to_string())
            .with_hint("Take tiktoken.model and tokenizer_config.json from the release again.")
    }
}

impl From<chat::Error> for UserError {
    fn from(error: chat::Error) -> Self {
        match error {
            chat::Error::MissingMarker { .. } => Self::new(ExitCode::ModelFiles, FILES, error.to_string())
                .with_hint("Take tokenizer_config.json from the release again."),
            _ => Self::new(
                ExitCode::Usage,
                "The conversation cannot be put into the chat format",
                error.to_string(),
            ),
        }
    }
}

impl From<store::Error> for UserError {
    fn from(error: store::Error) -> Self {
        let detail = error.to_string();
        match &error {
            store::Error::Checkpoint(source) => {
                Self::new(ExitCode::ModelFiles, FILES, detail).with_hint(source.hint())
            }
            store::Error::Expert { source, .. } => {
                let hint = match source.as_ref() {
                    store::Error::Checkpoint(source) => source.hint(),
                    _ => READ_HINT,
                };
                Self::new(ExitCode::ModelFiles, "An expert cannot be read", detail).with_hint(hint)
            }
            store::Error::Read(_) => Self::new(ExitCode::ModelFiles, FILES, detail).with_hint(READ_HINT),
            store::Error::Memory(_) => Self::new(ExitCode::Resources, "There is not enough memory", detail)
                .with_hint("Give the program less with --memory, or close others."),
            store::Error::Budget { needed, .. } => {
                Self::new(ExitCode::Resources, "The memory is too small for this model", detail).with_hint(
                    format!(
                        "Give it --memory {}MiB or more, or name a smaller model.",
                        // Rounded up, so that it can be typed as it stands here.
                        needed.0.div_ceil(1 << 20)
                    ),
                )
            }
            store::Error::Stopped => Self::new(ExitCode::Stopped, "Loading was stopped", ""),
            store::Error::NoTensor { .. }
            | store::Error::NoExpert { .. }
            | store::Error::OutOfRange { .. } => {
                Self::new(ExitCode::Invalid, "The engine asked for weights that are not there", detail)
            }
        }
    }
}

impl From<model::Error> for UserError {
    fn from(error: model::Error) -> Self {
        let detail = error.to_string();
        match error {
            model::Error::Store(error) => error.into(),
            model::Error::Cancelled => Self::new(ExitCode::Stopped, "The turn was stopped", ""),
            model::Error::Router { .. } | model::Error::Logit { .. } => no_number(detail),
            model::Error::BrokenState => Self::new(ExitCode::Invalid, "The model's state is broken", detail),
            model::Error::Context { .. } => Self::new(ExitCode::Usage, "The context is full", detail),
            model::Error::Token { .. } => Self::new(ExitCode::Usage, "Bad token ids", detail),
            model::Error::Shape { .. } => Self::new(ExitCode::ModelFiles, FILES, detail),
        }
    }
}

impl From<sampler::Error> for UserError {
    fn from(error: sampler::Error) -> Self {
        match error {
            sampler::Error::Temperature(_) | sampler::Error::TopP(_) => {
                Self::new(ExitCode::Usage, "Bad settings", error.to_string())
            }
            sampler::Error::NotFinite { .. } | sampler::Error::Empty => no_number(error.to_string()),
        }
    }
}

impl From<saved::Error> for UserError {
    fn from(error: saved::Error) -> Self {
        Self::new(ExitCode::Resources, "A saved state cannot be used", error.to_string())
            .with_hint("What lies in the folder `states` can be deleted at any time: it is computed again.")
    }
}

impl From<kernels::TierError> for UserError {
    fn from(error: kernels::TierError) -> Self {
        Self::new(ExitCode::Usage, "Bad settings", error.to_string())
    }
}

fn no_number(detail: String) -> UserError {
    UserError::new(ExitCode::Invalid, "The model computed something that is no number", detail).with_hint(
        "A damaged weight file is the likeliest cause, faulty memory the next: check the files against the release.",
    )
}

/// What a caught panic said.
pub(super) fn of_panic(payload: &(dyn std::any::Any + Send)) -> UserError {
    let said = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    UserError::new(ExitCode::Invalid, "The engine broke", said.unwrap_or("it did not say why"))
        .with_hint("This is a fault in the program. The conversation is kept; load the model again to go on.")
}
