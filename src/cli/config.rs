//! `dormouse config`: settings looked at and changed.

use std::fmt::Write;

use serde::Serialize;

use super::args::{Common, Config};
use super::{Done, error, output, settings};
use crate::config::{self, Key, Layer, Paths, Settings, Source};
use crate::protocol::{ExitCode, UserError};

/// Carries out one of the verbs.
pub(super) fn config(common: &Common, action: &Config) -> Result<Done, UserError> {
    let paths = Paths::of_user()?;
    let file = paths.config_file();
    match action {
        Config::Path => output::print(&format!("{}\n", file.display()))?,
        Config::Get { key } => {
            let key = Key::named(key)?;
            let written = Settings::resolve(&paths, Layer::of_flags(common.flags()))?;
            output::print(&format!("{}\n", Row::new(&written, key).value))?;
        }
        Config::Show { json } => {
            let written = Settings::resolve(&paths, Layer::of_flags(common.flags()))?;
            let rows: Vec<Row> = Key::ALL.into_iter().map(|key| Row::new(&written, key)).collect();
            if *json {
                output::print_json(&rows)?;
            } else {
                output::print(&text(&rows))?;
            }
            // Whatever is wrong with a value is said below them.
            settings::values(paths, &written)?;
        }
        Config::Set { key, value } => {
            let key = Key::named(key)?;
            let value = absolute(key, value)?;
            config::set(&file, key, &value, |written| {
                settings::values(paths.clone(), written).map(|_good| ())
            })?;
            tell_of_stronger(&paths, common, key)?;
        }
        Config::Unset { key } => {
            let key = Key::named(key)?;
            if !config::unset(&file, key)? {
                error::note(&format!("{} was not set in {}", key.name(), file.display()));
            }
            tell_of_stronger(&paths, common, key)?;
        }
    }
    Ok(Done::Well)
}

/// A path is meant from where it was typed; in the file it would be meant from there.
fn absolute(key: Key, value: &str) -> Result<String, UserError> {
    if key != Key::Model || value.is_empty() {
        return Ok(value.to_owned());
    }
    let bad = |problem: String| UserError::new(ExitCode::Usage, "The folder cannot be named", problem);
    let path = std::path::absolute(value).map_err(|error| bad(error.to_string()))?;
    path.to_str().map(str::to_owned).ok_or_else(|| bad(format!("{} is not UTF-8", path.display())))
}

/// What was written counts only where nothing stronger stands.
fn tell_of_stronger(paths: &Paths, common: &Common, key: Key) -> Result<(), UserError> {
    let written = Settings::resolve(paths, Layer::of_flags(common.flags()))?;
    if let Some(setting) = written.get(key)
        && !matches!(setting.source, Source::File { .. })
    {
        error::note(&format!("{} still is {}, {}", key.name(), setting.value.display(), setting.source));
    }
    Ok(())
}

/// A setting, its value, and where that comes from.
#[derive(Clone, Debug, Serialize)]
struct Row {
    key: &'static str,
    value: String,
    /// `default`, `file`, `environment` or `flag`.
    source: &'static str,
    /// The file with its line, the variable, the flag; nothing for a default.
    place: Option<String>,
}

impl Row {
    fn new(written: &Settings, key: Key) -> Self {
        let Some(setting) = written.get(key) else {
            let value = key.default_in_words().to_owned();
            return Self { key: key.name(), value, source: "default", place: None };
        };
        let (source, place) = match &setting.source {
            Source::File { path, line } => ("file", format!("{}, line {line}", path.display())),
            Source::Environment(name) => ("environment", (*name).to_owned()),
            Source::Flag(name) => ("flag", (*name).to_owned()),
        };
        let value = setting.value.to_string_lossy().into_owned();
        Self { key: key.name(), value, source, place: Some(place) }
    }
}

fn text(rows: &[Row]) -> String {
    let width =
        |column: fn(&Row) -> &str| rows.iter().map(|row| column(row).chars().count()).max().unwrap_or(0);
    let (keys, values) = (width(|row| row.key), width(|row| &row.value));
    let mut out = String::new();
    for Row { key, value, source, place } in rows {
        let place = place.as_ref().map_or_else(|| (*source).to_owned(), |place| format!("{source}: {place}"));
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{key:<keys$}  {value:<values$}  {place}");
    }
    out
}
