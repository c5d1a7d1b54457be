//! States that are kept in memory for the turns to come.
//!
//! A state cannot be cut back to an earlier token: KDA's matrices have taken in all that came. So copies are put aside
//! where a conversation may go on or be taken up again: at the end of each prompt (a retry), and at the end of the turn
//! before (the user's next message, edited). A state serves only a sequence that begins with exactly the ids that it
//! has seen, and a copy gives the bits that computing it again would give. Copies share memory with what they were copied
//! from until that goes on; they are counted as if they did not.

use std::borrow::Cow;
use std::collections::VecDeque;

use crate::checkpoint::ModelConfig;
use crate::model::State;
use crate::protocol::ReusedFrom;

/// A state, and exactly the tokens that it has seen.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) ids: Vec<u32>,
    pub(super) state: State,
}

impl Kept {
    pub(super) fn new(config: &ModelConfig) -> Self {
        Self { ids: Vec::new(), state: State::new(config) }
    }

    fn bytes(&self, config: &ModelConfig) -> u64 {
        State::bytes(config, self.state.len()) + size_of_val(self.ids.as_slice()) as u64
    }
}

/// A state that is put aside.
#[derive(Debug)]
struct Copy {
    kept: Kept,
    /// What its last token gave. With them nothing at all must be read to go on from here.
    logits: Option<Vec<f32>>,
    bytes: u64,
}

impl Copy {
    /// Whether `sequence` can go on from here: something is left to read, or the logits are there.
    fn serves(&self, sequence: &[u32]) -> bool {
        is_strict_prefix(&self.kept.ids, sequence) || (self.logits.is_some() && self.kept.ids == sequence)
    }
}

/// Where a turn begins to compute.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) kept: Kept,
    /// The logits of its last token, where the whole sequence was read before.
    pub(super) logits: Option<Vec<f32>>,
    /// Where the state was; nothing for a new one.
    pub(super) from: Option<ReusedFrom>,
}

/// The state of the last turn, and copies of earlier ones.
#[derive(Debug)]
pub(super) struct Shelf {
    /// Its memory is planned for apart from the copies: the next turn's state takes its place.
    last: Option<Kept>,
    /// The one that was used longest ago comes first.
    copies: VecDeque<Copy>,
    /// Bytes that the copies may take.
    room: u64,
}

impl Shelf {
    /// A shelf with room for so many bytes of copies.
    pub(super) const fn new(room: u64) -> Self {
        Self { last: None, copies: VecDeque::new(), room }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.last = None;
        self.copies.clear();
    }

    /// Keeps the state in which a turn ended.
    pub(super) fn keep(&mut self, kept: Kept) {
        self.last = Some(kept);
    }

    /// The state in which the last turn ended.
    pub(super) const fn last(&self) -> Option<&Kept> {
        self.last.as_ref()
    }

    /// Puts the state of the last turn to the copies, if there is room.
    pub(super) fn set_aside(&mut self, config: &ModelConfig) {
        if let Some(kept) = self.last.take() {
            self.put(Cow::Owned(kept), None, config);
        }
    }

    /// How many tokens the state has seen that [`Shelf::take`] would give for `sequence`.
    pub(super) fn longest(&self, sequence: &[u32]) -> usize {
        let last = self.last.iter().filter(|kept| is_strict_prefix(&kept.ids, sequence));
        let copies = self.copies.iter().filter(|copy| copy.serves(sequence)).map(|copy| &copy.kept);
        last.chain(copies).map(|kept| kept.ids.len()).max().unwrap_or(0)
    }

    /// Positions of the last state, and bytes of it and of all copies.
    pub(super) fn size(&self, config: &ModelConfig) -> (u64, u64) {
        let last = self.last.as_ref().map_or(0, |kept| kept.state.len());
        let bytes = if last == 0 { 0 } else { State::bytes(config, last) };
        (last as u64, bytes + self.bytes())
    }

    /// Bytes of the copies.
    pub(super) fn bytes(&self) -> u64 {
        self.copies.iter().map(|copy| copy.bytes).sum()
    }

    /// The state that has seen the most of `sequence` and nothing else, or else a new one.
    pub(super) fn take(&mut self, sequence: &[u32], config: &ModelConfig) -> Start {
        let last = self.last.take();
        let goes_on = last.as_ref().filter(|kept| is_strict_prefix(&kept.ids, sequence));
        let longest = goes_on.map_or(0, |kept| kept.ids.len());
        let best = (0..self.copies.len())
            .filter(|index| self.copies[*index].serves(sequence))
            .max_by_key(|index| self.copies[*index].kept.ids.len())
            .filter(|index| self.copies[*index].kept.ids.len() > longest);
        if let Some(copy) = best.and_then(|index| self.copies.remove(index)) {
            let logits = copy.logits.clone().filter(|_| copy.kept.ids.len() == sequence.len());
            let start = Start { kept: copy.kept.clone(), logits, from: Some(ReusedFrom::Memory) };
            self.copies.push_back(copy);
            // Two versions of a turn may be gone back to as well.
            self.last = last;
            self.set_aside(config);
            return start;
        }
        match last {
            Some(kept) if longest > 0 => {
                self.put(Cow::Borrowed(&kept), None, config);
                Start { kept, logits: None, from: Some(ReusedFrom::Memory) }
            }
            last => {
                self.last = last;
                self.set_aside(config);
                Start { kept: Kept::new(config), logits: None, from: None }
            }
        }
    }

