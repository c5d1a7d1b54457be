//! What ends up in the files.

use std::fs;

use dormouse::setup::download::{Error, Event, State};

use crate::hub::{Act, Hub, Request, Served};
use crate::support::{KIB, OTHER, Place, SHARD, model};

/// The first fetch of the first shard is cut in its middle; later ones are answered by `then`.
fn cut_then(then: impl Fn(&Request) -> Act + Send + Sync + 'static) -> Hub {
    Hub::new(model(), move |request| match (&request.file, request.at_store, request.nth) {
        (Some(file), true, 0) if file == SHARD => Act::Cut(100 * KIB as u64),
        (Some(file), true, _) if file == SHARD => then(request),
        _ => Act::Well,
    })
}

fn fetches_of(hub: &Hub, path: &str) -> usize {
    hub.fetches().iter().filter(|request| request.file.as_deref() == Some(path)).count()
}

fn on_nth(nth: usize, act: Act) -> impl Fn(&Request) -> Act {
    move |request| if request.nth == nth { act.clone() } else { Act::Well }
}

#[test]
fn a_good_hub_is_asked_once_for_each_file_and_a_second_run_only_checks() {
    let (hub, place) = (Hub::good(model()), Place::new());
    let first = place.fetch(&hub);
    let summary = first.summary();
    assert_eq!((summary.files, summary.received), (4, summary.bytes));
    place.assert_whole(&model());
    assert_eq!(hub.fetches().len(), 3, "the empty file needs no asking");
    assert!(first.troubles().is_empty());
    assert!(hub.log().iter().all(|r| r.encoding.as_deref() == Some("identity")));
    let fetched = [State::Checking, State::Fetching, State::Verifying, State::Complete];
    assert_eq!(first.states(SHARD), fetched);
    let second = place.fetch(&hub);
    assert_eq!((second.summary().received, hub.fetches().len()), (0, 3));
    assert_eq!(second.states(SHARD), [State::Checking, State::Complete]);
}

#[test]
fn d01_a_server_that_ignores_ranges_does_not_double_the_file() {
    let (hub, place) = (cut_then(on_nth(1, Act::Whole)), Place::new());
    let outcome = place.fetch(&hub);
    outcome.summary();
    outcome.assert_trouble("ignores ranges");
    assert_eq!(fetches_of(&hub, SHARD), 2, "its body is used, from its first byte on");
    place.assert_whole(&model());
}

#[test]
fn d02_a_part_that_begins_elsewhere_is_not_written() {
    let (hub, place) = (cut_then(on_nth(1, Act::Elsewhere(0))), Place::new());
    let outcome = place.fetch(&hub);
    outcome.summary();
    outcome.assert_trouble("the server sends them from 0 on");
    assert_eq!(fetches_of(&hub, SHARD), 3);
    place.assert_whole(&model());
}

#[test]
fn d03_d07_a_partial_file_that_is_complete_is_finished_without_asking() {
    let (hub, place) = (Hub::good(model()), Place::new());
    // It cannot get its name, so it stays under its partial one.
    fs::create_dir_all(place.folder.join(SHARD).join("in the way")).unwrap();
    let first = place.fetch(&hub);
    assert!(matches!(first.error(), Error::Io { action: "name", .. }), "{}", first.error());
    fs::remove_dir_all(place.folder.join(SHARD)).unwrap();
    assert_eq!(fetches_of(&hub, SHARD), 1);
    place.fetch(&hub).summary();
    assert_eq!(fetches_of(&hub, SHARD), 1);
    place.assert_whole(&model());
}

#[test]
fn d04_d06_a_refused_range_begins_anew_and_its_text_is_not_written() {
    let refused = Act::Status(416, vec![], "<html>Requested Range Not Satisfiable</html>");
    let (hub, place) = (cut_then(on_nth(1, refused)), Place::new());
    let outcome = place.fetch(&hub);
    outcome.summary();
    place.assert_whole(&model());
    let froms: Vec<_> =
        hub.fetches().iter().filter(|r| r.file.as_deref() == Some(SHARD)).map(|r| r.from).collect();
    assert_eq!(froms, [None, Some(100 * KIB as u64), None]);
}

