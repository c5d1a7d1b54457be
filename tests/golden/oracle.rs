//! The whole model against what the released code computes on the tiny checkpoint in f32 (spec, section 6).
//!
//! On the tier that `DORMOUSE_CPU` names, else on the best one: all tiers give the same bits (`tests/identity.rs`).

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Mutex;

use dormouse::model::{Observer, Rows, State, Unwatched};
use serde::Deserialize;

use crate::array::{f32s, npy, npz};
use crate::tiny::{self, Setup};

/// Two correct passes in f32 differ by 1e-4 in this network.
const TOLERANCE: f32 = 1e-3;

/// A prompt and its greedy continuation.
#[derive(Deserialize)]
struct Golden {
    prompt_ids: Vec<u32>,
    generated: Vec<u32>,
}

fn bytes(file: &str) -> Vec<u8> {
    std::fs::read(tiny::folder().join("golden").join(file)).unwrap()
}

fn golden(file: &str) -> Golden {
    serde_json::from_slice(&bytes(file)).unwrap()
}

/// Gives the largest difference.
fn assert_close(what: &str, ours: &[f32], theirs: &[f32]) -> f32 {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    let mut largest = 0.0f32;
    for (i, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        let difference = (ours - theirs).abs();
        // A NaN is not close to anything.
        assert!(difference <= TOLERANCE, "{what}, value {i}: {ours} and {theirs}");
        largest = largest.max(difference);
    }
    largest
}

/// Says what a test found, past the harness, so that a run shows on which tier it was and how close it came.
fn report(what: &str, largest: f32) {
    let tier = Setup::default().kernels().tier().as_str();
    writeln!(std::io::stderr(), "oracle: {what} on {tier}: largest difference {largest:.1e}").unwrap();
}

fn likeliest(logits: &[f32]) -> u32 {
    let (id, _) = logits
        .iter()
        .enumerate()
        .fold((0, f32::NEG_INFINITY), |best, (i, x)| if *x > best.1 { (i, *x) } else { best });
    u32::try_from(id).unwrap()
}

#[test]
fn greedy_ids_and_the_logits_of_every_position() {
    let golden = golden("ids.json");
    assert_eq!(golden.generated.len(), 24);
    let all = npy(&bytes("ids.all.npy"));
    let mut rows = all.data.chunks_exact(all.shape[1]);
    assert_eq!(all.shape[0], golden.prompt_ids.len() + golden.generated.len() - 1);

    let mut model = Setup::default().open();
    let mut state = State::new(model.config());
    let prompt = model.forward(&mut state, &golden.prompt_ids, Rows::All, &Unwatched).unwrap();
    let (mut last, mut largest) = (Vec::new(), 0.0f32);
    for (i, logits) in prompt.chunks_exact(all.shape[1]).enumerate() {
        largest = largest.max(assert_close(&format!("position {i}"), logits, rows.next().unwrap()));
        last = logits.to_vec();
    }
    assert_close("last position of the prompt", &last, &f32s(&bytes("ids.logits.f32")));
    for (step, expected) in golden.generated.iter().enumerate() {
        let id = likeliest(&last);
        assert_eq!(id, *expected, "step {step}");
        if let Some(row) = rows.next() {
            last = model.forward(&mut state, &[id], Rows::Last, &Unwatched).unwrap();
            largest = largest.max(assert_close(&format!("step {step}"), &last, row));
        }
    }
    assert!(rows.next().is_none(), "rows that were not compared");
    report("logits of 33 positions", largest);
}

#[test]
fn greedy_ids_after_a_conversation() {
    let golden = golden("chat.json");
    assert!(golden.prompt_ids.len() > 200 && golden.generated.len() == 8);
    let mut model = Setup::default().open();
    let mut state = State::new(model.config());
    let mut last = model.forward(&mut state, &golden.prompt_ids, Rows::Last, &Unwatched).unwrap();
    let largest = assert_close("last position of the prompt", &last, &f32s(&bytes("chat.logits.f32")));
    report("logits after a conversation", largest);
    for (step, expected) in golden.generated.iter().enumerate() {
        let id = likeliest(&last);
        assert_eq!(id, *expected, "step {step}");
        last = model.forward(&mut state, &[id], Rows::Last, &Unwatched).unwrap();
    }
}

/// Keeps what every layer gives, by the names of `ids.layers.npz`.
#[derive(Default)]
struct Layers(Mutex<BTreeMap<String, Vec<f32>>>);

impl Layers {
    fn keep(&self, name: &str, values: &[f32]) {
        assert_eq!(
            self.0.lock().unwrap().insert(name.to_owned(), values.to_vec()),
            None,
            "{name} came twice"
        );
    }
}

impl Observer for Layers {
    fn mixer_output(&self, layer: usize, values: &[f32]) {
        self.keep(&format!("layer_{layer:02}_attn_out"), values);
    }

    fn layer_output(&self, layer: usize, values: &[f32]) {
        self.keep(&format!("layer_{layer:02}_prefix_sum"), values);
    }

    fn final_norm(&self, values: &[f32]) {
        self.keep("final_norm", values);
    }
}

#[test]
fn every_layers_values() {
    let expected = npz(&bytes("ids.layers.npz"));
    assert_eq!(expected.len(), 13 * 2 + 1);
    let layers = Layers::default();
    let mut model = Setup::default().open();
    let mut state = State::new(model.config());
    model.forward(&mut state, &golden("ids.json").prompt_ids, Rows::All, &layers).unwrap();
    let found = layers.0.into_inner().unwrap();
    assert!(found.keys().eq(expected.keys()));
    let mut largest = 0.0f32;
    for (name, array) in &expected {
        largest = largest.max(assert_close(name, &found[name], &array.data));
    }
    report("values of all layers", largest);
}