    /// Puts a copy of a state aside, with the logits of its last token where they are known, if there is room.
    pub(super) fn copy(&mut self, kept: &Kept, logits: Option<&[f32]>, config: &ModelConfig) {
        self.put(Cow::Borrowed(kept), logits, config);
    }

    /// Makes room by dropping what was used longest ago. What is larger than all the room is not kept, and takes
    /// nothing else with it.
    fn put(&mut self, kept: Cow<'_, Kept>, logits: Option<&[f32]>, config: &ModelConfig) {
        let bytes = kept.bytes(config) + logits.map_or(0, size_of_val) as u64;
        if kept.ids.is_empty() || bytes > self.room {
            return;
        }
        if let Some(index) = self.copies.iter().position(|copy| copy.kept.ids == kept.ids)
            && let Some(copy) = self.copies.remove(index)
            && logits.is_none()
        {
            // The same state, perhaps with its logits.
            self.copies.push_back(copy);
            return;
        }
        while self.bytes() + bytes > self.room {
            self.copies.pop_front();
        }
        let logits = logits.map(<[f32]>::to_vec);
        self.copies.push_back(Copy { kept: kept.into_owned(), logits, bytes });
    }
}

fn is_strict_prefix(seen: &[u32], sequence: &[u32]) -> bool {
    seen.len() < sequence.len() && sequence.starts_with(seen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::{Kda, Mixer, Mla, Moe, Situ};

    fn config() -> ModelConfig {
        ModelConfig {
            hidden: 8,
            vocabulary: 100,
            rms_eps: 1e-5,
            dense_width: 8,
            dense_layers: 1,
            residual_block: 1,
            mixers: vec![Mixer::Kda],
            kda: Kda { heads: 1, head_dim: 4, conv: 4, gate_lower_bound: -5.0 },
            mla: Mla { heads: 1, q_rank: 4, kv_rank: 4, nope: 4, rope: 4, value: 4 },
            moe: Moe { experts: 2, top_k: 1, shared: 1, width: 4, latent: 4, scale: 1.0 },
            situ: Situ { beta: 4.0, linear_beta: 25.0 },
            context_limit: 100,
            eos_id: 1,
        }
    }

    fn kept(ids: &[u32]) -> Kept {
        Kept { ids: ids.to_vec(), ..Kept::new(&config()) }
    }

    /// What a turn over `sequence` begins with.
    fn seen(shelf: &mut Shelf, sequence: &[u32]) -> Vec<u32> {
        shelf.take(sequence, &config()).kept.ids
    }

    #[test]
    fn only_what_goes_on_from_a_state_is_served_by_it() {
        let mut shelf = Shelf::new(0);
        for (sequence, expected) in
            [(&[1, 2, 3][..], &[1, 2][..]), (&[1, 2], &[]), (&[1], &[]), (&[1, 9, 3], &[])]
        {
            shelf.keep(kept(&[1, 2]));
            assert_eq!(seen(&mut shelf, sequence), expected, "{sequence:?}");
            assert_eq!(seen(&mut shelf, &[1, 2, 3]), [0; 0], "without room nothing is left behind");
        }
    }

    #[test]
    fn the_longest_copy_wins_and_one_with_logits_serves_its_very_end() {
        let mut shelf = Shelf::new(1 << 20);
        shelf.copy(&kept(&[1, 2]), Some(&[0.5]), &config());
        shelf.keep(kept(&[1, 2, 3, 4]));
        assert_eq!(
            [&[1, 2][..], &[1], &[1, 2, 3], &[1, 2, 3, 4, 5]].map(|ids| shelf.longest(ids)),
            [2, 0, 2, 4]
        );
        let start = shelf.take(&[1, 2], &config());
        assert_eq!((start.kept.ids, start.logits), (vec![1, 2], Some(vec![0.5])));
        // The end of that turn was put aside, without logits.
        assert_eq!(seen(&mut shelf, &[1, 2, 3, 4]), [1, 2]);
        assert_eq!(seen(&mut shelf, &[1, 2, 3, 4, 5]), [1, 2, 3, 4]);
        assert!(shelf.take(&[1, 2, 7], &config()).logits.is_none());
        assert_eq!(seen(&mut shelf, &[2, 1]), [0; 0]);
        shelf.clear();
        assert_eq!((seen(&mut shelf, &[1, 2, 3]), shelf.bytes()), (vec![], 0));
    }

    #[test]
    fn copies_stay_within_their_room_and_the_longest_unused_goes_first() {
        let one = kept(&[1]).bytes(&config());
        let mut shelf = Shelf::new(2 * one + 4);
        for id in [1, 2] {
            shelf.copy(&kept(&[id]), Some(&[]), &config());
        }
        assert_eq!(seen(&mut shelf, &[1, 5]), [1]);
        shelf.copy(&kept(&[3]), Some(&[]), &config());
        assert_eq!(shelf.bytes(), 2 * one);
        assert_eq!(seen(&mut shelf, &[2, 5]), [0; 0], "unused for longer than 1");
        assert_eq!((seen(&mut shelf, &[1, 5]), seen(&mut shelf, &[3, 5])), (vec![1], vec![3]));
        // Larger than all the room: nothing makes way for it.
        shelf.copy(&kept(&[4]), Some(&vec![0.0; 1 << 12]), &config());
        assert_eq!((shelf.bytes(), seen(&mut shelf, &[4, 5])), (2 * one, vec![]));
        // The same again takes no second place.
        shelf.copy(&kept(&[3]), Some(&[]), &config());
        assert_eq!(seen(&mut shelf, &[1, 5]), [1]);
    }
}
