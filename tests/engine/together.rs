//! Turns that share their passes: each gets the bits that it gets alone, whoever joins, leaves, fails or is stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use dormouse::engine;
use dormouse::model::Observer;
use dormouse::protocol::{
    CancelFlag, Command, Conversation, Event, ExitCode, Finish, Message, ModelFacts, Prompt, Sampling,
    Settings, Thinking, TurnRequest, UserError,
};
use dormouse::units::Bytes;

use crate::driver::{Driver, Turn};
use crate::nano::nano;

fn load(
    driver: &Driver,
    together: usize,
    threads: usize,
    memory: Option<u64>,
) -> Result<ModelFacts, UserError> {
    driver.load_with(Settings {
        model: nano(),
        threads: Some(threads),
        memory: memory.map(Bytes),
        context: Some(400),
        together: Some(together),
        ..Settings::default()
    })
}

/// The least memory that works for so many turns at once.
fn least_memory(together: usize) -> u64 {
    let error = load(&Driver::new(engine::spawn().unwrap()), together, 1, Some(1 << 20)).unwrap_err();
    assert_eq!(error.code, ExitCode::Resources);
    let mib = error.hint.split(' ').find_map(|word| word.strip_suffix("MiB")?.parse::<u64>().ok());
    mib.expect("the hint names the memory") << 20
}

fn asked(driver: &mut Driver, text: &str, seed: u64, chunk: usize) -> TurnRequest {
    TurnRequest {
        prompt: Prompt::Chat(Conversation {
            messages: vec![Message::user(text)],
            thinking: Thinking::Low,
            ..Conversation::default()
        }),
        sampling: Sampling { temperature: Some(1.1), top_p: Some(1.0), seed: Some(seed) },
        prefill_chunk: Some(chunk),
        ..driver.request(&[], 14)
    }
}

/// Turns that differ in all they can: prompts of several lengths, chunks, ways to draw, limits, one that was cut before,
/// one that is bad, one that has nothing to draw.
fn ragged(driver: &mut Driver) -> Vec<TurnRequest> {
    let long: Vec<u32> = (0..150).map(|i| 300 + i % 170).collect();
    let cut = driver.request(&[2051, 262, 300, 301], 12);
    vec![
        asked(driver, "What is the capital of Italy?", 7, 3),
        driver.request(&long, 9),
        asked(driver, "Hi", 8, 64),
        driver.request(&[1, 2304, 3], 5),
        TurnRequest { generated: vec![310, 311, 312], ..cut },
        asked(driver, "Tell me a joke, and then another one that is longer.", 9, 1),
        driver.request(&long[..70], 0),
        driver.request(&[5], 20),
    ]
}

/// What these turns give together.
fn together(driver: &Driver, requests: &[TurnRequest]) -> Vec<Turn> {
    let ids: Vec<_> = requests.iter().map(|request| request.turn).collect();
    for request in requests {
        driver.send(Command::Generate(Box::new(request.clone())));
    }
    driver.collect_all(&ids, |_| {})
}

fn same(found: &Turn, expected: &Turn, what: &str) {
    assert_eq!(found.prompt, expected.prompt, "{what}");
    assert_eq!(found.outcome.ids, expected.outcome.ids, "{what}");
    assert_eq!(found.outcome.finish, expected.outcome.finish, "{what}");
    assert_eq!(found.outcome.error, expected.outcome.error, "{what}");
    assert_eq!(found.parts, expected.parts, "{what}");
    assert!(found.logits == expected.logits, "{what}: logits differ in some bit");
}

/// Counts passes and layers, and does what it is told at a layer.
#[derive(Default)]
struct Meter {
    passes: AtomicUsize,
    layers: AtomicUsize,
    /// Sets this flag in layer 4 of the pass with this number.
    cancel: Option<(usize, Vec<CancelFlag>)>,
    /// Breaks in layer 4 of this pass.
    break_in: Option<usize>,
}

impl Observer for Meter {
    fn layer(&self, layer: usize) {
        if layer == 0 {
            self.passes.fetch_add(1, SeqCst);
        }
        self.layers.fetch_add(1, SeqCst);
        let pass = self.passes.load(SeqCst);
        if let Some((at, flags)) = &self.cancel
            && (layer, pass) == (4, *at)
        {
            flags.iter().for_each(CancelFlag::cancel);
        }
        assert!(layer != 4 || self.break_in != Some(pass), "pass {pass} was told to break");
    }
}

