//! What counts after flags, environment and config file, in the engine's own types.

use std::path::PathBuf;

use super::args::Common;
use crate::config::{self, Key, Layer, Paths, Preset, Setting, Settings as Written, Source};
use crate::engine::sampler;
use crate::protocol::{
    KnownRates, Limit, Limits, Measured, ParseLimitError, Sampling, Settings, StatesOnDisk, Thinking,
    UserError,
};
use crate::setup::{self, MeasuredRates, Measurement};
use crate::store::ReaderKind;
use crate::units::Bytes;

/// Far above any machine; each thread costs a stack.
const MOST_THREADS: usize = 1024;

/// Of the whole model about 25 states of some thousand positions; of a small one all that are of use.
const STATE_DISK: Bytes = Bytes(16 << 30);

/// Everything that both the chat and a headless run need to begin.
#[derive(Clone, Debug)]
pub(super) struct Resolved {
    /// Where the user's files lie.
    pub(super) paths: Paths,
    /// The checkpoint that the user named, if any.
    pub(super) model: Option<PathBuf>,
    /// Memory that the engine may use.
    pub(super) memory: Option<Bytes>,
    /// The same by a name, where it was named so.
    pub(super) preset: Option<Preset>,
    /// Positions of the context.
    pub(super) context: Option<usize>,
    /// How shards are read.
    pub(super) reader: Option<ReaderKind>,
    /// Bytes that saved states may take on the disk.
    pub(super) state_disk: Bytes,
    /// Threads that compute.
    pub(super) threads: Option<usize>,
    /// How much the model thinks.
    pub(super) thinking: Thinking,
    /// How tokens are drawn; without a seed.
    pub(super) sampling: Sampling,
    /// How long it may think and answer.
    pub(super) limits: Limits,
    /// Whether that was asked for now, and is not only what the user asks for as a rule.
    pub(super) limits_typed: bool,
    /// Which theme the user named, if any.
    pub(super) theme: Option<Setting>,
}

/// Reads the config file and the environment, and holds every value against what it may be.
pub(super) fn resolve(common: &Common) -> Result<Resolved, UserError> {
    let paths = Paths::of_user()?;
    let written = Written::resolve(&paths, Layer::of_flags(common.flags()))?;
    values(paths, &written)
}

/// Holds every value against what it may be.
pub(super) fn values(paths: Paths, written: &Written) -> Result<Resolved, UserError> {
    let thinking = written.get(Key::Thinking).map(|setting| setting.parse(str::parse::<Thinking>));
    let sampling = Sampling {
        temperature: written
            .get(Key::Temperature)
            .map(|s| s.parse(number(sampler::check_temperature)))
            .transpose()?,
        top_p: written.get(Key::TopP).map(|s| s.parse(number(sampler::check_top_p))).transpose()?,
        seed: None,
    };
    Ok(Resolved {
        model: written.get(Key::Model).map(folder).transpose()?,
        memory: memory(written)?,
        preset: preset(written)?,
        context: written.get(Key::Context).map(|s| s.parse(positions)).transpose()?,
        reader: written.get(Key::Reader).map(|s| s.parse(reader)).transpose()?.flatten(),
        state_disk: written
            .get(Key::StateDisk)
            .map(|s| s.parse(str::parse::<Bytes>))
            .transpose()?
            .unwrap_or(STATE_DISK),
        threads: written.get(Key::Threads).map(|s| s.parse(threads)).transpose()?,
        thinking: thinking.transpose()?.unwrap_or_default(),
        theme: written.get(Key::Theme).cloned(),
        sampling,
        limits_typed: [Key::LimitThink, Key::LimitAnswer]
            .into_iter()
            .any(|key| written.get(key).is_some_and(|setting| matches!(setting.source, Source::Flag(_)))),
        limits: Limits {
            think: written.get(Key::LimitThink).map(|s| s.parse(limit)).transpose()?.flatten(),
            answer: written.get(Key::LimitAnswer).map(|s| s.parse(limit)).transpose()?.flatten(),
        },
        paths,
    })
}

impl Resolved {
    /// What to load. Lays out the small model where the user names no other.
    pub(super) fn settings(&self) -> Result<Settings, UserError> {
        let model = match &self.model {
            Some(folder) => folder.clone(),
            None => setup::ensure(&self.paths)?,
        };
        Ok(self.settings_for(model))
    }

    /// What to load of the model in this folder.
    pub(super) fn settings_for(&self, model: PathBuf) -> Settings {
        let measured = MeasuredRates::read(&self.paths);
        let known = |measurement: Measurement| Measured {
            bytes_per_s: measurement.rate().whole(),
            day: measurement.day(),
        };
        let rates = KnownRates {
            disk: measured.disk(&model, self.reader).map(known),
            compute: measured.compute().map(known),
        };
        Settings {
            model,
            memory: self.memory,
            threads: self.threads,
            context: self.context,
            together: None,
            reader: self.reader.map(|kind| kind.as_str().to_owned()),
            rates,
            states: Some(StatesOnDisk { folder: self.paths.states(), most: self.state_disk }),
        }
    }
}

/// A size, or a preset's; nothing where it is left to the machine.
fn memory(written: &Written) -> Result<Option<Bytes>, UserError> {
    let Some(setting) = written.either([Key::Memory, Key::Preset])? else { return Ok(None) };
    Ok(match setting.key {
        Key::Preset => setting.parse(str::parse::<Preset>)?.memory(),
        _ => Some(setting.parse(str::parse::<Bytes>)?),
    })
}

/// The name of a size, where one was written.
fn preset(written: &Written) -> Result<Option<Preset>, UserError> {
    let setting = written.either([Key::Memory, Key::Preset])?.filter(|setting| setting.key == Key::Preset);
    Ok(setting.map(|setting| setting.parse(str::parse::<Preset>)).transpose()?)
}

/// A folder. An empty name would be the current one, which nobody means.
fn folder(setting: &Setting) -> Result<PathBuf, config::Error> {
    if setting.value.is_empty() { Err(setting.wrong("it names no folder")) } else { Ok(setting.path()) }
}

fn positions(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(0) => Err("a context needs at least one position".to_owned()),
        Ok(count) => Ok(count),
        Err(_unread) => Err("it must be a whole number of positions".to_owned()),
    }
}

/// A limit; nothing for `off`.
fn limit(text: &str) -> Result<Option<Limit>, ParseLimitError> {
    if text == "off" { Ok(None) } else { text.parse().map(Some) }
}

/// A way to read; nothing for `auto`, which is what the program finds to work.
fn reader(text: &str) -> Result<Option<ReaderKind>, String> {
    if text == "auto" { Ok(None) } else { text.parse().map(Some) }
}

fn threads(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(count @ 1..=MOST_THREADS) => Ok(count),
        _ => Err(format!("it must be a whole number from 1 to {MOST_THREADS}")),
    }
}

/// A parser of numbers that `check` accepts.
fn number(check: fn(f32) -> Result<f32, sampler::Error>) -> impl Fn(&str) -> Result<f32, String> {
    move |text| {
        let value = text.parse::<f32>().ok().ok_or_else(|| "it must be a number, like 0.7".to_owned())?;
        check(value).map_err(|error| error.to_string())
    }
}
