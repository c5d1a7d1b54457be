//! Changing the config file without losing what its writer put there: comments, blank lines, the order.

use std::fs;
use std::ops::Range;
use std::path::Path;

use toml::Value;

use super::{Error, Key, Layer, Paths, Settings, file};
use crate::sys;

/// Writes `value` for `key` into the config file, in the place of an earlier one, else at the end. A setting that says the
/// same thing in other words goes. `check` looks at the settings that come of it; what it refuses is not written.
pub fn set<E: From<Error>>(
    path: &Path,
    key: Key,
    value: &str,
    check: impl FnOnce(&Settings) -> Result<(), E>,
) -> Result<(), E> {
    change(path, check, |text| {
        let text = match key.twin() {
            Some(twin) => without(path, &text, twin)?,
            None => text,
        };
        with(path, &text, key, value)
    })
}

/// Writes several values at once, and takes the lines of other keys out.
pub fn write(paths: &Paths, set: &[(Key, &str)], remove: &[Key]) -> Result<(), Error> {
    let path = paths.config_file();
    change(
        &path,
        |_| Ok::<(), Error>(()),
        |text| {
            let text = remove.iter().try_fold(text, |text, key| without(&path, &text, *key))?;
            set.iter().try_fold(text, |text, (key, value)| with(&path, &text, *key, value))
        },
    )
}

/// Takes the line of `key` out of the config file. Says whether there was one.
pub fn unset(path: &Path, key: Key) -> Result<bool, Error> {
    let was = place(path, &file::text(path)?, key)?.is_some();
    if was {
        change(path, |_| Ok::<(), Error>(()), |text| without(path, &text, key))?;
    }
    Ok(was)
}

fn change<E: From<Error>>(
    path: &Path,
    check: impl FnOnce(&Settings) -> Result<(), E>,
    edit: impl FnOnce(String) -> Result<String, Error>,
) -> Result<(), E> {
    let text = edit(file::text(path)?)?;
    check(&Settings::of_layers(file::parse(path, &text)?, Layer::default(), Layer::default()))?;
    // A link stays one: some keep their settings in a folder of their own.
    let place = fs::canonicalize(path).unwrap_or_else(|_missing| path.to_owned());
    Ok(sys::file::replace(&place, text.as_bytes()).map_err(Error::Unwritable)?)
}

/// Where the value of `key` stands in `text`.
fn place(path: &Path, text: &str, key: Key) -> Result<Option<Range<usize>>, Error> {
    let written = file::written(path, text)?;
    Ok(written.into_iter().find(|(name, _)| name.get_ref() == key.name()).map(|(_, value)| value.span()))
}

fn with(path: &Path, text: &str, key: Key, value: &str) -> Result<String, Error> {
    let literal = literal(value);
    if let Some(span) = place(path, text, key)? {
        let (before, after) = (text.get(..span.start), text.get(span.end..));
        return Ok([before.unwrap_or_default(), &literal, after.unwrap_or_default()].concat());
    }
    let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    Ok(format!("{text}{gap}{} = {literal}\n", key.name()))
}

fn without(path: &Path, text: &str, key: Key) -> Result<String, Error> {
    let Some(span) = place(path, text, key)? else { return Ok(text.to_owned()) };
    // The format demands a line of its own for each key.
    let (before, after) =
        (text.get(..span.start).unwrap_or_default(), text.get(span.end..).unwrap_or_default());
    let begin = before.rfind('\n').map_or(0, |feed| feed + 1);
    let end = after.find('\n').map_or(after.len(), |feed| feed + 1);
    Ok([before.get(..begin).unwrap_or_default(), after.get(end..).unwrap_or_default()].concat())
}

