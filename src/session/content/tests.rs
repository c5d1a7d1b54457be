use proptest::prelude::*;

use super::super::record::{frame, head};
use super::*;
use crate::protocol::{Limits, Outcome, Thinking};

fn header() -> Record {
    Record::Header(Header { model: 7, folder: "/m".to_owned(), name: "m".to_owned(), created: 1 })
}

fn asked(user: &str) -> TurnStart {
    TurnStart {
        user: user.to_owned(),
        thinking: Thinking::High,
        temperature: 0.7,
        top_p: 0.9,
        seed: 3,
        max_tokens: None,
        limits: Limits::default(),
        at: 1,
    }
}

fn start(user: &str) -> Record {
    Record::Turn(asked(user))
}

fn branch(follows: usize, user: &str) -> Record {
    Record::Branch(Branch { follows, dropped: 0, turn: asked(user) })
}

fn token(id: u32) -> Record {
    Record::Token { id, channel: Channel::Answer }
}

fn end(finish: Finish) -> Record {
    Record::End(End { at: 2, ..End::of(&Outcome::new(finish)) })
}

fn story() -> Vec<Record> {
    vec![
        header(),
        start("What is\n  a dormouse?"),
        Record::Prompt(PromptDigest::of(&[1, 2])),
        token(10),
        token(11),
        end(Finish::Cancelled),
        Record::Resumed(9),
        token(12),
        end(Finish::Stop),
        Record::Note("n".to_owned()),
        start("And a mouse?"),
        token(20),
        token(21),
        branch(1, "And a rat?"),
        token(30),
        end(Finish::Stop),
        Record::Branch(Branch { follows: 3, dropped: 1, turn: asked("And a cat?") }),
        token(40),
        Record::GoTo(2),
        Record::Resumed(10),
        token(22),
    ]
}

/// The bytes of these records, and where each ends.
fn written(records: &[Record]) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = head();
    let (mut check, mut ends) = (0, Vec::new());
    for record in records {
        check = frame(check, &record.body(), &mut bytes);
        ends.push(bytes.len());
    }
    (bytes, ends)
}

fn read_well(bytes: &[u8]) -> Content {
    read(bytes, Path::new("j")).unwrap()
}

/// What the first `count` records tell.
fn told(records: &[Record]) -> Session {
    let content = read_well(&written(records).0);
    assert_eq!(content.damage, None);
    content.session
}

#[test]
fn records_tell_a_conversation() {
    let session = told(&story());
    assert_eq!(session.title(), "What is a dormouse?");
    assert_eq!(session.tokens(), 8);
    let branch = session.branch();
    let [first, second] = &branch[..] else { panic!("{session:?}") };
    assert_eq!((first.ids.as_slice(), first.finish(), first.can_go_on()), (&[10, 11, 12][..], "stop", false));
    assert_eq!(first.prompt, Some(PromptDigest::of(&[1, 2])));
    assert_eq!(
        (second.ids.as_slice(), second.finish(), second.can_go_on()),
        (&[20, 21, 22][..], "cut", true)
    );
}

/// An edit and a retry put a turn beside another one. Nothing of the old branch is lost, and each can be gone back to.
#[test]
fn branches_stand_beside_each_other() {
    fn said(turns: &[&Turn]) -> Vec<String> {
        turns.iter().map(|turn| turn.start.user.clone()).collect()
    }
    let story = story();
    let before = told(&story[..story.len() - 3]);
    assert_eq!(said(&before.branch()), ["What is\n  a dormouse?", "And a rat?", "And a cat?"]);
    assert_eq!(before.branch().iter().map(|turn| turn.dropped).collect::<Vec<_>>(), [0, 0, 1]);
    assert_eq!((before.versions(1), before.versions(0), before.versions(9)), (vec![1, 2], vec![0], vec![]));
    assert_eq!(before.ends(), [1, 3]);
    assert!(before.is_followed(2) && !before.is_followed(3));
    let after = told(&story);
    assert_eq!(said(&after.branch()), ["What is\n  a dormouse?", "And a mouse?"]);
    assert_eq!(said(&after.branch_to(3)), ["What is\n  a dormouse?", "And a rat?", "And a cat?"]);
    assert_eq!(after.last().map(|turn| turn.ids.clone()), Some(vec![20, 21, 22]));
    // What comes next follows the branch that was gone to, and leaves out what that one does.
    let more = [start("And a dog?"), branch(0, "Another beginning"), Record::GoTo(4), start("On")];
    let session = told(&[&story[..], &more].concat());
    assert_eq!(session.turns[4].follows, Some(1));
    assert_eq!((session.turns[5].follows, session.turns[5].dropped), (None, 0));
    assert_eq!((session.turns[6].follows, session.turns[6].dropped), (Some(3), 1));
    assert_eq!(session.title(), "What is a dormouse?");
}

#[test]
fn a_title_is_given_or_cut_from_the_first_message() {
    let long = told(&[header(), start(&"é".repeat(200))]).title();
    assert_eq!(long, format!("{}…", "é".repeat(TITLE)));
    let records = [header(), start("x"), Record::Title("a".to_owned()), Record::Title("b".to_owned())];
    assert_eq!(told(&records).title(), "b");
    assert_eq!(told(&[header()]).title(), "");
}

