//! Limits on thinking and on the answer: in tokens they are a function of the ids alone.

use dormouse::protocol::{
    Conversation, Finish, Limit, Limits, Message, Prompt, Reached, Sampling, Thinking, TurnRequest,
};

use crate::driver::{Driver, Turn};

/// A turn that thinks and answers, drawn at random with a seed.
fn request(driver: &mut Driver, limits: Limits) -> TurnRequest {
    let mut request = driver.request(&[], 400);
    request.prompt = Prompt::Chat(Conversation {
        messages: vec![Message::user("Tell me a short story.")],
        thinking: Thinking::Low,
        ..Conversation::default()
    });
    request.sampling = Sampling { temperature: Some(1.0), top_p: Some(0.9), seed: Some(5) };
    request.logits = false;
    request.limits = limits;
    request
}

fn run(driver: &mut Driver, limits: Limits, generated: &[u32], allowed_from: usize) -> Turn {
    let request = request(driver, limits);
    driver.run(TurnRequest { generated: generated.to_vec(), allowed_from, ..request })
}

fn tokens(think: Option<usize>, answer: Option<usize>) -> Limits {
    Limits { think: think.map(Limit::Tokens), answer: answer.map(Limit::Tokens) }
}

#[test]
fn a_limit_cuts_the_same_ids_and_what_goes_on_from_it_is_the_undisturbed_turn() {
    let mut driver = Driver::ready();
    let whole = run(&mut driver, Limits::default(), &[], 0).outcome;
    assert_eq!((whole.finish, whole.reached), (Finish::Stop, None));
    assert!(whole.took.thinking_s.is_some());

    let cut = run(&mut driver, tokens(Some(3), None), &[], 0).outcome;
    assert_eq!((cut.finish, cut.reached), (Finish::Length, Some(Reached::Think(Limit::Tokens(3)))));
    assert_eq!(cut.ids, whole.ids[..3]);
    let answered = run(&mut driver, tokens(None, Some(4)), &[], 0).outcome;
    assert_eq!(answered.reached, Some(Reached::Answer(Limit::Tokens(4))));
    assert_eq!(answered.ids, whole.ids[..answered.ids.len()]);
    assert!(answered.ids.len() > 8 && answered.ids.len() < whole.ids.len());

    // A turn that was cut by a crash is held up at the same place, wherever the crash was: also right behind it.
    for before in [0, 1, 2, 3] {
        let resumed = run(&mut driver, tokens(Some(3), None), &cut.ids[..before], 0).outcome;
        assert_eq!((&resumed.ids, resumed.reached), (&cut.ids, cut.reached), "{before}");
    }
    // Whoever goes on from a limit allows as much again, and it is the turn that it would have become.
    let longer = run(&mut driver, tokens(Some(3), None), &cut.ids, 3).outcome;
    assert_eq!((longer.reached, &longer.ids[..]), (cut.reached, &whole.ids[..6]));
    let rest = run(&mut driver, Limits::default(), &longer.ids, 6).outcome;
    assert_eq!((&rest.ids, rest.finish), (&whole.ids, Finish::Stop));
}

#[test]
fn a_limit_in_seconds_ends_a_turn_between_two_tokens() {
    let mut driver = Driver::ready();
    let generous = Limits { think: Some(Limit::Seconds(3600)), answer: Some(Limit::Seconds(3600)) };
    assert_eq!(run(&mut driver, generous, &[], 0).outcome.finish, Finish::Stop);
    // A model that is asked for text that never ends, and one second.
    let mut request = driver.request(&[2051, 262], 4000);
    request.limits.answer = Some(Limit::Seconds(1));
    request.sampling = Sampling { temperature: Some(8.0), top_p: Some(1.0), seed: Some(3) };
    request.logits = false;
    let outcome = driver.run(request).outcome;
    // On a fast machine the model may meet a stop id, or the context its end, before the second is over.
    let over = outcome.reached == Some(Reached::Answer(Limit::Seconds(1)));
    assert!(over == (outcome.took.decode_s >= 1.0), "{:?} after {}", outcome.reached, outcome.took.decode_s);
}
