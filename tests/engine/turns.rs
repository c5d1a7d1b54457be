//! Turns that go well.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock};

use dormouse::chat::Transcript;
use dormouse::engine;
use dormouse::model::Observer;
use dormouse::protocol::{
    Command, ContextFull, Conversation, Event, Finish, Message, Part, Phase, Prompt, Sampling, Telemetry,
    Thinking, TurnRequest,
};
use dormouse::store::Store;
use serde::Deserialize;

use crate::driver::{Driver, Turn};
use crate::nano::{copy_of_nano, nano};

#[derive(Deserialize)]
struct Golden {
    prompt: Vec<u32>,
    greedy: Vec<u32>,
    text: String,
}

fn golden() -> Vec<Golden> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/nano/golden.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn greedy_ids_are_those_of_the_code_that_trained_the_model() {
    let mut driver = Driver::ready();
    let golden = golden();
    assert_eq!(golden.len(), 12);
    for one in golden {
        let mut request = driver.request(&one.prompt, one.greedy.len());
        request.logits = false;
        let turn = driver.run(request);
        assert_eq!(turn.outcome.ids, one.greedy, "{}", one.text);
    }
}

/// Notes the telemetry's bytes as each layer begins.
#[derive(Debug, Default)]
struct Bytes {
    telemetry: OnceLock<Arc<Telemetry>>,
    seen: Mutex<Vec<u64>>,
}

impl Observer for Bytes {
    fn store(&self, store: &Store) {
        let sample = self.telemetry.get().unwrap().sample();
        let counters = store.counters();
        assert!(sample.trunk_bytes <= counters.trunk_bytes && sample.late <= counters.late);
        self.seen.lock().unwrap().push(sample.trunk_bytes + sample.expert_bytes);
    }
}

/// At full size a pass takes half a minute: who watches sees bytes come in meanwhile.
#[test]
fn numbers_move_within_a_pass() {
    let bytes = Arc::new(Bytes::default());
    let driver = Driver::new(engine::spawn_observed(Arc::clone(&bytes) as Arc<_>).unwrap());
    bytes.telemetry.set(Arc::clone(&driver.link.telemetry)).unwrap();
    let layers = driver.load(&nano(), 1).unwrap().layers;
    let turn = { driver }.greedy(&[2051, 262], 3);
    assert_eq!(turn.outcome.tokens.len(), turn.outcome.decode_s.len());
    assert!(turn.outcome.waits.late + turn.outcome.waits.in_time > 0);
    let seen = bytes.seen.lock().unwrap();
    // As each layer begins, and after the last.
    assert_eq!(seen.len(), (layers + 1) * 3);
    assert!(seen.is_sorted());
    let within: HashSet<_> = seen[..layers].iter().collect();
    assert!(within.len() > layers / 2, "{seen:?}");
}

/// The second turn of a chat reads only what is new, and computes the bits that it would from the beginning.
#[test]
fn a_turn_that_goes_on_reuses_the_state_and_not_a_bit_changes() {
    let one = golden().swap_remove(0);
    let mut driver = Driver::ready();
    let first = driver.greedy(&one.prompt, 6);
    assert_eq!(first.reused, 0);

    let longer: Vec<u32> =
        one.prompt.iter().chain(&first.outcome.ids).copied().chain([2050, 2051, 262]).collect();
    let warm = driver.greedy(&longer, 5);
    // The last token of the first turn was drawn and not yet read.
    assert_eq!(warm.reused, one.prompt.len() + 5);

    driver.send(Command::Reset);
    let cold = driver.greedy(&longer, 5);
    assert_eq!(cold.reused, 0);
    assert_same(&warm, &cold);

    // The same prompt again leaves nothing to read, and another beginning is another conversation.
    assert_same(&driver.greedy(&longer, 5), &cold);
    let mut other = longer.clone();
    other[3] ^= 1;
    other.extend(300..310);
    let turn = driver.greedy(&other, 2);
    assert_eq!(turn.reused, 0);
    assert_ne!(turn.logits[0], cold.logits[0]);
}

#[test]
fn chunks_and_threads_change_no_bit() {
    let one = golden().swap_remove(1);
    let mut driver = Driver::ready();
    let reference = driver.greedy(&one.prompt, 4);
    assert_eq!(reference.logits.len(), 4, "the last prompt position and each step that was computed");
    for chunk in [1, 2, 3, 7, 1000] {
        driver.send(Command::Reset);
        let mut request = driver.request(&one.prompt, 4);
        request.prefill_chunk = Some(chunk);
        assert_same(&driver.run(request), &reference);
    }
    for threads in [1, 5] {
        assert_eq!(driver.load(&nano(), threads).unwrap().threads, threads);
        assert_same(&driver.greedy(&one.prompt, 4), &reference);
    }
}

