//! States that are kept, and turns that are taken up where they were cut: fewer positions are computed, and the same
//! bits come of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use dormouse::engine;
use dormouse::model::Observer;
use dormouse::protocol::{
    CancelFlag, Command, Conversation, Finish, Message, Prompt, Sampling, Settings, Thinking, TurnRequest,
};
use dormouse::units::Bytes;

use crate::driver::{Driver, Turn};
use crate::nano::nano;

/// Width of the small model.
const WIDTH: usize = 192;

/// Counts the positions that are computed, and stops a turn in the middle of the pass with this number.
#[derive(Default)]
struct Meter {
    positions: AtomicUsize,
    passes: AtomicUsize,
    stop_at: Option<(usize, CancelFlag)>,
}

impl Observer for Meter {
    fn layer(&self, layer: usize) {
        if layer == 0 {
            self.passes.fetch_add(1, SeqCst);
        }
        if let Some((at, cancel)) = &self.stop_at
            && layer == 4
            && self.passes.load(SeqCst) == *at
        {
            cancel.cancel();
        }
    }

    fn mixer_output(&self, layer: usize, values: &[f32]) {
        if layer == 0 {
            // One row for each position.
            self.positions.fetch_add(values.len() / WIDTH, SeqCst);
        }
    }
}

fn metered(meter: &Arc<Meter>) -> Driver {
    let driver = Driver::new(engine::spawn_observed(Arc::clone(meter) as _).unwrap());
    driver.load(&nano(), 2).unwrap();
    driver
}

fn same(a: &Turn, b: &Turn) {
    assert_eq!(a.outcome.ids, b.outcome.ids);
    assert_eq!(a.parts.concat_text(), b.parts.concat_text());
    assert!(a.logits == b.logits, "logits differ in some bit");
}

trait Text {
    fn concat_text(&self) -> String;
}

impl Text for Vec<dormouse::protocol::Part> {
    fn concat_text(&self) -> String {
        use std::fmt::Write;
        let mut text = String::new();
        for part in self {
            write!(text, "{part:?}").unwrap();
        }
        text.replace("\")Answer(\"", "").replace("\")Thinking(\"", "")
    }
}

const FIRST: [u32; 6] = [2051, 262, 300, 301, 302, 303];

/// Four turns of a conversation: said, said on, retried, edited. Each reads only what no kept state has seen.
#[test]
fn a_new_turn_a_retry_and_an_edit_read_only_what_is_new() {
    let meter = Arc::new(Meter::default());
    let mut driver = metered(&meter);
    let mut fresh = Driver::ready();
    let mut say = |driver: &mut Driver, ids: &[u32], unread: usize| {
        meter.positions.store(0, SeqCst);
        let turn = driver.greedy(ids, 5);
        assert_eq!(turn.reused, ids.len() - unread);
        // Four of the five tokens that were drawn are read as well.
        assert_eq!(meter.positions.load(SeqCst), unread + 4, "positions computed");
        assert_eq!(driver.link.telemetry.sample().prompt_total, unread as u64);
        fresh.send(Command::Reset);
        same(&turn, &fresh.greedy(ids, 5));
        turn
    };
    let first = say(&mut driver, &FIRST, 6);
    let second: Vec<u32> = FIRST.iter().chain(&first.outcome.ids).copied().chain([2050, 310, 311]).collect();
    // The last token of the first turn was drawn and never read.
    say(&mut driver, &second, 4);
    // Retried: nothing is left to read.
    say(&mut driver, &second, 0);
    // The second message, edited.
    let edited: Vec<u32> = second[..second.len() - 2].iter().copied().chain([320, 321, 322]).collect();
    say(&mut driver, &edited, 5);
    // Back to the first message, and on from the edited one.
    say(&mut driver, &FIRST, 0);
    let turn = say(&mut driver, &edited, 0);
    let third: Vec<u32> = edited.iter().chain(&turn.outcome.ids).copied().chain([330]).collect();
    say(&mut driver, &third, 2);
    // Another beginning is another conversation.
    say(&mut driver, &[2051, 262, 999, 301], 4);
}

