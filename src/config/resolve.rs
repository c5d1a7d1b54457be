//! Which value of a setting counts, and where it came from.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use super::{Error, Paths, file, nearest};

/// A setting that the file, the environment or a flag may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Folder of the checkpoint.
    Model,
    /// Memory that the engine may use.
    Memory,
    /// The same by a name.
    Preset,
    /// Positions of the context.
    Context,
    /// How shards are read.
    Reader,
    /// Bytes that saved states may take on the disk.
    StateDisk,
    /// Threads that compute.
    Threads,
    /// How much the model thinks.
    Thinking,
    /// How freely tokens are drawn.
    Temperature,
    /// How many candidates are drawn from.
    TopP,
    /// How long the model may think.
    LimitThink,
    /// How long it may answer.
    LimitAnswer,
    /// How the screen looks.
    Theme,
}

impl Key {
    /// Every key.
    pub const ALL: [Self; 13] = [
        Self::Model,
        Self::Memory,
        Self::Preset,
        Self::Context,
        Self::Reader,
        Self::StateDisk,
        Self::Threads,
        Self::Thinking,
        Self::Temperature,
        Self::TopP,
        Self::LimitThink,
        Self::LimitAnswer,
        Self::Theme,
    ];

    /// The key of this name.
    pub fn named(name: &str) -> Result<Self, Error> {
        let key = Self::ALL.into_iter().find(|key| key.name() == name);
        key.ok_or_else(|| Error::Key {
            found: name.to_owned(),
            nearest: nearest(name, Self::ALL.map(Self::name)),
        })
    }

    /// The key that says the same thing in other words, if one does.
    pub const fn twin(self) -> Option<Self> {
        match self {
            Self::Memory => Some(Self::Preset),
            Self::Preset => Some(Self::Memory),
            _ => None,
        }
    }

    /// What counts where nobody wrote anything, in words.
    pub const fn default_in_words(self) -> &'static str {
        match self {
            Self::Model => "the small model that comes with the program",
            Self::Memory | Self::Preset | Self::Reader | Self::Theme => "auto",
            Self::Context => "as many as an eighth of the memory holds",
            Self::StateDisk => "16GiB",
            Self::Threads => "one for each physical core",
            Self::Thinking => "low",
            Self::Temperature => "the checkpoint's, else 1",
            Self::TopP => "the checkpoint's, else 0.95",
            Self::LimitThink | Self::LimitAnswer => "off",
        }
    }

    /// Its name in the config file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Memory => "memory",
            Self::Preset => "preset",
            Self::Context => "context",
            Self::Reader => "reader",
            Self::StateDisk => "state_disk",
            Self::Threads => "threads",
            Self::Thinking => "thinking",
            Self::Temperature => "temperature",
            Self::TopP => "top_p",
            Self::LimitThink => "limit_think",
            Self::LimitAnswer => "limit_answer",
            Self::Theme => "theme",
        }
    }

    /// Its flag.
    pub const fn flag(self) -> &'static str {
        match self {
            Self::Model => "--model",
            Self::Memory => "--memory",
            Self::Preset => "--preset",
            Self::Context => "--context",
            Self::Reader => "--reader",
            Self::StateDisk => "--state-disk",
            Self::Threads => "--threads",
            Self::Thinking => "--think",
            Self::Temperature => "--temperature",
            Self::TopP => "--top-p",
            Self::LimitThink => "--limit-think",
            Self::LimitAnswer => "--limit-answer",
            Self::Theme => "--theme",
        }
    }

    /// Its variable in the environment, where it has one.
    pub const fn variable(self) -> Option<&'static str> {
        match self {
            Self::Model => Some("DORMOUSE_MODEL"),
            Self::Memory => Some("DORMOUSE_MEMORY"),
            Self::Preset => Some("DORMOUSE_PRESET"),
            Self::Context => Some("DORMOUSE_CONTEXT"),
            Self::Reader => Some("DORMOUSE_READER"),
            Self::StateDisk => Some("DORMOUSE_STATE_DISK"),
            Self::Threads => Some("DORMOUSE_THREADS"),
            Self::Thinking => Some("DORMOUSE_THINK"),
            Self::Theme => Some("DORMOUSE_THEME"),
            Self::Temperature | Self::TopP | Self::LimitThink | Self::LimitAnswer => None,
        }
    }
}

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// In the config file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, counted from one.
        line: usize,
    },
    /// In the environment.
    Environment(&'static str),
    /// On the command line.
    Flag(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "from {}, line {line}", path.display()),
            Self::Environment(name) | Self::Flag(name) => write!(f, "from {name}"),
        }
    }
}

