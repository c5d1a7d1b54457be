//! Frames, held by snapshots.

use std::fmt::Write;

use crossterm::event::KeyCode;
use ratatui::buffer::Buffer;
use ratatui::style::Style;

use super::{Bench, failure, outcome};
use crate::protocol::{Event, Finish, Outcome, Part};
use crate::tui::app::Msg;
use crate::tui::width;

pub(super) const SIZES: [(u16, u16); 5] = [(80, 24), (120, 40), (200, 60), (40, 12), (20, 5)];

/// The cells of a frame as lines; a wide grapheme stands for the cells that it covers.
pub(super) fn frame_text(buffer: &Buffer) -> String {
    let mut out = String::new();
    for y in buffer.area.top()..buffer.area.bottom() {
        let mut x = 0;
        let mut line = String::new();
        while x < buffer.area.right() {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            x += u16::try_from(width::grapheme(symbol).max(1)).unwrap();
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// The stretches of a frame that are not in the plain style.
fn frame_styles(buffer: &Buffer) -> String {
    let mut out = String::new();
    for y in buffer.area.top()..buffer.area.bottom() {
        let mut runs: Vec<(Style, String)> = Vec::new();
        for x in 0..buffer.area.right() {
            let cell = &buffer[(x, y)];
            match runs.last_mut() {
                Some((style, text)) if *style == cell.style() => text.push_str(cell.symbol()),
                _ => runs.push((cell.style(), cell.symbol().to_owned())),
            }
        }
        for (style, text) in runs.iter().filter(|(_, text)| !text.trim().is_empty()) {
            let colour = style.fg.filter(|fg| *fg != ratatui::style::Color::Reset);
            if colour.is_some() || !style.add_modifier.is_empty() {
                let colour = colour.map_or(String::new(), |fg| format!(" {fg}"));
                writeln!(out, "{y:2}{colour} {:?}: {}", style.add_modifier, text.trim()).unwrap();
            }
        }
    }
    out
}

/// Where snapshots lie, and what they are called.
pub(super) fn framed(check: impl FnOnce()) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(check);
}

/// Holds a view by what stands on it, at each size.
pub(super) fn snapshots(name: &str, mut bench: impl FnMut() -> Bench) {
    framed(|| {
        for (columns, rows) in SIZES {
            insta::assert_snapshot!(format!("{name}-{columns}x{rows}"), bench().text((columns, rows)));
        }
    });
}

/// Holds a view by its colours, in each theme of our own.
pub(super) fn styles(name: &str, mut bench: impl FnMut() -> Bench) {
    framed(|| {
        for theme in ["terminal", "dark", "light", "none"] {
            let mut bench = bench();
            bench.app.options.themes.choose(theme).unwrap();
            bench.app.theme = bench.app.options.themes.theme();
            insta::assert_snapshot!(
                format!("{name}-styles-{theme}"),
                frame_styles(&bench.buffer((120, 40)).0)
            );
        }
    });
}

#[test]
fn frames_of_the_beginning() {
    snapshots("loading", Bench::new);
    snapshots("ready", Bench::ready);
}

#[test]
fn frames_of_a_turn() {
    snapshots("thinking", Bench::thinking);
    snapshots("answered", Bench::answered);
    snapshots("scrolled-back", || {
        let mut bench = Bench::answered();
        bench.text((40, 12));
        bench.update(Msg::Wheel(-3));
        bench.text((40, 12));
        bench.send("And now?");
        bench.say(2, Part::Answer("more\n\nand more".to_owned()));
        bench.text((40, 12));
        bench.update(Msg::Wheel(-3));
        bench.text((40, 12));
        bench.say(2, Part::Answer("\n\nand still more".to_owned()));
        bench
    });
}

#[test]
fn frames_of_failures() {
    snapshots("load-failed", || {
        let mut bench = Bench::new();
        bench.engine(Event::Failed(failure()));
        bench
    });
    snapshots("turn-failed", failed);
}

fn failed() -> Bench {
    let mut bench = Bench::thinking();
    bench.say(1, Part::Answer("A dormouse".to_owned()));
    bench.clock(50.0, |_| {});
    bench.finish(1, Outcome { error: Some(failure()), ..outcome(Finish::Error) });
    bench
}

#[test]
fn frames_of_sessions_and_branches() {
    snapshots("sessions", || super::picking::picking(60));
    styles("sessions", || super::picking::picking(60));
    snapshots("branch", super::branching::edited_again);
}

fn palette() -> Bench {
    let mut bench = Bench::answered();
    bench.ctrl('p');
    bench.write("the");
    bench.press(KeyCode::Down);
    bench
}

#[test]
fn frames_of_what_lies_above() {
    snapshots("help", || {
        let mut bench = Bench::answered();
        bench.send("/help");
        bench
    });
    snapshots("palette", palette);
    snapshots("command", || {
        let mut bench = Bench::answered();
        bench.write("/think ");
        bench.press(KeyCode::Down);
        bench
    });
}

#[test]
fn styles_of_the_conversation() {
    styles("answered", Bench::answered);
    styles("turn-failed", failed);
    styles("palette", palette);
}
