//! Styles by what they mean. Default foreground for text, dim for what is secondary, four colours of the terminal's
//! own palette with a fixed meaning each, so that dark and light themes both work; without colour the words and
//! marks still say everything.

use ratatui::style::{Color, Modifier, Style};

/// The styles of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Theme {
    /// Text that is read.
    pub(crate) text: Style,
    /// Text beside it.
    pub(crate) dim: Style,
    /// The reasoning of the model.
    pub(crate) thinking: Style,
    /// What stands out within text.
    pub(crate) strong: Style,
    /// Emphasis within text.
    pub(crate) emphasis: Style,
    /// Struck-out text.
    pub(crate) struck: Style,
    /// Titles within an answer.
    pub(crate) heading: Style,
    /// Code within text, and blocks of a language that is not known.
    pub(crate) code: Style,
    /// What a program does not read of its code.
    pub(crate) comment: Style,
    /// Text within code.
    pub(crate) string: Style,
    /// Numbers within code.
    pub(crate) number: Style,
    /// The words of a programming language.
    pub(crate) keyword: Style,
    /// Addresses.
    pub(crate) link: Style,
    /// The user's own mark, the program's name, what moves.
    pub(crate) accent: Style,
    /// It went well.
    pub(crate) good: Style,
    /// It needs attention.
    pub(crate) warn: Style,
    /// It failed.
    pub(crate) error: Style,
    /// What was looked for.
    pub(crate) found: Style,
    /// The row that is chosen.
    pub(crate) chosen: Style,
}

impl Theme {
    /// The theme with colours, or with weight and brightness alone.
    pub(crate) const fn new(colours: bool) -> Self {
        const fn coloured(style: Style, colour: Color, colours: bool) -> Style {
            if colours { style.fg(colour) } else { style }
        }
        let text = Style::new();
        let bold = text.add_modifier(Modifier::BOLD);
        let dim = text.add_modifier(Modifier::DIM);
        Self {
            text,
            dim,
            thinking: dim.add_modifier(Modifier::ITALIC),
            strong: bold,
            emphasis: text.add_modifier(Modifier::ITALIC),
            struck: text.add_modifier(Modifier::CROSSED_OUT),
            heading: bold.add_modifier(Modifier::UNDERLINED),
            code: coloured(text, Color::Magenta, colours),
            comment: dim,
            string: coloured(text, Color::Green, colours),
            number: coloured(text, Color::Cyan, colours),
            keyword: if colours { text.fg(Color::Magenta) } else { bold },
            link: coloured(text.add_modifier(Modifier::UNDERLINED), Color::Cyan, colours),
            accent: coloured(bold, Color::Cyan, colours),
            good: coloured(text, Color::Green, colours),
            warn: coloured(text, Color::Yellow, colours),
            error: coloured(bold, Color::Red, colours),
            found: coloured(bold.add_modifier(Modifier::UNDERLINED), Color::Yellow, colours),
            chosen: bold.add_modifier(Modifier::REVERSED),
        }
    }

    /// The theme that the environment asks for: any non-empty `NO_COLOR` takes the colours away.
    pub(crate) fn from_env() -> Self {
        Self::new(std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colours_there_are_none() {
        let theme = Theme::new(false);
        for style in [theme.code, theme.link, theme.accent, theme.good, theme.warn, theme.error, theme.chosen]
        {
            assert_eq!((style.fg, style.bg), (None, None));
        }
        assert_eq!(Theme::new(true).error.fg, Some(Color::Red));
    }
}
