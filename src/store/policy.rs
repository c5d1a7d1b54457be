//! Which slot to give up: least recently used. Pure: it knows numbers of slots, not what is in them.

const NONE: u32 = u32::MAX;

/// An order of slots by their last use, as a doubly linked list over slot numbers. All operations take constant time.
#[derive(Debug)]
pub(super) struct Lru {
    /// For each slot the one used just before it and just after it.
    links: Vec<[u32; 2]>,
    oldest: u32,
    newest: u32,
}

const BEFORE: usize = 0;
const AFTER: usize = 1;

impl Lru {
    pub(super) const fn new() -> Self {
        Self { links: Vec::new(), oldest: NONE, newest: NONE }
    }

    /// Adds the next slot, as the most recently used one; slots are numbered from zero.
    pub(super) fn add(&mut self) {
        let slot = u32::try_from(self.links.len()).unwrap_or(NONE);
        self.links.push([NONE, NONE]);
        self.append(slot);
    }

    /// The slot was used.
    pub(super) fn touch(&mut self, slot: usize) {
        let slot = u32::try_from(slot).unwrap_or(NONE);
        if self.newest != slot {
            self.unlink(slot);
            self.append(slot);
        }
    }

    /// The slot that was not used for the longest time.
    pub(super) fn oldest(&self) -> Option<usize> {
        (self.oldest != NONE).then_some(self.oldest as usize)
    }

    fn append(&mut self, slot: u32) {
        let newest = self.newest;
        self.links[slot as usize] = [newest, NONE];
        match self.links.get_mut(newest as usize) {
            Some(links) => links[AFTER] = slot,
            None => self.oldest = slot,
        }
        self.newest = slot;
    }

    fn unlink(&mut self, slot: u32) {
        let [before, after] = self.links[slot as usize];
        match self.links.get_mut(before as usize) {
            Some(links) => links[AFTER] = after,
            None => self.oldest = after,
        }
        match self.links.get_mut(after as usize) {
            Some(links) => links[BEFORE] = before,
            None => self.newest = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_agrees_with_a_list_that_is_moved_about(slots in 1usize..9, uses in prop::collection::vec(0usize..9, 0..200)) {
            let mut lru = Lru::new();
            let mut list: Vec<usize> = Vec::new();
            for slot in 0..slots {
                lru.add();
                list.push(slot);
            }
            for slot in uses.into_iter().map(|slot| slot % slots) {
                lru.touch(slot);
                list.retain(|other| *other != slot);
                list.push(slot);
                prop_assert_eq!(lru.oldest(), list.first().copied());
            }
        }
    }

    #[test]
    fn nothing_is_oldest_among_none() {
        assert_eq!(Lru::new().oldest(), None);
    }
}
