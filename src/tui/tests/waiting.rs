//! What is shown to somebody who waits: frames of the status line, the panel, the sheet of numbers, the cost of a draft.

use crossterm::event::KeyCode;

use super::frames::{snapshots, styles};
use super::{Bench, outcome};
use crate::config::Remembered;
use crate::protocol::{
    Channel, Event, Finish, LayerCost, Limit, Limits, Outcome, Part, Phase, PlanFacts, TokenCost, TurnId,
};
use crate::tui::app::{Effect, Msg};
use crate::units::Bytes;

/// Layers of the released model, some of them slow.
fn layers() -> Vec<LayerCost> {
    let cost = |number: u64| LayerCost {
        ns: 90_000_000 + number % 7 * 31_000_000,
        waited_ns: number % 5 * 20_000_000,
        trunk_bytes: 1_170_000_000,
        expert_bytes: (number % 4) * 17_547_264,
        requests: if number == 0 { 0 } else { 16 },
        resident: if number == 0 { 0 } else { 16 - number % 4 },
    };
    (0..93).map(cost).collect()
}

/// One with a model of the released size, measured and planned.
fn large() -> Bench {
    let mut bench = Bench::new();
    let mut facts = Bench::facts();
    facts.layers = 93;
    facts.plan = PlanFacts {
        budget: Bytes(8 << 30),
        state: Bytes(440_000_000),
        tiles: 24,
        tile: Bytes(4 << 20),
        slot: Bytes(17_549_312),
        token_s: 150.0,
        ..PlanFacts::default()
    };
    bench.engine(Event::Ready(facts));
    bench.clock(2.0, |s| {
        s.phase = Phase::Idle;
        (s.layers, s.slots_total, s.context_limit) = (93, 120, 32_768);
        (s.rss, s.machine_memory, s.budget) = (7_200_000_000, 16 << 30, 8 << 30);
        (s.trunk_resident, s.slots_used, s.state_bytes) = (3_600_000_000, 118, 470_000_000);
        (s.cpu_permille, s.temperature) = (1870, 61_400);
        (s.pressure_io, s.pressure_memory, s.pressure_cpu) = (6301, 1, 1201);
    });
    bench
}

/// One that reads a long prompt.
fn reading() -> Bench {
    let mut bench = large();
    bench.send("What is a dormouse?");
    bench.clock(3.0, |s| {
        (s.turn, s.phase, s.prompt_total, s.chunks, s.chunk) = (1, Phase::Prefill, 300, 5, 1);
    });
    for step in 0..20 {
        bench.clock(3.0 + 25.0 * f64::from(step), |s| {
            (s.chunk, s.layer) = (2, 36);
            s.landed_bytes += 18_000_000_000 + u64::try_from(step % 3).unwrap() * 4_000_000_000;
            s.pass_began_ns = 300_000_000_000;
            s.pass_landed = 1 << 38;
            s.waited_ns += 15_000_000_000;
        });
    }
    bench.update(Msg::Layers(layers()));
    bench
}

/// One that is in the middle of a slow token.
fn decoding() -> Bench {
    let mut bench = reading();
    bench.clock(600.0, |s| {
        (s.phase, s.tokens, s.first_token_ns, s.context_used) = (Phase::Decode, 1, 590_000_000_000, 300);
    });
    for token in 0..6_u64 {
        bench.engine(Event::Token { turn: TurnId(1), id: 7, channel: Channel::Thinking });
        bench.say(1, Part::Thinking("word ".to_owned()));
        let cost = TokenCost {
            trunk: 105_000_000_000,
            experts: 20_000_000_000 + token * 100_000_000,
            woken: 1472,
            resident: 300 + token,
            waited_s: 88.5,
        };
        bench.engine(Event::Step { turn: TurnId(1), seconds: 150.0 + token as f64, cost });
    }
    bench.clock(700.0, |s| {
        (s.tokens, s.layer, s.last_token_ns, s.pass_began_ns) = (6, 40, 155_000_000_000, 640_000_000_000);
        (s.token_requests, s.token_resident, s.expert_requests, s.expert_resident) = (1472, 305, 9000, 1800);
        (s.expert_reads, s.late, s.in_time) = (7200, 812, 10_020);
        s.landed_bytes += 60_000_000_000;
    });
    bench
}

#[test]
fn frames_of_waiting() {
    snapshots("reading", reading);
    snapshots("slow-token", decoding);
    styles("slow-token", decoding);
    snapshots("stalled", || {
        let mut bench = decoding();
        bench.clock(712.0, |s| (s.waiting_for, s.waiting_ns) = (1, 711_990_000_000));
        bench
    });
    snapshots("limited", || {
        let mut bench = large();
        bench.app.limits = Limits { think: Some(Limit::Seconds(600)), answer: Some(Limit::Tokens(300)) };
        bench.write("What is a dormouse, and for how long does it sleep?");
        bench.count();
        bench
    });
}

#[test]
fn frames_of_the_sheet() {
    for (tab, name) in ["sheet-overview", "sheet-layers", "sheet-tokens"].into_iter().enumerate() {
        let sheet = || {
            let mut bench = decoding();
            bench.text((120, 40));
            bench.press(KeyCode::F(2));
            for _ in 0..tab {
                bench.press(KeyCode::Tab);
            }
            bench
        };
        snapshots(name, sheet);
        styles(name, sheet);
    }
}

