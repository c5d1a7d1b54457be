//! Turns that share their passes: each step reads the next tokens of all of them at once, so that the trunk and every
//! expert come from the disk once for all. A turn may join or leave between any two passes, and gets the bits that it
//! would get alone.

use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use super::generate::{Cost, End, Listeners, Turn};
use super::load::Loaded;
use super::telemetry::publish;
use super::watch::Watch;
use crate::model::{self, Observer, Segment, State};
use crate::protocol::{Finish, Phase, Telemetry};

/// How often turns that are held up look whether they may go on.
const PAUSE_POLL: Duration = Duration::from_millis(20);

/// Takes all turns a step further: those that are new begin, and one pass reads the next tokens of each. Turns that come
/// to their end stay where they are, with the end in them.
pub(super) fn step(turns: &mut [Turn], loaded: &mut Loaded, to: Listeners<'_>, observer: &dyn Observer) {
    for index in 0..turns.len() {
        if turns[index].is_new() {
            if turns.iter().all(|turn| turn.is_new() || turn.end.is_some()) {
                reset(to.telemetry, turns[index].request.turn.0);
            }
            to.telemetry.set_phase(Phase::Prefill);
            turns[index].begin(loaded, to);
        }
    }
    let mut under_way: Vec<&mut Turn> = turns.iter_mut().filter(|turn| turn.end.is_none()).collect();
    for turn in &mut under_way {
        if turn.request.cancel.is_cancelled() {
            turn.ends(Ok(Finish::Cancelled), loaded, to);
        }
    }
    under_way.retain(|turn| turn.end.is_none());
    // A turn is held up between two tokens: what it reads first is written down nowhere.
    let is_held_up = |turn: &Turn| turn.request.pause.is_set() && !turn.is_reading();
    if !under_way.is_empty() && under_way.iter().all(|turn| is_held_up(turn)) {
        thread::sleep(PAUSE_POLL);
        return;
    }
    under_way.retain(|turn| !is_held_up(turn));
    if !under_way.is_empty() {
        pass(&mut under_way, loaded, to, observer);
    }
}

/// One pass with tokens of each of these turns.
fn pass(turns: &mut [&mut Turn], loaded: &mut Loaded, to: Listeners<'_>, observer: &dyn Observer) {
    let telemetry = to.telemetry;
    let wants: Vec<usize> = turns.iter().map(|turn| turn.wants()).collect();
    let counts = divide(&wants, loaded.most_together);
    let reading = turns.iter().any(|turn| turn.is_reading());
    telemetry.set_phase(if reading { Phase::Prefill } else { Phase::Decode });
    telemetry.chunk.fetch_add(turns.iter().filter(|turn| turn.is_reading()).count() as u64, Relaxed);
    telemetry.pass_began_ns.store(telemetry.now_ns(), Relaxed);
    telemetry.pass_landed.store(telemetry.landed_bytes.load(Relaxed), Relaxed);

    let cancels = turns.iter().map(|turn| turn.request.cancel.clone()).collect();
    let watch = Watch::new(telemetry, cancels, observer);
    let (began, before) = (Instant::now(), loaded.model.store().counters());
    let mut segments: Vec<Segment<'_>> =
        turns.iter_mut().zip(&counts).filter_map(|(turn, count)| turn.segment(*count, loaded)).collect();
    let wanted: Vec<bool> = segments.iter().map(|segment| segment.rows != model::Rows::None).collect();
    let result = loaded.model.pass(&mut segments, &watch);
    let (took, after) = (began.elapsed(), loaded.model.store().counters());
    publish(telemetry, loaded.model.store());

    let costs: Vec<Cost> = (0..turns.len())
        .map(|part| Cost { took, counted: after.part_since(before, part, turns.len()) })
        .collect();
    for (turn, cost) in turns.iter_mut().zip(&costs) {
        turn.counts(*cost);
    }
    let logits = match result {
        Ok(logits) => logits,
        Err(error) => {
            let end = match error {
                model::Error::Cancelled => End::Cancelled,
                error => End::Failed(error.into()),
            };
            for turn in turns {
                turn.ends(Err(end.clone()), loaded, to);
            }
            return;
        }
    };
    if !reading {
        telemetry.last_token_ns.store(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        telemetry.token_requests.store(after.requests - before.requests, Relaxed);
        telemetry.token_resident.store(after.resident - before.resident, Relaxed);
    }
    let config = loaded.model.config();
    let positions = turns.iter().map(|turn| turn.positions());
    let bytes: u64 = positions.clone().map(|positions| State::bytes(config, positions)).sum();
    telemetry.context_used.store(positions.max().unwrap_or(0) as u64, Relaxed);
    telemetry.state_bytes.store(bytes + loaded.shelf.bytes(), Relaxed);
    let mut rows = logits.chunks_exact(loaded.facts.vocabulary.max(1));
    for (((turn, count), cost), wanted) in turns.iter_mut().zip(counts).zip(costs).zip(wanted) {
        let logits = if wanted { rows.next().unwrap_or_default() } else { &[] };
        turn.took(count, logits, cost, loaded, to);
    }
}

/// How many tokens each of these turns takes into a pass that has room for `room` of them: one for each, so that none
/// stands still, and the rest to those that came first.
fn divide(wants: &[usize], room: usize) -> Vec<usize> {
    let mut left = room.saturating_sub(wants.len());
    let share = |want: &usize| {
        let more = want.saturating_sub(1).min(left);
        left -= more;
        (*want).min(1) + more
    };
    wants.iter().map(share).collect()
}

/// Numbers begin anew where a turn begins alone.
fn reset(telemetry: &Telemetry, turn: u64) {
    telemetry.turn.store(turn, Relaxed);
    let zero = [
        &telemetry.tokens,
        &telemetry.prompt_total,
        &telemetry.prompt_done,
        &telemetry.chunk,
        &telemetry.chunks,
        &telemetry.first_token_ns,
        &telemetry.last_token_ns,
        &telemetry.token_requests,
        &telemetry.token_resident,
    ];
    for number in zero {
        number.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_turn_takes_part_and_none_takes_more_than_it_has() {
        for (wants, room, expected) in [
            (&[64][..], 64, &[64][..]),
            (&[1, 1, 1, 1], 64, &[1, 1, 1, 1]),
            // Those that decode go on while others read, and the first of these reads the most.
            (&[1, 64, 1, 64], 64, &[1, 61, 1, 1]),
            (&[10, 20, 30], 40, &[10, 20, 10]),
            (&[64, 64], 200, &[64, 64]),
            // A pass is never too small for one token of each.
            (&[5, 5, 5], 2, &[1, 1, 1]),
            (&[5, 0, 5], 7, &[5, 0, 1]),
        ] {
            assert_eq!(divide(wants, room), expected, "{wants:?} into {room}");
        }
    }
}