#[test]
fn turns_that_share_their_passes_get_the_bits_that_they_get_alone() {
    let mut driver = Driver::ready();
    let requests = ragged(&mut driver);
    let alone: Vec<Turn> = requests
        .iter()
        .map(|request| {
            driver.send(Command::Reset);
            driver.run(request.clone())
        })
        .collect();
    let mut last = usize::MAX;
    for (at_once, threads, memory) in
        [(1, 2, None), (2, 1, None), (3, 2, Some(least_memory(3))), (4, 2, None), (8, 2, None)]
    {
        let meter = Arc::new(Meter::default());
        let driver = Driver::new(engine::spawn_observed(Arc::clone(&meter) as _).unwrap());
        load(&driver, at_once, threads, memory).unwrap();
        let found = together(&driver, &requests);
        for (number, (found, expected)) in found.iter().zip(&alone).enumerate() {
            same(found, expected, &format!("turn {number}, {at_once} at once, {threads} threads"));
        }
        let passes = meter.passes.load(SeqCst);
        assert!(passes < last, "{passes} passes with {at_once} at once, {last} with fewer");
        last = passes;

        // What was shared is counted once: all turns together have read what the store has.
        let sample = driver.link.telemetry.sample();
        let experts: u64 = found.iter().map(|turn| turn.outcome.expert_bytes).sum();
        assert_eq!(experts, sample.expert_bytes);
        let requests: u64 = found.iter().map(|turn| turn.outcome.experts.requests).sum();
        assert_eq!(requests, sample.expert_requests);
    }
}

/// A turn that is stopped leaves after the pass, and the others lose nothing by it.
#[test]
fn one_that_is_stopped_does_not_hold_up_the_others() {
    let mut driver = Driver::ready();
    let (one, two) = (asked(&mut driver, "Hello", 3, 64), asked(&mut driver, "A story?", 4, 64));
    let (alone_one, alone_two) = (driver.run(one.clone()), driver.run(two.clone()));
    let meter = Arc::new(Meter { cancel: Some((6, vec![one.cancel.clone()])), ..Meter::default() });
    let driver = Driver::new(engine::spawn_observed(meter).unwrap());
    load(&driver, 2, 2, None).unwrap();
    let found = together(&driver, &[one, two]);
    same(&found[1], &alone_two, "the one that goes on");
    let outcome = &found[0].outcome;
    assert_eq!((outcome.finish, &outcome.error), (Finish::Cancelled, &None));
    assert!(!outcome.ids.is_empty() && outcome.ids.len() < alone_one.outcome.ids.len());
    assert!(alone_one.outcome.ids.starts_with(&outcome.ids));
}

/// Nobody wants the pass any more: it stops within a layer.
#[test]
fn a_stop_of_all_lands_within_a_layer() {
    let mut driver = Driver::ready();
    let requests = [asked(&mut driver, "Hello", 3, 64), asked(&mut driver, "A story?", 4, 64)];
    let flags = requests.iter().map(|request| request.cancel.clone()).collect();
    let meter = Arc::new(Meter { cancel: Some((5, flags)), ..Meter::default() });
    let driver = Driver::new(engine::spawn_observed(Arc::clone(&meter) as _).unwrap());
    let layers = load(&driver, 2, 2, None).unwrap().layers;
    let found = together(&driver, &requests);
    assert!(found.iter().all(|turn| turn.outcome.finish == Finish::Cancelled));
    assert_eq!(meter.layers.load(SeqCst), 4 * layers + 5, "layers that began");
    assert_eq!(driver.link.telemetry.phase(), dormouse::protocol::Phase::Idle);
}

#[test]
fn a_panic_ends_all_turns_of_the_pass_and_not_the_engine() {
    let meter = Arc::new(Meter { break_in: Some(5), ..Meter::default() });
    let mut driver = Driver::new(engine::spawn_observed(meter).unwrap());
    load(&driver, 2, 2, None).unwrap();
    let requests = [asked(&mut driver, "Hello", 3, 64), asked(&mut driver, "A story?", 4, 64)];
    for turn in together(&driver, &requests) {
        assert_eq!(turn.outcome.finish, Finish::Error);
        assert!(!turn.outcome.ids.is_empty(), "what came before is told");
        assert!(turn.outcome.error.unwrap().detail.contains("pass 5 was told to break"));
    }
    assert!(matches!(driver.event(), Event::Failed(_)));
    load(&driver, 2, 2, None).unwrap();
    assert_eq!(driver.greedy(&[1, 2, 3], 2).outcome.ids.len(), 2);
}

/// Each turn at once takes a state and a context; more of them than fit are refused before anything is loaded.
#[test]
fn more_turns_than_fit_are_refused_with_the_numbers() {
    let driver = Driver::new(engine::spawn().unwrap());
    let (one, four) = (least_memory(1), least_memory(4));
    assert!(four > one, "{four} bytes for four, {one} for one");
    load(&driver, 4, 1, Some(four)).unwrap();
    let error = load(&driver, 5, 1, Some(four)).unwrap_err();
    assert_eq!(error.code, ExitCode::Resources);
    assert!(error.detail.contains("short"), "{error}");
    let (facts, alone) = (load(&driver, 4, 1, None).unwrap().plan, load(&driver, 1, 1, None).unwrap().plan);
    assert_eq!((facts.together, facts.state.0, facts.context.0), (4, 4 * alone.state.0, 4 * alone.context.0));
}
