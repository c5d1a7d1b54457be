//! One table of functions for each instruction set, chosen once.

use std::sync::OnceLock;

use super::mxfp4::Mxfp4;
use super::vectors::Vectors;

/// An instruction set that the kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Whatever the target guarantees.
    Scalar,
    /// x86-64 with AVX2 and FMA.
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl Tier {
    /// All tiers, slowest first.
    pub const ALL: [Self; 3] = [Self::Scalar, Self::Avx2, Self::Avx512];

    /// The word that `DORMOUSE_CPU` takes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// What a processor must have for it, as Linux spells it in `/proc/cpuinfo`.
    pub const fn features(self) -> &'static [&'static str] {
        match self {
            Self::Scalar => &[],
            Self::Avx2 => &["avx2", "fma"],
            Self::Avx512 => &["avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl"],
        }
    }

    /// Whether this machine has it.
    pub fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && Self::Avx2.is_available()
            }
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 => false,
        }
    }
}

/// The tier that `DORMOUSE_CPU` asks for cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TierError {
    /// No such tier.
    #[error("DORMOUSE_CPU is `{found}`; known are scalar, avx2 and avx512")]
    Unknown {
        /// What it says.
        found: String,
    },
    /// This machine has not got it.
    #[error("DORMOUSE_CPU asks for {}, which this processor does not have", tier.as_str())]
    Missing {
        /// What it asks for.
        tier: Tier,
    },
}

macro_rules! kernels {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $out:ty)?;)*) => {
        /// The functions of one tier. See [`mod@super::reference`] for shapes and orders; all tiers give the same bits.
        #[derive(Debug)]
        pub struct Kernels {
            tier: Tier,
            /// Most vectors of a block, where there are blocks.
            widest: Option<usize>,
            $($name: unsafe fn($($type),*) $(-> $out)?,)*
        }

        #[expect(unsafe_code, reason = "a function with target features may only run where they exist")]
        #[expect(clippy::too_many_arguments, reason = "the operands of a recurrence")]
        impl Kernels {
            $($(#[$doc])*
            #[inline]
            pub fn $name(&self, $($arg: $type),*) $(-> $out)? {
                // SAFETY: the table of a tier is only handed out by `Kernels::of`, after `Tier::is_available` has
                // found that tier's features on this machine.
                unsafe { (self.$name)($($arg),*) }
            })*
        }

        kernels!(@tier SCALAR, Tier::Scalar, None, scalar, reference, inline; $($name($($arg: $type),*) $(-> $out)?;)*);
        #[cfg(target_arch = "x86_64")]
        kernels!(@tier AVX2, Tier::Avx2, Some(super::avx2::WIDEST), on_avx2, avx2, target_feature(enable = "avx2,fma");
            $($name($($arg: $type),*) $(-> $out)?;)*);
        #[cfg(target_arch = "x86_64")]
        kernels!(@tier AVX512, Tier::Avx512, Some(super::avx512::WIDEST), on_avx512, avx512,
            target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl");
            $($name($($arg: $type),*) $(-> $out)?;)*);
    };
    (@tier $table:ident, $tier:expr, $widest:expr, $module:ident, $source:ident, $attr:meta;
        $($name:ident($($arg:ident: $type:ty),*) $(-> $out:ty)?;)*) => {
        static $table: Kernels = Kernels { tier: $tier, widest: $widest, $($name: $module::$name,)* };

        #[expect(clippy::too_many_arguments, reason = "the operands of a recurrence")]
        mod $module {
            use crate::kernels::$source as source;
            use super::Vectors;
            $(#[$attr]
            pub(super) fn $name($($arg: $type),*) $(-> $out)? {
                source::$name($($arg),*)
            })*
        }
    };
}

