//! States on the disk: a conversation is read once, whatever happens between its turns, and what a file holds is used only
//! where it is exactly what it says it is.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use dormouse::engine;
use dormouse::model::Observer;
use dormouse::protocol::{
    CancelFlag, Command, Conversation, Finish, Message, Prompt, ReusedFrom, Settings, StatesOnDisk, Thinking,
    TurnRequest,
};
use dormouse::units::Bytes;

use crate::driver::{Driver, Turn};
use crate::nano::{copy_of_nano, nano};

const FIRST: [u32; 6] = [280, 262, 300, 301, 302, 303];
const DRAWN: usize = 5;

/// The tiny checkpoint, whose experts outnumber what a token wakes by more.
fn tiny() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny")
}

/// Counts the positions that are computed, for itself, and stops in the pass with a number.
#[derive(Default)]
struct Meter {
    width: usize,
    positions: AtomicUsize,
    passes: AtomicUsize,
    stop_in: Option<(usize, CancelFlag)>,
}

impl Observer for Meter {
    fn layer(&self, layer: usize) {
        if layer == 0 {
            self.passes.fetch_add(1, SeqCst);
        }
        if let Some((pass, cancel)) = &self.stop_in
            && layer == 2
            && self.passes.load(SeqCst) == *pass
        {
            cancel.cancel();
        }
    }

    fn mixer_output(&self, layer: usize, values: &[f32]) {
        if layer == 0 {
            self.positions.fetch_add(values.len() / self.width, SeqCst);
        }
    }
}

/// A folder of states, and a model that keeps them there.
struct Home {
    dir: tempfile::TempDir,
    settings: Settings,
    width: usize,
}

impl Home {
    fn of(model: PathBuf, width: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let states = Some(StatesOnDisk { folder: dir.path().join("states"), most: Bytes(1 << 30) });
        let settings = Settings { model, threads: Some(2), states, ..Settings::default() };
        Self { dir, settings, width }
    }

    fn nano() -> Self {
        Self::of(nano(), 192)
    }

    /// The smallest memory that works: nothing of it is left for copies, nor for a state that is held.
    fn with_least_memory(mut self) -> Self {
        self.settings.context = Some(64);
        let facts = Driver::new(engine::spawn().unwrap()).load_with(self.settings.clone()).unwrap();
        self.settings.memory = Some(facts.plan.smallest);
        self
    }

    fn meter(&self) -> (Driver, Arc<Meter>) {
        let meter = Arc::new(Meter { width: self.width, ..Meter::default() });
        (self.watched(&meter), meter)
    }

    fn watched(&self, meter: &Arc<Meter>) -> Driver {
        let driver = Driver::new(engine::spawn_observed(Arc::clone(meter) as _).unwrap());
        driver.load_with(self.settings.clone()).unwrap();
        driver
    }

    /// An engine that keeps nothing on the disk.
    fn fresh(&self) -> Driver {
        let driver = Driver::new(engine::spawn().unwrap());
        driver.load_with(Settings { states: None, ..self.settings.clone() }).unwrap();
        driver
    }

    /// The states, the shortest sequence first.
    fn states(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.dir.path().join("states")) else { return Vec::new() };
        let mut found: Vec<(usize, PathBuf)> = entries
            .map(|entry| {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap();
                assert!(!name.starts_with('.'), "{name} is left behind");
                (name.split('-').nth(1).unwrap().parse().unwrap(), path)
            })
            .collect();
        found.sort();
        found.into_iter().map(|(_, path)| path).collect()
    }
}

fn same(a: &Turn, b: &Turn) {
    assert_eq!(a.outcome.ids, b.outcome.ids);
    assert!(a.logits == b.logits, "logits differ in some bit");
}

/// Ids of a turn and of a next message.
fn then(ids: &[u32], turn: &Turn, more: &[u32]) -> Vec<u32> {
    ids.iter().chain(&turn.outcome.ids).chain(more).copied().collect()
}

