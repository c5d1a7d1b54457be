//! One line above the composer: what is going on, how far it is, how fast, for how long. What does not fit is left
//! out from the least needed on.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::gauge;
use crate::protocol::{Limit, Limits, Phase, Sample, Wait};
use crate::tui::app::{App, Engine, Running};
use crate::tui::numbers;
use crate::tui::width;
use crate::units::{Bytes, Percent, Seconds};

/// Seconds without any movement after which it is said.
const STILL_S: f64 = 3.0;
/// A token that takes less is not worth counting seconds for.
const SLOW_S: f64 = 1.0;

/// Pieces up to this rank stay on any screen: what is going on, and how much is thought.
const NEVER: u8 = 1;

/// One piece of the line; those of a higher rank give way first.
struct Piece {
    rank: u8,
    text: String,
    /// Less of it, for a narrow screen: what must never give way.
    short: Option<&'static str>,
    style: Style,
}

/// Draws the line; `with_notice` where there is no footer that would show it.
pub(super) fn draw(app: &App, area: Rect, with_notice: bool, buffer: &mut Buffer) {
    let line = match &app.notice {
        Some(notice) if with_notice => Line::styled(
            width::ellipsis(&width::clean_line(&notice.text), usize::from(area.width)),
            app.theme.warn,
        ),
        _ => fitted(pieces(app), usize::from(area.width), app.theme.dim),
    };
    width::draw(buffer, area.x, area.y, area.width, &line);
}

fn fitted(mut pieces: Vec<Piece>, columns: usize, separator: Style) -> Line<'static> {
    let total = |pieces: &[Piece]| {
        1 + pieces.iter().map(|piece| width::of(&piece.text)).sum::<usize>()
            + 3 * pieces.len().saturating_sub(1)
    };
    while pieces.len() > 1 && total(&pieces) > columns {
        if pieces.iter().all(|piece| piece.rank <= NEVER) {
            for piece in &mut pieces {
                if let Some(short) = piece.short {
                    short.clone_into(&mut piece.text);
                }
            }
            break;
        }
        let Some(last) = pieces.iter().enumerate().max_by_key(|(_, piece)| piece.rank).map(|(at, _)| at)
        else {
            break;
        };
        pieces.remove(last);
    }
    let mut line = Line::from(" ");
    for (number, piece) in pieces.into_iter().enumerate() {
        if number > 0 {
            line.push_span(Span::styled(" · ", separator));
        }
        line.push_span(Span::styled(piece.text, piece.style));
    }
    line
}

fn pieces(app: &App) -> Vec<Piece> {
    let theme = &app.theme;
    let now = app.pulse.now();
    let spinner = gauge::spinner(now.at);
    let mut out = Vec::with_capacity(10);
    let mut piece = |rank, text: String, style| out.push(Piece { rank, text, short: None, style });
    match (&app.running, &app.engine) {
        (Some(running), _) => {
            piece(0, format!("{spinner} {}", doing(app, running)), theme.accent);
            out.extend(running_pieces(app, running));
        }
        (None, Engine::Loading) => {
            let share = Percent::of(now.load_done, now.load_total);
            let loading = if now.load_total == 0 { "loading".to_owned() } else { format!("loading {share}") };
            piece(0, format!("{spinner} {loading}"), theme.accent);
            if app.pulse.still_s() >= STILL_S {
                piece(2, format!("no progress for {}", whole(app.pulse.still_s())), theme.warn);
            }
            if now.load_total > 0 {
                piece(3, format!("{} of {}", Bytes(now.load_done), Bytes(now.load_total)), theme.dim);
            }
        }
        (None, Engine::Failed(_)) => piece(0, "✗ engine down".to_owned(), theme.error),
        (None, Engine::Gone) => piece(0, "✗ engine gone".to_owned(), theme.error),
        (None, Engine::Ready(_)) => {
            piece(0, "● ready".to_owned(), theme.good);
            let last = app.transcript.turns().last().and_then(|turn| turn.outcome.as_ref());
            if let Some(rate) = last.and_then(|outcome| outcome.took.rate()) {
                piece(3, numbers::speed(rate), theme.dim);
            }
            if now.context_limit > 0 && now.context_used > 0 {
                let share = Percent::of(now.context_used, now.context_limit);
                piece(4, format!("context {share}"), theme.dim);
            }
        }
    }
    let effort = app.thinking.as_str();
    let thinking =
        Piece { rank: NEVER, text: format!("think {effort}"), short: Some(effort), style: theme.text };
    out.insert(1.min(out.len()), thinking);
    if let Some(text) = limits(app.limits) {
        out.insert(2.min(out.len()), Piece { rank: 7, text, short: None, style: theme.dim });
    }
    out
}

