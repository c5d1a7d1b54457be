//! Tokenizer and chat format on the checkpoints of the repository.

#![expect(clippy::unwrap_used, reason = "a helper of a test may fail as the test itself")]

#[path = "chat/golden.rs"]
mod golden;
#[path = "chat/hostile.rs"]
mod hostile;
#[path = "chat/speed.rs"]
mod speed;

use std::path::Path;

use dormouse::tokenizer::Tokenizer;
use proptest::test_runner::{Config, RngSeed};

/// A file of the repository.
fn read(path: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn load(dir: &str, vocabulary: usize) -> Tokenizer {
    Tokenizer::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join(dir), vocabulary).unwrap()
}

/// The tokenizer of the tiny checkpoint: 512 ranks.
fn tiny() -> Tokenizer {
    load("tests/fixtures/tiny", 768)
}

/// The tokenizer of the small model that ships with the program: 2,048 ranks.
fn nano() -> Tokenizer {
    load("assets/nano", 2304)
}

/// The same cases in every run. More of them, and others: `PROPTEST_CASES`.
fn repeatable() -> Config {
    Config { rng_seed: RngSeed::Fixed(3), failure_persistence: None, ..Config::default() }
}