/// S01, S02, S06: said, said on, retried, edited, gone back to and branched off, each by an engine that was started anew:
/// only what is new is computed, and the bits are those of a fresh run over the whole.
fn every_turn_after_a_restart(home: &Home) {
    let mut fresh = home.fresh();
    let mut say = |ids: &[u32], unread: usize| {
        let (mut driver, meter) = home.meter();
        let turn = driver.greedy(ids, DRAWN);
        assert_eq!(turn.notes, [""; 0]);
        assert_eq!((turn.reused, turn.outcome.reused.positions), (ids.len() - unread, ids.len() - unread));
        let expected = (turn.reused > 0).then_some(ReusedFrom::Disk);
        assert_eq!(turn.outcome.reused.from, expected);
        // All tokens that were drawn but the last are read as well.
        assert_eq!(turn.outcome.ids.len(), DRAWN);
        assert_eq!(meter.positions.load(SeqCst), unread + DRAWN - 1, "positions computed");
        assert_eq!(turn.outcome.computed, unread + DRAWN - 1);
        fresh.send(Command::Reset);
        same(&turn, &fresh.greedy(ids, DRAWN));
        assert_eq!(driver.leave(), [""; 0]);
        turn
    };
    let first = say(&FIRST, 6);
    let second = then(&FIRST, &first, &[305, 310, 311]);
    let old = say(&second, 4);
    // Retried.
    say(&second, 0);
    // The second message, edited.
    let edited = then(&FIRST, &first, &[305, 320, 321, 322]);
    let turn = say(&edited, 5);
    // Back to the first message, and on from the edited one.
    say(&FIRST, 0);
    say(&then(&edited, &turn, &[330]), 2);
    // The version before the edit, gone on with as another branch.
    say(&then(&second, &old, &[340]), 2);
    // Another beginning is another conversation.
    say(&[280, 262, 299, 301], 4);
}

#[test]
fn s06_turns_after_a_restart_compute_only_what_is_new() {
    every_turn_after_a_restart(&Home::nano());
}

#[test]
fn s06_the_same_with_the_least_memory() {
    every_turn_after_a_restart(&Home::nano().with_least_memory());
}

#[test]
fn s06_the_same_on_the_tiny_checkpoint() {
    every_turn_after_a_restart(&Home::of(tiny(), 128));
    every_turn_after_a_restart(&Home::of(tiny(), 128).with_least_memory());
}

/// Within one run of the program the disk serves what memory had no room for.
#[test]
fn without_room_for_copies_the_disk_has_them() {
    let home = Home::nano().with_least_memory();
    let (mut driver, _) = home.meter();
    let mut fresh = home.fresh();
    let first = driver.greedy(&FIRST, DRAWN);
    let second = then(&FIRST, &first, &[305, 310]);
    let turn = driver.greedy(&second, DRAWN);
    assert_eq!((turn.reused, turn.outcome.reused.from), (FIRST.len() + 4, Some(ReusedFrom::Memory)));
    for (ids, reused) in [(&second[..], second.len()), (&FIRST, FIRST.len()), (&second, second.len())] {
        let turn = driver.greedy(ids, DRAWN);
        assert_eq!((turn.reused, turn.outcome.reused.from), (reused, Some(ReusedFrom::Disk)));
        fresh.send(Command::Reset);
        same(&turn, &fresh.greedy(ids, DRAWN));
    }
}

/// Another effort is another beginning, since it stands before the first message: what is no prefix any more is read
/// again, and going back finds all that was read before.
#[test]
fn s01_thinking_switched_reads_what_is_another_history() {
    let home = Home::nano();
    let mut fresh = home.fresh();
    let mut say = |thinking: Thinking, text: &[&str]| {
        let conversation = Conversation {
            messages: text.iter().map(|text| Message::user(*text)).collect(),
            thinking,
            ..Conversation::default()
        };
        let prompt = Prompt::Chat(conversation);
        let (mut driver, _) = home.meter();
        let request = TurnRequest { prompt: prompt.clone(), ..driver.request(&[], DRAWN) };
        let turn = driver.run(request);
        driver.leave();
        fresh.send(Command::Reset);
        let request = TurnRequest { prompt, ..fresh.request(&[], DRAWN) };
        same(&turn, &fresh.run(request));
        assert_eq!(turn.outcome.computed + turn.reused, turn.prompt.len() + turn.outcome.ids.len() - 1);
        turn
    };
    let low = say(Thinking::Low, &["Hi!"]);
    assert_eq!(low.reused, 0);
    assert_eq!(say(Thinking::Off, &["Hi!"]).reused, 0);
    assert_eq!(say(Thinking::Low, &["Hi!"]).reused, low.prompt.len());
}

/// S03: a state serves exactly the ids that it has seen, wherever they end.
#[test]
fn s03_a_prefix_that_is_one_off_is_none() {
    let home = Home::nano();
    let (mut driver, _) = home.meter();
    let first = driver.greedy(&FIRST, DRAWN);
    driver.leave();
    let seen = then(&FIRST, &first, &[]);
    let mut fresh = home.fresh();
    // The states have seen 6 and 10 tokens.
    for (len, reused) in [(5, 0), (6, 6), (7, 6), (9, 6), (10, 6), (11, 10)] {
        let (mut driver, _) = home.meter();
        let turn = driver.greedy(&seen[..len], 1);
        assert_eq!(turn.reused, reused, "{len} tokens");
        fresh.send(Command::Reset);
        same(&turn, &fresh.greedy(&seen[..len], 1));
        driver.leave();
        let states = home.states();
        for path in &states {
            let count = path.file_name().unwrap().to_str().unwrap().split('-').nth(1).unwrap();
            if !["6", "10"].contains(&count) {
                fs::remove_file(path).unwrap();
            }
        }
    }
}

