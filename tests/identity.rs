//! Same bits: chunks, threads, slots, instruction sets and cached states change when something is computed, and never
//! what. Logits of every position are compared as bits.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[path = "support/tiny.rs"]
mod tiny;

use std::io::Write;
use std::sync::OnceLock;

use dormouse::kernels::Tier;
use dormouse::model::{Model, Rows, State, Unwatched};
use tiny::Setup;

/// Enough ids that a chunk of 64 does not hold them all.
const IDS: usize = 80;

/// The same ids every time, of the whole vocabulary.
fn ids() -> Vec<u32> {
    let mut state = 12_345u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % 768
    };
    (0..IDS).map(|_| next()).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// The logits of every one of `ids`, which are computed in chunks of `chunk` after what `state` holds.
fn logits(model: &mut Model, state: &mut State, ids: &[u32], chunk: usize) -> Vec<f32> {
    let mut all = Vec::new();
    for ids in ids.chunks(chunk) {
        all.extend(model.forward(state, ids, Rows::All, &Unwatched).unwrap());
    }
    all
}

/// All ids in chunks, by a model of its own.
fn run(setup: Setup, chunk: usize) -> Vec<u32> {
    let mut model = setup.open();
    let mut state = State::new(model.config());
    let logits = bits(&logits(&mut model, &mut state, &ids(), chunk));
    assert_eq!(state.len(), IDS);
    logits
}

/// One id at a time, on one thread, with all experts in memory.
fn plain() -> &'static [u32] {
    static BITS: OnceLock<Vec<u32>> = OnceLock::new();
    BITS.get_or_init(|| run(Setup::default(), 1))
}

/// Not `assert_eq`, which would print 60,000 numbers.
fn assert_same(what: &str, found: &[u32], expected: &[u32]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    if let Some(i) = (0..found.len()).find(|i| found[*i] != expected[*i]) {
        let (position, token) = (i / 768, i % 768);
        let (found, expected) = (f32::from_bits(found[i]), f32::from_bits(expected[i]));
        panic!("{what}: position {position}, token {token}: {found:e}, not {expected:e}");
    }
}

#[test]
fn chunks_of_any_size() {
    let expected = plain();
    for chunk in [2, 3, 7, 64, IDS] {
        assert_same(&format!("chunks of {chunk}"), &run(Setup::default(), chunk), expected);
    }
}

#[test]
fn any_number_of_threads() {
    let expected = plain();
    for threads in [2, 5] {
        for chunk in [1, 7, IDS] {
            let found = run(Setup { threads, ..Setup::default() }, chunk);
            assert_same(&format!("{threads} threads, chunks of {chunk}"), &found, expected);
        }
    }
}

#[test]
fn a_cache_of_one_slot_and_of_all() {
    let ids = ids();
    let expected = plain();
    let mut reads = Vec::new();
    for slots in [Some(1), Some(100), None] {
        for chunk in [1, 7] {
            let mut model = Setup { slots, ..Setup::default() }.open();
            let mut state = State::new(model.config());
            let found = bits(&logits(&mut model, &mut state, &ids, chunk));
            assert_same(&format!("{slots:?} slots, chunks of {chunk}"), &found, expected);
            let counters = model.store().counters();
            assert!(counters.requests >= counters.reads && counters.resident <= counters.requests);
            reads.push(counters.reads);
        }
    }
    // The caches did work differently: with one slot every request is a read, with all of them none comes twice.
    assert!(reads[0] > reads[2] && reads[2] > reads[4], "{reads:?}");
    assert!(reads[4] <= 12 * 16, "{reads:?}");
}

#[test]
fn every_instruction_tier() {
    let scalar = run(Setup { tier: Some(Tier::Scalar), ..Setup::default() }, 1);
    for tier in tiny::tiers() {
        for chunk in [1, IDS] {
            let found = run(Setup { tier: Some(tier), ..Setup::default() }, chunk);
            assert_same(&format!("{}, chunks of {chunk}", tier.as_str()), &found, &scalar);
        }
    }
    let name = Setup::default().kernels().tier().as_str();
    assert_same(name, plain(), &scalar);
    let all: Vec<&str> = tiny::tiers().map(Tier::as_str).collect();
    // Past the harness, so that a run shows what it covered.
    writeln!(std::io::stderr(), "identity: tiers {}; the other tests ran on {name}", all.join(", ")).unwrap();
}

#[test]
fn everything_at_once() {
    let setup = Setup { tier: Some(Tier::Scalar), threads: 5, slots: Some(1) };
    assert_same("scalar, 5 threads, 1 slot, chunks of 3", &run(setup, 3), plain());
}

#[test]
fn a_cached_continuation_and_a_fresh_run() {
    let (ids, expected) = (ids(), plain());
    let mut model = Setup::default().open();
    let mut state = State::new(model.config());
    let begun = bits(&logits(&mut model, &mut state, &ids[..33], 33));
    assert_same("the beginning", &begun, &expected[..33 * 768]);

    // Another sequence in between must leave no trace, and neither may a first attempt from a copy.
    let mut other = State::new(model.config());
    logits(&mut model, &mut other, &ids[5..25], 20);
    let mut copy = state.clone();
    let first = bits(&logits(&mut model, &mut copy, &ids[33..], 9));
    assert_same("from a copy", &first, &expected[33 * 768..]);
    let second = bits(&logits(&mut model, &mut state, &ids[33..], 64));
    assert_same("from the state itself", &second, &expected[33 * 768..]);
}

#[test]
fn the_last_row_alone_and_among_all() {
    let (ids, expected) = (ids(), plain());
    let mut model = Setup::default().open();
    let mut state = State::new(model.config());
    for ids in ids.chunks(7) {
        let last = model.forward(&mut state, ids, Rows::Last, &Unwatched).unwrap();
        let at = state.len() * 768;
        assert_same("the last row", &bits(&last), &expected[at - 768..at]);
    }
}

/// The other tests could not fail if logits did not depend on what came before.
#[test]
fn another_id_gives_other_bits_from_its_place_on() {
    let expected = plain();
    let mut ids = ids();
    ids[40] = (ids[40] + 1) % 768;
    let mut model = Setup::default().open();
    let mut state = State::new(model.config());
    let found = bits(&logits(&mut model, &mut state, &ids, 64));
    assert_same("before it", &found[..40 * 768], &expected[..40 * 768]);
    for position in 40..IDS {
        let row = position * 768..(position + 1) * 768;
        assert!(found[row.clone()] != expected[row], "position {position} does not see it");
    }
}
