//! Servers that are slow, busy, or fall silent.

use std::time::{Duration, Instant};

use dormouse::setup::download::Error;

use crate::hub::{Act, Hub, Served};
use crate::support::{KIB, OTHER, Place, SHARD, model};

#[test]
fn d15_a_connection_far_slower_than_the_others_is_made_anew() {
    let files = vec![Served::large(SHARD, 4096 * KIB), Served::large(OTHER, 400 * KIB)];
    let hub = Hub::new(files.clone(), |request| match (&request.file, request.at_store, request.nth) {
        (Some(file), true, _) if file == SHARD => Act::Slow(64 * KIB, Duration::from_millis(8)),
        // At this rate it would take eight seconds.
        (Some(file), true, 0) if file == OTHER => Act::Slow(KIB, Duration::from_millis(20)),
        _ => Act::Well,
    });
    let place = Place::new();
    let began = Instant::now();
    let outcome = place.fetch(&hub);
    outcome.summary();
    outcome.assert_trouble("far slower");
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    place.assert_whole(&files);
    let again = hub.fetches().into_iter().rfind(|r| r.file.as_deref() == Some(OTHER)).unwrap();
    assert!(again.from.is_some_and(|from| from > 0), "what came is kept");
}

#[test]
fn d17_silence_is_noticed_said_and_cured() {
    let hub = Hub::new(model(), |request| match (&request.file, request.nth) {
        (Some(file), 0) if file == SHARD && request.at_store => Act::Stall(299 * KIB as u64),
        (Some(file), 0) if file == "config.json" => Act::Stall(0),
        _ => Act::Well,
    });
    let place = Place::new();
    let outcome = place.fetch(&hub);
    outcome.summary();
    let stalls = outcome.troubles().iter().filter(|t| t.contains("sent no byte for 0.4 s")).count();
    assert_eq!(stalls, 2, "{:?}", outcome.troubles());
    place.assert_whole(&model());
}

#[test]
fn d18_a_slow_file_may_take_as_long_as_it_takes() {
    let hub = Hub::new(model(), |request| {
        if request.at_store { Act::Slow(10 * KIB, Duration::from_millis(50)) } else { Act::Well }
    });
    let place = Place::new();
    let began = Instant::now();
    let outcome = place.fetch(&hub);
    outcome.summary();
    assert!(began.elapsed() > Duration::from_millis(1200), "three times the wait for one byte");
    assert_eq!(outcome.troubles(), Vec::<String>::new());
    assert_eq!(hub.fetches().len(), 3);
}

#[test]
fn d28_too_many_requests_waits_as_told_and_gives_nothing_up() {
    // More of these answers than attempts that may fail, at the list and at a file.
    let hub = Hub::new(model(), |request| {
        let busy = request.nth < 8 && (request.file.is_none() || request.file.as_deref() == Some(SHARD));
        let wait = if request.nth == 0 && request.file.is_none() { "1" } else { "0" };
        let headers = vec![("Retry-After", wait.to_owned())];
        if busy && !request.at_store { Act::Status(429, headers, "slow down") } else { Act::Well }
    });
    let place = Place::new();
    let began = Instant::now();
    let outcome = place.fetch(&hub);
    outcome.summary();
    assert!(began.elapsed() >= Duration::from_secs(1));
    outcome.assert_trouble("answered 429");
    place.assert_whole(&model());
}

#[test]
fn a_file_that_never_comes_is_given_up_and_the_others_are_kept() {
    let hub = Hub::new(model(), |request| match &request.file {
        Some(file) if file == SHARD && request.at_store => Act::Status(500, vec![], "oops"),
        _ => Act::Well,
    });
    let place = Place::new();
    let outcome = place.fetch(&hub);
    match outcome.error() {
        Error::Incomplete { files: 4, missing } => assert!(missing[0].1.contains("answered 500 (attempt 5)")),
        other => panic!("{other}"),
    }
    assert_eq!(hub.fetches().iter().filter(|r| r.file.as_deref() == Some(SHARD)).count(), 5);
    assert!(place.folder.join(OTHER).exists());
}

#[test]
fn a_connection_that_breaks_but_goes_on_is_never_given_up() {
    let hub =
        Hub::new(model(), |request| if request.at_store { Act::Cut(20 * KIB as u64) } else { Act::Well });
    let place = Place::new();
    place.fetch(&hub).summary();
    place.assert_whole(&model());
}

#[test]
fn a_hub_that_is_not_there_is_given_up_soon() {
    let hub = Hub::good(model());
    let place = Place::new();
    let outcome = place.fetch_with(&hub, |options| options.endpoint = "http://127.0.0.1:1".into());
    assert!(matches!(outcome.error(), Error::GaveUp { attempts: 3, .. }), "{}", outcome.error());
}

#[test]
fn d34_the_limit_holds_for_all_connections_together() {
    let (hub, place) = (Hub::good(model()), Place::new());
    let began = Instant::now();
    place.fetch_with(&hub, |options| options.limit = Some(500 << 10)).summary();
    let took = began.elapsed().as_secs_f64();
    assert!((0.8..3.0).contains(&took), "500 KiB at 500 KiB/s took {took} s");
    place.assert_whole(&model());
}
