//! Budgets by name.

use std::str::FromStr;

use crate::units::Bytes;

/// A budget for a kind of machine. The sizes are decimal, as `--memory 8GB` is: `laptop` and `8GB` are the same budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// 3 GB.
    Ultra,
    /// 8 GB.
    Laptop,
    /// 32 GB.
    Desktop,
    /// 96 GB.
    Workstation,
    /// 128 GB.
    Server,
    /// 224 GB.
    Max,
    /// What is free, with room left for others.
    Auto,
}

impl Preset {
    /// All of them, the smallest first.
    pub const ALL: [Self; 7] =
        [Self::Ultra, Self::Laptop, Self::Desktop, Self::Workstation, Self::Server, Self::Max, Self::Auto];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ultra => "ultra",
            Self::Laptop => "laptop",
            Self::Desktop => "desktop",
            Self::Workstation => "workstation",
            Self::Server => "server",
            Self::Max => "max",
            Self::Auto => "auto",
        }
    }

    /// The budget; nothing where it is left to the machine.
    pub const fn memory(self) -> Option<Bytes> {
        let gigabytes = match self {
            Self::Ultra => 3,
            Self::Laptop => 8,
            Self::Desktop => 32,
            Self::Workstation => 96,
            Self::Server => 128,
            Self::Max => 224,
            Self::Auto => return None,
        };
        Some(Bytes(gigabytes * 1_000_000_000))
    }
}

impl FromStr for Preset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|preset| preset.as_str() == text).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|preset| preset.as_str()).collect();
            format!("it is not a preset; known are {}", known.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_is_the_size_that_one_would_type() {
        assert_eq!("laptop".parse::<Preset>().unwrap().memory(), Some("8GB".parse().unwrap()));
        assert_eq!("auto".parse::<Preset>().unwrap().memory(), None);
        assert!(Preset::ALL.iter().filter_map(|preset| preset.memory()).is_sorted());
        assert!(
            "huge"
                .parse::<Preset>()
                .unwrap_err()
                .ends_with("ultra, laptop, desktop, workstation, server, max, auto")
        );
    }
}