kernels! {
    /// Dot product.
    fn dot(a: &[f32], b: &[f32]) -> f32;
    /// Sum.
    fn sum(x: &[f32]) -> f32;
    /// Rows of bf16 times vectors, into `[rows, vectors]`.
    fn bf16_rows(weights: &[u16], xs: &Vectors<'_>, out: &mut [f32]);
    /// Rows of f32 times vectors, into `[rows, vectors]`.
    fn f32_rows(weights: &[f32], xs: &Vectors<'_>, out: &mut [f32]);
    /// A vector times rows of bf16, into `[columns]`.
    fn bf16_columns(weights: &[u16], columns: usize, x: &[f32], out: &mut [f32]);
    /// Rows of MXFP4 times vectors that [`super::deinterleave`] has reordered, into `[rows, vectors]`.
    fn mxfp4_rows(packed: &[u8], scales: &[u8], xs: &Vectors<'_>, out: &mut [f32]);
    /// `sum + factor * x`.
    fn add_scaled(sum: &mut [f32], factor: f32, x: &[f32]);
    /// Adds rows to weighted sums.
    fn add_weighted_rows(weights: &[&[f32]], rows: &[f32], stride: usize, out: &mut [f32]);
    /// Softmax in place.
    fn softmax(x: &mut [f32]);
    /// `sigmoid(x)` in place.
    fn sigmoid(x: &mut [f32]);
    /// `x * sigmoid(gate)` in place.
    fn gate(x: &mut [f32], gates: &[f32]);
    /// SiTU-GLU of gates and their linear halves, into `gates`.
    fn situ(gates: &mut [f32], ups: &[f32], beta: f32, linear_beta: f32);
    /// Decay factors of one KDA head, in place of `f`.
    fn kda_decay(f: &mut [f32], bias: &[f32], rate: f32, bound: f32);
    /// One token's depthwise convolution, with SiLU.
    fn convolve(inputs: &[f32], weights: &[f32], out: &mut [f32]);
    /// Reads memory and adds it up, to measure it.
    fn read(words: &[u32]) -> u32;
    /// One step of the KDA recurrence for one head.
    fn kda_step(
        state: &mut [f32],
        q: &[f32],
        k: &[f32],
        v: &[f32],
        decay: &[f32],
        beta: f32,
        error: &mut [f32],
        out: &mut [f32],
    );
}

impl Kernels {
    /// The table of a tier, where this machine has it.
    pub fn of(tier: Tier) -> Option<&'static Self> {
        let table = match tier {
            Tier::Scalar => &SCALAR,
            #[cfg(target_arch = "x86_64")]
            Tier::Avx2 => &AVX2,
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512 => &AVX512,
            #[cfg(not(target_arch = "x86_64"))]
            Tier::Avx2 | Tier::Avx512 => return None,
        };
        tier.is_available().then_some(table)
    }

    /// The table of the best tier of this machine, or of the one that `DORMOUSE_CPU` names. Decided once.
    pub fn detect() -> Result<&'static Self, TierError> {
        static CHOICE: OnceLock<Result<&'static Kernels, TierError>> = OnceLock::new();
        CHOICE.get_or_init(|| Self::choose(std::env::var("DORMOUSE_CPU").ok().as_deref())).clone()
    }

    fn choose(wanted: Option<&str>) -> Result<&'static Self, TierError> {
        let Some(wanted) = wanted.filter(|text| !text.is_empty()) else {
            return Ok(Tier::ALL.into_iter().rev().find_map(Self::of).unwrap_or(&SCALAR));
        };
        let tier = Tier::ALL
            .into_iter()
            .find(|tier| tier.as_str() == wanted)
            .ok_or_else(|| TierError::Unknown { found: wanted.to_owned() })?;
        Self::of(tier).ok_or(TierError::Missing { tier })
    }

    /// Which tier this is.
    pub const fn tier(&self) -> Tier {
        self.tier
    }

    /// Lays vectors out for this tier: `xs` is `[vectors, columns]`, at least one.
    pub fn vectors<'a>(&self, xs: &'a [f32], columns: usize) -> Vectors<'a> {
        Vectors::new(xs, columns, self.widest)
    }

    /// Rows of `matrix` from `first` on, as many as `out` has room for, times vectors; see [`Self::mxfp4_rows`].
    pub fn mxfp4(&self, matrix: &Mxfp4<'_>, first: usize, xs: &Vectors<'_>, out: &mut [f32]) {
        let rows = out.len() / xs.count();
        let (packed, scales) = (matrix.columns() / 2, matrix.columns() / super::GROUP);
        let packed = &matrix.packed()[first * packed..(first + rows) * packed];
        let scales = &matrix.scales()[first * scales..(first + rows) * scales];
        self.mxfp4_rows(packed, scales, xs, out);
    }

    /// `1 / sqrt(mean(x^2) + eps)`.
    pub fn inverse_rms(&self, x: &[f32], eps: f32) -> f32 {
        1.0 / (self.dot(x, x) / x.len() as f32 + eps).sqrt()
    }

    /// RMS norm (spec, section 4.1): `out = weight * (x * rsqrt(mean(x^2) + eps))`.
    pub fn rms_norm(&self, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
        let inverse = self.inverse_rms(x, eps);
        for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
            *out = weight * (x * inverse);
        }
    }

    /// L2 norm of KDA's queries and keys (spec, section 4.4): `eps` is added to the sum of squares, not to their mean.
    pub fn l2_norm(&self, x: &mut [f32], eps: f32) {
        let inverse = 1.0 / (self.dot(x, x) + eps).sqrt();
        for x in x {
            *x *= inverse;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    #[test]
    fn what_the_system_lists_is_what_the_processor_says() {
        let listed = crate::sys::cpu::processors_at(std::path::Path::new("/")).unwrap().features;
        for tier in Tier::ALL {
            let all = tier.features().iter().all(|feature| listed.contains(*feature));
            assert_eq!(all, tier.is_available(), "{tier:?}");
        }
    }

    #[test]
    fn the_environment_can_force_a_tier_and_must_name_a_known_one() {
        assert_eq!(Kernels::choose(Some("scalar")).unwrap().tier(), Tier::Scalar);
        assert_eq!(
            Kernels::choose(Some("avx9")).unwrap_err(),
            TierError::Unknown { found: "avx9".to_owned() }
        );
        let best = Kernels::choose(None).unwrap().tier();
        assert!(Tier::ALL.into_iter().all(|tier| !tier.is_available() || tier <= best));
    }
}
