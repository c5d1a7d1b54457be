//! Functions of one number, from one portable source.
//!
//! They are ours and not a library's for the sake of speed: gates, activations and shares need tens of thousands in every
//! layer, and these become vectors in every tier, with the bits that they have alone.
#![expect(clippy::inline_always, reason = "a tier must compile them with its own target features")]

/// `e^x`, within one and a half units in the last place; 0 and infinity where these are what is left of it.
///
/// `x = n ln 2 + r`, and a polynomial of `r`. There is no branch and no call, so that a loop over it becomes vectors.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    /// Adding it to a number below 2^22 leaves that number, rounded, in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    /// The first 15 bits of ln 2: times `n` they are exact.
    const LN_2: f32 = 0.693_145_75;
    const LN_2_REST: f32 = 1.428_606_8e-6;
    // Beyond these bounds nothing changes. Comparisons, and not `clamp`, leave a NaN what it is in vectors too.
    let x = if x < -104.0 { -104.0 } else { x };
    let x = if x > 89.0 { 89.0 } else { x };
    let rounded = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = rounded - ROUND;
    let r = n.mul_add(-LN_2_REST, n.mul_add(-LN_2, x));
    let p = 1.382_104_2e-3f32;
    let p = p.mul_add(r, 8.368_671e-3);
    let p = p.mul_add(r, 4.166_826_2e-2);
    let p = p.mul_add(r, 0.166_665_2);
    let p = p.mul_add(r, 0.499_999_94);
    let p = p.mul_add(r * r, r) + 1.0;
    // 2^n in two factors, since it may lie beyond the normal numbers on either side while the result does not.
    let n = rounded.to_bits().wrapping_sub(ROUND.to_bits()).cast_signed();
    p * power_of_two(n >> 1) * power_of_two(n - (n >> 1))
}

/// `2^n` of an `n` between -126 and 127.
#[inline(always)]
const fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) << 23).cast_unsigned())
}

/// `tanh x`, within two units in the last place: a polynomial near zero, and `1 - 2 / (e^2x + 1)` elsewhere.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let a = x.abs();
    let z = a * a;
    let p = -5.695_813e-3f32;
    let p = p.mul_add(z, 2.063_082_5e-2);
    let p = p.mul_add(z, -5.373_714e-2);
    let p = p.mul_add(z, 0.133_314_1);
    let p = p.mul_add(z, -0.333_332_8);
    let near = (p * z).mul_add(a, a);
    let far = 1.0 - 2.0 / (exp(a + a) + 1.0);
    // Both are computed, so that vectors need no branch.
    (if a < 0.625 { near } else { far }).copysign(x)
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// `x * sigmoid(x)`.
#[inline(always)]
pub fn silu(x: f32) -> f32 {
    x * sigmoid(x)
}

/// SiTU of one gate and its linear half (spec, section 4.6): both are capped by a tanh, and the sigmoid takes the gate
/// before its cap.
#[inline(always)]
pub fn situ(gate: f32, up: f32, beta: f32, linear_beta: f32) -> f32 {
    let capped_gate = beta * tanh(gate / beta);
    let capped_up = linear_beta * tanh(up / linear_beta);
    capped_gate * sigmoid(gate) * capped_up
}

/// The f32 that a bf16 is the upper half of.
#[inline(always)]
pub const fn bf16(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_the_line_are_finite() {
        for x in [-1e30, -200.0, -0.0, 0.0, 200.0, 1e30] {
            assert!((0.0..=1.0).contains(&sigmoid(x)), "{x}");
            assert!(situ(x, x, 4.0, 25.0).abs() <= 100.0, "{x}");
        }
        assert_eq!(sigmoid(0.0).to_bits(), 0.5f32.to_bits());
    }

    /// How far `found` is from `exact`, in units of the last place that `exact` has in f32.
    fn units(found: f32, exact: f64) -> f64 {
        #[expect(clippy::cast_possible_truncation, reason = "the nearest f32 is what is asked for")]
        let nearest = exact as f32;
        let step = f64::from(f32::from_bits(nearest.abs().to_bits() + 1)) - f64::from(nearest.abs());
        (f64::from(found) - exact).abs() / step
    }

    /// Numbers of both signs whose size goes from denormal to `most`, evenly in their bits.
    fn sweep(most: f32) -> impl Iterator<Item = f32> {
        (0..=most.to_bits()).step_by(1009).map(f32::from_bits).flat_map(|x| [x, -x])
    }

    #[test]
    fn exp_is_close_everywhere() {
        let worst = sweep(88.7).map(|x| units(exp(x), f64::from(x).exp())).fold(0.0, f64::max);
        assert!(worst < 1.5, "{worst} units");
    }

    #[test]
    fn tanh_is_close_everywhere() {
        let worst = sweep(1e30).map(|x| units(tanh(x), f64::from(x).tanh())).fold(0.0, f64::max);
        assert!(worst < 2.0, "{worst} units");
    }

    #[test]
    fn ends_signs_and_what_is_no_number() {
        for x in [88.8, 89.0, 1e30, f32::INFINITY] {
            assert_eq!(exp(x).to_bits(), f32::INFINITY.to_bits(), "{x}");
            assert_eq!(exp(-x - 16.0).to_bits(), 0, "{x}");
            assert_eq!([tanh(x), tanh(-x)].map(f32::to_bits), [1.0f32, -1.0].map(f32::to_bits), "{x}");
        }
        assert_eq!([exp(0.0), exp(-0.0)].map(f32::to_bits), [1.0f32; 2].map(f32::to_bits));
        assert_eq!(tanh(-0.0).to_bits(), (-0.0f32).to_bits());
        assert!(exp(f32::NAN).is_nan() && tanh(f32::NAN).is_nan() && sigmoid(f32::NAN).is_nan());
    }

    #[test]
    fn every_bf16_widens_to_its_own_value() {
        assert_eq!(bf16(0x3f80).to_bits(), 1.0f32.to_bits());
        assert_eq!(bf16(0xc040).to_bits(), (-3.0f32).to_bits());
        assert_eq!(bf16(0x0001).to_bits(), 1 << 16);
        assert!(bf16(0x7fc0).is_nan());
    }
}
