//! Every step, and every way from one to another. No disk, no network, no thread.

use super::*;
use crate::setup::download::{Error, Event, State, Summary, Wanted};

/// A wizard whose real model goes to /data/k3.
fn begin() -> Wizard {
    let (wizard, orders) = Wizard::new(start());
    assert_eq!((wizard.step, wizard.open, orders), (Step::Welcome, true, vec![]));
    wizard
}

fn start() -> Start {
    Start {
        place: PathBuf::from(K3),
        home: Some("/home/mouse".into()),
        memory: 40_000_000_000,
        open: true,
        ..Start::default()
    }
}

const K3: &str = "/data/k3";

fn k3() -> PathBuf {
    PathBuf::from(K3)
}

/// Orders but those to write down how far it is, which come with nearly everything.
fn told(orders: Vec<Order>) -> Vec<Order> {
    orders.into_iter().filter(|order| !matches!(order, Order::Keep(_))).collect()
}

fn act(wizard: &mut Wizard, act: Act) -> Vec<Order> {
    told(wizard.act(act))
}

fn news(wizard: &mut Wizard, news: News) -> Vec<Order> {
    told(wizard.news(news))
}

fn looked(holds: Holds) -> News {
    News::Looked(k3(), Look { holds, free: Some(1 << 41), nearest: "/data".into() })
}

fn summary() -> Summary {
    Summary {
        folder: k3(),
        commit: "c".into(),
        files: 1,
        bytes: 100,
        received: 100,
        unverified: vec![],
        seconds: 2.0,
    }
}

fn stopped() -> Failure {
    Failure::Download(Arc::new(Error::Stopped))
}

fn broken() -> Failure {
    Failure::Download(Arc::new(Error::Protocol("no".into())))
}

const FILES: Files = Files { shards: 96, tensors: 1000, bytes: 1 << 40 };

/// One that has come to a step as a user does, with everything going well.
fn at(step: Step) -> Wizard {
    let mut wizard = begin();
    act(&mut wizard, Act::Down);
    while wizard.step < step {
        match wizard.step {
            Step::Place => drop(news(&mut wizard, looked(Holds::Nothing))),
            Step::Download => {
                news(&mut wizard, News::Fetched(Ok(summary())));
                continue;
            }
            Step::Verify => drop(news(&mut wizard, News::Verified(k3(), Ok(FILES)))),
            Step::Memory => {
                act(&mut wizard, Act::Next);
                news(&mut wizard, News::Loaded);
                news(&mut wizard, News::Tried(Ok(7.5)));
            }
            _ => {}
        }
        act(&mut wizard, Act::Next);
    }
    assert_eq!(wizard.step, step);
    wizard
}

#[test]
fn the_small_model_takes_one_key_and_leaves_nothing_behind() {
    let mut wizard = begin();
    assert_eq!(wizard.act(Act::Next), [Order::Chat(Model::Small)]);
    assert!(!wizard.open);
    let mut wizard = begin();
    assert_eq!(wizard.act(Act::Back), [Order::Chat(Model::Small)]);
    let mut wizard = begin();
    assert_eq!(wizard.act(Act::Leave), [Order::Close]);
}

#[test]
fn the_whole_way_gives_its_orders_one_by_one() {
    let mut wizard = begin();
    assert_eq!(act(&mut wizard, Act::Down), []);
    assert_eq!(act(&mut wizard, Act::Next), [Order::Examine(k3())]);
    assert_eq!(wizard.step, Step::Machine);
    assert_eq!(act(&mut wizard, Act::Next), []);
    assert_eq!((wizard.step, wizard.model), (Step::Model, Model::Real));
    assert_eq!(act(&mut wizard, Act::Next), [Order::Look(k3())]);
    assert_eq!(wizard.step, Step::Place);
    assert_eq!(news(&mut wizard, looked(Holds::Nothing)), []);
    assert_eq!(act(&mut wizard, Act::Next), [Order::Fetch(k3())]);
    assert_eq!(wizard.step, Step::Download);
    assert_eq!(news(&mut wizard, News::Fetched(Ok(summary()))), [Order::Verify(k3())]);
    assert_eq!(wizard.step, Step::Verify);
    assert_eq!(act(&mut wizard, Act::Next), [], "it runs");
    assert_eq!(news(&mut wizard, News::Verified(k3(), Ok(FILES))), []);
    assert_eq!(act(&mut wizard, Act::Next), []);
    assert_eq!(wizard.step, Step::Memory);
    act(&mut wizard, Act::Down);
    assert_eq!(wizard.preset, Preset::Ultra);
    assert_eq!(act(&mut wizard, Act::Next), [Order::Try(k3(), Preset::Ultra)]);
    assert_eq!(act(&mut wizard, Act::Next), [], "it runs");
    news(&mut wizard, News::Loaded);
    assert_eq!(wizard.test, Test::Computes);
    news(&mut wizard, News::Tried(Ok(7.5)));
    assert_eq!(act(&mut wizard, Act::Next), [Order::Configure(k3(), Preset::Ultra)]);
    assert_eq!(wizard.step, Step::Ready);
    news(&mut wizard, News::Configured(Ok("/config.toml".into())));
    let orders = wizard.act(Act::Next);
    assert_eq!(orders[0], Order::Chat(Model::Real));
    assert!(matches!(&orders[1], Order::Keep(kept) if kept.done && !kept.open && !kept.fetching));
}

