//! Setting up the real model on the screen.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crossterm::event::{KeyCode, KeyModifiers};

use super::frames::{SIZES, framed, styles};
use super::{Bench, outcome};
use crate::config::{Paths, Preset};
use crate::protocol::{Command, Event, Finish};
use crate::setup::doctor::{Check, Status, Subject, Target};
use crate::setup::download::{self, Connection, Event as Fetch, Snapshot, State, Trouble, Wanted};
use crate::setup::wizard::{Failure, Files, Holds, Kept, Look, News, Order, Start, Step};
use crate::tui::app::{App, Effect, Msg};
use crate::tui::{Options, SetUp};

const K3: &str = "/data/k3";

/// A screen that can set up the real model, as it comes up.
fn bench(start: Start) -> Bench {
    let folder = || PathBuf::from("/home/mouse");
    let setup = SetUp {
        start: Start { place: K3.into(), home: Some(folder()), memory: 40_000_000_000, ..start },
        fetch: download::Options::new(K3.into()),
        subject: Subject::here(
            Paths { data: folder(), config: folder(), state: folder() },
            Target { folder: K3.into(), named: false, holds_model: false },
        ),
        paths: Paths { data: folder(), config: folder(), state: folder() },
    };
    let mut bench = Bench::new();
    let options = Options { setup: Some(setup), ..bench.app.options.clone() };
    bench.app = App::new(options);
    bench.sent = bench.app.start();
    bench.engine(Event::Ready(Bench::facts()));
    bench.clock(2.0, |s| {
        (s.layers, s.slots_total, s.context_limit) = (9, 64, 8192);
        (s.rss, s.machine_memory, s.budget) = (1_300_000_000, 16 << 30, 8 << 30);
    });
    bench
}

fn newcomer() -> Bench {
    bench(Start { open: true, ..Start::default() })
}

fn orders(bench: &Bench) -> Vec<Order> {
    let order = |effect: &Effect| match effect {
        Effect::Setup(order) if !matches!(order, Order::Keep(_)) => Some(order.clone()),
        _ => None,
    };
    bench.sent.iter().filter_map(order).collect()
}

fn news(bench: &mut Bench, news: News) {
    bench.update(Msg::Setup(news));
}

/// The released model's files, of which the first few are there, two are coming, and one has trouble.
fn fetching(bench: &mut Bench) {
    let sizes = include_str!("../../../tests/fixtures/released_sizes.txt");
    let list: Vec<Wanted> = sizes
        .lines()
        .map(|line| {
            let (path, size) = line.split_once(' ').unwrap();
            Wanted { path: path.to_owned(), size: size.parse().unwrap(), kept: 0 }
        })
        .collect();
    let total = list.iter().map(|file| file.size).sum();
    let path = |at: usize| list[at].path.clone();
    let mut told = vec![Fetch::Listed { files: 96, bytes: total, kept: 0, list: list.clone() }];
    told.extend((0..3).map(|at| Fetch::File { path: path(at), state: State::Complete }));
    told.push(Fetch::File { path: path(5), state: State::Mismatch });
    let connection = |at: usize, state, part: u64, rate| Connection {
        path: path(at),
        state,
        at: list[at].size / 10 * part,
        size: list[at].size,
        rate,
    };
    told.push(Fetch::Progress(Snapshot {
        verified: 46_323_039_120,
        total,
        received: 46_323_039_120,
        again: 1 << 26,
        rate: 112_000_000.0,
        left_s: Some(13_520.0),
        files_done: 3,
        files: 96,
        connections: vec![
            connection(3, State::Fetching, 6, 84_000_000.0),
            connection(4, State::Fetching, 1, 28_000_000.0),
            connection(6, State::Verifying, 10, 0.0),
        ],
        trouble: Some(Trouble {
            at: SystemTime::UNIX_EPOCH + Duration::from_secs(45_296),
            path: path(5),
            message: "its digest is sha256:0, published is sha256:1; it is fetched again".to_owned(),
        }),
    }));
    for event in told {
        news(bench, News::Fetch(event));
    }
}

fn look(holds: Holds) -> News {
    News::Looked(K3.into(), Look { holds, free: Some(1 << 40), nearest: "/data".into() })
}

fn summary() -> download::Summary {
    download::Summary {
        folder: K3.into(),
        commit: "c".into(),
        files: 96,
        bytes: 1,
        received: 1,
        unverified: vec![],
        seconds: 2.0,
    }
}

