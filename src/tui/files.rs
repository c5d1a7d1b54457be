//! Files that the user asks for.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::width;

/// What stands before the name of a file that is to be replaced.
pub(super) const OVER: &str = "--over";

/// The path, with `~` for the user's home.
pub fn expand(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), directories::BaseDirs::new()) {
        (Ok(rest), Some(dirs)) => dirs.home_dir().join(rest),
        _ => path.to_owned(),
    }
}

/// Writes a text to a file, and says so, or why not. A file that is there is only replaced where `over` says so.
pub(super) fn write(path: &Path, text: &str, over: bool) -> String {
    let full = expand(path);
    let shown = width::clean_line(&full.display().to_string());
    match put(&full, text, over) {
        Ok(()) => format!("Written to {shown}."),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            format!("{shown} is there already; {OVER} before its name replaces it.")
        }
        Err(error) => format!("{shown} cannot be written: {error}"),
    }
}

fn put(path: &Path, text: &str, over: bool) -> io::Result<()> {
    let mut file =
        if over { File::create(path) } else { File::options().write(true).create_new(true).open(path) }?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_only_where_it_was_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.md");
        assert!(write(&path, "one", false).starts_with("Written to "));
        assert!(write(&path, "two", false).contains("is there already; --over"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
        assert!(write(&path, "two", true).starts_with("Written to "));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
        assert!(write(&dir.path().join("no/a.md"), "", false).contains("cannot be written: No such file"));
        assert!(!write(&dir.path().join("no\u{1b}]0;x\u{7}/a"), "", false).contains('\u{1b}'));
    }

    #[test]
    fn home_is_expanded_at_the_beginning_alone() {
        let home = directories::BaseDirs::new().unwrap().home_dir().to_owned();
        assert_eq!(expand(Path::new("~/a/b")), home.join("a/b"));
        assert_eq!(expand(Path::new("a/~/b")), Path::new("a/~/b"));
        assert_eq!(expand(Path::new("~other/b")), Path::new("~other/b"));
    }
}
