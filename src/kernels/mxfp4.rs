//! MXFP4: 4-bit floats in groups of 32 that share one power of two (spec, section 1.4).
//!
//! Byte `j` of a row holds column `2j` in its low nibble and column `2j + 1` in its high one. A nibble is E2M1: a sign
//! and an index into [`E2M1`]. A scale byte `s` stands for `2^(s - 127)`; 255 is not a number.

use super::reference::LANES;

/// Columns that share a scale.
pub const GROUP: usize = 32;

/// Bytes of one group's nibbles.
pub(super) const PACKED: usize = GROUP / 2;

/// What the 16 nibbles stand for, before their scale.
pub(super) const E2M1: [f32; 16] =
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// The multiplier of a scale byte.
#[inline]
pub(super) const fn scale(byte: u8) -> f32 {
    match byte {
        // 2^-127 lies below the normal numbers, where the exponent's bits no longer say it.
        0 => f32::from_bits(1 << 22),
        255 => f32::NAN,
        byte => f32::from_bits((byte as u32) << 23),
    }
}

/// The multipliers of all scale bytes.
pub(super) static SCALES: [f32; 256] = {
    let mut scales = [0.0; 256];
    let mut byte = 0u8;
    loop {
        scales[byte as usize] = scale(byte);
        match byte.checked_add(1) {
            Some(next) => byte = next,
            None => break scales,
        }
    }
};

/// What the 8 nibbles without a sign stand for under one scale.
#[repr(align(32))]
pub(super) struct Sizes(pub(super) [f32; 8]);

/// The same for all scale bytes, for sets whose registers are small: to load them takes less than to multiply.
pub(super) static SIZES: [Sizes; 256] = {
    let mut sizes = [const { Sizes([0.0; 8]) }; 256];
    let mut byte = 0u8;
    loop {
        let mut nibble = 0;
        while nibble < 8 {
            sizes[byte as usize].0[nibble] = E2M1[nibble] * scale(byte);
            nibble += 1;
        }
        match byte.checked_add(1) {
            Some(next) => byte = next,
            None => break sizes,
        }
    }
};

/// A packed matrix `[rows, columns]`.
#[derive(Clone, Copy, Debug)]
pub struct Mxfp4<'a> {
    packed: &'a [u8],
    scales: &'a [u8],
    columns: usize,
}

/// The bytes do not make a matrix of the columns given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{packed} packed bytes and {scales} scales do not make whole rows of {columns} columns")]
pub struct ShapeError {
    packed: usize,
    scales: usize,
    columns: usize,
}

impl<'a> Mxfp4<'a> {
    /// A matrix of `packed` (`[rows, columns / 2]`) and `scales` (`[rows, columns / 32]`).
    pub const fn new(packed: &'a [u8], scales: &'a [u8], columns: usize) -> Result<Self, ShapeError> {
        let whole = columns > 0 && columns.is_multiple_of(GROUP) && packed.len().is_multiple_of(columns / 2);
        if whole && packed.len() / PACKED == scales.len() {
            Ok(Self { packed, scales, columns })
        } else {
            Err(ShapeError { packed: packed.len(), scales: scales.len(), columns })
        }
    }

    /// Columns of the matrix.
    pub const fn columns(&self) -> usize {
        self.columns
    }

    /// Rows of the matrix.
    pub const fn rows(&self) -> usize {
        self.packed.len() / (self.columns / 2)
    }

    /// Nibbles, `[rows, columns / 2]`.
    pub const fn packed(&self) -> &'a [u8] {
        self.packed
    }

    /// Scales, `[rows, columns / 32]`.
    pub const fn scales(&self) -> &'a [u8] {
        self.scales
    }

    /// All values, in order. For tests and tools: the kernels multiply from the packed form.
    pub fn decode(&self) -> Vec<f32> {
        let mut values = Vec::with_capacity(self.packed.len() * 2);
        for (bytes, &exponent) in self.packed.as_chunks::<PACKED>().0.iter().zip(self.scales) {
            let table = E2M1.map(|value| value * scale(exponent));
            values
                .extend(bytes.iter().flat_map(|b| [table[usize::from(b & 15)], table[usize::from(b >> 4)]]));
        }
        values
    }
}

/// Reorders vectors for the MXFP4 kernels: in each group of 32 the 16 even elements, then the 16 odd ones.
pub fn deinterleave(x: &[f32], out: &mut [f32]) {
    assert_eq!(x.len(), out.len(), "both sides have the same length");
    for (from, to) in x.as_chunks::<GROUP>().0.iter().zip(out.as_chunks_mut::<GROUP>().0) {
        for j in 0..LANES {
            to[j] = from[2 * j];
            to[LANES + j] = from[2 * j + 1];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_powers_of_two_over_their_whole_range() {
        for byte in 0..=254u8 {
            let exact = 2f64.powi(i32::from(byte) - 127);
            assert_eq!(f64::from(scale(byte)).to_bits(), exact.to_bits(), "{byte}");
        }
        assert!(scale(255).is_nan());
    }

    #[test]
    fn low_nibbles_come_first() {
        let mut packed = [0; 16];
        packed[0] = 0x72; // columns 0 and 1: 1.0 and 6.0
        let matrix = Mxfp4::new(&packed, &[128], 32).unwrap();
        assert_eq!(&matrix.decode()[..3], [2.0, 12.0, 0.0]);
    }

    #[test]
    fn ragged_bytes_are_refused() {
        assert!(Mxfp4::new(&[0; 16], &[0], 32).is_ok());
        assert!(Mxfp4::new(&[0; 17], &[0], 32).is_err());
        assert!(Mxfp4::new(&[0; 16], &[0, 0], 32).is_err());
        assert!(Mxfp4::new(&[0; 16], &[0], 16).is_err());
        assert!(Mxfp4::new(&[], &[], 0).is_err());
    }
}