/// A value as it was written, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// What it sets.
    pub key: Key,
    /// As written.
    pub value: OsString,
    /// Where.
    pub source: Source,
}

impl Setting {
    /// The value, or a complaint that names it and its place.
    pub fn parse<T, E: fmt::Display>(&self, parser: impl FnOnce(&str) -> Result<T, E>) -> Result<T, Error> {
        let text = self.value.to_str().ok_or_else(|| self.wrong("it is not UTF-8"))?;
        parser(text).map_err(|problem| self.wrong(problem))
    }

    /// The value as a path. One from the config file is relative to that file's folder.
    pub fn path(&self) -> PathBuf {
        match &self.source {
            Source::File { path, .. } => path.parent().unwrap_or(Path::new("")).join(&self.value),
            Source::Environment(_) | Source::Flag(_) => PathBuf::from(&self.value),
        }
    }

    /// The complaint that this value has a `problem`.
    pub fn wrong(&self, problem: impl fmt::Display) -> Error {
        Error::Value {
            key: self.key,
            value: self.value.to_string_lossy().into_owned(),
            source_of: self.source.clone(),
            problem: problem.to_string(),
        }
    }
}

/// The settings of one place.
#[derive(Clone, Debug, Default)]
pub struct Layer(Vec<Setting>);

impl Layer {
    /// The values that were typed as flags.
    pub fn of_flags<'a>(flags: impl IntoIterator<Item = (Key, Option<&'a OsStr>)>) -> Self {
        let typed = flags.into_iter().filter_map(|(key, value)| {
            Some(Setting { key, value: value?.to_owned(), source: Source::Flag(key.flag()) })
        });
        Self(typed.collect())
    }

    /// The values in the environment, as `lookup` finds them. An empty variable is one that is not set.
    pub fn of_environment(lookup: impl Fn(&str) -> Option<OsString>) -> Self {
        let set = Key::ALL.into_iter().filter_map(|key| {
            let name = key.variable()?;
            let value = lookup(name).filter(|value| !value.is_empty())?;
            Some(Setting { key, value, source: Source::Environment(name) })
        });
        Self(set.collect())
    }

    pub(super) const fn new(settings: Vec<Setting>) -> Self {
        Self(settings)
    }

    fn find(&self, key: Key) -> Option<&Setting> {
        self.0.iter().find(|setting| setting.key == key)
    }
}

/// All settings, as far as anyone wrote them; a default stands where the setting is used.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The strongest first.
    layers: Vec<Layer>,
}

impl Settings {
    /// Reads the config file (where there is one) and the environment, and lays the flags over them.
    pub fn resolve(paths: &Paths, flags: Layer) -> Result<Self, Error> {
        let file = file::read(&paths.config_file())?;
        Ok(Self::of_layers(file, Layer::of_environment(|name| std::env::var_os(name)), flags))
    }

    pub(super) fn of_layers(file: Layer, environment: Layer, flags: Layer) -> Self {
        Self { layers: vec![flags, environment, file] }
    }

    /// What counts for `key`, if anyone wrote anything.
    pub fn get(&self, key: Key) -> Option<&Setting> {
        self.layers.iter().find_map(|layer| layer.find(key))
    }