/// P01, for every record and not only the last: a file that is cut anywhere holds all records before the cut.
#[test]
fn a_cut_at_any_byte_keeps_all_records_before_it() {
    let story = story();
    let (bytes, ends) = written(&story);
    for cut in 0..bytes.len() {
        let whole = ends.iter().filter(|end| **end <= cut).count();
        if whole == 0 {
            assert!(matches!(read(&bytes[..cut], Path::new("j")), Err(Error::Foreign { .. })), "{cut}");
            continue;
        }
        let content = read_well(&bytes[..cut]);
        assert_eq!(content.session, told(&story[..whole]), "cut at {cut}");
        let offset = ends[whole - 1];
        assert_eq!(content.whole, offset as u64);
        let torn = Damage { offset: offset as u64, bytes: (cut - offset) as u64, fault: Fault::Torn };
        assert_eq!(content.damage, (cut > offset).then_some(torn), "cut at {cut}");
    }
}

/// Any single byte, in every way that it can be wrong by one bit: nothing before it is touched, nothing wrong is read.
#[test]
fn a_flipped_bit_is_found_and_hides_nothing_before_it() {
    let story = story();
    let (bytes, ends) = written(&story);
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << bit;
            let whole = ends.iter().filter(|end| **end <= at).count();
            match read(&bytes, Path::new("j")) {
                Err(Error::Foreign { .. }) => assert!(whole == 0, "byte {at}"),
                Err(Error::Version { .. }) => assert!((8..12).contains(&at), "byte {at}"),
                Err(other) => panic!("{other}"),
                Ok(content) => {
                    assert!(whole > 0 && content.damage.is_some(), "byte {at}, bit {bit}");
                    assert_eq!(content.session, told(&story[..whole]), "byte {at}, bit {bit}");
                }
            }
        }
    }
}

#[test]
fn doubled_missing_swapped_and_foreign_records_do_not_fit() {
    let story = story();
    let (bytes, ends) = written(&story);
    let piece = |index: usize| &bytes[ends[index - 1]..ends[index]];
    for index in 1..story.len() - 1 {
        let before = &bytes[..ends[index - 1]];
        let doubled = [&bytes[..ends[index]], piece(index), &bytes[ends[index]..]].concat();
        let missing = [before, &bytes[ends[index]..]].concat();
        let swapped = [before, piece(index + 1), piece(index)].concat();
        for (bytes, whole, what) in
            [(doubled, index + 1, "doubled"), (missing, index, "missing"), (swapped, index, "swapped")]
        {
            let content = read_well(&bytes);
            assert_eq!(content.session, told(&story[..whole]), "{what} {index}");
            assert_eq!(content.damage.map(|damage| damage.fault), Some(Fault::Checksum), "{what} {index}");
        }
    }
    let (other, other_ends) = written(&[header(), start("of another session"), token(1)]);
    let spliced = [&bytes[..], &other[other_ends[1]..]].concat();
    assert_eq!(read_well(&spliced).session, told(&story));
}

#[test]
fn records_that_make_no_sense_end_the_reading() {
    for (records, whole) in [
        (vec![header(), token(1)], 1),
        (vec![header(), end(Finish::Stop)], 1),
        (vec![header(), Record::Resumed(1)], 1),
        (vec![header(), header()], 1),
        (vec![header(), branch(1, "a")], 1),
        (vec![header(), start("a"), branch(2, "a")], 2),
        (vec![header(), Record::GoTo(1)], 1),
        (vec![header(), start("a"), Record::GoTo(0)], 2),
        (vec![header(), start("a"), Record::GoTo(2)], 2),
        (vec![header(), start("a"), end(Finish::Stop), branch(0, "b"), Record::GoTo(1), token(1)], 5),
        (vec![header(), start("a"), end(Finish::Stop), token(1)], 3),
        (vec![header(), start("a"), end(Finish::Stop), end(Finish::Stop)], 3),
        (vec![header(), start("a"), end(Finish::Stop), Record::Resumed(1)], 3),
    ] {
        let content = read_well(&written(&records).0);
        assert_eq!(content.damage.map(|damage| damage.fault), Some(Fault::OutOfPlace), "{records:?}");
        assert_eq!(content.session, told(&records[..whole]));
    }
    let (mut bytes, _) = written(&[]);
    let check = frame(0, &header().body(), &mut bytes);
    frame(check, b"Zebra", &mut bytes);
    assert_eq!(read_well(&bytes).damage.map(|damage| damage.fault), Some(Fault::Unknown));
}

#[test]
fn what_is_no_journal_is_told_from_what_is_one() {
    let other_version = [&b"dormouse"[..], &2_u32.to_le_bytes(), &[0; 40]].concat();
    let error = read(&other_version, Path::new("/s/j")).unwrap_err();
    assert_eq!(error.to_string(), "/s/j has version 2 of the format; this program knows version 1");
    for (bytes, problem) in [
        (&b""[..], "it is empty"),
        (b"{\"a\":1}\n", "it begins with other letters"),
        (b"dormouse\x01\0", "it ends within its first bytes"),
        (b"dormouse\x01\0\0\0\xff\xff\xff\xff", "its first record is damaged"),
        (&written(&[start("a")]).0, "its first record is not a header"),
    ] {
        let error = read(bytes, Path::new("/s/j")).unwrap_err();
        assert_eq!(error.to_string(), format!("/s/j is not a journal of dormouse: {problem}"));
    }
}

proptest! {
    /// Whatever follows the whole records, reading gives them and does not panic.
    #[test]
    fn junk_after_whole_records_changes_nothing_before_it(
        count in 1_usize..22,
        junk in proptest::collection::vec(any::<u8>(), 1..80),
    ) {
        let story = story();
        let (bytes, ends) = written(&story[..count]);
        let content = read_well(&[&bytes[..], &junk].concat());
        prop_assert_eq!(content.session, told(&story[..count]));
        prop_assert_eq!(content.whole, ends[count - 1] as u64);
        prop_assert!(content.damage.is_some());
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes, Path::new("j"));
        let _ = read(&[&head()[..], &bytes].concat(), Path::new("j"));
    }
}
