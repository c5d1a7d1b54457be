//! Anything at all, in any order.

use crossterm::event::{KeyCode, KeyModifiers};
use proptest::prelude::*;
use unicode_segmentation::UnicodeSegmentation;

use super::frames::frame_text;
use super::{Bench, outcome};
use crate::protocol::{Event, ExitCode, Finish, Part, Phase, UserError};
use crate::tui::app::{Engine, Msg};

/// One random step: a key, a paste, a size, an event, time.
fn step() -> impl Strategy<Value = (u8, char, u16, u16, String)> {
    (any::<u8>(), any::<char>(), 0u16..130, 0u16..45, "(\\PC|\n|[*_`|#>-]|1\\. |漢|👩‍👩‍👧|\u{1b}\\[31m){0,24}")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn anything_in_any_order_is_survived(steps in prop::collection::vec(step(), 0..80)) {
        let codes = [
            KeyCode::Enter, KeyCode::Esc, KeyCode::Up, KeyCode::Down, KeyCode::Left, KeyCode::Right, KeyCode::Home,
            KeyCode::End, KeyCode::PageUp, KeyCode::PageDown, KeyCode::Tab, KeyCode::Backspace, KeyCode::Delete,
            KeyCode::F(1), KeyCode::F(2), KeyCode::F(3),
        ];
        let modifiers = [KeyModifiers::NONE, KeyModifiers::CONTROL, KeyModifiers::ALT, KeyModifiers::SHIFT];
        let mut bench = Bench::new();
        let mut size = (80, 24);
        for (kind, c, a, b, text) in steps {
            let turn = u64::from(a % 4);
            let code = codes[usize::from(b) % codes.len()];
            match kind % 16 {
                0 | 1 => bench.key(code, modifiers[usize::from(a) % 4]),
                2 => bench.key(KeyCode::Char(c), modifiers[usize::from(a) % 4]),
                3 => bench.ctrl(char::from(b'a' + u8::try_from(a % 26).unwrap())),
                4 => bench.update(Msg::Paste(text)),
                5 => bench.update(Msg::Wheel(isize::try_from(a).unwrap() - 65)),
                6 => size = (a, b),
                7 => bench.say(turn, Part::Thinking(text)),
                8 | 9 => bench.say(turn, Part::Answer(text)),
                10 => bench.finish(turn, outcome(Finish::Cancelled)),
                11 => bench.engine(Event::Failed(UserError::new(ExitCode::Invalid, text.clone(), text))),
                12 => bench.engine(Event::Stopped),
                13 => {
                    let facts = match &Bench::ready().app.engine {
                        Engine::Ready(facts) => facts.clone(),
                        _ => unreachable!(),
                    };
                    bench.engine(Event::Ready(facts));
                }
                14 => bench.clock(f64::from(a), |s| {
                    (s.layer, s.layers, s.load_total, s.pass_began_ns) = (u64::from(b), u64::from(a), u64::MAX, u64::MAX);
                    s.phase = [Phase::Prefill, Phase::Decode, Phase::Loading, Phase::Idle][usize::from(a) % 4];
                }),
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
        }
    }

    #[test]
    fn an_answer_in_pieces_is_laid_out_as_one_at_once(
        pieces in prop::collection::vec(
            "([a-c ]|\n|\n\n|# |- |1\\. |> |```|\\*\\*|`|\\| a \\| b \\|\n\\|--\\|--\\|\n|<b>|---\n|    |漢){0,6}", 0..12),
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