#[test]
fn d05_a_refused_range_is_not_the_end_of_the_file() {
    let total = ("Content-Range", format!("bytes */{}", 100 * KIB));
    let (hub, place) = (cut_then(move |_| Act::Status(416, vec![total.clone()], "")), Place::new());
    let outcome = place.fetch(&hub);
    assert!(matches!(outcome.error(), Error::Incomplete { missing, .. } if missing[0].0 == SHARD));
    assert!(!place.folder.join(SHARD).exists());
}

#[test]
fn d06_an_error_page_is_never_a_file() {
    let page = |status| Act::Status(status, vec![], "<html>sorry</html>");
    let hub = Hub::new(model(), move |request| match request.nth {
        0 if request.file.is_some() => page(500),
        1 if request.file.is_some() => page(502),
        _ => Act::Well,
    });
    let place = Place::new();
    place.fetch(&hub).summary();
    place.assert_whole(&model());
}

#[test]
fn d07_no_range_begins_beyond_the_end() {
    let (hub, place) = (cut_then(|_| Act::Cut(70 * KIB as u64)), Place::new());
    place.fetch(&hub).summary();
    place.assert_whole(&model());
    let length = |request: &Request| {
        let file = model().into_iter().find(|f| Some(&f.path) == request.file.as_ref());
        file.unwrap().bytes.len() as u64
    };
    let fetches = hub.fetches();
    assert!(fetches.iter().filter(|r| r.from.is_some()).count() >= 3);
    assert!(fetches.iter().all(|r| r.from.is_none_or(|from| from < length(r))));
}

#[test]
fn d08_one_wrong_bit_is_found_and_only_that_file_comes_again() {
    let hub = Hub::new(model(), |request| match (&request.file, request.nth) {
        (Some(file), 0) if file == SHARD && request.at_store => Act::Flip(123_456),
        _ => Act::Well,
    });
    let place = Place::new();
    let outcome = place.fetch(&hub);
    outcome.summary();
    outcome.assert_trouble("its digest is");
    place.assert_whole(&model());
    assert_eq!((fetches_of(&hub, SHARD), fetches_of(&hub, OTHER)), (2, 1));
}

#[test]
fn d08_bytes_that_stay_wrong_never_get_the_final_name() {
    let hub = Hub::new(model(), |request| match &request.file {
        Some(file) if file == SHARD && request.at_store => Act::Flip(5),
        _ => Act::Well,
    });
    let place = Place::new();
    let outcome = place.fetch(&hub);
    assert!(matches!(outcome.error(), Error::Incomplete { missing, .. } if missing.len() == 1));
    assert_eq!(outcome.states(SHARD).last(), Some(&State::Mismatch));
    assert!(!place.folder.join(SHARD).exists() && place.folder.join(OTHER).exists());
    let record = fs::read_to_string(place.folder.join(".dormouse-download.json")).unwrap();
    assert!(record.contains("\"complete\": false"), "d26: what is not complete does not say so");
}

#[test]
fn d09_small_files_are_checked_as_well() {
    let hub = Hub::new(model(), |request| match (&request.file, request.nth) {
        (Some(file), 0) if file == "config.json" => Act::Flip(3),
        _ => Act::Well,
    });
    let place = Place::new();
    let outcome = place.fetch(&hub);
    outcome.summary();
    outcome.assert_trouble("published is git:");
    place.assert_whole(&model());
}

#[test]
fn d09_damage_on_the_disk_is_repaired_and_nothing_else_is_fetched() {
    let (hub, place) = (Hub::good(model()), Place::new());
    place.fetch(&hub).summary();
    let path = place.folder.join("config.json");
    let mut bytes = fs::read(&path).unwrap();
    bytes[0] ^= 1;
    fs::write(&path, bytes).unwrap();
    let outcome = place.fetch(&hub);
    outcome.assert_trouble("damaged");
    place.assert_whole(&model());
    assert_eq!(hub.fetches().len(), 4);
}

#[test]
fn d10_without_a_published_digest_a_file_is_not_called_verified() {
    let mut files = model();
    files[2].digest = false;
    let (hub, place) = (Hub::good(files.clone()), Place::new());
    let outcome = place.fetch(&hub);
    assert_eq!(outcome.summary().unverified, ["config.json"]);
    assert_eq!(outcome.states("config.json").last(), Some(&State::Unverified));
    place.assert_whole(&files);
}