const FILES: Files = Files { shards: 96, tensors: 264_931, bytes: 1_560_936_091_448 };

fn checks(bench: &mut Bench) {
    let check = |name, status, finding: &str, advice: &str| {
        News::Check(Check { name, status, finding: finding.into(), advice: advice.into() })
    };
    news(bench, check("processor", Status::Ok, "AVX-512: the fastest kernels", ""));
    news(
        bench,
        check(
            "memory",
            Status::Warn,
            "8 GB, 2 GB of it free",
            "Close what is not needed, or a smaller preset is taken.",
        ),
    );
    news(bench, check("disk", Status::Fail, "a disk that turns, 120 MB/s", "Name a folder on an NVMe disk."));
}

/// One at this step, as a user comes there.
fn at(step: Step) -> Bench {
    let mut bench = newcomer();
    bench.press(KeyCode::Down);
    for now in Step::ALL {
        if now == step {
            break;
        }
        match now {
            Step::Machine => checks(&mut bench),
            Step::Place => news(&mut bench, look(Holds::Nothing)),
            Step::Download => {
                fetching(&mut bench);
                news(&mut bench, News::Fetched(Ok(summary())));
                continue;
            }
            Step::Verify => news(&mut bench, News::Verified(K3.into(), Ok(FILES))),
            Step::Memory => {
                bench.press(KeyCode::Enter);
                loaded(&mut bench);
                bench.finish(1, outcome(Finish::Length));
            }
            Step::Welcome | Step::Model | Step::Ready => {}
        }
        bench.press(KeyCode::Enter);
    }
    match step {
        Step::Machine => checks(&mut bench),
        Step::Place => news(&mut bench, look(Holds::Nothing)),
        Step::Download => fetching(&mut bench),
        Step::Verify => news(&mut bench, News::Verified(K3.into(), Ok(FILES))),
        Step::Ready => {
            news(&mut bench, News::Configured(Ok("/home/mouse/.config/dormouse/config.toml".into())));
        }
        _ => {}
    }
    bench
}

/// The engine has loaded what it was asked for.
fn loaded(bench: &mut Bench) {
    bench.engine(Event::Ready(Bench::facts()));
}

#[test]
fn frames_of_setting_up() {
    framed(|| {
        for (columns, rows) in SIZES {
            let mut all = String::new();
            for step in Step::ALL {
                write!(all, "{step:?}\n{}\n", at(step).text((columns, rows))).unwrap();
            }
            let mut bench = at(Step::Download);
            bench.press(KeyCode::Esc);
            bench.ctrl('c');
            news(&mut bench, News::Examined(Box::default()));
            bench.send("/doctor");
            checks(&mut bench);
            write!(all, "Doctor\n{}\n", bench.text((columns, rows))).unwrap();
            bench.press(KeyCode::Esc);
            write!(all, "Behind the chat\n{}", bench.text((columns, rows))).unwrap();
            insta::assert_snapshot!(format!("setup-{columns}x{rows}"), all);
        }
    });
    styles("setup-machine", || at(Step::Machine));
    styles("setup-download", || at(Step::Download));
}

#[test]
fn a_newcomer_is_in_the_chat_with_one_key_or_with_the_first_letter() {
    let mut bench = newcomer();
    assert!(bench.text((80, 24)).contains("Welcome to Dormouse"));
    bench.press(KeyCode::Enter);
    assert!(bench.text((80, 24)).contains("Ready: nano") && !bench.text((80, 24)).contains("Welcome"));
    assert_eq!(orders(&bench), []);
    let mut bench = newcomer();
    bench.send("Hello");
    assert_eq!(bench.generated().len(), 1);
    assert!(!bench.text((80, 24)).contains("Welcome"));
    // Nothing is written down for who only passed by.
    assert!(!bench.sent.iter().any(|effect| matches!(effect, Effect::Setup(_))));
    let mut bench = newcomer();
    bench.update(Msg::Paste("two\nlines".to_owned()));
    assert!(bench.text((80, 24)).contains("❯ two"));
    let mut bench = newcomer();
    bench.ctrl('c');
    assert!(bench.left());
}

