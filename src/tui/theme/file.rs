//! A user's own theme: a line for each role that is to look otherwise than in the theme that it is based on.

use std::path::Path;

use ratatui::style::{Color, Modifier, Style};

use super::Theme;
use super::choice::built_in;
use crate::config::nearest;
use crate::tui::Error;
use crate::tui::written;

/// The line that names the theme below.
const BASE: &str = "base";

const WEIGHTS: [(&str, Modifier); 6] = [
    ("bold", Modifier::BOLD),
    ("dim", Modifier::DIM),
    ("italic", Modifier::ITALIC),
    ("underlined", Modifier::UNDERLINED),
    ("reversed", Modifier::REVERSED),
    ("struck", Modifier::CROSSED_OUT),
];

/// Names of colours that are worth a guess; `Color` knows more spellings.
const COLOURS: [&str; 9] = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "gray", "white"];

/// The theme that `text` describes, which was read from `path`.
pub(super) fn parse(path: &Path, text: &str) -> Result<Theme, Error> {
    let wrong = |line, problem| Error::Written { path: path.to_owned(), line, problem };
    let entries = written::entries(path, text)?;
    let mut theme = Theme::TERMINAL;
    for entry in &entries {
        if !entry.table.is_empty() {
            return Err(wrong(entry.line, "a theme has no tables: roles stand one to a line".to_owned()));
        }
        if entry.name == BASE {
            theme = built_in(&entry.value).ok_or_else(|| {
                let problem =
                    format!("`{}` is no base; dark, light, terminal or none is", entry.value.escape_debug());
                wrong(entry.line, problem)
            })?;
        }
    }
    for entry in entries.iter().filter(|entry| entry.name != BASE) {
        let Some(role) = theme.role_mut(&entry.name) else {
            let name = entry.name.escape_debug();
            let problem = match nearest(&name.to_string(), Theme::ROLES.iter().copied()) {
                Some(near) => format!("`{name}` is no role; is `{near}` meant?"),
                None => format!("`{name}` is no role; known are {}", Theme::ROLES.join(", ")),
            };
            return Err(wrong(entry.line, problem));
        };
        *role = style(&entry.value).map_err(|problem| wrong(entry.line, problem))?;
    }
    Ok(theme)
}

/// `red bold`, `#89b4fa on 235 italic`, or nothing for text as it is.
fn style(text: &str) -> Result<Style, String> {
    let mut style = Style::new();
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        if word == "on" {
            let word = words.next().ok_or("`on` is followed by a colour")?;
            style = style.bg(colour(word)?);
        } else if let Some((_, weight)) = WEIGHTS.iter().find(|(name, _)| *name == word) {
            style = style.add_modifier(*weight);
        } else if style.fg.is_some() {
            return Err(format!(
                "`{}` is a second colour; `on` stands before a background",
                word.escape_debug()
            ));
        } else {
            style = style.fg(colour(word)?);
        }
    }
    Ok(style)
}

fn colour(word: &str) -> Result<Color, String> {
    word.parse::<Color>().map_err(|_unknown| {
        let known = COLOURS.into_iter().chain(WEIGHTS.map(|(name, _)| name));
        let near = nearest(word, known).map_or(String::new(), |near| format!(" (is {near} meant?)"));
        format!("`{}` is no colour{near}; colours are like red, 208 or #89b4fa", word.escape_debug())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Theme, String> {
        parse(Path::new("mine.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn roles_lie_over_their_base() {
        let theme =
            of("accent = '#89b4fa bold'\nchosen = 'black on 153'\nbase = 'dark'\ntext = ''\n").unwrap();
        assert_eq!(theme.accent, Style::new().fg(Color::Rgb(0x89, 0xb4, 0xfa)).add_modifier(Modifier::BOLD));
        assert_eq!(theme.chosen, Style::new().fg(Color::Black).bg(Color::Indexed(153)));
        assert_eq!((theme.error, theme.text), (Theme::DARK.error, Style::new()));
        assert_eq!(of(""), Ok(Theme::TERMINAL));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_and_what_may_be_meant() {
        for (text, problem) in [
            ("\nacent = 'red'\n", "mine.toml, line 2: `acent` is no role; is `accent` meant?"),
            ("accent = 'redd'\n", "mine.toml, line 1: `redd` is no colour (is red meant?)"),
            ("accent = 'red blue'\n", "mine.toml, line 1: `blue` is a second colour"),
            ("accent = 'red on'\n", "mine.toml, line 1: `on` is followed by a colour"),
            ("base = 'auto'\n", "mine.toml, line 1: `auto` is no base"),
            ("[accent]\nfg = 'red'\n", "mine.toml, line 2: a theme has no tables"),
            ("accent = 3\n", "mine.toml, line 1: accent must be a text, found integer"),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.starts_with(problem), "{text}: {error}");
        }
    }
}
