//! One turn as rows: what was asked, what was thought, what was answered, and how it ended.

use std::borrow::Cow;
use std::ops::Range;

use ratatui::text::{Line, Span};

use super::find::{Needle, Stretch};
use super::flow::{Flow, Kind};
use super::passage::{Chosen, Passage};
use super::wrap;
use crate::chat::Turn;
use crate::protocol::{
    Arguments, Finish, Limit, Limits, Outcome, Reached, Sampling, Thinking, ToolCall, TurnId,
};
use crate::session::PromptDigest;
use crate::tui::numbers;
use crate::tui::theme::Theme;
use crate::tui::width;
use crate::units::Seconds;

/// What the screen knows of a turn beside its text.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Facts {
    /// Seconds from the first piece of thinking to the first of the answer, or to the end.
    pub(crate) thinking_s: Option<f64>,
    /// Whether the user wants to see the thinking of this turn, where he said so.
    pub(crate) unfolded: Option<bool>,
    /// What the prompt was rendered to.
    pub(crate) digest: Option<PromptDigest>,
    /// What the answer depends on beside the messages, where it is known.
    pub(crate) asked: Option<Asked>,
    /// Of its tokens, so many do not count for its limits.
    pub(crate) allowed_from: usize,
    /// Which of the turns in this place it is, from 1, and of how many, where there are several.
    pub(crate) version: Option<(usize, usize)>,
    /// So many turns before it are not shown to the model any more.
    pub(crate) left_out: usize,
}

/// What an answer depends on beside the messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Asked {
    pub(crate) thinking: Thinking,
    /// The seed among it.
    pub(crate) sampling: Sampling,
    pub(crate) max_tokens: Option<usize>,
    pub(crate) limits: Limits,
    /// So many of the oldest turns the model did not read.
    pub(crate) dropped: usize,
}

/// How turns are laid out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look<'a> {
    /// Columns of a row.
    pub(crate) columns: usize,
    /// Whether all thinking is shown or hidden; `None` shows it until the answer begins.
    pub(crate) thinking: Option<bool>,
    /// What is looked for: thinking that holds it is shown.
    pub(crate) needle: Option<&'a Needle>,
    /// The passage that is chosen.
    pub(crate) chosen: Option<Chosen>,
    /// The styles.
    pub(crate) theme: &'a Theme,
}

/// What the rows of a turn depend on. Text only grows, so its length says whether it changed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Revision {
    turn: TurnId,
    version: Option<(usize, usize)>,
    left_out: usize,
    columns: usize,
    thinking: usize,
    answer: usize,
    calls: usize,
    finished: bool,
    open: bool,
    needle: u64,
}

/// Rows that follow each other, from wherever they are kept.
#[derive(Clone, Debug)]
enum Section {
    User,
    /// The line above the thinking, which is all that is shown where it is folded.
    Title(Line<'static>),
    Thinking,
    Answer,
    Own(Vec<Line<'static>>),
}

/// The rows of one turn, kept until the turn or the look changes.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    /// Whether nothing stands above it.
    first: bool,
    revision: Option<Revision>,
    user: Flow,
    thinking: Flow,
    answer: Flow,
    sections: Vec<Section>,
    height: usize,
    open: bool,
    /// Whether the thinking would be shown if nothing was looked for.
    open_by_itself: bool,
    /// Whether the thinking holds what is looked for: the version of that, the bytes that were read, what came of it.
    holds: (u64, usize, bool),
    hits: Vec<Stretch>,
}

impl Cell {
    pub(super) fn new(first: bool, theme: &Theme) -> Self {
        let indent = Line::from("  ");
        // Styled spans, not styled lines: what follows them has a style of its own.
        let bar = Line::from(Span::styled("  │ ", theme.dim));
        Self {
            first,
            revision: None,
            user: Flow::new(Kind::Plain, Line::from(Span::styled("❯ ", theme.accent)), indent.clone()),
            thinking: Flow::new(Kind::Thinking, bar.clone(), bar),
            answer: Flow::new(Kind::Markdown, indent.clone(), indent),
            sections: Vec::new(),
            height: 0,
            open: true,
            open_by_itself: true,
            holds: (0, 0, false),
            hits: Vec::new(),
        }
    }

    /// Brings the rows up to date and returns how many there are. With `hold`, thinking that is shown stays shown,
    /// since somebody is reading: folding it would pull the text away under his eyes.
    pub(super) fn update(&mut self, turn: &Turn, facts: &Facts, look: &Look<'_>, hold: bool) -> usize {
        self.open_by_itself = match facts.unfolded.or(look.thinking) {
            Some(shown) => shown,
            None => turn.shows_thinking() || (hold && self.open_by_itself && self.revision.is_some()),
        };
        self.open = self.open_by_itself || self.holds(&turn.thinking, look.needle);
        let revision = Revision {
            turn: turn.id,
            version: facts.version,
            left_out: facts.left_out,
            columns: look.columns,
            thinking: turn.thinking.len(),
            answer: turn.answer.len(),
            calls: turn.tool_calls.len(),
            finished: !turn.is_running(),
            open: self.open,
            needle: look.needle.map_or(0, |needle| needle.version),
        };
        // Texts only grow, but for another turn in this place, and one that is told anew.
        if self.revision.is_some_and(|before| {
            before.turn != turn.id
                || turn.thinking.len() < before.thinking
                || turn.answer.len() < before.answer
        }) {
            let Self { first, open, open_by_itself, holds, .. } = *self;
            *self = Self { open, open_by_itself, holds, ..Self::new(first, look.theme) };
        }
        if self.revision != Some(revision) {
            self.revision = Some(revision);
            self.lay_out(turn, facts, look);
            let rows = (0..self.height).map(|row| self.row(row).map_or(Cow::Borrowed(""), text_of));
            self.hits = look.needle.map_or_else(Vec::new, |needle| needle.find(rows));
        }
        self.height
    }

