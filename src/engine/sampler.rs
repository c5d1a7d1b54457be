//! Drawing the next token from the logits.
//!
//! Everything here is the same on every machine and for every number of threads: exp comes from `libm`, sums run in
//! a fixed order in f64, and the random numbers are a function of the seed and the step, so that a turn can be taken
//! up again at any token.

use std::hash::{BuildHasher, Hasher};

use crate::protocol::Sampling;

/// Temperature where neither the user nor the checkpoint asks for one: the model card's.
pub const TEMPERATURE: f32 = 1.0;
/// Nucleus where neither the user nor the checkpoint asks for one: the model card's.
pub const TOP_P: f32 = 0.95;

/// A token cannot be drawn.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// Not a temperature.
    #[error("the temperature must be a number from 0 up, found {0}")]
    Temperature(f32),
    /// Not a nucleus.
    #[error("top-p must be above 0 and at most 1, found {0}")]
    TopP(f32),
    /// The logits hold a value that cannot be.
    #[error("the logit of id {id} is {value}")]
    NotFinite {
        /// The id.
        id: usize,
        /// Its logit.
        value: f32,
    },
    /// There are no logits at all.
    #[error("there are no logits")]
    Empty,
}

/// Holds a temperature against its range.
pub fn check_temperature(value: f32) -> Result<f32, Error> {
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err(Error::Temperature(value)) }
}

/// Holds a nucleus against its range.
pub fn check_top_p(value: f32) -> Result<f32, Error> {
    if value > 0.0 && value <= 1.0 { Ok(value) } else { Err(Error::TopP(value)) }
}

/// The checkpoint's temperature and nucleus where its `generation_config.json` has them, else the model card's.
///
/// `do_sample: false` without a temperature changes nothing: in the released files it is only absent, and a model
/// that was made to be sampled loops when it is not.
pub fn defaults(temperature: Option<f32>, top_p: Option<f32>) -> (f32, f32) {
    (temperature.unwrap_or(TEMPERATURE), top_p.unwrap_or(TOP_P))
}

/// A seed that nobody chose. It stays below 2^53, so that it survives a program that reads JSON numbers as doubles.
pub fn random_seed() -> u64 {
    // The one source of randomness in std: its keys come from the system.
    std::collections::hash_map::RandomState::new().build_hasher().finish() >> 11
}

/// How the tokens of one turn are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    temperature: f32,
    top_p: f32,
    seed: u64,
}

impl Sampler {
    /// What `sampling` asks for, with `defaults` (temperature, nucleus) and a random seed where it does not.
    pub fn new(sampling: Sampling, defaults: (f32, f32)) -> Result<Self, Error> {
        Ok(Self {
            temperature: check_temperature(sampling.temperature.unwrap_or(defaults.0))?,
            top_p: check_top_p(sampling.top_p.unwrap_or(defaults.1))?,
            seed: sampling.seed.unwrap_or_else(random_seed),
        })
    }

    /// The seed in use.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The id of step `step`, counted from zero at the first generated token.
    ///
    /// At temperature 0 it is the largest logit, the lowest id among equals. Else the nucleus is the smallest set of
    /// the likeliest ids (the lower id first among equals) whose probability at this temperature reaches top-p.
    pub fn draw(&self, logits: &[f32], step: u64) -> Result<u32, Error> {
        if let Some((id, value)) = logits.iter().enumerate().find(|(_, value)| !value.is_finite()) {
            return Err(Error::NotFinite { id, value: *value });
        }
        let ids = 0_u32..;
        let best = ids.clone().zip(logits).reduce(|best, next| if next.1 > best.1 { next } else { best });
        let (greedy, &max) = best.ok_or(Error::Empty)?;
        if self.temperature == 0.0 {
            return Ok(greedy);
        }
        let temperature = f64::from(self.temperature);
        let weight = |logit: f32| libm::exp((f64::from(logit) - f64::from(max)) / temperature);
        let mut total = 0.0;
        let mut candidates: Vec<(u32, f64)> = Vec::new();
        for (id, &logit) in ids.zip(logits) {
            let weight = weight(logit);
            total += weight;
            // All that are left out together weigh less than a rounding of the sum.
            if weight > 1e-24 {
                candidates.push((id, weight));
            }
        }
        let (nucleus, mass) = nucleus(&mut candidates, f64::from(self.top_p) * total);
        let target = unit(self.seed, step) * mass;
        let mut reached = 0.0;
        for (id, weight) in candidates.iter().take(nucleus) {
            reached += weight;
            if reached > target {
                return Ok(*id);
            }
        }
        // `target` is below `mass`, which is the same sum in the same order; only a mass of zero could come here.
        Ok(greedy)
    }
}

