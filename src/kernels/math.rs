//! Functions of one number, from one portable source.

/// `e^x`.
#[inline]
pub fn exp(x: f32) -> f32 {
    libm::expf(x)
}

/// `1 / (1 + e^-x)`.
#[inline]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// `x * sigmoid(x)`.
#[inline]
pub fn silu(x: f32) -> f32 {
    x * sigmoid(x)
}

/// SiTU of one gate and its linear half (spec, section 4.6): both are capped by a tanh, and the sigmoid takes the gate
/// before its cap.
#[inline]
pub fn situ(gate: f32, up: f32, beta: f32, linear_beta: f32) -> f32 {
    let capped_gate = beta * libm::tanhf(gate / beta);
    let capped_up = linear_beta * libm::tanhf(up / linear_beta);
    capped_gate * sigmoid(gate) * capped_up
}

/// The f32 that a bf16 is the upper half of.
#[inline(always)]
#[expect(clippy::inline_always, reason = "it is one shift inside every inner loop")]
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

    #[test]
    fn every_bf16_widens_to_its_own_value() {
        assert_eq!(bf16(0x3f80).to_bits(), 1.0f32.to_bits());
        assert_eq!(bf16(0xc040).to_bits(), (-3.0f32).to_bits());
        assert_eq!(bf16(0x0001).to_bits(), 1 << 16);
        assert!(bf16(0x7fc0).is_nan());
    }
}
