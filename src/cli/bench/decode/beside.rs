//! Tokens and the bare disk in turns. A disk that others use as well is not the same from one second to the next, so
//! that what a token took says something only beside what the disk gave just before and after it.

use super::{Bench, Measured, median, shards};
use crate::cli::bench::disk::sweep;
use crate::protocol::{EngineLink, TurnId, UserError};
use crate::setup::disk::{Disk, Point, Sweep};
use crate::sys::memory;
use crate::units::{Bytes, Rate};

/// Seconds that the sweep takes, which finds how this disk is read fastest.
const SWEEP_S: f64 = 20.0;
/// The fastest points of the sweep take part.
const RIVALS: usize = 3;
/// Seconds for which each is measured in its turn: a good part of what a token takes, and never too short.
const LEAST_S: f64 = 1.0;

/// What came of it.
pub(super) struct Beside {
    /// How the disk is read fastest.
    pub(super) sweep: Sweep,
    pub(super) rounds: Vec<Round>,
}

/// A token, and what the disk gave after it.
pub(super) struct Round {
    /// Bytes that the token read, and how long it took.
    pub(super) bytes: Bytes,
    pub(super) seconds: f64,
    /// One of the fastest points of the sweep, measured again.
    pub(super) disk: Point,
}

impl Beside {
    /// The rate of the point whose median over the rounds is best, and the point.
    pub(super) fn best(&self) -> Option<(Rate, &Point)> {
        let rival = |round: &Round| (round.disk.way, round.disk.piece, round.disk.depth);
        let of = |round: &Round| {
            let same = self.rounds.iter().filter(|other| rival(other) == rival(round));
            Rate(median(&same.map(|round| round.disk.rate().0).collect::<Vec<_>>()))
        };
        let all = self.rounds.iter().map(|round| (of(round), &round.disk));
        all.max_by(|a, b| a.0.0.total_cmp(&b.0.0))
    }

    /// Median time of the tokens, in times of what the disk takes for their bytes at that rate; nothing where none were
    /// read.
    pub(super) fn ratio(&self) -> Option<f64> {
        let (best, _) = self.best()?;
        let ratio = |round: &Round| Some(round.seconds / best.seconds(round.bytes).filter(|s| *s > 0.0)?);
        let ratios: Vec<f64> = self.rounds.iter().filter_map(ratio).collect();
        (!ratios.is_empty()).then(|| median(&ratios))
    }
}

impl Bench {
    /// Goes on after `ids` for so many rounds. Nothing where the user stopped it.
    pub(super) fn beside(
        &mut self,
        link: &EngineLink,
        measured: &Measured,
        ids: &mut Vec<u32>,
        rounds: usize,
    ) -> Result<Option<Beside>, UserError> {
        let files = shards(&measured.model)?;
        let sweep = sweep(&files, SWEEP_S, &self.stop, &mut self.progress)?;
        // Where the time did not last for measuring the fastest ones again, they are those of the first look.
        let mut rivals = if sweep.confirmed.is_empty() { &sweep.points } else { &sweep.confirmed }.clone();
        rivals.sort_by(|a, b| b.rate().0.total_cmp(&a.rate().0));
        rivals.truncate(RIVALS);
        let mut disk = Disk::open(&files, Bytes(memory::machine().available / 4))?;
        let seconds = median(&measured.seconds).max(LEAST_S);
        let mut beside = Beside { sweep, rounds: Vec::new() };
        for (round, rival) in (0..rounds).zip(rivals.iter().cycle()) {
            // The first token comes of reading the last id, and is not measured: tiles were waiting for it.
            let turn = TurnId(u64::MAX - round as u64);
            let Some(outcome) = self.turn(link, turn, ids, 2)? else { return Ok(None) };
            ids.extend(&outcome.ids);
            let Some(point) = disk.point(rival.way, rival.piece, rival.depth, seconds)? else { continue };
            // A stop id may have ended the turn before its second token.
            if let (Some(cost), Some(seconds)) = (outcome.tokens.first(), outcome.decode_s.first()) {
                let bytes = Bytes(cost.trunk + cost.experts);
                beside.rounds.push(Round { bytes, seconds: *seconds, disk: point });
            }
        }
        Ok(Some(beside))
    }
}
