//! Which models there are, as the screen asks whoever started it.

use crate::protocol::{Settings, UserError};

/// A model that can be loaded, and how the screen speaks of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    /// What the engine is to load.
    pub settings: Settings,
    /// How it is called on the screen.
    pub label: String,
    /// Whether it is the small model of the program: the screen says that it is a demonstration.
    pub demo: bool,
    /// Messages that a newcomer could begin with.
    pub suggestions: Vec<String>,
    /// Its folder, as sessions name it.
    pub folder: String,
    /// The name of that folder.
    pub name: String,
}

/// Finds models by what the user types.
pub trait Models: Send {
    /// The model in the folder `name`, or the one of the program for [`SMALL`]. Reads no weights.
    fn find(&self, name: &str) -> Result<Model, UserError>;
}

/// How the small model of the program is called.
pub const SMALL: &str = "small";
