//! The config file: `config.toml`, a flat table of the keys of [`Key`].

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use toml::{Spanned, Value};

use super::{Error, Key, Layer, Setting, Source};
use crate::sys::file;

/// Nobody writes more settings than this.
const LIMIT: u64 = 1 << 20;

/// Keys and values, each with its place in the text.
pub(super) type Written = BTreeMap<Spanned<String>, Spanned<Value>>;

/// What the file says; nothing where there is no file.
pub(super) fn read(path: &Path) -> Result<Layer, Error> {
    parse(path, &text(path)?)
}

/// The text of the file; an empty one where there is no file.
pub(super) fn text(path: &Path) -> Result<String, Error> {
    let bytes = match file::read_small(path, LIMIT) {
        Ok(bytes) => bytes,
        Err(error) if error.is_not_found() => return Ok(String::new()),
        Err(error) => return Err(error.into()),
    };
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes().iter().take(valid).filter(|byte| **byte == b'\n').count();
        Error::File { path: path.to_owned(), line, problem: "it is not UTF-8".to_owned() }
    })
}

/// What `text` says, which was read from `path`.
pub(super) fn parse(path: &Path, text: &str) -> Result<Layer, Error> {
    let mut settings = Vec::new();
    for (name, value) in written(path, text)? {
        let line = line(text, &name.span());
        let wrong = |problem| Error::File { path: path.to_owned(), line, problem };
        let key = Key::named(name.get_ref()).map_err(|error| wrong(error.to_string()))?;
        let value = match value.into_inner() {
            Value::String(text) => text,
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            other => {
                let found = other.type_str();
                return Err(wrong(format!("{} must be text or a number, found {found}", key.name())));
            }
        };
        let source = Source::File { path: path.to_owned(), line };
        settings.push(Setting { key, value: value.into(), source });
    }
    Ok(Layer::new(settings))
}

/// Keys and values as they stand in `text`, whatever they are.
pub(super) fn written(path: &Path, text: &str) -> Result<Written, Error> {
    toml::from_str(text).map_err(|error| Error::File {
        path: path.to_owned(),
        line: line(text, &error.span().unwrap_or_default()),
        problem: error.message().to_owned(),
    })
}

/// The line in which a part of `text` begins, counted from one.
fn line(text: &str, span: &Range<usize>) -> usize {
    1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        parse(Path::new("config.toml"), text).unwrap_err().to_string()
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line() {
        let error = problem("memory = 4096\n\nmemmory = \"1GiB\"\n");
        assert_eq!(error, "config.toml, line 3: there is no setting `memmory`; did you mean `memory`?");
        let error = problem("[memory]\nsize = 1\n");
        assert!(error.starts_with("config.toml, line 1: memory must be text or a number"), "{error}");
        assert!(problem("models.path = \"k3\"\n").contains("line 1: there is no setting `models`"));
    }

    #[test]
    fn broken_toml_and_wrong_types_are_refused_with_their_line() {
        assert!(problem("threads = 2\nmodel = \n").starts_with("config.toml, line 2: "));
        let error = problem("threads = 2\nmodel = [\"a\"]\n");
        assert_eq!(error, "config.toml, line 2: model must be text or a number, found array");
        assert!(problem("threads = 2\nthreads = 3\n").starts_with("config.toml, line 2: "));
    }

    #[test]
    fn no_file_is_no_setting_and_a_binary_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        assert!(read(&path).is_ok());
        std::fs::write(&path, b"threads = 2\n\xff\n").unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.ends_with("line 2: it is not UTF-8"), "{error}");
    }
}