    /// Whether thinking holds what is looked for.
    fn holds(&mut self, thinking: &str, needle: Option<&Needle>) -> bool {
        let Some(needle) = needle else { return false };
        if (self.holds.0, self.holds.1) != (needle.version, thinking.len()) {
            self.holds = (needle.version, thinking.len(), needle.is_in(thinking));
        }
        self.holds.2
    }

    fn lay_out(&mut self, turn: &Turn, facts: &Facts, look: &Look<'_>) {
        let Look { columns, theme, .. } = *look;
        let mut sections = Vec::with_capacity(8);
        if !self.first {
            sections.push(Section::Own(vec![Line::default()]));
        }
        if facts.left_out > 0 {
            let text = format!(
                "── the model does not read the {} above any more ──",
                numbers::counted(facts.left_out as u64, "turn")
            );
            sections.push(Section::Own(vec![
                Line::styled(width::ellipsis(&text, columns), theme.warn),
                Line::default(),
            ]));
        }
        self.user.update(&turn.user, columns, theme);
        sections.push(Section::User);
        if let Some((at, of)) = facts.version {
            let text = width::ellipsis(&format!("  ‹{at}/{of}›  Alt-Up, Alt-Down"), columns);
            sections.push(Section::Own(vec![Line::styled(text, theme.dim)]));
        }
        if !turn.thinking.is_empty() {
            sections.push(Section::Own(vec![Line::default()]));
            sections.push(Section::Title(thinking_title(turn, facts, self.open, columns, theme)));
            if self.open {
                self.thinking.update(turn.thinking.trim_end(), columns, theme);
                sections.push(Section::Thinking);
            }
        }
        self.answer.update(&turn.answer, columns, theme);
        if self.answer.len() > 0 {
            sections.push(Section::Own(vec![Line::default()]));
            sections.push(Section::Answer);
        }
        let mut own = Vec::new();
        for call in &turn.tool_calls {
            own.push(Line::default());
            let spans = [("The model tried to call ".to_owned(), theme.dim), (spelled(call), theme.code)];
            wrap::styled(&spans, columns, &Line::from("  "), &Line::from("    "), &mut own);
        }
        if let Some(outcome) = &turn.outcome {
            ending(turn, outcome, look, &mut own);
        }
        sections.push(Section::Own(own));
        self.sections = sections;
        self.height = self.sections.iter().map(|section| self.len(section)).sum();
    }

    fn len(&self, section: &Section) -> usize {
        match section {
            Section::User => self.user.len(),
            Section::Title(_) => 1,
            Section::Thinking => self.thinking.len(),
            Section::Answer => self.answer.len(),
            Section::Own(rows) => rows.len(),
        }
    }

    /// Rows as of the last update.
    pub(super) const fn height(&self) -> usize {
        self.height
    }

    /// What was found of that which is looked for, as of the last update.
    pub(super) fn hits(&self) -> &[Stretch] {
        &self.hits
    }

    /// The rows of a passage as of the last update, if it is shown.
    pub(super) fn rows_of(&self, passage: Passage) -> Option<Range<usize>> {
        let mut begin = 0;
        let mut title = None;
        for section in &self.sections {
            let rows = begin..begin + self.len(section);
            begin = rows.end;
            match (section, passage) {
                (Section::User, Passage::Question) | (Section::Answer, Passage::Answer) => return Some(rows),
                (Section::Answer, Passage::Code(number)) => {
                    let code = self.answer.code().get(number)?;
                    return Some(rows.start + code.start..rows.start + code.end);
                }
                (Section::Title(_), Passage::Thinking) => title = Some(rows),
                (Section::Thinking, Passage::Thinking) => {
                    return title.map(|title: Range<usize>| title.start..rows.end);
                }
                _ => {}
            }
        }
        title
    }

    /// One row.
    pub(super) fn row(&self, number: usize) -> Option<&Line<'static>> {
        let mut number = number;
        for section in &self.sections {
            let len = self.len(section);
            if number < len {
                return match section {
                    Section::User => self.user.row(number),
                    Section::Title(line) => Some(line),
                    Section::Thinking => self.thinking.row(number),
                    Section::Answer => self.answer.row(number),
                    Section::Own(rows) => rows.get(number),
                };
            }
            number -= len;
        }
        None
    }
}

