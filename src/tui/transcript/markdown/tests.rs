//! What models write, and what becomes of it.

use super::*;
use proptest::prelude::*;

fn shown(source: &str, columns: usize) -> Vec<String> {
    let theme = Theme::TERMINAL;
    let mut out = Vec::new();
    for block in blocks(source, columns, &Line::default(), &theme) {
        if !out.is_empty() {
            out.push(String::new());
        }
        out.extend(block.rows.iter().map(|row| row.to_string().trim_end().to_owned()));
    }
    out
}

#[test]
fn lists_are_nested_and_keep_their_numbers() {
    let source = "3. three\n4. four\n   - dash\n     * star\n       text of it\n\n     more\n10. ten\n\n- [ ] open\n- [x] done\n";
    assert_eq!(
        shown(source, 40),
        [
            "3. three",
            "4. four",
            "   • dash",
            "     • star",
            "       text of it",
            "     more",
            "5. ten",
            "",
            "• [ ] open",
            "• [x] done",
        ]
    );
    assert_eq!(shown("- one two three four five\n- ", 12), ["• one two", "  three four", "  five", "•"]);
}

#[test]
fn quotes_hold_what_text_holds() {
    let source = "> quoted *words*\n> > deeper\n>\n> - item\n>\n> ```\n> code\n> ```\n";
    assert_eq!(shown(source, 40), ["│ quoted words", "│", "│ │ deeper", "│", "│ • item", "│", "│   code"]);
}

#[test]
fn code_stands_as_it_was_written_and_wraps() {
    let source = "- item\n\n  ```rust\n  fn a() {\n\n      b()\n  }\n  ```\n";
    assert_eq!(shown(source, 40), ["• item", "", "  rust", "    fn a() {", "", "        b()", "    }"]);
    assert_eq!(shown("```\nabcdefghij\n```", 7), ["  abcde", "fghij"]);
    assert_eq!(shown("    indented\n\n    code", 40), ["  indented", "", "  code"]);
    assert_eq!(shown("```\n```", 40), [""]);
}

#[test]
fn tables_fit_and_are_lists_where_they_do_not() {
    let source = "| a | 漢字 | right |\n|---|:-:|--:|\n| one | x | 1 |\n| `two` | | 22 |\n";
    assert_eq!(
        shown(source, 40),
        ["a   │ 漢字 │ right", "────┼──────┼──────", "one │  x   │     1", "two │      │    22"]
    );
    let source = "| name | what it is for |\n|--|--|\n| tar | puts files together |\n";
    assert_eq!(
        shown(source, 20),
        ["name │ what it is", "     │ for", "─────┼──────────────", "tar  │ puts files", "     │ together"]
    );
    assert_eq!(
        shown(source, 10),
        ["name:", "  tar", "what it", "  is for:", "  puts", "  files", "  together"]
    );
    // Cells too many and too few.
    assert_eq!(shown("| a | b |\n|--|--|\n| 1 | 2 | 3 |\n| 4 |\n", 20), ["a │ b", "──┼──", "1 │ 2", "4 │"]);
}

#[test]
fn text_keeps_its_lines_and_says_where_links_lead() {
    assert_eq!(shown("one\ntwo  \nthree<br>four", 40), ["one", "two", "three", "four"]);
    assert_eq!(
        shown("[text](https://a.b/c) and <https://d.e> and ![pic](p.png)", 80),
        ["text (https://a.b/c) and https://d.e and image: pic (p.png)"]
    );
    assert_eq!(shown("a \\* b &amp; c ~~d~~ **e**", 40), ["a * b & c d e"]);
    assert_eq!(
        shown("# One\n## Two\ntext\n\n---\n\nTitle\n===", 6),
        ["One", "", "Two", "", "text", "", "──────", "", "Title"]
    );
    assert_eq!(
        shown("e\u{301}e\u{301}e\u{301} 漢字漢字 👩‍👩‍👧👩‍👩‍👧", 4),
        ["e\u{301}e\u{301}e\u{301}", "漢字", "漢字", "👩‍👩‍👧👩‍👩‍👧"]
    );
}

#[test]
fn rows_of_code_are_known() {
    let theme = Theme::TERMINAL;
    let source = "- a\n\n  ```sh\n  x\n  ```\n\n  ~~~\n  y\n  z\n  ~~~\n";
    let found = blocks(source, 40, &Line::default(), &theme);
    let block = found.first().unwrap();
    let rows =
        |range: &Range<usize>| block.rows[range.clone()].iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(block.code.iter().map(rows).collect::<Vec<_>>(), [vec!["    x"], vec!["    y", "    z"]]);
    assert_eq!(code_of(source), ["x\n", "y\nz\n"]);
}

proptest! {
    #[test]
    fn no_row_is_wider_than_there_is_room(
        pieces in prop::collection::vec(
            "([a-c ]|\n|\n\n|# |- |  - |7\\. |> |```rust\n|```\n|\\*\\*|`|\\| a \\| 漢 \\|\n\\|--\\|--\\|\n|<b>|---\n|    |漢|e\u{301}|👩‍👩‍👧|\\[x\\]\\(y\\)){0,8}", 0..10),
        columns in 8usize..60,
    ) {
        let source = width::clean(&pieces.concat());
        let theme = Theme::TERMINAL;
        let found = blocks(&source, columns, &Line::default(), &theme);
        let codes: usize = found.iter().map(|block| block.code.len()).sum();
        prop_assert_eq!(codes, code_of(&source).len());
        for block in &found {
            for range in &block.code {
                prop_assert!(range.start < range.end && range.end <= block.rows.len());
            }
            for row in &block.rows {
                prop_assert!(width::of(row.to_string().trim_end()) <= columns, "{row:?} at {columns}");
            }
        }
    }
}
