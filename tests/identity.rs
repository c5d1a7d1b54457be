//! Same bits: chunks, threads, slots, instruction sets, cached states and other sequences in the same pass change when
//! something is computed, and never what. Logits of every position are compared as bits.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[path = "support/tiny.rs"]
mod tiny;

use std::io::Write;
use std::sync::OnceLock;

use dormouse::kernels::Tier;
use dormouse::model::{Error, Model, Rows, Segment, State, Unwatched};
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

/// S04: also around the size of a chunk.
#[test]
fn s04_chunks_of_any_size() {
    let expected = plain();
    for chunk in [2, 3, 7, 63, 64, 65, IDS] {
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

/// The sequences of the tests below: where each begins among `ids`, how many of them it has, and how many of these it
/// takes into each pass.
const RAGGED: [(usize, usize, usize); 4] = [(0, 40, 1), (0, 33, 7), (20, 9, 2), (3, 50, 64)];

/// Sequences of different lengths in passes that they share, each in its own pieces, until all have come to their end.
/// Gives the logits of each.
fn together(setup: Setup, sequences: &[(usize, usize, usize)]) -> Vec<Vec<u32>> {
    let all = ids();
    let mut model = setup.open();
    let mut states: Vec<State> = sequences.iter().map(|_| State::new(model.config())).collect();
    let mut found = vec![Vec::new(); sequences.len()];
    loop {
        let mut members = Vec::new();
        let mut segments = Vec::new();
        for (member, (state, (begin, len, chunk))) in states.iter_mut().zip(sequences).enumerate() {
            let ids = &all[*begin..begin + len][state.len()..];
            let ids = &ids[..ids.len().min(*chunk)];
            members.push((member, ids.len()));
            // Sequences that came to their end stay, without a token.
            segments.push(Segment { state, ids, rows: Rows::All });
        }
        if members.iter().all(|(_, count)| *count == 0) {
            return found;
        }
        let logits = bits(&model.pass(&mut segments, &Unwatched).unwrap());
        let mut rows = logits.chunks_exact(768);
        for (member, count) in members {
            found[member].extend(rows.by_ref().take(count).flatten());
        }
        assert_eq!(rows.next(), None);
    }
}

/// The logits of each of these sequences, alone in the model.
fn alone(sequences: &[(usize, usize, usize)]) -> Vec<Vec<u32>> {
    let all = ids();
    let alone = |(begin, len, _): &(usize, usize, usize)| {
        let mut model = Setup::default().open();
        let mut state = State::new(model.config());
        bits(&logits(&mut model, &mut state, &all[*begin..begin + len], 1))
    };
    sequences.iter().map(alone).collect()
}

#[test]
fn several_sequences_in_one_pass() {
    let expected = alone(&RAGGED);
    assert_same("a sequence of its own", &expected[1], &plain()[..33 * 768]);
    for count in 2..=RAGGED.len() {
        for (threads, slots) in [(1, None), (3, Some(1)), (2, Some(40))] {
            let found = together(Setup { threads, slots, ..Setup::default() }, &RAGGED[..count]);
            for (member, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let what = format!("{member} of {count}, {threads} threads, {slots:?} slots");
                assert_same(&what, found, expected);
            }
        }
    }
    for tier in tiny::tiers() {
        let found = together(Setup { tier: Some(tier), threads: 2, ..Setup::default() }, &RAGGED);
        assert_same(tier.as_str(), &found.concat(), &expected.concat());
    }
}

#[test]
fn an_expert_is_read_once_for_all_sequences_of_a_pass() {
    let ids = ids();
    let read = |sequences: &[&[u32]]| {
        // Each expert's slot is needed by the next at once, so that none is found from an earlier pass.
        let mut model = Setup { slots: Some(1), ..Setup::default() }.open();
        let mut states: Vec<State> = sequences.iter().map(|_| State::new(model.config())).collect();
        let mut segments: Vec<Segment<'_>> = states
            .iter_mut()
            .zip(sequences)
            .map(|(state, ids)| Segment { state, ids, rows: Rows::None })
            .collect();
        assert!(model.pass(&mut segments, &Unwatched).unwrap().is_empty(), "no logits were wanted");
        let counters = model.store().counters();
        assert_eq!(counters.reads, counters.requests);
        counters.reads
    };
    let one = read(&[&ids[..1]]);
    assert_eq!(read(&[&ids[..1]; 4]), one, "four sequences that wake the same experts");
    let (first, second) = (read(&[&ids[..8]]), read(&[&ids[30..40]]));
    let both = read(&[&ids[..8], &ids[30..40]]);
    assert!(both < first + second && both >= first.max(second), "{first} and {second}, together {both}");
}

/// What cannot be computed is refused before anything is: the sequences beside it have lost nothing.
#[test]
fn a_bad_sequence_costs_the_others_nothing() {
    let (ids, expected) = (ids(), plain());
    let mut model = Setup::default().open();
    let (mut good, mut bad) = (State::new(model.config()), State::new(model.config()));
    let mut segments = [
        Segment { state: &mut good, ids: &ids[..5], rows: Rows::All },
        Segment { state: &mut bad, ids: &[768], rows: Rows::All },
    ];
    let refused = model.pass(&mut segments, &Unwatched);
    assert!(matches!(refused, Err(Error::Token { id: 768, .. })), "{refused:?}");
    let logits = bits(&model.forward(&mut good, &ids[..5], Rows::All, &Unwatched).unwrap());
    assert_same("after the refusal", &logits, &expected[..5 * 768]);
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
