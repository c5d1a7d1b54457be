//! In the rule below the draft: what it will cost to send it.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use crate::tui::app::{ANSWER, App, Cost};
use crate::tui::numbers;
use crate::tui::width;

pub(super) fn draw(app: &App, area: Rect, buffer: &mut Buffer) {
    let Some(cost) = app.cost() else { return };
    let room = usize::from(area.width.saturating_sub(4));
    let Some(text) = texts(&cost).into_iter().find(|text| width::of(text) + 2 <= room) else { return };
    let text = format!(" {text} ");
    let columns = u16::try_from(width::of(&text)).unwrap_or(area.width);
    let x = area.right().saturating_sub(columns.saturating_add(2));
    width::draw(buffer, x, area.y, columns, &Line::styled(text, app.theme.dim));
}

/// The same in fewer and fewer words.
fn texts(cost: &Cost) -> Vec<String> {
    let Some(tokens) = cost.tokens else { return vec!["counting tokens".to_owned()] };
    let added = format!("+{}", numbers::counted(tokens as u64, "token"));
    let with_history = if cost.unread > tokens {
        format!("{added}, {} to read", numbers::grouped(cost.unread as u64))
    } else {
        added.clone()
    };
    let read = cost.read_s.map(|seconds| format!("{} to read", numbers::about(seconds)));
    let answer = cost.answer_s.map(|seconds| format!("{} for {ANSWER}", numbers::about(seconds)));
    let by_plan = (!cost.measured && read.is_some()).then(|| "by the plan".to_owned());
    let join = |parts: [Option<String>; 4]| parts.into_iter().flatten().collect::<Vec<_>>().join(" · ");
    vec![
        join([Some(with_history.clone()), read.clone(), answer.clone(), by_plan]),
        join([Some(with_history), read.clone(), answer.clone(), None]),
        join([Some(added.clone()), read.clone(), answer, None]),
        join([Some(added.clone()), read, None, None]),
        added,
    ]
}