#[test]
fn every_step_can_be_gone_back_from_and_comes_back_as_it_was() {
    for step in &Step::ALL[1..] {
        let mut wizard = at(*step);
        let before = wizard.clone();
        act(&mut wizard, Act::Back);
        assert!(wizard.step < *step, "{step:?}");
        while wizard.step < *step {
            act(&mut wizard, Act::Next);
        }
        assert_eq!((wizard.step, &wizard.place, wizard.preset), (*step, &before.place, before.preset));
        assert_eq!((wizard.model, &wizard.test), (before.model, &before.test));
        assert_eq!(wizard.fetching.is_done(), before.fetching.is_done());
        assert!(matches!(wizard.verdict, Verdict::Good(_)) || !matches!(before.verdict, Verdict::Good(_)));
    }
}

#[test]
fn every_step_can_be_left_for_the_chat_and_comes_back() {
    for step in Step::ALL {
        let mut wizard = at(step);
        let left = act(&mut wizard, Act::Leave);
        assert_eq!((left.last(), wizard.open), (Some(&Order::Close), false), "{step:?}");
        act(&mut wizard, Act::Show(step));
        assert_eq!((wizard.step, wizard.open), (step, true));
    }
}

#[test]
fn after_a_crash_each_step_comes_back() {
    for step in &Step::ALL[1..] {
        let mut wizard = at(*step);
        // Something that changes what is kept, and changes it back.
        let mut orders = wizard.act(Act::Leave);
        orders.extend(wizard.act(Act::Show(*step)));
        let kept = orders.into_iter().rev().find_map(|order| match order {
            Order::Keep(kept) => Some(kept),
            _ => None,
        });
        let (again, orders) = Wizard::new(Start { kept, place: "/elsewhere".into(), ..start() });
        assert_eq!((again.step, again.open), ((*step).min(Step::Verify), true), "{step:?}");
        assert_eq!(again.folder(), Some(k3()));
        assert_eq!(orders.contains(&Order::Fetch(k3())), *step == Step::Download);
        assert_eq!(orders.contains(&Order::Verify(k3())), *step >= Step::Verify);
        assert_eq!(orders.contains(&Order::Examine(k3())), *step == Step::Machine);
    }
}

#[test]
fn the_machine_is_examined_once_and_again_when_asked() {
    let mut wizard = at(Step::Machine);
    assert_eq!(act(&mut wizard, Act::Examine), [], "it is being looked at");
    let report = || News::Examined(Box::default());
    news(&mut wizard, report());
    act(&mut wizard, Act::Next);
    assert_eq!(act(&mut wizard, Act::Back), []);
    assert_eq!(act(&mut wizard, Act::Examine), [Order::Examine(k3())]);
    assert!(wizard.report.is_none());
    news(&mut wizard, report());
    assert!(wizard.report.is_some());
}

#[test]
fn what_is_done_is_not_shown_again() {
    let mut wizard = at(Step::Ready);
    let kept = wizard.act(Act::Next).into_iter().find_map(|order| match order {
        Order::Keep(kept) => Some(kept),
        _ => None,
    });
    let (again, orders) = Wizard::new(Start { kept, ..start() });
    assert_eq!((again.step, orders), (Step::Welcome, vec![]));
}

