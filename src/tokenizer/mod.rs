//! Text to ids and back, as the released tokenizer does it (spec, section 2).
//!
//! `tiktoken.model` holds the bytes of every ordinary token, `tokenizer_config.json` names some of the 256 reserved
//! ids behind them. [`Tokenizer::encode`] reads text as text: a marker's spelling in it becomes ordinary tokens, so
//! that nobody can forge one. [`Tokenizer::encode_with_specials`] is for prompts that are given raw. [`Decoder`]
//! turns the bytes of a stream of tokens into whole characters.

mod bpe;
mod error;
mod pattern;
mod ranks;
mod special;
mod stream;

use std::path::Path;

use bpe::Merger;
pub use error::Error;
use pattern::Pattern;
pub(crate) use pattern::is_python_space;
use ranks::Ranks;
use special::Specials;
pub use special::{CLOSE, END_OF_MESSAGE, OPEN, SEP};
pub use stream::Decoder;

use crate::sys::file::read_small;

/// Ids behind the ranks that are reserved for markers.
pub const RESERVED: usize = 256;
/// The most that `tiktoken.model` may hold: the release has 2.8 MB.
const RANKS_LIMIT: u64 = 64 << 20;
/// The most that `tokenizer_config.json` may hold: the release has some tens of KB.
const CONFIG_LIMIT: u64 = 8 << 20;

/// The vocabulary of a checkpoint, and the way from text to its ids.
#[derive(Debug)]
pub struct Tokenizer {
    ranks: Ranks,
    specials: Specials,
    pattern: Pattern,
}

impl Tokenizer {
    /// Reads `tiktoken.model` and `tokenizer_config.json` in `dir`. `vocabulary` is the `vocab_size` of the model's
    /// config: the ranks must be `0..vocabulary - 256`, each once, and the last 256 ids are reserved.
    ///
    /// # Errors
    /// Anything else in these files; every [`Error`] names the place, what was expected and what was found.
    pub fn load(dir: &Path, vocabulary: usize) -> Result<Self, Error> {
        let wrong_size = || Error::Vocabulary { found: vocabulary };
        let count = vocabulary.checked_sub(RESERVED).filter(|&count| count >= 256).ok_or_else(wrong_size)?;
        let count = u32::try_from(count).ok().filter(|&n| n < u32::MAX - 256).ok_or_else(wrong_size)?;
        let path = dir.join("tiktoken.model");
        let ranks = Ranks::parse(&path, &read_small(&path, RANKS_LIMIT)?, count)?;
        let path = dir.join("tokenizer_config.json");
        let specials = Specials::parse(&path, &read_small(&path, CONFIG_LIMIT)?, count)?;
        Ok(Self { ranks, specials, pattern: Pattern::new()? })
    }

    /// Ids of `text` as ordinary text: the spelling of a marker in it is nothing special.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::with_capacity(text.len() / 3);
        self.encode_ordinary(text, &mut Merger::default(), &mut ids);
        ids
    }

    /// Ids of `text` in which the names of all 256 reserved ids stand for these ids; the text between them is
    /// ordinary. Where one name begins with another the longer one counts.
    pub fn encode_with_specials(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::with_capacity(text.len() / 3);
        let mut merger = Merger::default();
        let mut start = 0;
        for (range, id) in self.specials.find_all(text) {
            self.encode_ordinary(&text[start..range.start], &mut merger, &mut ids);
            ids.push(id);
            start = range.end;
        }
        self.encode_ordinary(&text[start..], &mut merger, &mut ids);
        ids
    }

    fn encode_ordinary(&self, text: &str, merger: &mut Merger, ids: &mut Vec<u32>) {
        self.pattern.for_each_piece(text, |piece| merger.encode(&self.ranks, piece.as_bytes(), ids));
    }

    /// The reserved id of this name, such as `<|open|>`.
    pub fn special(&self, name: &str) -> Option<u32> {
        self.specials.id(name)
    }

    /// Whether `id` is one of the reserved ones.
    pub fn is_special(&self, id: u32) -> bool {
        self.specials.name(id).is_some()
    }

    /// The bytes of a token, which may be part of a character; of a reserved id its name, which is
    /// `<|reserved_token_ID|>` where the files give it none. Nothing for an id outside the vocabulary.
    pub fn token(&self, id: u32) -> Option<&[u8]> {
        self.ranks.token(id).or_else(|| self.specials.name(id).map(str::as_bytes))
    }

    /// Ids in the vocabulary, reserved ones included.
    #[expect(clippy::len_without_is_empty, reason = "a vocabulary is never empty")]
    pub fn len(&self) -> usize {
        self.ranks.len() + RESERVED
    }

    /// The text of `ids`, reserved names included. Bytes that are no UTF-8 become U+FFFD; ids outside the vocabulary
    /// have no bytes and leave nothing.
    pub fn decode(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids.iter().filter_map(|&id| self.token(id)).flatten().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Property tests run the same cases each time; `PROPTEST_CASES` makes them more.
#[cfg(test)]
fn repeatable() -> proptest::test_runner::Config {
    use proptest::test_runner::{Config, RngSeed};
    Config { rng_seed: RngSeed::Fixed(3), failure_persistence: None, ..Config::default() }
}