#[test]
fn the_sheet_scrolls_and_gives_the_keyboard_back() {
    let mut bench = decoding();
    bench.write("a draft");
    bench.press(KeyCode::F(2));
    bench.press(KeyCode::Tab);
    let size = (80, 24);
    assert!(bench.text(size).contains("\n     1 "), "{}", bench.text(size));
    bench.press(KeyCode::PageDown);
    bench.update(Msg::Wheel(2));
    assert!(
        !bench.text(size).contains("\n     1 ") && bench.text(size).contains("↓"),
        "{}",
        bench.text(size)
    );
    for _ in 0..30 {
        bench.press(KeyCode::PageDown);
    }
    assert!(bench.text(size).contains("\n    93 "), "{}", bench.text(size));
    bench.press(KeyCode::PageUp);
    assert!(!bench.text(size).contains("\n    93 "), "the end is where scrolling ends");
    bench.write("x");
    bench.update(Msg::Paste("y".to_owned()));
    bench.press(KeyCode::Esc);
    assert!(bench.text(size).contains("❯ a draft"));
    assert_eq!(bench.app.composer.text(), "a draft");
    assert!(bench.app.running.is_some(), "the turn was not stopped");
}

#[test]
fn tables_are_written_as_they_are_shown() {
    let mut bench = decoding();
    let written = |bench: &Bench| {
        bench.sent.iter().rev().find_map(|effect| match effect {
            Effect::WriteTable { name, text } => Some((*name, text.clone())),
            _ => None,
        })
    };
    bench.press(KeyCode::F(2));
    bench.press(KeyCode::Tab);
    bench.press(KeyCode::Char('c'));
    let (name, text) = written(&bench).unwrap();
    assert_eq!((name, text.lines().count()), ("layers", 94));
    bench.press(KeyCode::Tab);
    bench.press(KeyCode::Char('c'));
    let (name, text) = written(&bench).unwrap();
    assert_eq!((name, text.lines().count()), ("tokens", 7));
    assert_eq!(text.lines().nth(1), Some("1,2,150,88.5,105000000000,20000000000,1472,300"));
    // A turn that is over keeps its tokens, beside those of the next.
    let cost = TokenCost { trunk: 1, ..TokenCost::default() };
    let over = Outcome { tokens: vec![cost; 12], ..outcome(Finish::Stop) };
    bench.finish(1, over);
    let rows = bench.app.token_rows();
    assert_eq!((rows.len(), rows[0].token, rows[11].token), (12, 2, 13));
}

#[test]
fn what_is_switched_is_remembered() {
    let mut bench = decoding();
    let remembered = |bench: &Bench| {
        bench.sent.iter().rev().find_map(|effect| match effect {
            Effect::Switched(remembered) => Some(*remembered),
            _ => None,
        })
    };
    let size = (120, 40);
    assert!(bench.text(size).contains("Layers, time"));
    assert!(bench.app.shows_layers());
    bench.press(KeyCode::F(5));
    assert!(bench.text(size).contains("Layers, experts missed"));
    assert_eq!(remembered(&bench), Some(Remembered { misses: true, ..Remembered::default() }));
    bench.press(KeyCode::F(4));
    assert!(!bench.text(size).contains("Layers"));
    assert!(!bench.app.shows_layers());
    assert_eq!(remembered(&bench), Some(Remembered { panel: false, misses: true, notify: true }));
}

#[test]
fn an_end_is_announced_only_to_who_looks_elsewhere() {
    let announced =
        |bench: &Bench| bench.sent.iter().filter(|effect| matches!(effect, Effect::Announce(_))).count();
    for (focused, finish, notify, times) in [
        (true, Finish::Stop, "on", 0),
        (false, Finish::Stop, "on", 1),
        (false, Finish::Error, "on", 1),
        (false, Finish::Cancelled, "on", 0),
        (false, Finish::Stop, "off", 0),
    ] {
        let mut bench = Bench::ready();
        bench.send(&format!("/notify {notify}"));
        bench.send("Hi");
        bench.update(Msg::Focus(focused));
        bench.finish(1, outcome(finish));
        assert_eq!(announced(&bench), times, "{focused} {finish:?} {notify}");
    }
}

#[test]
fn the_title_says_what_goes_on() {
    let mut bench = Bench::new();
    assert_eq!(bench.app.title(), "dormouse: loading 40 %");
    bench = Bench::ready();
    assert_eq!(bench.app.title(), "dormouse: nano");
    assert_eq!(reading().app.title(), "dormouse: reading 28 %");
    bench = decoding();
    assert_eq!(bench.app.title(), "dormouse: thinking, 6 tokens");
    bench.say(1, Part::Answer("So".to_owned()));
    assert_eq!(bench.app.title(), "dormouse: answering, 6 tokens");
    bench.press(KeyCode::Esc);
    assert_eq!(bench.app.title(), "dormouse: stopping");
}

#[test]
fn limits_are_set_said_and_taken_away() {
    let mut bench = Bench::ready();
    let size = (120, 24);
    bench.send("/limit think 10m");
    assert!(bench.text(size).contains("Thinking: 10m. Answer: without limit, from the next message on."));
    bench.send("/limit answer 300");
    let both = Limits { think: Some(Limit::Seconds(600)), answer: Some(Limit::Tokens(300)) };
    assert_eq!(bench.app.limits, both);
    bench.send("/limit");
    assert!(bench.text(size).contains("Thinking: 10m. Answer: 300 tokens."), "{}", bench.text(size));
    bench.send("/limit think off");
    assert_eq!(bench.app.limits, Limits { think: None, ..both });
    bench.send("/limit answer soon");
    assert_eq!(bench.app.limits, Limits { think: None, ..both });
    assert!(bench.text(size).contains("`soon` is not a limit"), "{}", bench.text(size));
    assert_eq!(bench.app.composer.text(), "/limit answer soon");
    bench.ctrl('u');
    bench.send("/limit off");
    assert!(bench.app.limits.is_empty());
}
