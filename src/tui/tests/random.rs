//! Anything at all, in any order.

use crossterm::event::{KeyCode, KeyModifiers};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use unicode_segmentation::UnicodeSegmentation;

use super::frames::frame_text;
use super::{Bench, outcome};
use crate::protocol::{Event, ExitCode, Finish, Part, Phase, UserError};
use crate::tui::app::Msg;
use crate::tui::draft::{CHIP, Chip};

/// One random step: a key, a paste, a size, an event, time.
fn step() -> impl Strategy<Value = (u8, char, u16, u16, String)> {
    (any::<u8>(), any::<char>(), 0u16..130, 0u16..45, "(\\PC|\n|[*_`|#>-]|1\\. |漢|👩‍👩‍👧|\u{1b}\\[31m){0,24}")
}

/// Takes steps, one after the other, and looks at the screen after each.
fn survive(steps: Vec<(u8, char, u16, u16, String)>) -> Result<(), TestCaseError> {
    let codes = [
        KeyCode::Enter,
        KeyCode::Esc,
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::Left,
        KeyCode::Right,
        KeyCode::Home,
        KeyCode::End,
        KeyCode::PageUp,
        KeyCode::PageDown,
        KeyCode::Tab,
        KeyCode::Backspace,
        KeyCode::Delete,
        KeyCode::F(1),
        KeyCode::F(2),
        KeyCode::F(3),
    ];
    let modifiers = [KeyModifiers::NONE, KeyModifiers::CONTROL, KeyModifiers::ALT, KeyModifiers::SHIFT];
    let mut bench = Bench::new();
    let mut size = (80, 24);
    for (kind, c, a, b, text) in steps {
        let turn = u64::from(a % 4);
        let code = codes[usize::from(b) % codes.len()];
        let finish = [Finish::Stop, Finish::Cancelled, Finish::Length, Finish::Error][usize::from(b) % 4];
        match kind % 24 {
            0 | 1 => bench.key(code, modifiers[usize::from(a) % 4]),
            2 => bench.key(KeyCode::Char(c), modifiers[usize::from(a) % 4]),
            3 => bench.ctrl(char::from(b'a' + u8::try_from(a % 26).unwrap())),
            4 => bench.update(Msg::Paste(text)),
            5 => bench.update(Msg::Wheel(isize::try_from(a).unwrap() - 65)),
            6 => size = (a, b),
            7 => bench.say(turn, Part::Thinking(text)),
            8 | 9 => bench.say(turn, Part::Answer(text)),
            10 => {
                if let Some(running) = &bench.app.running {
                    let turn = running.turn.0;
                    bench.finish(turn, outcome(finish));
                }
            }
            11 => bench.engine(Event::Failed(UserError::new(ExitCode::Invalid, text.clone(), text))),
            12 => bench.engine(Event::Stopped),
            13 => bench.engine(Event::Ready(Bench::facts())),
            14 => bench.clock(f64::from(a), |s| {
                (s.layer, s.layers, s.load_total, s.pass_began_ns) =
                    (u64::from(b), u64::from(a), u64::MAX, u64::MAX);
                s.phase = [Phase::Prefill, Phase::Decode, Phase::Loading, Phase::Idle][usize::from(a) % 4];
            }),
            15 => bench.update(Msg::Paste(format!("{text}\n").repeat(usize::from(b)))),
            16 => bench.write(&format!("@{}", text.chars().take(2).collect::<String>())),
            17 => {
                let word = bench.app.composer.word_before().to_owned();
                let files = vec![format!("{word}a/"), format!("{word}b"), text];
                bench.update(Msg::Listed { word, files });
            }
            18 => {
                let word = bench.app.composer.word_before().to_owned();
                let file = if a % 2 == 0 { Ok(Chip::file(&word, &text)) } else { Err(text) };
                bench.update(Msg::Attached { word, file });
            }
            19 => bench.update(Msg::Edited(if a % 3 == 0 { Err(text) } else { Ok(text) })),
            20 => bench.send(&text),
            21 => {
                bench.ctrl('f');
                bench.write(&text.chars().take(2).collect::<String>());
            }
            22 => bench.key(KeyCode::Up, KeyModifiers::CONTROL),
            _ => {
                bench.send("/th");
                bench.send("hello");
            }
        }
        let (buffer, caret) = bench.buffer(size);
        for cell in &buffer.content {
            prop_assert!(!cell.symbol().contains(char::is_control));
        }
        if let Some((x, y)) = caret {
            prop_assert!(x <= size.0 && y <= size.1);
        }
        // The state agrees with itself and with the screen.
        let app = &bench.app;
        let places = app.composer.text().matches(CHIP).count();
        prop_assert_eq!(places, app.composer.draft().shown().1.len());
        prop_assert!(!app.composer.draft().expanded().contains(CHIP));
        prop_assert_eq!(app.transcript.turns().len(), app.facts.len());
        let running = app.transcript.turns().iter().filter(|turn| turn.is_running()).count();
        prop_assert_eq!(running, usize::from(app.running.is_some()));
        prop_assert!(!app.queue.held || !app.queue.waiting.is_empty());
        let (at, all) = app.scrollback.found();
        prop_assert!(at <= all, "{} of {}", at, all);
        if let Some(chosen) = app.mode.chosen() {
            prop_assert!(chosen.turn < app.transcript.turns().len());
        }
    }
    Ok(())
}

/// The same for a minute, in longer runs.
#[test]
#[ignore = "takes a minute"]
fn a_minute_of_anything_is_survived() {
    let began = std::time::Instant::now();
    let mut runner = TestRunner::new(ProptestConfig { cases: 1, ..ProptestConfig::default() });
    while began.elapsed() < std::time::Duration::from_mins(1) {
        runner.run(&prop::collection::vec(step(), 0..400), survive).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn anything_in_any_order_is_survived(steps in prop::collection::vec(step(), 0..80)) {
        survive(steps)?;
    }

    #[test]
    fn an_answer_in_pieces_is_laid_out_as_one_at_once(
        pieces in prop::collection::vec(
            "([a-c ]|\n|\n\n|# |- |1\\. |> |```|```rust\n|~~~~|\"|/\\*|\\*\\*|`|\\| a \\| b \\|\n\\|--\\|--\\|\n|<b>|---\n|    |漢){0,6}", 0..12),
    ) {
        let mut whole = Bench::ready();
        whole.send("q");
        whole.say(1, Part::Answer(pieces.concat()));
        let mut parts = Bench::ready();
        parts.send("q");
        for piece in pieces {
            parts.say(1, Part::Answer(piece));
            parts.text((40, 60));
        }
        prop_assert_eq!(parts.text((40, 60)), whole.text((40, 60)));
    }

    #[test]
    fn graphemes_reach_the_cells_whole(text in "(e\u{301}|漢|👩‍👩‍👧|🇩🇪|ｶﾞ|[a-z]){1,30}") {
        let mut bench = Bench::ready();
        bench.send("q");
        bench.say(1, Part::Answer(text.clone()));
        let (buffer, _) = bench.buffer((24, 60));
        let shown = frame_text(&buffer);
        for cluster in text.graphemes(true) {
            prop_assert!(shown.contains(cluster), "{cluster} of {text} in {shown}");
        }
    }
}
