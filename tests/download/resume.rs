//! Leaving and coming back.

use std::fs;
use std::time::Duration;

use dormouse::setup::download::{Error, Event};

use crate::hub::{Act, Hub, Request};
use crate::support::{KIB, Outcome, Place, SHARD, model};

fn slow(request: &Request) -> Act {
    if request.at_store { Act::Slow(8 * KIB, Duration::from_millis(10)) } else { Act::Well }
}

/// Fetches until something is safe on the disk, and stops.
fn begin(place: &Place, hub: &Hub) -> Outcome {
    let outcome = place.fetch_until(
        hub,
        |_| {},
        |event| matches!(event, Event::Progress(look) if look.verified > 64 * KIB as u64),
    );
    assert!(matches!(outcome.error(), Error::Stopped), "{}", outcome.error());
    outcome
}

#[test]
fn d16_d20_a_stop_keeps_what_came_under_names_that_the_next_run_knows() {
    let (hub, place) = (Hub::new(model(), slow), Place::new());
    let first = begin(&place, &hub);
    let names = place.names();
    for suffix in ["part", "part.journal"] {
        assert!(names.contains(&format!(".{SHARD}.{suffix}")), "{names:?}");
    }
    assert!(!names.contains(&SHARD.to_owned()) && !names.contains(&".dormouse-lock".to_owned()), "{names:?}");
    let before = hub.fetches().len();
    let outcome = place.fetch(&hub);
    let kept = outcome.events.iter().find_map(|event| match event {
        Event::Listed { kept, .. } => Some(*kept),
        _ => None,
    });
    assert!(kept.unwrap() > 64 * KIB as u64);
    let summary = outcome.summary();
    assert_eq!(summary.received, summary.bytes - kept.unwrap());
    let came = first.events.iter().rev().find_map(|event| match event {
        Event::Progress(look) => Some(look.received),
        _ => None,
    });
    assert_eq!(came.unwrap() + summary.received, summary.bytes, "a stop that is asked for loses nothing");
    assert!(hub.fetches()[before..].iter().any(|request| request.from.is_some()));
    place.assert_whole(&model());
}

#[test]
fn d16_a_partial_file_that_was_damaged_meanwhile_is_cut_back() {
    let (hub, place) = (Hub::new(model(), slow), Place::new());
    begin(&place, &hub);
    let part = place.folder.join(format!(".{SHARD}.part"));
    let mut bytes = fs::read(&part).unwrap();
    assert!(bytes.len() > 33 * KIB);
    bytes[33 * KIB] ^= 1;
    fs::write(&part, bytes).unwrap();
    let before = hub.fetches().len();
    let outcome = place.fetch(&hub);
    outcome.summary();
    assert_eq!(outcome.troubles(), Vec::<String>::new(), "found before anything was fetched");
    let from = hub.fetches()[before..].iter().find(|r| r.file.as_deref() == Some(SHARD)).unwrap().from;
    assert_eq!(from, Some(32 * KIB as u64), "the block before it is kept");
    place.assert_whole(&model());
}

#[test]
fn d20_d21_a_second_download_into_the_folder_is_told_who_has_it() {
    let (hub, place) = (Hub::new(model(), slow), Place::new());
    let first = place.options(&hub);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| dormouse::setup::download::run(&first, &|| false, &mut |_| {}));
        while !place.folder.join(".dormouse-lock").exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let outcome = place.fetch(&hub);
        let text = outcome.error().to_string();
        assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
        first.join().unwrap().unwrap();
    });
    place.assert_whole(&model());
}

#[test]
fn d36_a_revision_that_moves_does_not_mix_two_commits() {
    let (hub, place) = (Hub::new(model(), slow), Place::new());
    begin(&place, &hub);
    let mut newer = model();
    for file in &mut newer {
        let mut bytes = file.bytes.as_ref().clone();
        for byte in &mut bytes {
            *byte ^= 0x55;
        }
        file.bytes = bytes.into();
    }
    let new = "b".repeat(40);
    hub.moves_on(&new, newer.clone());
    let outcome = place.fetch(&hub);
    outcome.summary();
    let moved = outcome.events.iter().find_map(|event| match event {
        Event::Resolved { moved, .. } => moved.clone(),
        _ => None,
    });
    assert_eq!(moved.as_deref(), Some(new.as_str()), "it is said");
    place.assert_whole(&model());
    // Only when the user says so the folder goes to the other commit, all of it.
    let outcome = place.fetch_with(&hub, |options| options.revision = Some(new.clone()));
    assert_eq!(outcome.summary().commit, new);
    place.assert_whole(&newer);
}