/// A stop within a pass loses that pass, and nothing of what was read and written before it.
#[test]
fn after_a_stop_within_a_pass_only_that_pass_is_computed_again() {
    let cancel = CancelFlag::default();
    let meter = Arc::new(Meter { stop_at: Some((4, cancel.clone())), ..Meter::default() });
    let mut driver = metered(&meter);
    let mut request = driver.request(&FIRST, 20);
    request.cancel = cancel;
    let cut = driver.run(request);
    assert_eq!((cut.outcome.finish, cut.outcome.ids.len()), (Finish::Cancelled, 3));
    meter.positions.store(0, SeqCst);
    let request = TurnRequest { generated: cut.outcome.ids, ..driver.request(&FIRST, 20) };
    let gone_on = driver.run(request);
    // Of the three tokens that were drawn, the last was being read when the stop came.
    assert_eq!(gone_on.reused, FIRST.len() + 2);
    let read = gone_on.outcome.ids.len() - 1 - 2;
    assert_eq!(
        meter.positions.load(SeqCst),
        read,
        "all tokens but the last, and nothing from before the stop"
    );
    let mut fresh = Driver::ready();
    assert_eq!(gone_on.outcome.ids, fresh.greedy(&FIRST, 20).outcome.ids);
}

/// A turn that was cut after any of its tokens goes on to the same end, with the same random numbers and in the same
/// channels, in a process that knows nothing of it.
#[test]
fn a_cut_turn_goes_on_to_the_same_bits_wherever_it_was_cut() {
    let mut driver = Driver::ready();
    let request = |driver: &mut Driver, generated: &[u32]| TurnRequest {
        prompt: Prompt::Chat(Conversation {
            messages: vec![Message::user("What is the capital of Italy?")],
            thinking: Thinking::Low,
            ..Conversation::default()
        }),
        generated: generated.to_vec(),
        sampling: Sampling { temperature: Some(1.2), top_p: Some(1.0), seed: Some(11) },
        ..driver.request(&[], 16)
    };
    let whole = request(&mut driver, &[]);
    let whole = driver.run(whole);
    let ids = &whole.outcome.ids;
    assert!(ids.len() >= 10, "{ids:?}");
    assert_eq!(&whole.drawn, ids);
    for cut in 0..=ids.len() {
        driver.send(Command::Reset);
        let cut_turn = request(&mut driver, &ids[..cut]);
        let turn = driver.run(cut_turn);
        assert_eq!(turn.outcome.finish, whole.outcome.finish, "cut after {cut}");
        assert_eq!(&turn.outcome.ids, ids, "cut after {cut}");
        assert_eq!(turn.drawn, ids[cut..], "cut after {cut}");
        assert_eq!(turn.parts.concat_text(), whole.parts.concat_text(), "cut after {cut}");
        assert!(whole.logits.ends_with(&turn.logits), "logits differ after {cut}");
    }
}

#[test]
fn without_room_for_copies_the_prompt_is_read_again_and_no_bit_changes() {
    let mut fresh = Driver::ready();
    let expected = fresh.greedy(&FIRST, 5);
    let mut driver = Driver::new(engine::spawn().unwrap());
    // The least memory that works leaves nothing for copies.
    let least = |driver: &Driver, memory: u64| {
        driver.send(Command::Load(Settings {
            model: nano(),
            threads: Some(2),
            memory: Some(Bytes(memory)),
            context: Some(64),
            ..Settings::default()
        }));
        loop {
            match driver.event() {
                dormouse::protocol::Event::Ready(_) => return None,
                dormouse::protocol::Event::Failed(error) | dormouse::protocol::Event::Refused(error) => {
                    return Some(error.hint);
                }
                _ => {}
            }
        }
    };
    let hint = least(&driver, 1 << 20).unwrap();
    let needed: u64 = hint.split(' ').find_map(|word| word.strip_suffix("MiB")?.parse().ok()).unwrap();
    assert_eq!(least(&driver, needed << 20), None);
    same(&driver.greedy(&FIRST, 5), &expected);
    let again = driver.greedy(&FIRST, 5);
    assert_eq!(again.reused, 0);
    same(&again, &expected);
}

#[test]
fn generated_ids_outside_of_the_vocabulary_are_refused() {
    let mut driver = Driver::ready();
    let request = TurnRequest { generated: vec![300, 2304], ..driver.request(&FIRST, 5) };
    let error = driver.run(request).outcome.error.unwrap();
    assert_eq!(error.detail, "token 8 of the prompt is 2304, and ids end at 2303");
}