/// A stop within a pass, in the prompt and in the answer, and a restart: all passes before it count.
#[test]
fn what_was_computed_before_a_stop_survives_a_restart() {
    let prompt: Vec<u32> = (300..320).collect();
    // Stops within this pass; gives the positions that need not be computed again after the restart.
    let reused = |pass| {
        let home = Home::nano();
        let cancel = CancelFlag::default();
        let stop_in = Some((pass, cancel.clone()));
        let meter = Arc::new(Meter { width: home.width, stop_in, ..Meter::default() });
        let mut driver = home.watched(&meter);
        let request = driver.request(&prompt, 10);
        let cut = driver.run(TurnRequest { cancel, prefill_chunk: Some(4), ..request });
        assert_eq!(cut.outcome.finish, Finish::Cancelled);
        driver.leave();
        let (mut driver, meter) = home.meter();
        let request = TurnRequest { generated: cut.outcome.ids, ..driver.request(&prompt, 10) };
        let turn = driver.run(request);
        assert_eq!(turn.outcome.reused.from, Some(ReusedFrom::Disk), "pass {pass}");
        let read = prompt.len() + turn.outcome.ids.len() - 1;
        assert_eq!(meter.positions.load(SeqCst), read - turn.reused);
        assert_eq!(turn.outcome.ids, home.fresh().greedy(&prompt, 10).outcome.ids);
        turn.reused
    };
    assert_eq!(reused(3), 8);
    // While the state at the prompt's end is being written there is no copy of what came after it: a disk that others keep
    // busy may take longer for that than the token does.
    let mut tries = (0..10).map(|_| reused(7)).inspect(|reused| assert!([20, 21].contains(reused)));
    assert!(tries.any(|reused| reused == 20 + 1));
}

/// A file of which any part is missing or another one is told of and computed again, to the same bits.
#[test]
fn a_state_that_is_not_what_it_says_is_computed_again() {
    let home = Home::nano();
    let (mut driver, _) = home.meter();
    let longer: Vec<u32> = FIRST.iter().copied().chain([310, 311]).collect();
    let expected = home.fresh().greedy(&longer, 2);
    driver.greedy(&FIRST, 1);
    // The prompt's state alone: with one token the turn ends where its prompt did.
    driver.leave();
    let path = home.states().pop().unwrap();
    let whole = fs::read(&path).unwrap();
    let (model, name) = (home.settings.model.clone(), path.file_name().unwrap().to_owned());

    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        bytes
    };
    let ids = 4096;
    let logits = ids + FIRST.len() * 4;
    let state = logits + 2304 * 4;
    let mut cases: Vec<(String, Vec<u8>, &str)> = vec![
        ("nothing".to_owned(), Vec::new(), "ends early"),
        ("half a page".to_owned(), whole[..2000].to_vec(), "it is too short"),
        ("the first page".to_owned(), whole[..4096].to_vec(), "its length does not fit"),
        ("all but a byte".to_owned(), whole[..whole.len() - 1].to_vec(), "its length does not fit"),
        ("a byte more".to_owned(), [&whole[..], &[0]].concat(), "its length does not fit"),
        ("the magic".to_owned(), flipped(3), "does not begin as a state does"),
        ("the version".to_owned(), flipped(16), "has version 17 of the format; this program knows version 1"),
    ];
    for at in [20, 24, 32, 40, 48, 56, 64, 72, 80, 500, 4087, 4088, 4095] {
        cases.push((format!("byte {at}"), flipped(at), "its first page is not as it was written"));
    }
    cases.push(("an id".to_owned(), flipped(ids + 5), "belongs to another conversation"));
    for at in [logits, state - 1, state, state + (whole.len() - state) / 2, whole.len() - 1] {
        cases.push((format!("byte {at}"), flipped(at), "its content is not as it was written"));
    }
    // Files of another model and of other tokens under this name.
    let other = {
        let copy = copy_of_nano();
        let other = Home::of(copy.path().to_owned(), 192);
        let (mut driver, _) = other.meter();
        driver.greedy(&FIRST, 1);
        driver.leave();
        fs::read(other.states().pop().unwrap()).unwrap()
    };
    assert_eq!(other[ids..], whole[ids..], "the same but for its model");
    cases.push(("another model".to_owned(), other, "belongs to another model"));
    let other = {
        let other = Home::of(model, 192);
        let (mut driver, _) = other.meter();
        driver.greedy(&[300, 301, 302, 303, 304, 305], 1);
        driver.leave();
        let path = other.states().pop().unwrap();
        assert_ne!(path.file_name().unwrap(), name);
        fs::read(path).unwrap()
    };
    cases.push(("other tokens".to_owned(), other, "belongs to another conversation"));

    let (mut driver, _) = home.meter();
    let mut say = |bytes: Option<&[u8]>| {
        // Once this turn was refused, all that was written before is on the disk, and nothing is in memory.
        driver.send(Command::Reset);
        driver.greedy(&[], 1);
        for path in home.states() {
            fs::remove_file(path).unwrap();
        }
        if let Some(bytes) = bytes {
            fs::write(&path, bytes).unwrap();
        }
        driver.greedy(&longer, 2)
    };
    // Sound, it is used; otherwise the cases would show nothing.
    let turn = say(Some(&whole));
    assert_eq!((turn.reused, &turn.notes[..]), (FIRST.len(), &[][..]));
    same(&turn, &expected);
    for (case, bytes, told) in cases {
        let turn = say(Some(&bytes));
        assert_eq!((turn.reused, turn.outcome.reused.from), (0, None), "{case}");
        assert!(turn.notes.len() == 1 && turn.notes[0].contains(told), "{case}: {:?}", turn.notes);
        same(&turn, &expected);
        assert!(!path.exists(), "{case}: what cannot be used is not kept");
    }
    // Missing, it is computed again without a word.
    let turn = say(None);
    assert_eq!((turn.reused, turn.notes.len()), (0, 0));
    same(&turn, &expected);
}

