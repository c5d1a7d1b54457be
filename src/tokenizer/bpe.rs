//! Byte-pair merging: the adjacent pair of lowest rank first, of equal ones the leftmost.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::ranks::Ranks;

/// Marks the end of the list of parts.
const END: u32 = u32::MAX;

/// Merges the pieces of a text, one after the other, in memory that it keeps.
///
/// Parts are a linked list over the piece's bytes, and the pairs that may merge wait in a heap: n log n for a piece of
/// n bytes, which may have 25,000 characters.
#[derive(Debug, Default)]
pub(super) struct Merger {
    /// The part that begins at each byte, where one does.
    parts: Vec<Part>,
    /// Rank of the merged pair, where it begins, and where it ends.
    pairs: BinaryHeap<Reverse<(u32, u32, u32)>>,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    /// Where the part before it begins.
    previous: u32,
    /// Where it ends, and the next one begins. 0 once it was merged into the one before it.
    end: u32,
}

impl Merger {
    /// Appends the ids of one piece.
    #[expect(clippy::cast_possible_truncation, reason = "a piece is at most a block of 400,000 characters")]
    pub(super) fn encode(&mut self, ranks: &Ranks, piece: &[u8], ids: &mut Vec<u32>) {
        if let Some(rank) = ranks.rank(piece) {
            ids.push(rank);
            return;
        }
        let len = piece.len() as u32;
        self.parts.clear();
        self.parts
            .extend((0..len).map(|at| Part { previous: at.checked_sub(1).unwrap_or(END), end: at + 1 }));
        self.pairs.clear();
        for at in 0..len {
            self.offer(ranks, piece, at);
        }
        while let Some(Reverse((_, start, end))) = self.pairs.pop() {
            let middle = self.parts[start as usize].end;
            // The pair is stale if either of its parts has merged with another since: then it no longer ends there.
            if middle == 0 || middle >= len || self.parts[middle as usize].end != end {
                continue;
            }
            self.parts[middle as usize].end = 0;
            self.parts[start as usize].end = end;
            if end < len {
                self.parts[end as usize].previous = start;
            }
            self.offer(ranks, piece, start);
            let previous = self.parts[start as usize].previous;
            if previous != END {
                self.offer(ranks, piece, previous);
            }
        }
        let mut start = 0;
        while start < len {
            let end = self.parts[start as usize].end;
            // Every part is a rank: single bytes all are, and only ranks are merged.
            ids.extend(ranks.rank(&piece[start as usize..end as usize]));
            start = end;
        }
    }

    /// Queues the pair that begins at `start`, if it is a token.
    fn offer(&mut self, ranks: &Ranks, piece: &[u8], start: u32) {
        let middle = self.parts[start as usize].end;
        let Some(next) = self.parts.get(middle as usize) else { return };
        if let Some(rank) = ranks.rank(&piece[start as usize..next.end as usize]) {
            self.pairs.push(Reverse((rank, start, next.end)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::super::ranks::tests::lines;
    use super::*;

    fn ranks(more: &[&str]) -> Ranks {
        let count = 256 + u32::try_from(more.len()).unwrap();
        Ranks::parse(Path::new("tiktoken.model"), lines(more).as_bytes(), count).unwrap()
    }

    /// The definition, read literally: quadratic.
    fn plain(ranks: &Ranks, piece: &[u8]) -> Vec<u32> {
        if let Some(rank) = ranks.rank(piece) {
            return vec![rank];
        }
        let mut parts: Vec<Vec<u8>> = piece.iter().map(|&byte| vec![byte]).collect();
        loop {
            let best = (1..parts.len())
                .filter_map(|at| {
                    ranks.rank(&[&parts[at - 1][..], &parts[at]].concat()).map(|rank| (rank, at))
                })
                .min();
            let Some((_, at)) = best else { break };
            let right = parts.remove(at);
            parts[at - 1].extend(right);
        }
        parts.iter().map(|part| ranks.rank(part).unwrap()).collect()
    }

    fn merged(ranks: &Ranks, piece: &[u8]) -> Vec<u32> {
        let mut ids = Vec::new();
        Merger::default().encode(ranks, piece, &mut ids);
        ids
    }

    #[test]
    fn lowest_rank_first_then_leftmost() {
        let ranks = ranks(&["bc", "ab", "aa", "aaaa"]);
        let a = u32::from(b'a');
        assert_eq!(merged(&ranks, b"abc"), [a, 256]);
        assert_eq!(merged(&ranks, b"aaa"), [258, a]);
        assert_eq!(merged(&ranks, b"aaaaa"), [259, a]);
        assert!(merged(&ranks, b"").is_empty());
    }

    #[test]
    fn a_whole_piece_that_is_a_rank_needs_no_merges() {
        // No merge leads to `xyz`, since neither `xy` nor `yz` is a token.
        assert_eq!(merged(&ranks(&["xyz"]), b"xyz"), [256]);
        assert_eq!(merged(&ranks(&["xyz"]), b"xyzx").len(), 4);
    }

    proptest! {
        #![proptest_config(super::super::repeatable())]

        #[test]
        fn the_heap_does_what_the_definition_says(piece in "[abc]{0,40}", seed in any::<u64>()) {
            // A different vocabulary each time: 14 of the words of two to four letters, in some order.
            let words = ["ab", "bc", "ca", "aa", "bb", "cc", "abc", "aab", "bca", "cab", "aaaa", "abab", "bcbc", "ccc"];
            let mut order: Vec<&str> = words.to_vec();
            order.sort_by_key(|word| {
                word.bytes().fold(seed | 1, |hash, b| (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3).rotate_left(23))
            });
            let ranks = ranks(&order);
            prop_assert_eq!(merged(&ranks, piece.as_bytes()), plain(&ranks, piece.as_bytes()));
        }
    }
}