#[test]
fn nothing_greets_who_is_no_newcomer() {
    let mut bench = bench(Start::default());
    assert!(bench.text((80, 24)).contains("Ready: nano"));
    assert_eq!(orders(&bench), []);
    bench.send("/download");
    assert!(bench.app.notice.as_ref().unwrap().text.contains("Nothing is being fetched"));
    let mut without = Bench::ready();
    for command in ["/setup", "/download", "/doctor"] {
        without.send(command);
        assert!(without.app.notice.as_ref().unwrap().text.contains("not possible"), "{command}");
        without.ctrl('u');
    }
}

#[test]
fn the_folder_is_written_like_a_message() {
    let mut bench = at(Step::Place);
    bench.ctrl('u');
    bench.update(Msg::Paste("/other/k3".to_owned()));
    bench.press(KeyCode::Left);
    bench.press(KeyCode::Backspace);
    bench.write("x è");
    assert!(bench.text((80, 24)).contains("❯ /other/x è3"), "{}", bench.text((80, 24)));
    assert_eq!(orders(&bench).last(), Some(&Order::Look("/other/x è3".into())));
    // The draft of the chat is another one.
    assert_eq!(bench.app.composer.text(), "");
    bench.press(KeyCode::Enter);
    bench.press(KeyCode::Esc);
    bench.press(KeyCode::Enter);
    assert!(bench.text((80, 24)).contains("/other/x è3"));
}

#[test]
fn a_download_is_seen_behind_the_chat_paused_and_told_of_at_its_end() {
    let mut bench = at(Step::Download);
    assert!(bench.text((80, 24)).contains("model-00004-of-000096.safetensors fetching"));
    bench.press(KeyCode::Char(' '));
    assert_eq!(orders(&bench).last(), Some(&Order::Pause));
    bench.press(KeyCode::Char(' '));
    bench.press(KeyCode::PageDown);
    bench.press(KeyCode::PageDown);
    let text = bench.text((80, 24));
    assert!(!text.contains("model-00004-of"), "{text}");
    for _ in 0..20 {
        bench.press(KeyCode::PageDown);
    }
    bench.text((80, 24));
    assert!(bench.text((80, 24)).contains("model-00096-of-000096.safetensors"));
    bench.ctrl('c');
    assert!(!bench.left(), "to the chat, and no further");
    assert!(bench.text((120, 40)).contains("Kimi K3 paused at 3 %"), "it has not stopped yet");
    news(&mut bench, News::Fetched(Err(Failure::Download(Arc::new(download::Error::Stopped)))));
    assert_eq!(orders(&bench).last(), Some(&Order::Fetch(K3.into())));
    assert!(bench.text((120, 40)).contains("Kimi K3 3 % here"));
    bench.send("Hello");
    assert_eq!(bench.generated().len(), 1, "one chats meanwhile");
    news(&mut bench, News::Fetched(Ok(summary())));
    news(&mut bench, News::Verified(K3.into(), Ok(FILES)));
    assert!(bench.app.notice.as_ref().unwrap().text.starts_with("Kimi K3 is here"));
    // The engine is busy, so a trial has to wait.
    bench.send("/setup");
    bench.press(KeyCode::Enter);
    bench.press(KeyCode::Enter);
    assert!(bench.text((80, 24)).contains("A turn is running"), "{}", bench.text((80, 24)));
}

#[test]
fn what_stops_a_download_is_told_in_the_chat() {
    let mut bench = at(Step::Download);
    bench.press(KeyCode::Enter);
    let error = download::Error::Protocol("the list makes no sense".to_owned());
    news(&mut bench, News::Fetched(Err(Failure::Download(Arc::new(error)))));
    assert!(bench.app.notice.as_ref().unwrap().text.contains("/download shows the rest"));
    bench.send("/download");
    assert!(bench.text((80, 24)).contains("the list makes no sense"));
}