#[test]
fn a_download_goes_on_behind_the_chat_and_after_the_next_start() {
    let mut wizard = at(Step::Download);
    let orders = wizard.act(Act::Next);
    assert_eq!(orders[0], Order::Close, "nothing pauses it");
    let Order::Keep(kept) = orders[1].clone() else { panic!("{orders:?}") };
    assert!(kept.fetching && !kept.open);
    let (mut again, orders) = Wizard::new(Start { kept: Some(kept), open: false, ..start() });
    assert_eq!((again.open, orders), (false, vec![Order::Fetch(k3())]));
    // It is looked at as soon as it is complete, and shown when the user wants it.
    assert_eq!(news(&mut again, News::Fetched(Ok(summary()))), [Order::Verify(k3())]);
    assert!(!again.open && again.step == Step::Download);
    news(&mut again, News::Verified(k3(), Ok(FILES)));
    act(&mut again, Act::Show(Step::Download));
    act(&mut again, Act::Next);
    act(&mut again, Act::Next);
    assert_eq!(again.step, Step::Memory);
}

#[test]
fn a_pause_is_kept_and_gone_on_from() {
    let mut wizard = at(Step::Download);
    assert_eq!(act(&mut wizard, Act::Pause), [Order::Pause]);
    // Before it has stopped it is wanted again, and then not.
    assert_eq!(act(&mut wizard, Act::Pause), []);
    assert_eq!(act(&mut wizard, Act::Pause), []);
    assert_eq!(news(&mut wizard, News::Fetched(Err(stopped()))), []);
    assert!(matches!(wizard.fetching.stage, Stage::Paused));
    assert!(!wizard.kept.as_ref().unwrap().fetching);
    assert_eq!(act(&mut wizard, Act::Pause), [Order::Fetch(k3())]);
    assert_eq!(act(&mut wizard, Act::Pause), [Order::Pause]);
    act(&mut wizard, Act::Pause);
    assert_eq!(news(&mut wizard, News::Fetched(Err(stopped()))), [Order::Fetch(k3())]);
    assert!(matches!(wizard.fetching.stage, Stage::Runs));
}

#[test]
fn a_pause_that_comes_too_late_pauses_nothing() {
    let mut wizard = at(Step::Download);
    act(&mut wizard, Act::Pause);
    assert_eq!(news(&mut wizard, News::Fetched(Ok(summary()))), [Order::Verify(k3())]);
    assert_eq!(wizard.step, Step::Verify);
}

#[test]
fn what_ends_a_download_is_shown_and_tried_again() {
    let mut wizard = at(Step::Download);
    news(&mut wizard, News::Fetched(Err(broken())));
    assert!(matches!(wizard.fetching.stage, Stage::Failed(_)));
    assert_eq!(wizard.step, Step::Download);
    assert_eq!(act(&mut wizard, Act::Next), [Order::Fetch(k3())]);
    news(&mut wizard, News::Fetched(Err(broken())));
    assert_eq!(act(&mut wizard, Act::Back), [Order::Look(k3())]);
    assert_eq!(act(&mut wizard, Act::Place("/other/k3".into())), [Order::Look("/other/k3".into())]);
    assert!(matches!(wizard.fetching.stage, Stage::Idle), "another folder, another download");
}

#[test]
fn a_folder_cannot_change_under_a_running_download() {
    let mut wizard = at(Step::Download);
    act(&mut wizard, Act::Back);
    assert_eq!(act(&mut wizard, Act::Place("/other".into())), []);
    assert_eq!((wizard.place.as_str(), wizard.problem.is_some()), (K3, true));
    assert_eq!(act(&mut wizard, Act::Next), []);
    assert_eq!((wizard.step, wizard.problem.is_some()), (Step::Download, false));
}

#[test]
fn a_folder_that_cannot_be_is_refused_with_a_reason() {
    for (holds, word) in [(Holds::NoFolder, "a file"), (Holds::Closed, "/data is not yours")] {
        let mut wizard = at(Step::Place);
        news(&mut wizard, looked(holds));
        assert_eq!(act(&mut wizard, Act::Next), []);
        assert!(wizard.problem.as_ref().unwrap().contains(word), "{:?}", wizard.problem);
        assert_eq!(wizard.step, Step::Place);
    }
    let mut wizard = at(Step::Place);
    act(&mut wizard, Act::Place("k3".into()));
    assert_eq!(act(&mut wizard, Act::Next), []);
    assert!(wizard.problem.as_ref().unwrap().contains("whole path"));
    act(&mut wizard, Act::Place("~/k3".into()));
    assert_eq!(wizard.folder(), Some("/home/mouse/k3".into()));
}