#[test]
fn d13_an_empty_answer_is_an_error_of_its_own() {
    let hub = Hub::new(model(), |request| match (&request.file, request.nth) {
        (Some(file), 0) if file == SHARD && request.at_store => {
            Act::Status(200, vec![("X", String::new())], "")
        }
        (Some(file), 1) if file == SHARD && request.at_store => Act::Cut(0),
        _ => Act::Well,
    });
    let place = Place::new();
    let outcome = place.fetch(&hub);
    outcome.summary();
    outcome.assert_trouble("the server sent an empty answer");
    outcome.assert_trouble("the connection ended at byte 0");
    place.assert_whole(&model());
}

#[test]
fn d14_d33_progress_never_runs_backwards_nor_over_the_total() {
    // Most of the file is there, and shown, for as long as the silence lasts; then it has to begin anew, slowly.
    let hub = Hub::new(model(), |request| match (&request.file, request.at_store, request.nth) {
        (Some(file), true, 0) if file == SHARD => Act::Stall(250 * KIB as u64),
        (Some(file), true, 1) if file == SHARD => Act::Status(416, vec![], ""),
        (Some(file), true, _) if file == SHARD => Act::Slow(8 * KIB, std::time::Duration::from_millis(15)),
        _ => Act::Well,
    });
    let place = Place::new();
    for run in 0..2 {
        let outcome = place.fetch(&hub);
        let looks: Vec<_> = outcome
            .events
            .iter()
            .filter_map(|event| match event {
                Event::Progress(look) => Some(look),
                _ => None,
            })
            .collect();
        assert!(looks.is_sorted_by_key(|look| look.verified), "{looks:?}");
        assert!(looks.iter().all(|look| look.verified <= look.total), "{looks:?}");
        let last = looks.last().unwrap();
        assert_eq!((last.verified, last.total), (outcome.summary().bytes, outcome.summary().bytes));
        assert_eq!(last.again >= 200 * KIB as u64, run == 0, "what came twice is shown apart");
    }
}

#[test]
fn d22_no_etag_at_all_is_no_failure() {
    let hub = Hub::new(model(), |request| {
        if request.file.is_some() && !request.at_store { Act::With(vec![]) } else { Act::Well }
    });
    let place = Place::new();
    place.fetch(&hub).summary();
    place.assert_whole(&model());
}

#[test]
fn a_changed_etag_is_not_overlooked() {
    let hub = Hub::new(model(), |request| match &request.file {
        Some(file) if file == SHARD && !request.at_store => {
            Act::With(vec![("X-Linked-Etag", format!("\"{}\"", "0".repeat(64)))])
        }
        _ => Act::Well,
    });
    let place = Place::new();
    let outcome = place.fetch(&hub);
    assert!(matches!(outcome.error(), Error::Incomplete { .. }));
    outcome.assert_trouble("the hub now says 000");
    assert!(!place.folder.join(SHARD).exists());
}

#[test]
fn d32_more_than_is_listed_is_cut_off_or_flagged() {
    // Told: the length contradicts the list.
    let mut files = model();
    files[0].listed = Some(files[0].bytes.len() as u64 - 7);
    let place = Place::new();
    let outcome = place.fetch(&Hub::good(files));
    assert!(matches!(outcome.error(), Error::Incomplete { .. }));
    outcome.assert_trouble("and the server has");
    // Not told: what is too much is not taken.
    let hub = Hub::new(model(), |request| if request.file.is_some() { Act::Longer(5000) } else { Act::Well });
    let place = Place::new();
    place.fetch(&hub).summary();
    place.assert_whole(&model());
}

#[test]
fn d35_names_with_spaces_and_accents() {
    let files = vec![Served::large("sub dir/mo del è.bin", 70 * KIB), Served::small("con fig#1?.json", "{}")];
    let (hub, place) = (Hub::good(files.clone()), Place::named("my models/k3 è"));
    place.fetch(&hub).summary();
    place.assert_whole(&files);
}

#[test]
fn only_what_is_wanted_comes() {
    let (hub, place) = (Hub::good(model()), Place::new());
    let outcome = place.fetch_with(&hub, |options| options.only = vec!["*.json".into()]);
    assert_eq!(outcome.summary().files, 1);
    assert_eq!(place.names(), [".dormouse-download.json", "config.json"]);
    let outcome = place.fetch_with(&hub, |options| options.only = vec!["*.gguf".into()]);
    assert!(matches!(outcome.error(), Error::NothingWanted { files: 4, .. }));
}