/// Weights that changed are another model, though config and headers are the same.
#[test]
fn a_model_whose_files_were_changed_finds_nothing() {
    let copy = copy_of_nano();
    let home = Home::of(copy.path().to_owned(), 192);
    let run = || {
        let (mut driver, _) = home.meter();
        let turn = driver.greedy(&FIRST, DRAWN);
        driver.leave();
        turn
    };
    assert_eq!((run().reused, run().reused), (0, FIRST.len()));
    let shard = fs::read_dir(copy.path()).unwrap().map(|entry| entry.unwrap().path());
    let shard = shard.into_iter().find(|path| path.extension().is_some_and(|e| e == "safetensors")).unwrap();
    let file = fs::File::options().write(true).open(shard).unwrap();
    let changed = file.metadata().unwrap().modified().unwrap();
    file.set_modified(changed + std::time::Duration::from_secs(1)).unwrap();
    assert_eq!(run().reused, 0);
}

#[test]
fn what_cannot_be_saved_is_told_once_and_stops_nothing() {
    let mut home = Home::nano();
    // Too little for any state.
    home.settings.states.as_mut().unwrap().most = Bytes(1000);
    let expected = home.fresh().greedy(&FIRST, DRAWN);
    let (mut driver, _) = home.meter();
    let mut notes = Vec::new();
    for _ in 0..3 {
        let turn = driver.greedy(&FIRST, DRAWN);
        same(&turn, &expected);
        notes.extend(turn.notes);
    }
    notes.extend(driver.leave());
    assert!(notes.len() == 1 && notes[0].contains("--state-disk allows 1000 B"), "{notes:?}");
    assert!(home.states().is_empty());
    // A folder that cannot be made.
    fs::write(home.dir.path().join("file"), "").unwrap();
    home.settings.states =
        Some(StatesOnDisk { folder: home.dir.path().join("file/states"), most: Bytes(1 << 30) });
    let (mut driver, _) = home.meter();
    let turn = driver.greedy(&FIRST, DRAWN);
    same(&turn, &expected);
    assert!(turn.notes.iter().any(|note| note.contains("cannot make")), "{:?}", turn.notes);
}

/// The oldest make way, and those of the conversation that goes on stay.
#[test]
fn states_stay_within_what_they_may_take() {
    let mut home = Home::nano();
    let (mut driver, _) = home.meter();
    driver.greedy(&FIRST, 1);
    driver.leave();
    let one = fs::metadata(home.states().pop().unwrap()).unwrap().len();
    home.settings.states.as_mut().unwrap().most = Bytes(3 * one + one / 2);
    let (mut driver, _) = home.meter();
    for id in 400..410 {
        driver.greedy(&[280, 262, id], 1);
    }
    driver.leave();
    assert_eq!(home.states().len(), 3);
    let (mut driver, _) = home.meter();
    assert_eq!(driver.greedy(&[280, 262, 409, 7], 1).reused, 3);
    assert_eq!(driver.greedy(&[280, 262, 400, 7], 1).reused, 0);
}