#[test]
fn whoever_is_faster_than_the_disk_goes_on_when_it_has_answered() {
    let mut wizard = at(Step::Place);
    assert_eq!(act(&mut wizard, Act::Next), [Order::Look(k3())]);
    assert_eq!(wizard.step, Step::Place);
    assert_eq!(news(&mut wizard, looked(Holds::Begun)), [Order::Fetch(k3())]);
    assert_eq!(wizard.step, Step::Download);
    // An answer about a folder that is not wanted any more leads nowhere.
    let mut wizard = at(Step::Place);
    act(&mut wizard, Act::Next);
    act(&mut wizard, Act::Place("/other".into()));
    assert_eq!(news(&mut wizard, looked(Holds::Nothing)), []);
    assert_eq!((wizard.step, wizard.look()), (Step::Place, None));
}

#[test]
fn a_model_that_is_there_is_not_fetched() {
    for holds in [Holds::Model, Holds::Complete] {
        let mut wizard = at(Step::Place);
        news(&mut wizard, looked(holds));
        assert_eq!(act(&mut wizard, Act::Next), [Order::Verify(k3())]);
        assert_eq!(wizard.step, Step::Verify);
        act(&mut wizard, Act::Back);
        assert_eq!(wizard.step, Step::Place, "there is no download to go back to");
    }
}

#[test]
fn files_that_are_bad_are_fetched_again() {
    let mut wizard = at(Step::Verify);
    news(&mut wizard, News::Verified("/other".into(), Ok(FILES)));
    assert!(matches!(wizard.verdict, Verdict::Runs), "that was about another folder");
    news(&mut wizard, News::Verified(k3(), Err(broken())));
    assert!(matches!(wizard.verdict, Verdict::Bad(_)));
    assert_eq!(act(&mut wizard, Act::Next), [Order::Fetch(k3())]);
    assert_eq!(wizard.step, Step::Download);
    assert_eq!(news(&mut wizard, News::Fetched(Ok(summary()))), [Order::Verify(k3())]);
}

#[test]
fn a_trial_can_fail_be_skipped_and_be_given_up() {
    let told = Told { title: "No memory".into(), detail: String::new(), hint: String::new() };
    let mut wizard = at(Step::Memory);
    act(&mut wizard, Act::Next);
    news(&mut wizard, News::Tried(Err(told.clone())));
    assert_eq!(wizard.test, Test::Bad(told.clone()));
    assert_eq!(act(&mut wizard, Act::Next), [Order::Try(k3(), Preset::Auto)]);
    // Skipped while it runs.
    assert_eq!(act(&mut wizard, Act::Pause), [Order::EndTrial, Order::Configure(k3(), Preset::Auto)]);
    assert_eq!((wizard.step, &wizard.test), (Step::Ready, &Test::Skipped));
    // What still comes of it says nothing any more.
    news(&mut wizard, News::Tried(Err(told)));
    assert_eq!(wizard.test, Test::Skipped);
    for way in [Act::Back, Act::Leave] {
        let mut wizard = at(Step::Memory);
        act(&mut wizard, Act::Next);
        assert_eq!(act(&mut wizard, way)[0], Order::EndTrial);
        assert_eq!(wizard.test, Test::Open);
    }
    // While it runs the budget stays; another one wants a trial of its own.
    let mut wizard = at(Step::Memory);
    act(&mut wizard, Act::Next);
    act(&mut wizard, Act::Down);
    assert_eq!(wizard.preset, Preset::Auto);
    news(&mut wizard, News::Tried(Ok(1.0)));
    act(&mut wizard, Act::Down);
    assert_eq!((wizard.preset, &wizard.test), (Preset::Ultra, &Test::Open));
}

#[test]
fn only_budgets_that_fit_are_offered() {
    let wizard = begin();
    assert_eq!(wizard.offers, [Preset::Auto, Preset::Ultra, Preset::Laptop, Preset::Desktop]);
    let mut wizard = at(Step::Memory);
    for _ in 0..9 {
        act(&mut wizard, Act::Down);
    }
    assert_eq!(wizard.preset, Preset::Desktop);
    for _ in 0..9 {
        act(&mut wizard, Act::Up);
    }
    assert_eq!(wizard.preset, Preset::Auto);
}

#[test]
fn what_the_download_says_reaches_the_table() {
    let mut wizard = at(Step::Download);
    let list = vec![Wanted { path: "a".into(), size: 100, kept: 10 }];
    news(&mut wizard, News::Fetch(Event::Listed { files: 1, bytes: 100, kept: 10, list }));
    news(&mut wizard, News::Fetch(Event::File { path: "a".into(), state: State::Fetching }));
    assert_eq!(wizard.fetching.table.busy().count(), 1);
    news(&mut wizard, News::Fetched(Err(broken())));
    assert_eq!((wizard.fetching.table.busy().count(), wizard.fetching.table.verified()), (0, 10));
}
