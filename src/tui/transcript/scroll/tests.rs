use super::*;
use crate::chat::Transcript;
use crate::protocol::{Part, TurnId};
use crate::tui::theme::Theme;
use crate::tui::transcript::{Needle, Passage};

struct Chat {
    transcript: Transcript,
    scrollback: Scrollback,
    columns: usize,
    height: usize,
    needle: Option<Needle>,
    chosen: Option<Chosen>,
}

impl Chat {
    /// Turns of three rows each and a blank one between them.
    fn new(turns: u64) -> Self {
        let mut transcript = Transcript::default();
        for turn in 0..turns {
            transcript.begin(TurnId(turn), format!("question {turn}"));
            transcript.push(TurnId(turn), Part::Answer(format!("answer {turn}")));
        }
        let mut chat = Self {
            transcript,
            scrollback: Scrollback::default(),
            columns: 40,
            height: 6,
            needle: None,
            chosen: None,
        };
        chat.prepare();
        chat
    }

    fn prepare(&mut self) {
        let theme = Theme::NONE;
        let look = Look {
            columns: self.columns,
            thinking: None,
            needle: self.needle.as_ref(),
            chosen: self.chosen,
            theme: &theme,
        };
        self.scrollback.prepare(self.transcript.turns(), &[], &look, self.height);
    }

    fn rows(&mut self) -> Vec<String> {
        self.prepare();
        self.scrollback.visible().map(|row| row.line.to_string().trim().to_owned()).collect()
    }
}

#[test]
fn a_short_conversation_stands_at_the_top() {
    assert_eq!(Chat::new(1).rows(), ["❯ question 0", "", "answer 0"]);
    assert_eq!(Chat::new(0).rows(), [""; 0]);
}

#[test]
fn the_end_is_followed_until_it_is_left() {
    let mut chat = Chat::new(5);
    assert_eq!(chat.rows(), ["", "answer 3", "", "❯ question 4", "", "answer 4"]);
    chat.transcript.push(TurnId(4), Part::Answer("\n\nmore".to_owned()));
    assert_eq!(chat.rows(), ["", "❯ question 4", "", "answer 4", "", "more"]);
}

#[test]
fn reading_back_is_not_disturbed_and_new_rows_are_counted() {
    let mut chat = Chat::new(5);
    chat.scrollback.scroll(-4);
    let reading = chat.rows();
    assert_eq!(reading, ["", "answer 2", "", "❯ question 3", "", "answer 3"]);
    assert!(!chat.scrollback.follows());
    assert_eq!(chat.scrollback.unseen(), 0);
    chat.transcript.push(TurnId(4), Part::Answer("\n\nmore\n\nand more".to_owned()));
    assert_eq!(chat.rows(), reading);
    assert_eq!(chat.scrollback.unseen(), 4);
    chat.transcript.begin(TurnId(5), "next".to_owned());
    assert_eq!(chat.rows(), reading);
    assert_eq!(chat.scrollback.unseen(), 6);
    chat.scrollback.go_to_end();
    assert_eq!(chat.rows().last().map(String::as_str), Some("❯ next"));
    assert!(chat.scrollback.follows());
    assert_eq!(chat.scrollback.unseen(), 0);
}

#[test]
fn scrolling_ends_at_both_ends_and_follows_again() {
    let mut chat = Chat::new(5);
    chat.scrollback.page(-100);
    assert_eq!(chat.rows()[0], "❯ question 0");
    chat.scrollback.scroll(3);
    assert_eq!(chat.rows()[1], "❯ question 1");
    chat.scrollback.page(1);
    chat.rows();
    assert!(!chat.scrollback.follows());
    chat.scrollback.scroll(1000);
    assert_eq!(chat.rows().len(), 6);
    assert!(chat.scrollback.follows());
}

#[test]
fn thinking_that_is_being_read_is_not_folded_away() {
    let mut chat = Chat::new(3);
    chat.transcript.begin(TurnId(9), "why?".to_owned());
    chat.transcript.push(TurnId(9), Part::Thinking("a\nb\nc\nd\ne\nf\ng\nh\ni".to_owned()));
    chat.prepare();
    chat.scrollback.scroll(-3);
    let reading = chat.rows();
    assert_eq!(reading[0], "│ a");
    chat.transcript.push(TurnId(9), Part::Answer("because".to_owned()));
    assert_eq!(chat.rows(), reading);
    chat.scrollback.go_to_end();
    assert!(chat.rows().iter().any(|row| row.starts_with("▸ thought, 9 words")));
}