fn assert_same(a: &Turn, b: &Turn) {
    assert_eq!(a.outcome.ids, b.outcome.ids);
    assert!(a.logits == b.logits, "logits differ in some bit");
}

#[test]
fn a_chat_turn_thinks_answers_and_stops_by_itself() {
    let mut driver = Driver::ready();
    let conversation = Conversation {
        messages: vec![Message::user("Hello!")],
        thinking: Thinking::Low,
        ..Conversation::default()
    };
    let mut request = driver.request(&[], 200);
    request.prompt = Prompt::Chat(conversation);
    let turn = driver.run(request);
    assert_eq!(turn.outcome.finish, Finish::Stop);
    assert!(turn.parts.iter().any(|part| matches!(part, Part::Thinking(_))), "{:?}", turn.parts);
    let text = turn.text();
    assert!(!text.trim().is_empty() && !text.contains("<|"), "{text}");
    assert_eq!(turn.outcome.ids.last(), Some(&2050), "the stop id is among the ids");
}

/// A chat reads its history once: what the model wrote renders to the ids that it wrote.
#[test]
fn a_second_turn_of_a_chat_reads_only_what_is_new() {
    let mut driver = Driver::ready();
    let mut transcript = Transcript::default();
    let mut say = |driver: &mut Driver, text: &str| {
        let mut request = driver.request(&[], 60);
        let id = request.turn;
        transcript.begin(id, text.to_owned());
        request.prompt = Prompt::Chat(transcript.conversation(Thinking::Low));
        let turn = driver.run(request);
        for part in &turn.parts {
            transcript.push(id, part.clone());
        }
        transcript.finish(id, turn.outcome.clone());
        assert_eq!(turn.outcome.finish, Finish::Stop);
        turn
    };
    let first = say(&mut driver, "What is the capital of Italy?");
    let second = say(&mut driver, "And of Spain?");
    assert_eq!(second.reused, first.prompt.len() + first.outcome.ids.len() - 1);
    driver.send(Command::Reset);
    assert_same(&driver.greedy(&second.prompt, second.outcome.ids.len()), &second);
}

#[test]
fn a_seed_makes_a_turn_repeatable_and_is_told_where_none_was_given() {
    let mut driver = Driver::ready();
    let prompt = [2051, 262, 300, 301];
    let mut run = |seed: Option<u64>| {
        let mut request = driver.request(&prompt, 16);
        request.sampling = Sampling { temperature: Some(1.5), top_p: Some(1.0), seed };
        driver.run(request).outcome
    };
    let drawn = run(None);
    assert_eq!(run(Some(drawn.seed)).ids, drawn.ids);
    let different: HashSet<_> = (0..4).map(|seed| run(Some(seed)).ids).collect();
    assert!(different.len() > 1, "seeds matter");
    assert_ne!(run(None).seed, run(None).seed);
}

#[test]
fn numbers_of_a_turn_add_up() {
    let mut driver = Driver::ready();
    let prompt = golden().swap_remove(0).prompt;
    let turn = driver.greedy(&prompt, 8);
    let outcome = &turn.outcome;
    assert_eq!(turn.prompt, prompt);
    assert_eq!(outcome.finish, Finish::Length);
    assert_eq!((outcome.ids.len(), outcome.decode_s.len()), (8, 7));
    let took = outcome.took;
    assert!(took.prefill_s > 0.0 && took.first_token_s.is_some_and(|s| s >= took.prefill_s));
    let experts = outcome.experts;
    assert!(
        experts.reads > 0 && experts.requests >= experts.resident && experts.bytes == outcome.expert_bytes
    );
    // Seven tokens alone wake 4 experts in each of 8 layers.
    assert!(experts.requests >= 7 * 8 * 4, "{experts:?}");

    assert_eq!((took.prompt, took.reused, took.read, took.written), (prompt.len(), 0, prompt.len(), 8));
    assert_eq!(took.decoded, 7);
    assert!(took.total_s >= took.prefill_s + took.decode_s && took.thinking_s.is_none(), "{took:?}");
    assert_eq!(outcome.tokens.iter().map(|token| token.woken).min(), Some(8 * 4));

    let sample = driver.link.telemetry.sample();
    let layers = driver.link.telemetry.layer_costs();
    assert_eq!(layers.iter().map(|layer| layer.requests).collect::<Vec<_>>(), [0, 4, 4, 4, 4, 4, 4, 4, 4]);
    assert!(layers.iter().all(|layer| layer.ns > 0 && layer.resident <= layer.requests), "{layers:?}");
    assert!(sample.pieces > 0);
    assert!(sample.landed_bytes >= outcome.trunk_bytes + outcome.expert_bytes);
    assert_eq!(sample.phase, Phase::Idle);
    assert_eq!((sample.tokens, sample.turn), (8, 1));
    assert_eq!((sample.prompt_done, sample.prompt_total), (prompt.len() as u64, prompt.len() as u64));
    assert_eq!(sample.context_used, prompt.len() as u64 + 7);
    assert_eq!(sample.layers, 9);
    assert_eq!(sample.token_requests, 8 * 4);
    assert!(sample.rss > 0 && sample.peak_rss >= sample.rss && sample.budget > 0 && sample.state_bytes > 0);
    assert!(sample.slots_used > 0 && sample.slots_used <= sample.slots_total);

    // Everything is in memory now.
    driver.send(Command::Reset);
    let again = driver.greedy(&prompt, 8).outcome;
    assert_eq!((again.experts.reads, again.expert_bytes), (0, 0));
    assert_eq!(again.experts.resident, again.experts.requests);
}

