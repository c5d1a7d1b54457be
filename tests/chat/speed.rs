//! Sizes at which a quadratic step would show. The bounds are generous: the tests run without optimisation too, and on
//! busy machines.

use std::fmt::Write;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dormouse::tokenizer::Tokenizer;

use super::read;

/// Ranks of the release.
const RANKS: usize = 163_584;

/// Writes a tokenizer with as many ranks as the release has: all bytes, runs of up to 64 equal characters, as real
/// vocabularies have them, and numbers.
fn release_sized() -> tempfile::TempDir {
    let runs = (2..=64).flat_map(|len| ["a", " ", "\n", "-"].map(|c| c.repeat(len).into_bytes()));
    let bytes = (0..=u8::MAX).map(|byte| vec![byte]);
    let numbers = (0..).map(|n| format!(" {n}").into_bytes());
    let mut lines = String::new();
    for (rank, token) in bytes.chain(runs).chain(numbers).take(RANKS).enumerate() {
        writeln!(lines, "{} {rank}", STANDARD.encode(token)).unwrap();
    }
    let mut config: serde_json::Value =
        serde_json::from_slice(&read("tests/fixtures/tiny/tokenizer_config.json")).unwrap();
    let entries = config["added_tokens_decoder"].as_object_mut().unwrap();
    let moved = |id: &str| (id.parse::<usize>().unwrap() + RANKS - 512).to_string();
    *entries = entries.iter().map(|(id, entry)| (moved(id), entry.clone())).collect();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("tiktoken.model"), lines).unwrap();
    std::fs::write(dir.path().join("tokenizer_config.json"), config.to_string()).unwrap();
    dir
}

#[test]
fn a_vocabulary_of_the_size_of_the_release_loads_in_a_moment() {
    let dir = release_sized();
    let start = Instant::now();
    let tokenizer = Tokenizer::load(dir.path(), RANKS + 256).unwrap();
    let took = start.elapsed();
    println!("{took:?} to load");
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert_eq!(tokenizer.len(), 163_840);
    assert_eq!(tokenizer.special("<|open|>"), Some(163_587));
    assert_eq!(tokenizer.decode(&[163_587, 163_583, 163_600]), "<|open|> 163075<|reserved_token_163600|>");
}

#[test]
fn a_megabyte_of_anything_encodes_in_a_moment() {
    let dir = release_sized();
    let tokenizer = Tokenizer::load(dir.path(), RANKS + 256).unwrap();
    let mixed = "Once upon a time, 3 foxes met: \"你好\" café 🎉\n\n\tfn main() { x += 1; }  \r\n";
    for unit in [
        "a", "A", " ", "\n", "\t ", " \n", "0", "-", "=\n", "你", "ไ", "é", "🎉", "'s", "aB", "\u{301}",
        "<|", mixed,
    ] {
        let text = unit.repeat((1 << 20) / unit.len());
        let start = Instant::now();
        let ids = tokenizer.encode(&text);
        let took = start.elapsed();
        println!("{took:?} for {} ids of {unit:?}", ids.len());
        assert!(took < Duration::from_secs(8), "{took:?} for {unit:?}");
        assert_eq!(tokenizer.decode(&ids), text);
        if unit == "a" {
            // 25,000 at a time, in runs of at most 64.
            assert!(ids.len() < text.len() / 40, "{} ids", ids.len());
        }
    }
}
