//! Decisions of a download, without a network or a disk: what an answer to a request for the rest of a file means, in
//! which order files come, and whether there is room.

use super::headers::ContentRange;
use super::manifest::Entry;

/// What an answer is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Its body is what was asked for: the bytes from there on.
    Rest,
    /// Its body is the file from its first byte.
    Whole,
    /// Its body is of no use; another attempt may go better.
    Again(String),
    /// Likewise, and what is there of the file must go.
    BeginAnew(String),
    /// The file has another length than the list says.
    Wrong(String),
}

/// Judges the answer to a request for a file of `size` bytes from byte `from` on.
pub(super) fn answer(
    from: u64,
    size: u64,
    status: u16,
    range: Option<ContentRange>,
    length: Option<u64>,
) -> Answer {
    let other_size = |found| Answer::Wrong(format!("listed with {size} bytes, and the server has {found}"));
    match status {
        200 => match length {
            // A server in trouble, and not a file without bytes.
            Some(0) if size > 0 => Answer::Again("the server sent an empty answer".to_owned()),
            Some(length) if length != size => other_size(length),
            _ => Answer::Whole,
        },
        206 => match range {
            Some(ContentRange { total: Some(total), .. }) if total != size => other_size(total),
            Some(ContentRange { bytes: Some((first, _)), .. }) if first == from => Answer::Rest,
            Some(ContentRange { bytes: Some((first, _)), .. }) => Answer::Again(format!(
                "asked for bytes from {from} on, the server sends them from {first} on"
            )),
            _ => Answer::Again("the server sends a part and does not say which".to_owned()),
        },
        416 => match range {
            Some(ContentRange { total: Some(total), .. }) if total != size => other_size(total),
            // We never ask for what lies beyond the end, so the server is confused about this file.
            _ => Answer::BeginAnew(format!("the server has nothing from byte {from} of {size} on")),
        },
        other => Answer::Again(format!("the server answered {other}")),
    }
}

/// The order in which files come, each with what is kept of it: small ones first, for without them the large ones are of
/// no use; then what is missing, by name; and last what seems to be there whole, which is only looked at. So whoever comes
/// back to a terabyte does not wait for it to be read before the next byte comes.
pub(super) fn order(entries: Vec<Entry>, kept: Vec<u64>) -> (Vec<Entry>, Vec<u64>) {
    const SMALL: u64 = 64 << 20;
    let mut files: Vec<(Entry, u64)> = entries.into_iter().zip(kept).collect();
    let rank = |entry: &Entry, kept: u64| match entry.size {
        ..=SMALL => 0,
        size if kept < size => 1,
        _ => 2,
    };
    files.sort_by(|(a, kept_a), (b, kept_b)| (rank(a, *kept_a), &a.path).cmp(&(rank(b, *kept_b), &b.path)));
    files.into_iter().unzip()
}

/// Bytes that should be left over on the disk: a hundredth of what comes, and no more than a gibibyte.
pub(super) fn spare(remaining: u64) -> u64 {
    (remaining / 100).min(1 << 30)
}

/// Bytes that are missing on a disk with `free` bytes.
pub(super) fn missing(remaining: u64, free: u64) -> u64 {
    if remaining == 0 { 0 } else { remaining.saturating_add(spare(remaining)).saturating_sub(free) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::download::manifest::Digest;

    const fn part(first: u64, total: u64) -> ContentRange {
        ContentRange { bytes: Some((first, total - 1)), total: Some(total) }
    }

    #[test]
    fn d01_d02_only_a_part_that_begins_where_asked_is_appended() {
        assert_eq!(answer(40, 100, 206, Some(part(40, 100)), Some(60)), Answer::Rest);
        assert_eq!(answer(40, 100, 200, None, Some(100)), Answer::Whole);
        assert!(matches!(answer(40, 100, 206, Some(part(0, 100)), None), Answer::Again(_)));
        assert!(matches!(answer(40, 100, 206, None, None), Answer::Again(_)));
        assert!(matches!(answer(40, 100, 204, None, None), Answer::Again(_)));
    }

    #[test]
    fn d03_d05_a_refused_range_is_never_the_end_of_a_file() {
        let refused = |total| Some(ContentRange { bytes: None, total });
        assert!(matches!(answer(40, 100, 416, refused(Some(100)), None), Answer::BeginAnew(_)));
        assert!(matches!(answer(40, 100, 416, None, None), Answer::BeginAnew(_)));
        assert!(matches!(answer(40, 100, 416, refused(Some(40)), None), Answer::Wrong(_)));
    }

    #[test]
    fn d32_another_length_than_listed_is_flagged() {
        assert!(matches!(answer(0, 100, 200, None, Some(110)), Answer::Wrong(_)));
        assert!(matches!(answer(40, 100, 206, Some(part(40, 110)), Some(70)), Answer::Wrong(_)));
        assert_eq!(answer(0, 100, 200, None, None), Answer::Whole, "it is not always told");
        assert!(matches!(answer(0, 100, 200, None, Some(0)), Answer::Again(_)), "d13");
    }

    #[test]
    fn d23_room_is_counted_with_something_to_spare() {
        assert_eq!(missing(1000, 1010), 0);
        assert_eq!(missing(1000, 1009), 1);
        assert_eq!(missing(1_560_000_000_000, 1_560_000_000_000), 1 << 30);
        assert_eq!(missing(0, 0), 0, "a complete folder needs no room");
        assert_eq!(missing(u64::MAX, 0), u64::MAX);
    }

    #[test]
    fn small_files_come_first_and_those_that_are_there_last() {
        let entry = |path: &str, size| Entry { path: path.into(), size, digest: Digest::Unknown };
        let large = 1 << 40;
        let entries =
            vec![entry("b", large), entry("z", 1), entry("a", large), entry("c", 2), entry("d", large)];
        let (entries, kept) = order(entries, vec![large, 1, large - 1, 0, 0]);
        let paths: Vec<_> = entries.iter().map(|entry| entry.path.as_str()).collect();
        assert_eq!(paths, ["c", "z", "a", "d", "b"]);
        assert_eq!(kept, [0, 1, large - 1, 0, large]);
    }
}