#[test]
fn no_tokens_at_all_is_a_legal_wish() {
    let mut driver = Driver::ready();
    let turn = driver.greedy(&[1, 2, 3], 0);
    assert_eq!(turn.outcome.finish, Finish::Length);
    assert_eq!((turn.outcome.ids.len(), turn.logits.len()), (0, 1));
}

#[test]
fn the_context_limit_ends_a_turn() {
    let model = copy_of_nano();
    let path = model.path().join("config.json");
    let config = std::fs::read_to_string(&path).unwrap();
    let short = config.replace("\"max_position_embeddings\": 4096", "\"max_position_embeddings\": 40");
    assert_ne!(config, short);
    std::fs::write(&path, short).unwrap();
    let mut driver = Driver::ready();
    assert_eq!(driver.load(model.path(), 2).unwrap().context_limit, 40);
    let prompt: Vec<u32> = (300..337).collect();
    let turn = driver.greedy(&prompt, 100);
    assert_eq!((turn.outcome.finish, turn.outcome.ids.len()), (Finish::Length, 3));
    assert_eq!(turn.outcome.full, Some(ContextFull { prompt: 37, limit: 40 }));
    // Going on with it finds the same, and a limit of tokens is no full context.
    let request = TurnRequest { generated: turn.outcome.ids.clone(), ..driver.request(&prompt, 100) };
    let again = driver.run(request);
    assert_eq!((again.outcome.full, again.drawn.len()), (turn.outcome.full, 0));
    assert_eq!(driver.greedy(&prompt, 2).outcome.full, None);
    let too_long: Vec<u32> = (300..340).collect();
    let refused = driver.greedy(&too_long, 1).outcome;
    assert_eq!((refused.finish, refused.full), (Finish::Error, Some(ContextFull { prompt: 40, limit: 40 })));
}

/// A turn that is held up says nothing more, keeps its place, and can be stopped all the same.
#[test]
fn a_turn_is_held_up_between_two_tokens() {
    let mut driver = Driver::ready();
    let prompt: Vec<u32> = (300..320).collect();
    let undisturbed = driver.greedy(&prompt, 12);
    for stop in [false, true] {
        driver.send(Command::Reset);
        let request = driver.request(&prompt, 12);
        let (turn, pause, cancel) = (request.turn, request.pause.clone(), request.cancel.clone());
        pause.set(true);
        driver.send(Command::Generate(Box::new(request)));
        let mut drawn = 0;
        let held = driver.collect(turn, |event| {
            if !matches!(event, Event::Token { .. }) {
                return;
            }
            drawn += 1;
            if drawn == 1 {
                std::thread::sleep(std::time::Duration::from_millis(150));
                let more = driver.link.events.try_iter().any(|event| matches!(event, Event::Token { .. }));
                assert!(!more, "it was held up");
                if stop {
                    cancel.cancel();
                } else {
                    pause.set(false);
                }
            }
        });
        if stop {
            assert_eq!((held.outcome.finish, held.outcome.ids.len()), (Finish::Cancelled, 1));
        } else {
            assert_eq!(
                (held.outcome.ids, held.drawn),
                (undisturbed.outcome.ids.clone(), undisturbed.drawn.clone())
            );
        }
    }
}
