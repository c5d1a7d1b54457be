use super::*;
use crate::tui::draft::Chip;
use proptest::prelude::*;

fn composer(text: &str, columns: usize) -> Composer {
    let mut composer = Composer::default();
    composer.wrap(columns);
    composer.insert(text);
    composer
}

/// T14.
#[test]
fn t14_graphemes_are_deleted_whole() {
    let mut draft = composer("a漢e\u{301}👩‍👩‍👧", 20);
    for left in ["a漢e\u{301}", "a漢", "a", "", ""] {
        draft.backspace();
        assert_eq!(draft.text(), left);
    }
    draft.insert("x漢");
    draft.home();
    draft.delete_next();
    draft.delete_next();
    draft.delete_next();
    assert_eq!(draft.text(), "");
}

#[test]
fn pastes_are_tamed() {
    assert_eq!(composer("one\r\ntwo\rthree\u{1b}[2J\u{7}\tfour", 40).text(), "one\ntwo\nthree   four");
}

#[test]
fn the_caret_stands_where_the_next_character_goes() {
    let mut draft = composer("the quick brown", 11);
    assert_eq!(draft.rows().collect::<Vec<_>>(), ["the quick", "brown"]);
    assert_eq!(draft.caret_cell(), (1, 5));
    draft.home();
    assert_eq!(draft.caret_cell(), (0, 0));
    let full = composer("0123456789", 11);
    assert_eq!(full.caret_cell(), (0, 10));
    assert_eq!(composer("漢字", 20).caret_cell(), (0, 4));
    assert_eq!(composer("a\n", 20).caret_cell(), (1, 0));
    let mut wide = composer("漢字", 20);
    wide.left();
    assert_eq!(wide.caret_cell(), (0, 2));
}

#[test]
fn rows_are_climbed_and_the_column_is_remembered() {
    let mut draft = composer("long line here\nab\nanother line", 40);
    assert_eq!(draft.caret_cell(), (2, 12));
    assert!(draft.up());
    assert_eq!(draft.caret_cell(), (1, 2));
    assert!(draft.up());
    assert_eq!(draft.caret_cell(), (0, 12));
    assert!(!draft.up());
    assert!(draft.down() && draft.down() && !draft.down());
    assert_eq!(draft.caret_cell(), (2, 12));
}

#[test]
fn words_and_lines_are_cut_and_put_back() {
    let mut draft = composer("one two  three", 40);
    draft.kill_word();
    assert_eq!(draft.text(), "one two  ");
    draft.word_left();
    draft.kill_to_end();
    assert_eq!(draft.text(), "one ");
    draft.home();
    draft.yank();
    assert_eq!(draft.text(), "two  one ");
    draft.end();
    draft.kill_to_start();
    assert_eq!(draft.text(), "");
    let mut draft = composer("a\nb", 40);
    draft.up();
    draft.end();
    draft.kill_to_end();
    assert_eq!(draft.text(), "ab");
    draft.home();
    draft.word_right();
    assert_eq!(draft.caret_cell(), (0, 2));
}

#[test]
fn a_chip_is_one_thing_to_the_caret() {
    let mut draft = composer("ab", 30);
    draft.left();
    draft.paste(&"line\n".repeat(20));
    assert_eq!(draft.rows().collect::<Vec<_>>(), ["a[pasted 20 lines, 100 B]b"]);
    assert_eq!(draft.caret_cell(), (0, 25));
    draft.left();
    assert_eq!(draft.caret_cell(), (0, 1));
    draft.insert("x");
    draft.right();
    draft.insert("y");
    assert_eq!(draft.draft().line(), "ax[pasted 20 lines, 100 B]yb");
    assert_eq!(draft.draft().expanded(), format!("ax{}yb", "line\n".repeat(20)));
    draft.backspace();
    draft.backspace();
    assert_eq!(draft.text(), "axb");
}

#[test]
fn a_chip_that_is_cut_can_be_put_back_and_rows_of_it_are_passed() {
    let mut draft = composer("", 12);
    draft.paste(&"line\n".repeat(20));
    draft.insert(" end");
    assert_eq!(draft.rows().collect::<Vec<_>>(), ["[pasted 20", "lines, 100", "B] end"]);
    assert!(draft.up());
    assert_eq!(draft.caret_cell(), (0, 0));
    assert!(draft.down());
    assert_eq!(draft.caret_cell(), (2, 2));
    draft.kill_word();
    assert_eq!(draft.draft().line(), "end");
    draft.end();
    draft.yank();
    assert_eq!(draft.draft().line(), "end[pasted 20 lines, 100 B]");
}

proptest! {
    #[test]
    fn any_keys_leave_the_caret_between_graphemes(
        steps in prop::collection::vec((0usize..18, "(漢|e\u{301}|\u{301}|👩‍|👧|🇩🇪|[a-c ]|\n){0,4}"), 0..60),
        columns in 0usize..12,
    ) {
        let mut draft = Composer::default();
        draft.wrap(columns);
        for (step, text) in steps {
            match step {
                0 => draft.left(),
                1 => draft.right(),
                2 => drop(draft.up()),
                3 => drop(draft.down()),
                4 => draft.home(),
                5 => draft.end(),
                6 => draft.word_left(),
                7 => draft.word_right(),
                8 => draft.backspace(),
                9 => draft.delete_next(),
                10 => draft.kill_word(),
                11 => draft.kill_to_end(),
                12 => draft.kill_to_start(),
                13 => draft.yank(),
                14 => draft.paste(&text.repeat(900)),
                15 => draft.put(Chip::file(&text, &text)),
                _ => draft.insert(&text),
            }
            prop_assert!(draft.text().is_char_boundary(draft.caret));
            prop_assert!(draft.boundary(draft.caret), "{:?} at {}", draft.text(), draft.caret);
            prop_assert_eq!(draft.to_text(draft.to_shown(draft.caret), true), draft.caret);
            let joined: String = draft.pieces().flatten().map(|(text, _)| text).collect();
            prop_assert_eq!(joined, draft.rows().collect::<String>());
            let (row, column) = draft.caret_cell();
            prop_assert!(row < draft.rows.len() && column <= draft.columns);
        }
    }
}
