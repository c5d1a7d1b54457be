//! Which theme is shown.

use std::path::Path;

use super::{Theme, file};
use crate::config::nearest;
use crate::tui::Error;

/// The theme that follows the terminal.
const AUTO: &str = "auto";

const BUILT_IN: [(&str, Theme); 4] =
    [("dark", Theme::DARK), ("light", Theme::LIGHT), ("terminal", Theme::TERMINAL), ("none", Theme::NONE)];

/// The theme of the program of this name.
pub(super) fn built_in(name: &str) -> Option<Theme> {
    BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, theme)| *theme)
}

/// What stands behind the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Background {
    Dark,
    Light,
}

impl Background {
    /// Of a colour: red, green and blue from 0 to 1.
    pub(crate) fn of(rgb: [f32; 3]) -> Self {
        let [red, green, blue] = rgb;
        // How bright it looks, not how much light it is: halfway is where black text and white text read alike.
        if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 { Self::Light } else { Self::Dark }
    }

    /// As `COLORFGBG` says it: two or three numbers of the palette, of which the last is the background.
    pub(crate) fn of_variable(value: &str) -> Option<Self> {
        match value.rsplit_once(';')?.1.parse::<u8>().ok()? {
            0..=6 | 8 => Some(Self::Dark),
            7 | 9..=15 => Some(Self::Light),
            _ => None,
        }
    }

    const fn theme(self) -> Theme {
        match self {
            Self::Dark => Theme::DARK,
            Self::Light => Theme::LIGHT,
        }
    }
}

/// The themes that there are, and which one is chosen.
#[derive(Clone, Debug)]
pub struct Themes {
    /// The user's own, each with what is wrong with it if anything is.
    own: Vec<(String, Result<Theme, String>)>,
    chosen: String,
    background: Option<Background>,
}

impl Default for Themes {
    fn default() -> Self {
        Self { own: Vec::new(), chosen: AUTO.to_owned(), background: None }
    }
}

impl Themes {
    /// Adds a theme of the user's: what `text` describes, which was read from `path`. What is wrong with it is told when
    /// it is chosen.
    pub fn add(&mut self, name: String, path: &Path, text: &str) {
        let theme = file::parse(path, text).map_err(|error: Error| error.to_string());
        self.own.push((name, theme));
    }

    /// Takes in what the environment says of the background, as `COLORFGBG` has it.
    pub fn hint(&mut self, variable: &str) {
        self.background = Background::of_variable(variable);
    }

    /// Chooses a theme by its name, or says why it cannot be.
    pub fn choose(&mut self, name: &str) -> Result<(), String> {
        let own = self.own.iter().find(|(known, _)| known == name).map(|(_, theme)| theme);
        match own {
            Some(Err(problem)) => return Err(problem.clone()),
            Some(Ok(_)) => {}
            None if name == AUTO || built_in(name).is_some() => {}
            None => {
                let names = self.names();
                let near = nearest(name, names.iter().map(String::as_str));
                let near = near.map_or(String::new(), |near| format!(" (is {near} meant?)"));
                let name = name.escape_debug();
                return Err(format!("`{name}` is no theme{near}; there are {}", names.join(", ")));
            }
        }
        name.clone_into(&mut self.chosen);
        Ok(())
    }

    /// The names of all of them.
    pub(crate) fn names(&self) -> Vec<String> {
        let built_in = BUILT_IN.iter().map(|(name, _)| (*name).to_owned());
        let own = self.own.iter().map(|(name, _)| name.clone());
        std::iter::once(AUTO.to_owned()).chain(built_in).chain(own).collect()
    }

    /// The name of the one that is chosen.
    pub(crate) fn chosen(&self) -> &str {
        &self.chosen
    }

    /// Whether it depends on what the terminal says of its background.
    pub(crate) fn follows_terminal(&self) -> bool {
        self.chosen == AUTO
    }

    /// Takes in what the terminal says of its background.
    pub(crate) const fn tell(&mut self, background: Background) {
        self.background = Some(background);
    }

    /// The styles of the one that is chosen.
    pub(crate) fn theme(&self) -> Theme {
        let own = self.own.iter().find(|(name, _)| *name == self.chosen);
        let own = own.and_then(|(_, theme)| theme.as_ref().ok().copied());
        own.or_else(|| built_in(&self.chosen))
            .unwrap_or_else(|| self.background.map_or(Theme::TERMINAL, Background::theme))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_follows_the_background() {
        let mut themes = Themes::default();
        assert!(themes.follows_terminal());
        assert_eq!(themes.theme(), Theme::TERMINAL);
        themes.hint("15;default;0");
        assert_eq!(themes.theme(), Theme::DARK);
        themes.tell(Background::of([1.0, 0.96, 0.9]));
        assert_eq!(themes.theme(), Theme::LIGHT);
        themes.hint("nonsense");
        assert_eq!(themes.theme(), Theme::TERMINAL);
        assert_eq!(Background::of_variable("0;15"), Some(Background::Light));
        assert_eq!(Background::of([0.1, 0.1, 0.4]), Background::Dark);
    }

    #[test]
    fn a_theme_is_chosen_by_its_name() {
        let mut themes = Themes::default();
        themes.add("mine".to_owned(), Path::new("mine.toml"), "base = 'light'\n");
        themes.add("broken".to_owned(), Path::new("broken.toml"), "\nwarm = 'red'\n");
        themes.choose("mine").unwrap();
        assert_eq!((themes.chosen(), themes.theme()), ("mine", Theme::LIGHT));
        assert!(themes.choose("broken").unwrap_err().starts_with("broken.toml, line 2: `warm` is no role"));
        assert!(
            themes
                .choose("drak")
                .unwrap_err()
                .starts_with("`drak` is no theme (is dark meant?); there are auto")
        );
        assert_eq!(themes.chosen(), "mine", "what cannot be chosen changes nothing");
        themes.choose("none").unwrap();
        assert_eq!(themes.theme(), Theme::NONE);
    }
}
