//! Turns that do not go well, and an engine that lives on.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use dormouse::engine;
use dormouse::model::Observer;
use dormouse::protocol::{CancelFlag, Command, Event, ExitCode, Finish, Phase, Settings};
use dormouse::units::Bytes;

use crate::driver::Driver;
use crate::nano::{copy_of_nano, nano};

/// Enough for the model's buffers and little more.
const SMALL: Bytes = Bytes(48 << 20);

fn long_prompt() -> Vec<u32> {
    (0..3000).map(|i| 300 + i % 200).collect()
}

/// Counts layers that begin after a cancel, cancels at a given layer, or panics at one.
#[derive(Default)]
struct Probe {
    cancel_at: Option<(usize, CancelFlag)>,
    after_cancel: AtomicUsize,
    panic_armed: AtomicBool,
}

impl Observer for Probe {
    fn layer(&self, layer: usize) {
        if let Some((at, cancel)) = &self.cancel_at {
            if cancel.is_cancelled() {
                self.after_cancel.fetch_add(1, SeqCst);
            } else if layer == *at {
                cancel.cancel();
            }
        }
        assert!(!(layer == 5 && self.panic_armed.swap(false, SeqCst)), "layer 5 was told to break");
    }
}

#[test]
fn a_stop_lands_within_a_layer_and_the_engine_goes_on() {
    let cancel = CancelFlag::default();
    let probe = Arc::new(Probe { cancel_at: Some((4, cancel.clone())), ..Probe::default() });
    let mut driver = Driver::new(engine::spawn_observed(probe.clone()).unwrap());
    driver.load(&nano(), 2).unwrap();
    let mut request = driver.request(&long_prompt(), 5);
    request.cancel = cancel;
    let began = Instant::now();
    let turn = driver.run(request);
    assert_eq!(turn.outcome.finish, Finish::Cancelled);
    assert_eq!(turn.outcome.error, None);
    assert_eq!(probe.after_cancel.load(SeqCst), 0, "layers that began after the stop");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    // Nothing of the cut pass reaches the next turn.
    let next = driver.request(&[1, 2, 3], 2);
    let after = driver.run(next);
    assert_eq!((after.reused, after.outcome.finish), (0, Finish::Length));
}

#[test]
fn a_stopped_turn_keeps_its_text() {
    let mut driver = Driver::ready();
    let mut request = driver.request(&[2051, 262], 2000);
    request.sampling.temperature = Some(3.0);
    request.sampling.top_p = Some(1.0);
    request.sampling.seed = Some(1);
    let (id, cancel) = (request.turn, request.cancel.clone());
    driver.send(Command::Generate(Box::new(request)));
    let mut deltas = 0;
    let turn = driver.collect(id, |event| {
        if matches!(event, Event::Delta { .. }) {
            deltas += 1;
            if deltas == 3 {
                cancel.cancel();
            }
        }
    });
    assert_eq!(turn.outcome.finish, Finish::Cancelled);
    assert!(turn.parts.len() >= 3 && turn.outcome.ids.len() >= 3);
    assert!(turn.outcome.ids.len() < 2000);
}

#[test]
fn a_panic_ends_the_turn_and_not_the_engine() {
    let probe = Arc::new(Probe::default());
    let mut driver = Driver::new(engine::spawn_observed(probe.clone()).unwrap());
    driver.load(&nano(), 2).unwrap();
    probe.panic_armed.store(true, SeqCst);
    let turn = driver.greedy(&[1, 2, 3], 2);
    assert_eq!(turn.outcome.finish, Finish::Error);
    let error = turn.outcome.error.unwrap();
    assert_eq!(error.code, ExitCode::Invalid);
    assert!(error.detail.contains("layer 5 was told to break"), "{error}");
    assert!(matches!(driver.event(), Event::Failed(failed) if failed == error));
    assert_eq!(driver.link.telemetry.phase(), Phase::Empty);

    // Nothing half done is used: there is no model until one is loaded again.
    let refused = driver.greedy(&[1, 2, 3], 2).outcome;
    assert_eq!((refused.finish, refused.ids.len()), (Finish::Error, 0));
    driver.load(&nano(), 2).unwrap();
    let turn = driver.greedy(&[1, 2, 3], 2);
    assert_eq!((turn.reused, turn.outcome.ids.len()), (0, 2));
}

/// A copy of the small model that streams nearly everything, loaded with each way to read that this disk has.
fn streaming(mut with: impl FnMut(&Path, &mut Driver, &str)) {
    for reader in ["direct", "buffered", "mmap"] {
        // Where direct reads are had more often than in the system's folder for temporary files.
        let model = copy_of_nano();
        let mut driver = Driver::new(engine::spawn().unwrap());
        let settings = Settings {
            model: model.path().to_owned(),
            threads: Some(2),
            context: Some(256),
            memory: Some(SMALL),
            reader: Some(reader.to_owned()),
            ..Settings::default()
        };
        match driver.load_with(settings) {
            Ok(facts) => assert!(facts.streamed.0 > 0, "nothing is streamed"),
            Err(error) if reader == "direct" && error.title.contains("cannot be read that way") => continue,
            Err(error) => panic!("{error}"),
        }
        with(model.path(), &mut driver, reader);
    }
}

fn shards(model: &Path) -> impl Iterator<Item = PathBuf> {
    let files = std::fs::read_dir(model).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "safetensors"))
}

