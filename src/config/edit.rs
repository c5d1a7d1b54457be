//! Writing settings into the config file, and leaving everything else in it as the user wrote it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use super::{Error, Key, Paths, file};
use crate::sys;

/// Sets keys to values and takes others out; the rest of the file, comments included, stays as it is. The file appears
/// whole or not at all.
pub fn write(paths: &Paths, set: &[(Key, &str)], remove: &[Key]) -> Result<(), Error> {
    let path = paths.config_file();
    let before = match sys::file::read_small(&path, file::LIMIT) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.is_not_found() => String::new(),
        Err(error) => return Err(error.into()),
    };
    // A file that is not understood is not written to: it says something that nobody knows.
    file::parse(&path, &before)?;
    let after = edited(&before, set, remove);
    file::parse(&path, &after)?;
    replace(&path, &after).map_err(|source| Error::Unwritable { path, source })
}

/// `text` with these changes. Each setting has its line, for the file is a flat table.
fn edited(text: &str, set: &[(Key, &str)], remove: &[Key]) -> String {
    let key_of = |line: &str| {
        let (name, _) = line.split_once('=')?;
        let name = name.trim().trim_matches(['"', '\'']);
        Key::ALL.into_iter().find(|key| key.name() == name)
    };
    let line =
        |key: Key, value: &str| format!("{} = {}\n", key.name(), toml::Value::String(value.to_owned()));
    let mut out = String::with_capacity(text.len() + 100);
    let mut written = Vec::new();
    for old in text.lines() {
        let key = key_of(old);
        if key.is_some_and(|key| remove.contains(&key)) {
            continue;
        }
        if let Some((key, value)) = set.iter().find(|(wanted, _)| Some(*wanted) == key) {
            out.push_str(&line(*key, value));
            written.push(*key);
        } else {
            out.push_str(old);
            out.push('\n');
        }
    }
    for (key, value) in set.iter().filter(|(key, _)| !written.contains(key)) {
        out.push_str(&line(*key, value));
    }
    out
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let beside = path.with_added_extension("part");
    let mut file = File::create(&beside)?;
    file.write_all(text.as_bytes())?;
    // Else a loss of power after the renaming could leave an empty file under the right name.
    file.sync_all()?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_wrote_stays() {
        let text = "# mine\nmemory = \"8GB\" # enough\n\nthreads = 2\n";
        let set = [(Key::Model, "/my models/k3 'è'"), (Key::Preset, "laptop")];
        let after = edited(text, &set, &[Key::Memory]);
        assert_eq!(after, "# mine\n\nthreads = 2\nmodel = \"/my models/k3 'è'\"\npreset = \"laptop\"\n");
        let again = edited(&after, &[(Key::Preset, "max")], &[]);
        assert_eq!(again, after.replace("laptop", "max"));
    }

    #[test]
    fn a_file_is_made_and_one_that_is_not_understood_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("deep/config");
        let paths = Paths { data: home.clone(), config: home.clone(), state: home };
        write(&paths, &[(Key::Model, "C:\\k3\"\n")], &[]).unwrap();
        let text = fs::read_to_string(paths.config_file()).unwrap();
        let layer = file::parse(&paths.config_file(), &text).unwrap();
        let settings = crate::config::Settings::resolve(&paths, layer).unwrap();
        assert_eq!(settings.get(Key::Model).unwrap().value, "C:\\k3\"\n");
        fs::write(paths.config_file(), "modle = \"k3\"\n").unwrap();
        assert!(matches!(write(&paths, &[(Key::Model, "x")], &[]), Err(Error::File { .. })));
        assert_eq!(fs::read_to_string(paths.config_file()).unwrap(), "modle = \"k3\"\n");
    }
}
