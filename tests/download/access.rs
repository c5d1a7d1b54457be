//! Who is let in, who is told what, and links that run out.

use dormouse::setup::download::{Access, Error, Token};

use crate::hub::{Act, Hub};
use crate::support::{KIB, Place, SHARD, model};

const SECRET: &str = "hf_this-is-secret";

#[test]
fn d29_no_token_a_bad_one_and_terms_are_told_apart() {
    for (status, token, expected) in [
        (401, None, Access::NoToken),
        (401, Some(SECRET), Access::BadToken),
        (403, Some(SECRET), Access::Terms),
    ] {
        // Some hubs list a repository to everyone and refuse only its files.
        for files_only in [false, true] {
            let hub = Hub::new(model(), move |request| {
                let refuse = !files_only || request.file.is_some();
                if refuse { Act::Status(status, vec![], "no") } else { Act::Well }
            });
            let place = Place::new();
            let outcome = place.fetch_with(&hub, |options| options.token = token.and_then(Token::new));
            match outcome.error() {
                Error::Access { access, page } => {
                    assert_eq!(*access, expected);
                    assert_eq!(*page, format!("{}/moonshotai/Kimi-K3", hub.url));
                }
                other => panic!("{other}"),
            }
            assert!(!outcome.error().to_string().contains(SECRET));
        }
    }
}

#[test]
fn a_revision_that_is_not_there_is_named() {
    let (hub, place) = (Hub::good(model()), Place::new());
    let outcome = place.fetch_with(&hub, |options| options.revision = Some("no/such".into()));
    let text = outcome.error().to_string();
    assert_eq!(text, "the hub knows no revision no/such of moonshotai/Kimi-K3");
    assert!(!place.folder.exists());
}

#[test]
fn d30_the_token_goes_to_the_hub_and_not_to_its_store() {
    let (hub, place) = (Hub::good(model()), Place::new());
    let outcome = place.fetch_with(&hub, |options| options.token = Token::new(SECRET));
    outcome.summary();
    let bearer = format!("Bearer {SECRET}");
    let (store, at_hub): (Vec<_>, Vec<_>) = hub.log().into_iter().partition(|request| request.at_store);
    assert!(store.len() == 2 && store.iter().all(|request| request.authorization.is_none()));
    assert!(at_hub.iter().all(|request| request.authorization.as_ref() == Some(&bearer)));
    assert!(!format!("{:?}", outcome.events).contains(SECRET));
}

#[test]
fn d30_a_token_is_not_sent_without_encryption() {
    let (hub, place) = (Hub::good(model()), Place::new());
    let outcome = place.fetch_with(&hub, |options| {
        options.endpoint = "http://hub.example".into();
        options.token = Token::new(SECRET);
    });
    assert!(matches!(outcome.error(), Error::Setting { .. }));
}

#[test]
fn d31_a_link_that_ran_out_is_renewed_and_the_file_goes_on() {
    let hub = Hub::new(model(), |request| match (&request.file, request.at_store, request.nth) {
        (Some(file), true, 0) if file == SHARD => Act::Cut(100 * KIB as u64),
        (Some(file), true, 1) if file == SHARD => {
            Act::Status(403, vec![], "<Error>Request has expired</Error>")
        }
        _ => Act::Well,
    });
    let place = Place::new();
    let outcome = place.fetch(&hub);
    outcome.summary();
    outcome.assert_trouble("the hub is asked for a new one");
    place.assert_whole(&model());
    let fetches: Vec<_> = hub.fetches().into_iter().filter(|r| r.file.as_deref() == Some(SHARD)).collect();
    assert_eq!(fetches[2].from, Some(100 * KIB as u64), "what came before is kept");
    assert_ne!(fetches[1].target, fetches[2].target, "another link");
    assert!(
        !format!("{:?}", outcome.events).contains("secret-link"),
        "a signed link is as good as a password"
    );
}

#[test]
fn redirects_in_a_circle_come_to_an_end() {
    let hub = Hub::new(model(), |request| match &request.file {
        Some(file) if file == SHARD => Act::Status(302, vec![("Location", request.target.clone())], ""),
        _ => Act::Well,
    });
    let outcome = Place::new().fetch(&hub);
    outcome.assert_trouble("in circles");
    assert!(matches!(outcome.error(), Error::Incomplete { .. }));
}