#[test]
fn a_shard_that_is_cut_while_running_ends_the_turn_and_a_whole_one_the_trouble() {
    streaming(|model, driver, reader| {
        let prompt: Vec<u32> = (300..310).collect();
        let well = driver.greedy(&prompt, 3);
        assert_eq!(well.outcome.finish, Finish::Length);
        let whole: Vec<(PathBuf, Vec<u8>)> =
            shards(model).map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
        for (path, _) in &whole {
            OpenOptions::new().write(true).open(path).unwrap().set_len(4096).unwrap();
        }
        let other: Vec<u32> = (400..420).collect();
        let turn = driver.greedy(&other, 20);
        assert_eq!(turn.outcome.finish, Finish::Error, "{reader}");
        assert_eq!(
            (turn.outcome.ids.len(), turn.parts.len(), turn.logits.len()),
            (0, 0, 0),
            "no token of half a pass, {reader}"
        );
        let error = turn.outcome.error.unwrap();
        assert_eq!(error.code, ExitCode::ModelFiles);
        assert!(error.detail.contains("safetensors ends early: wanted"), "{reader}: {error}");
        // The files are as they were, and so are the answers.
        for (path, bytes) in &whole {
            std::fs::write(path, bytes).unwrap();
        }
        let again = driver.greedy(&prompt, 3);
        assert_eq!(again.outcome.ids, well.outcome.ids, "{reader}");
    });
}

/// The files are open, and an open file has its bytes until it is closed: the turn goes on to the same tokens. Who
/// begins anew is told what is missing.
#[test]
fn a_shard_that_vanishes_while_running_is_missed_at_the_next_start() {
    streaming(|model, driver, reader| {
        let prompt: Vec<u32> = (300..310).collect();
        let well = driver.greedy(&prompt, 4);
        shards(model).for_each(|path| std::fs::remove_file(path).unwrap());
        driver.send(Command::Reset);
        let turn = driver.greedy(&prompt, 4);
        assert_eq!(turn.outcome.finish, Finish::Length, "{reader}");
        assert_eq!(turn.outcome.ids, well.outcome.ids, "{reader}");
        let error = driver.load(model, 2).unwrap_err();
        assert_eq!(error.code, ExitCode::ModelFiles);
        assert!(error.detail.contains("safetensors"), "{error}");
    });
}

#[test]
fn bad_prompts_are_refused_with_the_numbers() {
    let mut driver = Driver::ready();
    let too_long = vec![300; 5000];
    for (prompt, detail) in [
        (&[][..], "a prompt has at least one token"),
        (&[1, 2304, 3][..], "token 2 of the prompt is 2304, and ids end at 2303"),
        (&too_long[..], "the prompt has 5000 tokens, and the context has room for 4096 with the answer"),
    ] {
        let turn = driver.greedy(prompt, 1);
        let error = turn.outcome.error.unwrap();
        assert_eq!((turn.outcome.finish, error.code), (Finish::Error, ExitCode::Usage));
        assert_eq!(error.detail, detail);
    }
    let mut request = driver.request(&[1], 1);
    request.sampling.top_p = Some(1.5);
    assert_eq!(driver.run(request).outcome.error.map(|error| error.code), Some(ExitCode::Usage));
}

#[test]
fn loading_fails_with_an_event_and_can_be_tried_again() {
    let driver = Driver::new(engine::spawn().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let error = driver.load(dir.path(), 1).unwrap_err();
    assert_eq!(error.code, ExitCode::ModelFiles);
    assert!(error.detail.contains("config.json"), "{error}");
    assert!(driver.load(&nano(), 1).is_ok());
}

/// Holds the engine within a pass until it is let go.
struct Gate {
    reached: Sender<()>,
    open: Receiver<()>,
}

impl Observer for Gate {
    fn layer(&self, layer: usize) {
        if layer == 0 {
            let _ = self.reached.send(());
            let _ = self.open.recv();
        }
    }
}

#[test]
fn a_shutdown_stops_the_loading() {
    let ((reached, at_gate), (opener, open)) = (bounded(1), bounded(1));
    let mut driver = Driver::new(engine::spawn_observed(Arc::new(Gate { reached, open })).unwrap());
    driver.load(&nano(), 1).unwrap();
    let request = driver.request(&[1, 2, 3], 0);
    let id = request.turn;
    driver.send(Command::Generate(Box::new(request)));
    at_gate.recv().unwrap();
    // Both are there before the engine can look at either.
    driver.send(Command::Load(Settings { model: nano(), threads: Some(1), ..Settings::default() }));
    driver.send(Command::Shutdown);
    opener.send(()).unwrap();
    assert_eq!(driver.collect(id, |_| {}).outcome.finish, Finish::Length);
    assert!(matches!(driver.event(), Event::Failed(error) if error.code == ExitCode::Stopped));
    assert!(matches!(driver.event(), Event::Stopped));
    assert!(
        driver.link.events.recv_timeout(Duration::from_secs(10)).is_err(),
        "nothing comes after the last word"
    );
}

#[test]
fn an_engine_that_nobody_listens_to_leaves() {
    let link = engine::spawn().unwrap();
    let (commands, telemetry) = (link.commands.clone(), Arc::downgrade(&link.telemetry));
    drop(link);
    commands
        .send(Command::Load(Settings { model: nano(), threads: Some(1), ..Settings::default() }))
        .unwrap();
    let began = Instant::now();
    while !matches!(commands.try_send(Command::Reset), Err(TrySendError::Disconnected(_))) {
        assert!(began.elapsed() < Duration::from_mins(1), "the engine hangs");
        std::thread::sleep(Duration::from_millis(5));
    }
    // The monitor leaves with it: nobody holds the numbers any more.
    while telemetry.strong_count() > 0 {
        assert!(began.elapsed() < Duration::from_mins(1), "the monitor hangs");
        std::thread::sleep(Duration::from_millis(5));
    }
}
