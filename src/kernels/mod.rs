//! Arithmetic under one contract, so that speed can change and bits cannot.
//!
//! # The contract
//!
//! * Activations and state are f32; weights are used as stored, widened exactly: bf16, and MXFP4 as
//!   `e2m1 * 2^(scale - 127)`.
//! * A dot product has [`LANES`] partial sums: element `i` goes to sum `i % 16`, in rising `i`, with one fused
//!   multiply-add each. The sums are folded in halves: 16 to 8 (`s[k] + s[k + 8]`), then 4, 2, 1.
//! * In MXFP4 the 16 even elements of a group of 32 go to the 16 sums first, then the 16 odd ones; the product is
//!   `x * (e2m1 * scale)`.
//! * Sums that are no dots have a fixed order too, written in [`mod@reference`]. `exp` and `tanh` are
//!   polynomials of our own, see [`math`], never the system's.
//! * A matrix times `T` vectors gives each (row, vector) the bits of that row times that vector alone. Threads split
//!   rows, never a sum.
//!
//! [`mod@reference`] is the contract in scalar Rust. A step of 16 sums is one AVX-512 register or two of AVX2. Matrices times
//! vectors, where the time goes, are written for them by hand, in blocks of rows and vectors. All else is the reference,
//! compiled with the features of the set switched on; neither contraction nor reassociation is permitted to the
//! compiler, so that the bits are those of the scalar code. [`Kernels`] is the table of one tier, chosen once;
//! `DORMOUSE_CPU` forces a lower one.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod blocks;
pub mod math;
mod mxfp4;
pub mod reference;
mod tiers;
mod vectors;

pub use mxfp4::{GROUP, Mxfp4, ShapeError, deinterleave};
pub use reference::LANES;
pub use tiers::{Kernels, Tier, TierError};
pub use vectors::Vectors;
