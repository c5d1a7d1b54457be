//! What the user has written for the screen: keys and themes.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::settings::Resolved;
use crate::config::{Paths, Source};
use crate::protocol::{ExitCode, UserError};
use crate::sys::file;
use crate::tui::{Keymap, Themes};

/// Nobody writes more than this.
const LIMIT: u64 = 1 << 20;

/// The keys, with the user's own over them where there are any.
pub(super) fn keymap(paths: &Paths) -> Result<Keymap, UserError> {
    let path = paths.keymap_file();
    Ok(match read(&path)? {
        Some(text) => Keymap::with(&path, &text)?,
        None => Keymap::default(),
    })
}

/// The themes, and of them the one that the user wants.
pub(super) fn themes(resolved: &Resolved) -> Result<Themes, UserError> {
    let mut themes = Themes::default();
    let folder = resolved.paths.themes();
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(unreadable(&folder, &error.to_string())),
    };
    let mut files: Vec<_> =
        entries.into_iter().filter(|path| path.extension() == Some("toml".as_ref())).collect();
    files.sort();
    for path in files {
        let Some(name) = path.file_stem().and_then(|name| name.to_str()) else { continue };
        // Others could be neither typed nor shown.
        if name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.')) {
            let text = read(&path)?.unwrap_or_default();
            themes.add(name.to_owned(), &path, &text);
        }
    }
    if let Ok(colours) = env::var("COLORFGBG") {
        themes.hint(&colours);
    }
    // Whoever wants no colours has said so once for all programs; a flag is said now, for this one.
    let no_colour = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    match &resolved.theme {
        Some(theme) if !no_colour || matches!(theme.source, Source::Flag(_)) => {
            theme.parse(|name| themes.choose(name))?;
        }
        _ if no_colour => themes.choose("none").map_err(|problem| bad(&problem))?,
        _ => {}
    }
    Ok(themes)
}

/// The text of a file; nothing where there is none.
fn read(path: &Path) -> Result<Option<String>, UserError> {
    match file::read_small(path, LIMIT) {
        Ok(bytes) => {
            String::from_utf8(bytes).map(Some).map_err(|_binary| unreadable(path, "it is not UTF-8"))
        }
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(bad(&error.to_string())),
    }
}

fn unreadable(path: &Path, problem: &str) -> UserError {
    bad(&format!("{} cannot be read: {problem}", path.display()))
}

fn bad(problem: &str) -> UserError {
    UserError::new(ExitCode::Usage, "Bad settings", problem)
}