    /// What counts of two keys that say the same thing in different words: whatever stands in the strongest place. Both in
    /// one place contradict each other.
    pub fn either(&self, keys: [Key; 2]) -> Result<Option<&Setting>, Error> {
        for layer in &self.layers {
            match keys.map(|key| layer.find(key)) {
                [Some(one), Some(other)] => return Err(Error::Both(Box::new([one.clone(), other.clone()]))),
                [Some(setting), None] | [None, Some(setting)] => return Ok(Some(setting)),
                [None, None] => {}
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(with_environment: bool, with_flag: bool) -> Settings {
        let file = file::parse(Path::new("/etc/config.toml"), "# mine\nmemory = \"1GiB\"\nmodel = \"k3\"\n")
            .unwrap();
        let environment = Layer::of_environment(|name| {
            (with_environment && name == "DORMOUSE_MEMORY").then(|| OsString::from("2GiB"))
        });
        let flags =
            Layer::of_flags([(Key::Memory, with_flag.then_some(OsStr::new("3GiB"))), (Key::Threads, None)]);
        Settings::of_layers(file, environment, flags)
    }

    #[test]
    fn flags_beat_the_environment_and_that_beats_the_file() {
        let memory =
            |settings: &Settings| settings.get(Key::Memory).map(|s| (s.value.clone(), s.source.to_string()));
        let expect = |value: &str, source: &str| Some((OsString::from(value), source.to_owned()));
        assert_eq!(memory(&layers(true, true)), expect("3GiB", "from --memory"));
        assert_eq!(memory(&layers(true, false)), expect("2GiB", "from DORMOUSE_MEMORY"));
        assert_eq!(memory(&layers(false, false)), expect("1GiB", "from /etc/config.toml, line 2"));
        assert_eq!(layers(true, true).get(Key::Threads), None);
    }

    #[test]
    fn a_complaint_names_value_and_place() {
        let settings = layers(true, false);
        let memory = settings.get(Key::Memory).unwrap();
        let error = memory.parse(|_| Err::<(), _>("too much")).unwrap_err().to_string();
        assert_eq!(error, "memory = \"2GiB\" (from DORMOUSE_MEMORY): too much");
    }

    #[test]
    fn a_path_in_the_file_is_relative_to_the_file() {
        assert_eq!(layers(false, false).get(Key::Model).unwrap().path(), Path::new("/etc/k3"));
        let flags = Layer::of_flags([(Key::Model, Some(OsStr::new("k3")))]);
        assert_eq!(Settings { layers: vec![flags] }.get(Key::Model).unwrap().path(), Path::new("k3"));
    }

    #[test]
    fn of_two_words_for_one_thing_the_stronger_place_counts() {
        let flags = |preset: Option<&'static str>, memory: Option<&'static str>| {
            Layer::of_flags([(Key::Preset, preset.map(OsStr::new)), (Key::Memory, memory.map(OsStr::new))])
        };
        let settings = |flags| Settings { layers: vec![flags, layers(true, false).layers.remove(1)] };
        let either = |settings: &Settings| {
            settings.either([Key::Memory, Key::Preset]).map(|setting| setting.map(|s| s.value.clone()))
        };
        assert_eq!(either(&settings(flags(Some("laptop"), None))).unwrap(), Some(OsString::from("laptop")));
        assert_eq!(either(&settings(flags(None, Some("1GiB")))).unwrap(), Some(OsString::from("1GiB")));
        assert_eq!(either(&settings(flags(None, None))).unwrap(), Some(OsString::from("2GiB")));
        assert_eq!(either(&Settings::default()).unwrap(), None);
        let error = either(&settings(flags(Some("laptop"), Some("1GiB")))).unwrap_err().to_string();
        assert!(
            error.contains("memory (from --memory)") && error.contains("preset (from --preset)"),
            "{error}"
        );
    }

    #[test]
    fn a_name_that_is_nearly_one_is_told_which() {
        let told = |name: &str| Key::named(name).unwrap_err().to_string();
        for (name, meant) in
            [("memmory", "memory"), ("top-p", "top_p"), ("Thread", "threads"), ("modle", "model")]
        {
            assert_eq!(told(name), format!("there is no setting `{name}`; did you mean `{meant}`?"));
        }
        assert_eq!(told("gpu\u{1b}"), "there is no setting `gpu\\u{1b}`");
        assert!(Key::ALL.into_iter().all(|key| Key::named(key.name()).unwrap() == key));
    }

    #[test]
    fn an_empty_variable_is_not_set() {
        let layer = Layer::of_environment(|_| Some(OsString::new()));
        assert!(layer.0.is_empty());
    }
}
