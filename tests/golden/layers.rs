//! The operators in their places: layers of the tiny checkpoint, computed by the engine's own forward pass, against what
//! the reference gives, and against what it gives with a mistake in one operator.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use dormouse::model::{Observer, Rows, State};

use crate::fixture::{Fixture, Outputs};
use crate::tiny::{self, Setup};

/// Fixtures that have a test here.
pub(crate) const TESTED: &[&str] =
    &["layer_kda", "layer_mla", "layer_mla_eps", "layer_moe", "model_residual"];

/// Keeps what one layer gives.
pub(crate) struct Tap {
    layer: usize,
    seen: Mutex<BTreeMap<&'static str, Vec<f32>>>,
}

impl Tap {
    pub(crate) const fn on(layer: usize) -> Self {
        Self { layer, seen: Mutex::new(BTreeMap::new()) }
    }

    fn keep(&self, name: &'static str, values: &[f32]) {
        self.seen.lock().unwrap().insert(name, values.to_vec());
    }

    pub(crate) fn take(self) -> BTreeMap<&'static str, Vec<f32>> {
        self.seen.into_inner().unwrap()
    }
}

impl Observer for Tap {
    fn mixer_output(&self, layer: usize, values: &[f32]) {
        if layer == self.layer {
            self.keep("mixer_output", values);
        }
    }

    fn layer_output(&self, layer: usize, values: &[f32]) {
        if layer == self.layer {
            self.keep("layer_output", values);
        }
    }

    fn final_norm(&self, values: &[f32]) {
        self.keep("final_norm", values);
    }
}

/// A copy of the tiny checkpoint in which some bf16 tensors are multiplied by a power of two, which loses nothing.
fn scaled_copy(scaled: &BTreeMap<String, i32>, to: &Path) {
    for file in std::fs::read_dir(tiny::folder()).unwrap().map(|file| file.unwrap().path()) {
        if file.is_file() {
            std::fs::write(to.join(file.file_name().unwrap()), std::fs::read(&file).unwrap()).unwrap();
        }
    }
    let index = std::fs::read(to.join("model.safetensors.index.json")).unwrap();
    let index: serde_json::Value = serde_json::from_slice(&index).unwrap();
    for (name, exponent) in scaled {
        let shard = to.join(index["weight_map"][name].as_str().unwrap());
        let mut bytes = std::fs::read(&shard).unwrap();
        let header = 8 + usize::try_from(u64::from_le_bytes(*bytes.first_chunk().unwrap())).unwrap();
        let entries: serde_json::Value = serde_json::from_slice(&bytes[8..header]).unwrap();
        assert_eq!(entries[name]["dtype"], "BF16");
        let place =
            |i: usize| header + usize::try_from(entries[name]["data_offsets"][i].as_u64().unwrap()).unwrap();
        for pair in bytes[place(0)..place(1)].as_chunks_mut::<2>().0 {
            let wide = f32::from_bits(u32::from(u16::from_le_bytes(*pair)) << 16) * 2.0f32.powi(*exponent);
            assert_eq!(wide.to_bits() & 0xffff, 0, "{name}: the product is no bf16");
            *pair = u16::try_from(wide.to_bits() >> 16).unwrap().to_le_bytes();
        }
        std::fs::write(&shard, bytes).unwrap();
    }
}

fn run(name: &str) {
    let fixture = Fixture::read(name);
    let copy = tempfile::tempdir().unwrap();
    let scaled = fixture.scaled();
    if !scaled.is_empty() {
        scaled_copy(&scaled, copy.path());
    }
    let folder = if scaled.is_empty() { tiny::folder() } else { copy.path().to_owned() };
    let mut model = Setup::default().open_at(&folder);
    let mut state = State::new(model.config());
    let tap = Tap::on(fixture.size("layer"));
    model.forward(&mut state, &fixture.ids(), Rows::All, &tap).unwrap();
    let mut seen = tap.take();
    let wanted: Vec<&str> = fixture.outputs().collect();
    seen.retain(|output, _| wanted.contains(output));
    fixture.judge(&seen as &Outputs).unwrap_or_else(|fault| panic!("{fault}"));
}

#[test]
fn a_kda_mixer() {
    run("layer_kda");
}

#[test]
fn an_mla_mixer() {
    run("layer_mla");
}

#[test]
fn an_mla_mixer_with_latents_near_the_epsilon() {
    run("layer_mla_eps");
}

#[test]
fn an_expert_layer() {
    run("layer_moe");
}

#[test]
fn the_residual_stream_through_all_layers() {
    run("model_residual");
}
