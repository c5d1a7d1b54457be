//! Fixtures of operators: inputs, what is right, and what plausible mistakes would give.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::tiny;

/// A mistake must miss by this many tolerances (`MARGIN` in `scripts/reference/case.py`).
const MARGIN: f64 = 20.0;

/// Outputs of an operator by name.
pub(crate) type Outputs = BTreeMap<&'static str, Vec<f32>>;

/// One file of `tests/fixtures/ops`.
#[derive(Debug, Deserialize)]
pub(crate) struct Fixture {
    operator: String,
    params: serde_json::Value,
    tolerance: f64,
    inputs: BTreeMap<String, Array>,
    expected: BTreeMap<String, Array>,
    mistakes: BTreeMap<String, BTreeMap<String, Array>>,
}

#[derive(Debug, Deserialize)]
struct Array {
    shape: Vec<usize>,
    #[serde(default)]
    data: Vec<Option<f64>>,
    #[serde(default)]
    hex: String,
}

impl Fixture {
    pub(crate) fn read(name: &str) -> Self {
        let path = tiny::fixtures().join("ops").join(name).with_extension("json");
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let fixture: Self = serde_json::from_str(&text).unwrap();
        assert_eq!(fixture.operator, name);
        fixture
    }

    /// Names of all fixtures there are.
    pub(crate) fn names() -> BTreeSet<String> {
        let files = std::fs::read_dir(tiny::fixtures().join("ops")).unwrap();
        files.map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect()
    }

    fn input(&self, name: &str) -> &Array {
        self.inputs.get(name).unwrap_or_else(|| panic!("{} has no input {name}", self.operator))
    }

    /// An input in f32, which holds it exactly.
    pub(crate) fn f32s(&self, name: &str) -> Vec<f32> {
        let exact = |x: &Option<f64>| {
            let (x, near) = (x.unwrap(), narrow(x.unwrap()));
            // `serde_json` reads an f64 to within a unit of its last place.
            assert!((f64::from(near) - x).abs() <= x.abs() * 1e-15, "{}: {name}: {x} in f32", self.operator);
            near
        };
        self.input(name).data.iter().map(exact).collect()
    }

    /// An input in bf16, which holds it exactly.
    pub(crate) fn bf16s(&self, name: &str) -> Vec<u16> {
        let halves = |x: f32| {
            assert_eq!(x.to_bits() & 0xffff, 0, "{}: {name} in bf16", self.operator);
            u16::try_from(x.to_bits() >> 16).unwrap()
        };
        self.f32s(name).into_iter().map(halves).collect()
    }