#[test]
fn a_trial_is_one_token_and_then_the_chat_has_the_real_model() {
    let mut bench = at(Step::Memory);
    bench.sent.clear();
    bench.press(KeyCode::Down);
    bench.press(KeyCode::Enter);
    let load = |bench: &Bench| {
        let last = bench.sent.iter().rev().find_map(|effect| match effect {
            Effect::Send(Command::Load(settings)) => Some(settings.clone()),
            _ => None,
        });
        last.unwrap()
    };
    assert_eq!((load(&bench).model, load(&bench).memory), (K3.into(), Preset::Ultra.memory()));
    loaded(&mut bench);
    assert_eq!(bench.generated()[0].max_tokens, Some(1));
    assert!(bench.text((80, 24)).contains("computing a token"));
    bench.finish(1, outcome(Finish::Length));
    assert!(bench.text((80, 24)).contains("the token took 0.50 s"), "{}", bench.text((80, 24)));
    assert!(bench.app.transcript.turns().is_empty());
    bench.press(KeyCode::Enter);
    assert_eq!(orders(&bench).last(), Some(&Order::Configure(K3.into(), Preset::Ultra)));
    news(&mut bench, News::Configured(Ok("/c".into())));
    let before = bench.sent.len();
    bench.press(KeyCode::Enter);
    let model = bench.sent[before..].iter().any(|effect| matches!(effect, Effect::Model(folder, name) if folder == &PathBuf::from(K3) && name == "k3"));
    assert!(model, "the next session is of this model");
    assert!(
        !bench.sent[before..].iter().any(|effect| matches!(effect, Effect::Send(Command::Load(_)))),
        "it is loaded"
    );
    assert!(!bench.text((80, 24)).contains("demonstration"), "{}", bench.text((80, 24)));
    bench.send("Hello");
    assert_eq!(bench.generated().len(), 2);
}

#[test]
fn a_trial_that_is_left_gives_the_chat_its_model_back() {
    let mut bench = at(Step::Memory);
    bench.press(KeyCode::Enter);
    bench.sent.clear();
    bench.ctrl('c');
    let loads = bench
        .sent
        .iter()
        .filter(|effect| matches!(effect, Effect::Send(Command::Load(s)) if s.model != Path::new(K3)));
    assert_eq!(loads.count(), 1);
    assert!(bench.sent.iter().any(|effect| matches!(effect, Effect::Cancel(_))));
    // What the engine says of the model that was given up is not about the chat's.
    loaded(&mut bench);
    bench.send("Hello");
    assert!(bench.generated().is_empty(), "the chat's own model is still loading");
    loaded(&mut bench);
    bench.press(KeyCode::Enter);
    assert_eq!(bench.generated().len(), 1);
}

#[test]
fn a_trial_that_fails_says_why() {
    let mut bench = at(Step::Memory);
    bench.press(KeyCode::Enter);
    bench.engine(Event::Failed(super::failure()));
    let text = bench.text((80, 24));
    assert!(text.contains("The model cannot be loaded") && text.contains("12 bytes are missing"), "{text}");
    bench.press(KeyCode::Esc);
    bench.ctrl('c');
    loaded(&mut bench);
    assert!(bench.text((80, 24)).contains("● ready"));
}

#[test]
fn the_next_start_goes_on_where_it_was() {
    let kept = |step, open| Kept {
        step,
        open,
        place: "/elsewhere/k3".into(),
        fetching: true,
        preset: "laptop".into(),
        done: false,
    };
    let start = |kept| Start { kept: Some(kept), ..Start::default() };
    let mut open = bench(start(kept(Step::Download, true)));
    assert_eq!(orders(&open), [Order::Fetch("/elsewhere/k3".into())]);
    assert!(open.text((80, 24)).contains("Asking the hub"), "{}", open.text((80, 24)));
    let mut closed = bench(start(kept(Step::Download, false)));
    assert_eq!(orders(&closed), [Order::Fetch("/elsewhere/k3".into())]);
    assert!(closed.text((80, 24)).contains("Ready: nano"));
}

#[test]
fn a_page_that_is_longer_than_the_screen_says_so() {
    let mut bench = at(Step::Machine);
    assert!(!bench.text((80, 24)).contains(" more"));
    // Checks come one after the other, and the newest is seen.
    let text = bench.text((30, 14));
    assert!(text.contains("↑") && !text.contains("↓") && text.contains("without waiting"), "{text}");
    bench.update(Msg::Wheel(-1));
    let text = bench.text((30, 14));
    assert!(text.contains("↑") && text.contains("↓"), "{text}");
}

#[test]
fn a_mouse_and_a_small_screen_break_nothing() {
    for step in Step::ALL {
        let mut bench = at(step);
        for size in [(1, 1), (12, 3), (20, 5), (300, 3), (13, 100)] {
            bench.text(size);
            bench.update(Msg::Wheel(7));
            bench.update(Msg::Wheel(-3));
            bench.key(KeyCode::Char('c'), KeyModifiers::ALT);
            bench.text(size);
        }
        assert!(!bench.left());
    }
}