/// Brings the likeliest candidates whose weights reach `goal` to the front, in order, and gives their number and their
/// weight. Few do in most cases, so the others are not sorted.
fn nucleus(candidates: &mut [(u32, f64)], goal: f64) -> (usize, f64) {
    let order = |a: &(u32, f64), b: &(u32, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    let (mut sorted, mut next, mut mass) = (0, 64, 0.0);
    while sorted < candidates.len() {
        let rest = &mut candidates[sorted..];
        if next < rest.len() {
            rest.select_nth_unstable_by(next, order);
        }
        let likeliest = next.min(rest.len());
        rest[..likeliest].sort_unstable_by(order);
        for (i, (_, weight)) in rest[..likeliest].iter().enumerate() {
            mass += weight;
            if mass >= goal {
                return (sorted + i + 1, mass);
            }
        }
        sorted += likeliest;
        next *= 8;
    }
    (sorted, mass)
}

/// A number in [0, 1) that is a function of the seed and the step alone.
fn unit(seed: u64, step: u64) -> f64 {
    // The seed is mixed first, so that neighbouring seeds do not walk the same sequence one step apart.
    let bits = mix(mix(seed).wrapping_add(step.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// The finaliser of splitmix64: every bit of the input reaches every bit of the output.
const fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler(temperature: f32, top_p: f32, seed: u64) -> Sampler {
        Sampler::new(
            Sampling { temperature: Some(temperature), top_p: Some(top_p), seed: Some(seed) },
            (0.0, 1.0),
        )
        .unwrap()
    }

    /// How often each id comes in 20,000 draws.
    fn shares(sampler: &Sampler, logits: &[f32]) -> Vec<f64> {
        const DRAWS: u32 = 20_000;
        let mut counts = vec![0_u32; logits.len()];
        for step in 0..u64::from(DRAWS) {
            counts[sampler.draw(logits, step).unwrap() as usize] += 1;
        }
        counts.into_iter().map(|count| f64::from(count) / f64::from(DRAWS)).collect()
    }

    fn assert_close(found: &[f64], expected: &[f64]) {
        for (found_one, expected_one) in found.iter().zip(expected) {
            // Four standard deviations of a share of one half over 20,000 draws.
            assert!((found_one - expected_one).abs() < 0.0142, "{found:?} against {expected:?}");
        }
    }

    #[test]
    fn greedy_takes_the_largest_and_the_lowest_id_of_equals() {
        assert_eq!(sampler(0.0, 1.0, 7).draw(&[-2.0, 3.0, 1.0, 3.0], 0), Ok(1));
        assert_eq!(sampler(0.0, 1.0, 7).draw(&[-0.0, 0.0], 0), Ok(0));
    }

    #[test]
    fn draws_follow_the_distribution_at_its_temperature() {
        let logits = [0.5_f32.ln(), 0.3_f32.ln(), 0.2_f32.ln()];
        assert_close(&shares(&sampler(1.0, 1.0, 1), &logits), &[0.5, 0.3, 0.2]);
        // At temperature 1/2 probabilities are squared: 25, 9 and 4 parts.
        assert_close(&shares(&sampler(0.5, 1.0, 1), &logits), &[25.0 / 38.0, 9.0 / 38.0, 4.0 / 38.0]);
    }

    #[test]
    fn the_nucleus_is_the_smallest_set_that_reaches_top_p() {
        let logits = [0.3_f32.ln(), 0.5_f32.ln(), 0.2_f32.ln()];
        assert_close(&shares(&sampler(1.0, 0.75, 1), &logits), &[0.375, 0.625, 0.0]);
        assert_close(&shares(&sampler(1.0, 0.4, 1), &logits), &[0.0, 1.0, 0.0]);
        assert_close(&shares(&sampler(1.0, 1e-6, 1), &logits), &[0.0, 1.0, 0.0]);
        // Among equals the lower id is in.
        assert_close(&shares(&sampler(1.0, 0.5, 1), &[0.0; 4]), &[0.5, 0.5, 0.0, 0.0]);
    }

    #[test]
    fn a_nucleus_in_parts_is_the_one_of_a_full_sort() {
        for (len, kinds) in [(1, 1), (64, 9), (65, 1), (577, 40), (5000, 300), (5000, 100_000)] {
            // Many equals, so that ids decide.
            let weight = |id: u32| (mix(u64::from(id)) % kinds) as f64 / 7.0;
            let candidates: Vec<(u32, f64)> = (0..len).map(|id| (id, weight(id))).collect();
            let mut sorted = candidates.clone();
            sorted.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            let total: f64 = sorted.iter().map(|(_, weight)| weight).sum();
            for share in [0.0, 1e-3, 0.3, 0.95, 1.0, 2.0] {
                let mut found = candidates.clone();
                let (count, mass) = nucleus(&mut found, share * total);
                let (mut expected, mut sum) = (0, 0.0);
                for (_, weight) in &sorted {
                    expected += 1;
                    sum += weight;
                    if sum >= share * total {
                        break;
                    }
                }
                assert_eq!((count, mass.to_bits()), (expected, sum.to_bits()), "{len} of {kinds}, {share}");
                assert_eq!(found[..count], sorted[..expected]);
            }
        }
    }

    #[test]
    fn a_step_depends_on_seed_and_step_alone() {
        let logits = [0.0; 1000];
        let run = |seed: u64| {
            (0..50).map(|step| sampler(1.0, 1.0, seed).draw(&logits, step).unwrap()).collect::<Vec<_>>()
        };
        let ids = run(42);
        assert_eq!(ids, run(42));
        assert_ne!(ids, run(43));
        let middle: Vec<u32> =
            (20..50).map(|step| sampler(1.0, 1.0, 42).draw(&logits, step).unwrap()).collect();
        assert_eq!(ids[20..], middle);
        // Neighbouring seeds are not one sequence shifted by a step.
        assert_ne!(run(42)[1..], run(43)[..49]);
    }

    #[test]
    fn the_random_numbers_never_change() {
        // Fixed for good: a seed that a user noted down must give the same text in the next version.
        let bits: Vec<u64> = (0..3).map(|step| unit(1, step).to_bits()).collect();
        assert_eq!(bits, [4_604_928_351_346_079_834, 4_600_380_063_439_961_258, 4_601_567_040_866_008_310]);
    }

    #[test]
    fn what_is_no_number_is_refused_with_its_id() {
        let error = sampler(0.0, 1.0, 0).draw(&[1.0, f32::NAN], 0).unwrap_err();
        assert_eq!(error.to_string(), "the logit of id 1 is NaN");
        assert!(matches!(
            sampler(1.0, 1.0, 0).draw(&[f32::INFINITY], 0),
            Err(Error::NotFinite { id: 0, .. })
        ));
        assert_eq!(sampler(1.0, 1.0, 0).draw(&[], 0), Err(Error::Empty));
    }

    #[test]
    fn bad_values_are_refused() {
        for temperature in [-0.1, f32::NAN, f32::INFINITY] {
            assert!(check_temperature(temperature).is_err());
        }
        for top_p in [0.0, -1.0, 1.01, f32::NAN] {
            assert!(check_top_p(top_p).is_err());
        }
        assert!(check_temperature(0.0).is_ok() && check_top_p(1.0).is_ok());
    }

    #[test]
    fn extreme_logits_at_a_tiny_temperature_still_draw() {
        assert_eq!(sampler(1e-30, 0.95, 3).draw(&[-1e38, 3e38, 1.0], 0), Ok(1));
    }

    #[test]
    fn the_checkpoint_decides_where_the_user_does_not() {
        assert_eq!(defaults(Some(0.4), None), (0.4, 0.95));
        assert_eq!(defaults(None, Some(0.5)), (1.0, 0.5));
        assert!(random_seed() < 1 << 53);
    }
}