/// A value as the file spells it: numbers bare, if they stay what was typed, and all else quoted.
fn literal(value: &str) -> String {
    let whole = value.parse::<i64>().map(|number| number.to_string());
    let broken = value.parse::<f64>().map(|number| number.to_string());
    if whole.is_ok_and(|text| text == value) || broken.is_ok_and(|text| text == value && text.contains('.')) {
        return value.to_owned();
    }
    Value::String(value.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# mine\nmemory = \"8GB\" # enough\n\n  threads=2\n# the end";

    fn home(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/config.toml");
        if !text.is_empty() {
            fs::create_dir(dir.path().join("new")).unwrap();
            fs::write(&path, text).unwrap();
        }
        (dir, path)
    }

    fn put(path: &Path, key: Key, value: &str) -> Result<String, Error> {
        set(path, key, value, |_| Ok::<(), Error>(()))?;
        Ok(fs::read_to_string(path).unwrap())
    }

    #[test]
    fn comments_blank_lines_and_the_order_stay() {
        let (_dir, path) = home(TEXT);
        assert_eq!(put(&path, Key::Memory, "24GiB").unwrap(), TEXT.replace("8GB", "24GiB"));
        assert_eq!(
            put(&path, Key::Threads, "4").unwrap(),
            TEXT.replace("8GB", "24GiB").replace("threads=2", "threads=4")
        );
        let all = put(&path, Key::Model, "/my \"models\"/k3 è").unwrap();
        assert!(all.ends_with("# the end\nmodel = '/my \"models\"/k3 è'\n"), "{all}");
        assert!(unset(&path, Key::Threads).unwrap() && !unset(&path, Key::Threads).unwrap());
        let left = fs::read_to_string(&path).unwrap();
        assert!(left.starts_with("# mine\nmemory = \"24GiB\" # enough\n\n# the end\nmodel"), "{left}");
    }

    #[test]
    fn a_file_is_made_where_there_is_none() {
        let (_dir, path) = home("");
        assert!(!unset(&path, Key::Model).unwrap() && !path.exists());
        assert_eq!(put(&path, Key::Temperature, "0.7").unwrap(), "temperature = 0.7\n");
        assert_eq!(put(&path, Key::Temperature, "0.70").unwrap(), "temperature = \"0.70\"\n");
        assert_eq!(put(&path, Key::Temperature, "1").unwrap(), "temperature = 1\n");
    }

    #[test]
    fn of_two_words_for_one_thing_the_new_one_stays() {
        let (_dir, path) = home(TEXT);
        let text = put(&path, Key::Preset, "laptop").unwrap();
        assert!(text.contains("preset = \"laptop\"") && !text.contains("memory"), "{text}");
        let text = put(&path, Key::Memory, "9GB").unwrap();
        assert!(text.contains("memory = \"9GB\"") && !text.contains("preset"), "{text}");
    }

    #[test]
    fn what_is_refused_changes_nothing() {
        let (_dir, path) = home(TEXT);
        let refused = set(&path, Key::Threads, "0", |settings| {
            Err(settings.get(Key::Threads).unwrap().wrong("it must be more"))
        });
        assert!(matches!(refused, Err(Error::Value { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), TEXT);
        // A file that is broken is not made worse.
        fs::write(&path, "threads = 2\nmodel = \n").unwrap();
        let error = put(&path, Key::Threads, "3").unwrap_err().to_string();
        assert!(error.contains("config.toml, line 2: "), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "threads = 2\nmodel = \n");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_a_link() {
        let (dir, path) = home(TEXT);
        let link = dir.path().join("config.toml");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        put(&link, Key::Threads, "5").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::read_to_string(&path).unwrap().contains("threads=5"));
    }

    #[test]
    fn several_are_written_at_once_and_others_go() {
        let (dir, path) = home(TEXT);
        let home = dir.path().join("new");
        let paths = Paths { data: home.clone(), config: home.clone(), state: home };
        write(&paths, &[(Key::Model, "C:\\k3\"\n"), (Key::Preset, "laptop")], &[Key::Memory]).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("# mine\n\n  threads=2\n# the end\nmodel = "), "{text}");
        assert!(text.ends_with("preset = \"laptop\"\n"), "{text}");
        let settings =
            Settings::of_layers(file::parse(&path, &text).unwrap(), Layer::default(), Layer::default());
        assert_eq!(settings.get(Key::Model).unwrap().value, "C:\\k3\"\n");
        fs::write(&path, "modle = \"k3\"\n").unwrap();
        assert!(matches!(write(&paths, &[(Key::Model, "x")], &[]), Err(Error::File { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "modle = \"k3\"\n");
    }
}
