//! The config file: `config.toml`, a flat table of the keys of [`Key`].

use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use toml::{Spanned, Value};

use super::{Error, Key, Layer, Setting, Source};
use crate::sys::file;

/// Nobody writes more settings than this.
pub(super) const LIMIT: u64 = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    model: Option<Spanned<Value>>,
    memory: Option<Spanned<Value>>,
    preset: Option<Spanned<Value>>,
    context: Option<Spanned<Value>>,
    reader: Option<Spanned<Value>>,
    state_disk: Option<Spanned<Value>>,
    threads: Option<Spanned<Value>>,
    thinking: Option<Spanned<Value>>,
    temperature: Option<Spanned<Value>>,
    top_p: Option<Spanned<Value>>,
    limit_think: Option<Spanned<Value>>,
    limit_answer: Option<Spanned<Value>>,
}

impl Written {
    fn take(&mut self, key: Key) -> Option<Spanned<Value>> {
        match key {
            Key::Model => self.model.take(),
            Key::Memory => self.memory.take(),
            Key::Preset => self.preset.take(),
            Key::Context => self.context.take(),
            Key::Reader => self.reader.take(),
            Key::StateDisk => self.state_disk.take(),
            Key::Threads => self.threads.take(),
            Key::Thinking => self.thinking.take(),
            Key::Temperature => self.temperature.take(),
            Key::TopP => self.top_p.take(),
            Key::LimitThink => self.limit_think.take(),
            Key::LimitAnswer => self.limit_answer.take(),
        }
    }
}

/// What the file says; nothing where there is no file.
pub(super) fn read(path: &Path) -> Result<Layer, Error> {
    let bytes = match file::read_small(path, LIMIT) {
        Ok(bytes) => bytes,
        Err(error) if error.is_not_found() => return Ok(Layer::default()),
        Err(error) => return Err(error.into()),
    };
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes().iter().take(valid).filter(|byte| **byte == b'\n').count();
        Error::File { path: path.to_owned(), line, problem: "it is not UTF-8".to_owned() }
    })?;
    parse(path, &text)
}

/// What `text` says, which was read from `path`.
pub(super) fn parse(path: &Path, text: &str) -> Result<Layer, Error> {
    let line = |span: Range<usize>| 1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count();
    let wrong = |line, problem| Error::File { path: path.to_owned(), line, problem };
    let mut written: Written = toml::from_str(text)
        .map_err(|error| wrong(line(error.span().unwrap_or_default()), error.message().to_owned()))?;
    let mut settings = Vec::new();
    for key in Key::ALL {
        let Some(value) = written.take(key) else { continue };
        let line = line(value.span());
        let value = match value.into_inner() {
            Value::String(text) => text,
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            other => {
                let problem = format!("{} must be text or a number, found {}", key.name(), other.type_str());
                return Err(wrong(line, problem));
            }
        };
        let source = Source::File { path: path.to_owned(), line };
        settings.push(Setting { key, value: value.into(), source });
    }
    Ok(Layer::new(settings))
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
        assert!(error.starts_with("config.toml, line 3: unknown field `memmory`"), "{error}");
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
