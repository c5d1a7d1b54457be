//! The tiny checkpoint, opened in every way that must not matter.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dormouse::checkpoint::Checkpoint;
use dormouse::kernels::{Kernels, Tier};
use dormouse::model::Model;
use dormouse::store::{Plan, Store};
use dormouse::units::Bytes;

/// The folder of the tests' data.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// The tiny checkpoint (spec, section 6).
pub(crate) fn folder() -> PathBuf {
    fixtures().join("tiny")
}

/// What may differ between two runs that must give the same bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// The kernels' tier; that of `DORMOUSE_CPU`, else the best of the machine, if none is named.
    pub(crate) tier: Option<Tier>,
    pub(crate) threads: usize,
    /// Experts that are held in memory at once; all of them if no number is given.
    pub(crate) slots: Option<usize>,
}

impl Default for Setup {
    fn default() -> Self {
        Self { tier: None, threads: 1, slots: None }
    }
}

impl Setup {
    pub(crate) fn kernels(self) -> &'static Kernels {
        match self.tier {
            Some(tier) => Kernels::of(tier).unwrap(),
            None => Kernels::detect().unwrap(),
        }
    }

    /// The tiny model.
    pub(crate) fn open(self) -> Model {
        self.open_at(&folder())
    }

    /// The model in `folder`.
    pub(crate) fn open_at(self, folder: &Path) -> Model {
        let checkpoint = Arc::new(Checkpoint::open(folder).unwrap());
        let all = Plan::new(&checkpoint, Bytes(1 << 40), Bytes(0)).unwrap();
        let plan = Plan { slots: self.slots.unwrap_or(all.slots), ..all };
        let store = Store::open(checkpoint, &plan, &mut |_, _| true).unwrap();
        assert_eq!(store.slots(), plan.slots);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(self.threads).build().unwrap();
        Model::new(store, self.kernels(), pool).unwrap()
    }
}

/// Tiers that this machine has.
pub(crate) fn tiers() -> impl Iterator<Item = Tier> {
    Tier::ALL.into_iter().filter(|tier| tier.is_available())
}