    /// An input of bytes.
    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        let digits = self.input(name).hex.as_bytes();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks_exact(2).map(byte).collect()
    }

    /// One dimension of an input.
    pub(crate) fn dim(&self, name: &str, axis: usize) -> usize {
        self.input(name).shape[axis]
    }

    /// A whole parameter.
    pub(crate) fn size(&self, name: &str) -> usize {
        let value = self.params[name].as_u64().unwrap_or_else(|| panic!("{} has no {name}", self.operator));
        usize::try_from(value).unwrap()
    }

    /// A parameter with a fraction.
    pub(crate) fn number(&self, name: &str) -> f32 {
        narrow(self.params[name].as_f64().unwrap_or_else(|| panic!("{} has no {name}", self.operator)))
    }

    /// The token ids of a fixture that is a forward pass.
    pub(crate) fn ids(&self) -> Vec<u32> {
        serde_json::from_value(self.params["ids"].clone()).unwrap()
    }

    /// Tensors to multiply by a power of two, with its exponent.
    pub(crate) fn scaled(&self) -> BTreeMap<String, i32> {
        serde_json::from_value(self.params["scaled_by_power_of_two"].clone()).unwrap_or_default()
    }

    /// Names of the expected outputs.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = &str> {
        self.expected.keys().map(String::as_str)
    }

    /// Holds what the operator gave against what is right, and what is right against each mistake.
    pub(crate) fn judge(&self, outputs: &Outputs) -> Result<(), String> {
        let wide = |values: &[f32]| values.iter().copied().map(f64::from).collect::<Vec<_>>();
        let ours: BTreeMap<&str, Vec<f64>> =
            outputs.iter().map(|(name, values)| (*name, wide(values))).collect();
        let distance = self.distance(&ours)?;
        if distance > self.tolerance {
            return Err(format!("{}: {distance:e} off; {:e} is allowed", self.operator, self.tolerance));
        }
        for (mistake, outputs) in &self.mistakes {
            let distance = self.distance(&numbers(outputs))?;
            if distance <= self.tolerance * MARGIN {
                return Err(format!("{}: {mistake} would go unseen, {distance:e} off", self.operator));
            }
        }
        if ours.len() != self.expected.len() || self.mistakes.is_empty() {
            return Err(format!("{}: not all of it was compared", self.operator));
        }
        Ok(())
    }

    /// Largest distance of any of `outputs` from what is expected; infinite where one is no number.
    fn distance(&self, outputs: &BTreeMap<&str, Vec<f64>>) -> Result<f64, String> {
        let mut largest = 0.0f64;
        for (name, values) in outputs {
            let expected = self.expected.get(*name).ok_or_else(|| format!("{}: no {name}", self.operator))?;
            if values.len() != expected.data.len() {
                let (found, expected) = (values.len(), expected.data.len());
                return Err(format!("{}: {name} has {found} values, not {expected}", self.operator));
            }
            for (value, expected) in values.iter().zip(&expected.data) {
                // What is exact is a number that f32 holds; see `f32s`.
                let exact = |x: f64| if self.tolerance == 0.0 { f64::from(narrow(x)) } else { x };
                let distance = (value - exact(expected.unwrap())).abs();
                largest = if distance.is_nan() { f64::INFINITY } else { largest.max(distance) };
            }
        }
        Ok(largest)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "to narrow is what it is for")]
const fn narrow(x: f64) -> f32 {
    x as f32
}

/// A fixture's arrays as numbers.
fn numbers(arrays: &BTreeMap<String, Array>) -> BTreeMap<&str, Vec<f64>> {
    let values = |array: &Array| array.data.iter().map(|x| x.unwrap_or(f64::NAN)).collect();
    arrays.iter().map(|(name, array)| (name.as_str(), values(array))).collect()
}

#[test]
fn every_fixture_refuses_each_of_its_mistakes() {
    for name in Fixture::names() {
        let fixture = Fixture::read(&name);
        assert!(!fixture.mistakes.is_empty(), "{name} guards against nothing");
        for (mistake, outputs) in &fixture.mistakes {
            let distance = fixture.distance(&numbers(outputs)).unwrap();
            assert!(distance > MARGIN * fixture.tolerance, "{name}: {mistake} is only {distance:e} off");
        }
        let largest = fixture.expected.values().flat_map(|array| &array.data).map(|x| x.unwrap().abs());
        let largest = largest.fold(0.0, f64::max);
        assert!(fixture.tolerance <= 1e-4 * largest, "{name}: a tolerance of {:e}", fixture.tolerance);
    }
}

#[test]
fn a_judge_that_sees_a_mistake_says_so() {
    let fixture = Fixture::read("situ");
    let narrow = |array: &Array| array.data.iter().map(|x| narrow(x.unwrap())).collect::<Vec<_>>();
    assert!(fixture.judge(&Outputs::from([("y", narrow(&fixture.expected["y"]))])).is_ok());
    for outputs in fixture.mistakes.values() {
        assert!(fixture.judge(&Outputs::from([("y", narrow(&outputs["y"]))])).is_err());
    }
    let mut broken = narrow(&fixture.expected["y"]);
    broken[0] = f32::NAN;
    assert!(fixture.judge(&Outputs::from([("y", broken)])).is_err());
    assert!(fixture.judge(&Outputs::from([("y", Vec::new())])).is_err());
    assert!(fixture.judge(&Outputs::new()).is_err());
}