/// How far the running turn is, how fast it goes, and what is left of it.
fn running_pieces(app: &App, running: &Running) -> Vec<Piece> {
    let theme = &app.theme;
    let now = app.pulse.now();
    let mut out = Vec::with_capacity(8);
    let mut piece = |rank, text: String, style| out.push(Piece { rank, text, short: None, style });
    let ours = now.turn == running.turn.0;
    if app.pulse.still_s() >= STILL_S {
        let reason = match now.waiting() {
            Some(Wait::Trunk) if ours => Some("waiting for weights from the disk"),
            Some(Wait::Experts) if ours => Some("waiting for experts from the disk"),
            None if ours && computing(now) => Some("computing"),
            _ => None,
        };
        piece(2, format!("stalled {}", whole(app.pulse.still_s())), theme.warn);
        if let Some(reason) = reason {
            piece(3, reason.to_owned(), theme.warn);
        }
    }
    if ours && now.phase == Phase::Prefill && now.chunks > 0 {
        piece(8, share_bar(app.pulse.prefill_share()), theme.accent);
        if let Some(left) = app.pulse.prefill_left_s().filter(|left| *left >= SLOW_S) {
            piece(3, format!("first token in ~{}", numbers::rough(left)), theme.dim);
        }
    }
    if now.layers > 0 && computing(now) {
        piece(5, format!("layer {}/{}", (now.layer + 1).min(now.layers), now.layers), theme.dim);
    }
    if ours && now.phase == Phase::Decode {
        if now.pass_seconds() >= SLOW_S {
            piece(4, on_this_token(app, now), theme.dim);
        }
        if let Some(rate) = app.pulse.tokens_per_second() {
            piece(6, numbers::speed(rate), theme.dim);
        }
        if let Some(left) = app.left_s().filter(|left| *left >= SLOW_S) {
            piece(7, format!("at most {} left", numbers::rough(left)), theme.dim);
        }
    }
    if computing(now) && now.pass_seconds() >= SLOW_S && now.pass_bytes().0 > 0 {
        piece(9, format!("{} at {}", now.pass_bytes(), app.pulse.rates().disk), theme.dim);
    }
    piece(8, whole(now.at - running.began), theme.dim);
    out
}

/// The limits that are set.
fn limits(limits: Limits) -> Option<String> {
    let part = |name: &str, limit: Option<Limit>| limit.map(|limit| format!("{name} ≤ {}", limit.said()));
    let parts: Vec<String> =
        [part("thinking", limits.think), part("answer", limits.answer)].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// What the running turn is at.
fn doing(app: &App, running: &Running) -> String {
    let now = app.pulse.now();
    let turn = app.transcript.turns().last();
    if running.stopping {
        "stopping".to_owned()
    } else if turn.is_some_and(|turn| !turn.answer.is_empty() || !turn.tool_calls.is_empty()) {
        "answering".to_owned()
    } else if turn.is_some_and(|turn| !turn.thinking.is_empty()) {
        "thinking".to_owned()
    } else if now.turn == running.turn.0 && now.phase == Phase::Prefill && now.chunks > 1 {
        format!("reading the prompt {}/{}", now.chunk.max(1), now.chunks)
    } else if now.turn == running.turn.0 && now.phase == Phase::Prefill && now.prompt_total > 0 {
        format!("reading the prompt, {}", numbers::counted(now.prompt_total, "token"))
    } else if now.turn == running.turn.0 && now.phase == Phase::Decode {
        "beginning".to_owned()
    } else {
        "starting".to_owned()
    }
}

const fn computing(now: &Sample) -> bool {
    matches!(now.phase, Phase::Prefill | Phase::Decode)
}

/// How long this token takes already, and how long one takes as a rule.
fn on_this_token(app: &App, now: &Sample) -> String {
    let spent = whole(now.pass_seconds());
    match app.usual_token_s() {
        Some(usual) => format!("token {spent} of ~{}", whole(usual.max(1.0))),
        None => format!("token {spent}"),
    }
}

/// A bar of text, for a line of text.
fn share_bar(share: f64) -> String {
    const COLUMNS: usize = 12;
    let [filled, empty] = gauge::bar_text(share, COLUMNS);
    filled + &empty
}

/// A duration in whole seconds: hundredths that race by say nothing.
fn whole(seconds: f64) -> String {
    if seconds < 9.5 { format!("{:.0} s", seconds.max(0.0).floor()) } else { Seconds(seconds).to_string() }
}