#[test]
fn hits_are_visited_in_turn_and_left_for_where_one_was() {
    let mut chat = Chat::new(9);
    chat.transcript.begin(TurnId(9), "why?".to_owned());
    chat.transcript.push(TurnId(9), Part::Thinking("Question 7 again".to_owned()));
    chat.transcript.push(TurnId(9), Part::Answer("because".to_owned()));
    let before = chat.rows();
    let lit = |chat: &mut Chat| {
        chat.prepare();
        let rows = chat.scrollback.visible();
        let current = |row: &Row<'_>| row.hits.iter().any(|(_, current)| *current);
        rows.filter(current).map(|row| row.line.to_string().trim().to_owned()).collect::<Vec<_>>()
    };
    chat.scrollback.begin_search();
    chat.needle = Needle::new("QUESTION", 1);
    chat.scrollback.show_hit(Step::Nearest);
    assert_eq!(lit(&mut chat), ["│ Question 7 again"], "folded thinking is looked through, too");
    assert_eq!(chat.scrollback.found(), (10, 10));
    chat.scrollback.show_hit(Step::Older);
    assert_eq!(lit(&mut chat), ["❯ question 8"]);
    chat.scrollback.show_hit(Step::Newer);
    lit(&mut chat);
    chat.scrollback.show_hit(Step::Newer);
    assert_eq!(lit(&mut chat), ["❯ question 0"]);
    assert_eq!(chat.scrollback.found(), (1, 10));
    chat.needle = Needle::new("question 3", 2);
    chat.scrollback.show_hit(Step::Nearest);
    assert_eq!((lit(&mut chat), chat.scrollback.found()), (vec!["❯ question 3".to_owned()], (1, 1)));
    chat.needle = None;
    chat.scrollback.end_search(true);
    assert_eq!(chat.rows(), before);
    assert!(chat.scrollback.follows());
}

#[test]
fn what_is_chosen_is_brought_onto_the_screen() {
    let mut chat = Chat::new(9);
    let code = "\n\n```\na\nb\n```\nend";
    chat.transcript.push(TurnId(2), Part::Answer(code.to_owned()));
    for (turn, passage, rows) in [
        (2, Passage::Code(0), &["a", "b"][..]),
        (8, Passage::Question, &["❯ question 8"]),
        (0, Passage::Answer, &["answer 0"]),
        (2, Passage::Answer, &["answer 2", "", "a", "b", "", "end"]),
    ] {
        chat.chosen = Some(Chosen { turn, passage });
        chat.scrollback.show_chosen();
        chat.prepare();
        let marked = chat.scrollback.visible().filter(|row| row.is_chosen);
        let marked: Vec<_> = marked.map(|row| row.line.to_string().trim().to_owned()).collect();
        assert_eq!(marked, rows, "{passage:?} of {turn}");
    }
}

#[test]
fn a_new_width_keeps_the_place() {
    let mut chat = Chat::new(2);
    let words: Vec<String> = (0..400).map(|word| format!("w{word}")).collect();
    chat.transcript.push(TurnId(0), Part::Answer(format!("\n\n{}", words.join(" "))));
    chat.scrollback.go_to_start();
    chat.prepare();
    chat.scrollback.scroll(30);
    let before = chat.rows()[0].clone();
    chat.columns = 80;
    let after = chat.rows()[0].clone();
    let number = |row: &str| row.split(' ').next().and_then(|word| word[1..].parse::<i32>().ok()).unwrap();
    assert!((number(&before) - number(&after)).abs() < 40, "{before} / {after}");
}

#[test]
fn only_what_crosses_the_screen_is_laid_out() {
    let chat = Chat::new(10_000);
    let laid_out = |chat: &Chat| chat.scrollback.cells.iter().filter(|cell| cell.height() > 0).count();
    assert!(laid_out(&chat) <= 3, "{}", laid_out(&chat));
    let mut chat = chat;
    chat.scrollback.page(-3);
    chat.prepare();
    assert!(laid_out(&chat) < 10, "{}", laid_out(&chat));
    chat.scrollback.go_to_start();
    chat.columns = 30;
    chat.prepare();
    assert!(laid_out(&chat) < 14, "{}", laid_out(&chat));
}

#[test]
fn no_size_is_too_small() {
    for (columns, height) in [(0, 0), (1, 1), (2, 0), (0, 5), (3, 2)] {
        let mut chat = Chat::new(3);
        (chat.columns, chat.height) = (columns, height);
        chat.scrollback.scroll(-2);
        assert!(chat.rows().len() <= height);
    }
}
