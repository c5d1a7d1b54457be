//! Styles by what they mean. Default foreground for text, dim for what is secondary, few colours with a fixed meaning
//! each; without colour the words and marks still say everything.
//!
//! | theme | what it is for |
//! | --- | --- |
//! | `dark`, `light` | a background that is known: shades of the 256 colours that are readable on it, which a test holds |
//! | `terminal` | one that is not known: the terminal's own palette, which its user can read |
//! | `none` | no colour at all |
//! | `auto` | `dark` or `light` as the terminal says, else `terminal` |
//!
//! A user's own theme is a file of roles and styles over one of these.

mod choice;
#[cfg(test)]
mod contrast;
mod file;

use ratatui::style::{Color, Modifier, Style};

pub(crate) use choice::Background;
pub use choice::Themes;

const PLAIN: Modifier = Modifier::empty();
const BOLD: Modifier = Modifier::BOLD;
const DIM: Modifier = Modifier::DIM;
const ITALIC: Modifier = Modifier::ITALIC;
const UNDERLINED: Modifier = Modifier::UNDERLINED;

/// The colours of a role: of the terminal's own palette, on a dark and on a light background.
type Colours = Option<(Color, u8, u8)>;

/// A row for each role: its weight, which says it without colour, and its colours.
macro_rules! roles {
    ($($(#[$doc:meta])* $role:ident: $weight:expr, $colours:expr;)*) => {
        /// The styles of the screen.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) struct Theme {
            $($(#[$doc])* pub(crate) $role: Style,)*
        }

        impl Theme {
            /// The names of the roles.
            pub(crate) const ROLES: &[&str] = &[$(stringify!($role)),*];
            /// By weight and brightness alone.
            pub(crate) const NONE: Self = Self { $($role: plain($weight),)* };
            /// In the terminal's own palette.
            pub(crate) const TERMINAL: Self = Self { $($role: own($weight, $colours),)* };
            /// On a dark background.
            pub(crate) const DARK: Self = Self { $($role: shade($weight, $colours, true),)* };
            /// On a light background.
            pub(crate) const LIGHT: Self = Self { $($role: shade($weight, $colours, false),)* };

            /// The style of the role of this name.
            fn role_mut(&mut self, name: &str) -> Option<&mut Style> {
                match name {
                    $(stringify!($role) => Some(&mut self.$role),)*
                    _ => None,
                }
            }
        }
    };
}

roles! {
    /// Text that is read.
    text: PLAIN, None;
    /// Text beside it.
    dim: DIM, GREY;
    /// The reasoning of the model.
    thinking: DIM.union(ITALIC), GREY;
    /// What stands out within text.
    strong: BOLD, None;
    /// Emphasis within text.
    emphasis: ITALIC, None;
    /// Struck-out text.
    struck: Modifier::CROSSED_OUT, None;
    /// Titles within an answer.
    heading: BOLD.union(UNDERLINED), None;
    /// Code within text, and blocks of a language that is not known.
    code: PLAIN, Some((Color::Magenta, 176, 90));
    /// What a program does not read of its code.
    comment: DIM, GREY;
    /// Text within code.
    string: PLAIN, Some((Color::Green, 114, 22));
    /// Numbers within code.
    number: PLAIN, Some((Color::Cyan, 80, 24));
    /// The words of a programming language.
    keyword: BOLD, Some((Color::Magenta, 176, 90));
    /// Addresses.
    link: UNDERLINED, Some((Color::Cyan, 80, 24));
    /// The user's own mark, the program's name, what moves.
    accent: BOLD, Some((Color::Cyan, 80, 24));
    /// It went well.
    good: PLAIN, Some((Color::Green, 114, 22));
    /// It needs attention.
    warn: PLAIN, Some((Color::Yellow, 221, 94));
    /// It failed.
    error: BOLD, Some((Color::Red, 210, 124));
    /// What was looked for.
    found: BOLD.union(UNDERLINED), Some((Color::Yellow, 221, 94));
    /// The row that is chosen.
    chosen: BOLD.union(Modifier::REVERSED), None;
}

/// What is secondary: dimmed in the terminal's own way where the background is not known.
const GREY: Colours = Some((Color::Reset, 247, 240));

const fn plain(weight: Modifier) -> Style {
    Style::new().add_modifier(weight)
}

const fn own(weight: Modifier, colours: Colours) -> Style {
    match colours {
        None | Some((Color::Reset, _, _)) => plain(weight),
        Some((colour, _, _)) => plain(weight).fg(colour),
    }
}

/// Where a shade says it, dimming would only take contrast away.
const fn shade(weight: Modifier, colours: Colours, dark: bool) -> Style {
    match colours {
        None => plain(weight),
        Some((_, on_dark, on_light)) => {
            plain(weight.difference(DIM)).fg(Color::Indexed(if dark { on_dark } else { on_light }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn styles(mut theme: Theme) -> Vec<(&'static str, Style)> {
        Theme::ROLES.iter().map(|role| (*role, *theme.role_mut(role).unwrap())).collect()
    }

    #[test]
    fn without_colours_there_are_none_and_what_must_be_told_apart_still_is() {
        for (role, style) in styles(Theme::NONE) {
            assert_eq!((style.fg, style.bg), (None, None), "{role}");
        }
        let Theme { text, dim, strong, chosen, heading, .. } = Theme::NONE;
        let styles = [text, dim, strong, chosen, heading];
        for (number, style) in styles.iter().enumerate() {
            assert!(!styles[number + 1..].contains(style));
        }
    }

    /// Whoever has chosen the palette can read it: no shade of ours is mixed in.
    #[test]
    fn the_terminals_own_palette_is_used_as_it_is() {
        assert_eq!(Theme::TERMINAL.error.fg, Some(Color::Red));
        for (role, style) in styles(Theme::TERMINAL) {
            assert!(!matches!(style.fg, Some(Color::Indexed(_) | Color::Rgb(..))), "{role}");
        }
    }
}
