//! Reading `generation_config.json`: what the checkpoint recommends for sampling.

use std::path::Path;

use super::fields::{Fields, document};
use super::parse::FILE_LIMIT;
use crate::checkpoint::error::Error;
use crate::sys::file;

/// What a `generation_config.json` says; every field may be missing, as most are in the release.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerationConfig {
    /// Temperature, from 0 (always the likeliest token) to 100.
    pub temperature: Option<f32>,
    /// Share of the probability that is sampled from: above 0, at most 1.
    pub top_p: Option<f32>,
    /// Whether to sample at all.
    pub do_sample: Option<bool>,
    /// Ids that end a turn, none if the file names none.
    pub eos_ids: Vec<u32>,
    /// Longest sequence in tokens.
    pub max_length: Option<usize>,
}

impl GenerationConfig {
    /// Name of the file in the model's folder.
    pub const FILE: &'static str = "generation_config.json";

    /// Reads and checks the file in the folder `dir`, where it must be.
    pub fn read(dir: &Path) -> Result<Self, Error> {
        let path = dir.join(Self::FILE);
        Self::parse(&path, &file::read_small(&path, FILE_LIMIT)?)
    }

    /// Checks the text of the file. `file` names it in messages.
    pub fn parse(file: &Path, text: &[u8]) -> Result<Self, Error> {
        let (file, map) = document(file, text)?;
        let root = Fields::root(&file, &map);
        Ok(Self {
            temperature: root.optional_number("temperature", "a number from 0 to 100", |value| {
                (0.0..=100.0).contains(&value)
            })?,
            top_p: root.optional_number("top_p", "a number above 0 and at most 1", |value| {
                value > 0.0 && value <= 1.0
            })?,
            do_sample: root.optional_boolean("do_sample")?,
            eos_ids: root.optional_ids("eos_token_id")?,
            max_length: root.optional_integer("max_length", 1..=1 << 31)?,
        })
    }

    /// Holds the ids against the size of the vocabulary.
    pub(in crate::checkpoint) fn check_ids(&self, vocabulary: usize) -> Result<(), Error> {
        let outside = self.eos_ids.iter().find(|&&id| usize::try_from(id).is_ok_and(|id| id >= vocabulary));
        let Some(id) = outside else { return Ok(()) };
        Err(Error::Field {
            file: Self::FILE.to_owned(),
            field: "eos_token_id".to_owned(),
            expected: format!("ids below {vocabulary} (config.json: text_config.vocab_size)"),
            found: id.to_string(),
        })
    }
}