/// What stands on a row.
fn text_of<'a>(row: &'a Line<'_>) -> Cow<'a, str> {
    match row.spans.as_slice() {
        [span] => Cow::Borrowed(&span.content),
        _ => Cow::Owned(row.to_string()),
    }
}

fn thinking_title(turn: &Turn, facts: &Facts, open: bool, columns: usize, theme: &Theme) -> Line<'static> {
    let mark = if open { '▾' } else { '▸' };
    let title = if turn.is_running() && turn.answer.is_empty() && turn.tool_calls.is_empty() {
        format!("  {mark} thinking")
    } else {
        let took = turn.outcome.as_ref().and_then(|outcome| outcome.took.thinking_s);
        let time =
            facts.thinking_s.or(took).map_or(String::new(), |seconds| format!(" for {}", Seconds(seconds)));
        let words = turn.thinking.split_whitespace().count();
        format!("  {mark} thought{time}, {}", numbers::counted(words as u64, "word"))
    };
    Line::styled(width::ellipsis(&title, columns), theme.dim)
}

/// `name(argument=value, …)`.
fn spelled(call: &ToolCall) -> String {
    let arguments = match &call.arguments {
        Arguments::Object(map) => {
            map.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")
        }
        Arguments::Raw(text) => text.clone(),
    };
    width::clean_line(&format!("{}({arguments})", call.name))
}

/// How the turn ended: what is missing, what went wrong, what it took.
fn ending(turn: &Turn, outcome: &Outcome, look: &Look<'_>, out: &mut Vec<Line<'static>>) {
    let Look { columns, theme, .. } = *look;
    let indent = Line::from("  ");
    let say = |text: &str, style, out: &mut Vec<Line<'static>>| {
        for line in width::clean(text).lines() {
            wrap::styled(&[(line.to_owned(), style)], columns, &indent, &indent, out);
        }
    };
    if turn.is_thinking_unfinished() {
        out.push(Line::default());
        say("The thinking was not finished; no answer came.", theme.dim, out);
    } else if turn.answer.trim().is_empty() && turn.tool_calls.is_empty() && outcome.finish == Finish::Stop {
        out.push(Line::default());
        say("The model gave an empty answer.", theme.dim, out);
    }
    if let Some(error) = &outcome.error {
        out.push(Line::default());
        say(&format!("✗ {}", error.title), theme.error, out);
        say(&error.detail, theme.text, out);
        say(&error.hint, theme.dim, out);
    }
    out.push(Line::default());
    let (mark, style) = match outcome.finish {
        Finish::Stop => ("✓ ", theme.good),
        Finish::Length | Finish::Cancelled => ("■ ", theme.warn),
        Finish::Error => ("✗ ", theme.error),
    };
    // Broken between its parts: a number apart from its unit is hard to read.
    for (number, row) in packed(summary(outcome), columns.saturating_sub(4)).into_iter().enumerate() {
        let mark = if number == 0 { Span::styled(mark, style) } else { Span::raw("  ") };
        let first = Line::from(vec![Span::raw("  "), mark]);
        wrap::styled(&[(row, theme.dim)], columns, &first, &Line::from("    "), out);
    }
}

/// Parts with dots between them, as many on a row as fit.
fn packed(parts: Vec<String>, columns: usize) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for part in parts {
        match rows.last_mut() {
            Some(row) if width::of(row) + 3 + width::of(&part) <= columns => {
                row.push_str(" · ");
                row.push_str(&part);
            }
            _ => rows.push(part),
        }
    }
    rows
}

/// What it took. Of a turn of an older session only its tokens are known.
pub(crate) fn summary(outcome: &Outcome) -> Vec<String> {
    let took = &outcome.took;
    let mut parts = vec![match (outcome.finish, outcome.reached) {
        (Finish::Stop, _) => "done".to_owned(),
        (Finish::Length, Some(Reached::Tokens(most))) => {
            format!("reached the limit of {}", Limit::Tokens(most).said())
        }
        (Finish::Length, Some(Reached::Think(limit))) => {
            format!("reached the limit of {} for the thinking", limit.said())
        }
        (Finish::Length, Some(Reached::Answer(limit))) => {
            format!("reached the limit of {} for the answer", limit.said())
        }
        (Finish::Length, Some(Reached::Context)) => "the context is full".to_owned(),
        (Finish::Length, None) => "reached a limit".to_owned(),
        (Finish::Cancelled, _) => "stopped by you".to_owned(),
        (Finish::Error, _) => "failed".to_owned(),
    }];
    if took.prompt > 0 {
        let reused = match took.reused {
            0 => String::new(),
            reused => format!(" ({} reused)", numbers::grouped(reused as u64)),
        };
        parts.push(format!("{} in{reused}", numbers::counted(took.prompt as u64, "token")));
    }
    parts.push(format!("{} out", numbers::grouped(outcome.ids.len() as u64)));
    if let Some(seconds) = took.first_token_s {
        parts.push(format!("first token {}", Seconds(seconds)));
    }
    if took.total_s > 0.0 {
        parts.push(Seconds(took.total_s).to_string());
    }
    if let Some(rate) = took.rate() {
        parts.push(numbers::speed(rate));
    }
    parts
}
