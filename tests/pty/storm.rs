//! Anything at all is typed, pasted and done to the size of the terminal; then the screen must be what the program means.

use std::time::{Duration, Instant};

use crate::terminal::{Terminal, scripted};

/// Random numbers that are the same every time (a linear congruence, its upper half).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

/// Keys of all kinds, but for those that leave the program, open an editor or write a file.
const KEYS: &[&str] = &[
    "\r",
    "\r",
    "\x1b",
    "\t",
    "\x7f",
    "\x1b[A",
    "\x1b[B",
    "\x1b[C",
    "\x1b[D",
    "\x1b[H",
    "\x1b[F",
    "\x1b[5~",
    "\x1b[6~",
    "\x1b[3~",
    "\x1b[1;5H",
    "\x1b[1;5F",
    "\x1b[1;5A",
    "\x1bOP",
    "\x1bOQ",
    "\x1bOR",
    "\x1bOS",
    "\x1b[15~",
    "\x1b[17~",
    "\x06",
    "\x10",
    "\x12",
    "\x14",
    "\x15",
    "\x17",
    "\x19",
    "\x0b",
    "\x1br",
    "\x1be",
    "\x1bg",
    "\x1b[1;3A",
    "\x1b[1;3B",
    "\x1b[I",
    "\x1b[O",
    "\x1b[<64;10;10M",
    "\x1b[<65;10;10M",
    "\x1b[200~",
    "\x1b[99;99;99",
    "\x1b]11;rgb:0000/0000/0000\x1b\\",
];

const WORDS: &[&str] = &[
    "a long one",
    "hello",
    "漢字，",
    "e\u{301}",
    "👩‍👩‍👧",
    "/think off",
    "/help",
    "/nonsense",
    "/theme light",
    "/stats",
    "@",
    "fail ",
    " ",
    "x",
    "`",
    "/limit answer 7",
    "hostile",
];

const PASTES: &[&str] = &["one line", "two\rlines", "tabs\tand\x1b[31m colours", "漢字\r漢字\r漢字"];

/// Types, pastes and resizes for a while.
fn storm(chat: &mut Terminal, numbers: &mut Numbers, while_: Duration) {
    let began = Instant::now();
    while began.elapsed() < while_ {
        match numbers.below(12) {
            0..=4 => chat.keys(numbers.of(KEYS)),
            5..=7 => chat.keys(numbers.of(WORDS)),
            8 => {
                let text = numbers.of(PASTES).repeat(1 + numbers.below(40));
                chat.keys(&format!("\x1b[200~{text}\x1b[201~"));
            }
            9 => {
                let size = |number: usize| u16::try_from(number + 1).unwrap();
                chat.resize(size(numbers.below(200)), size(numbers.below(60)));
            }
            10 => chat.settle(Duration::from_millis(60)),
            _ => {}
        }
        chat.settle(Duration::from_millis(u64::try_from(numbers.below(15)).unwrap()));
        assert!(chat.runs(), "it ended: {}", chat.text());
    }
}

/// Ends what is open, and holds what is on the screen against all of it drawn anew.
fn assert_agrees(chat: &mut Terminal) {
    // The paste that may have been left open ends here.
    chat.keys("\x1b[201~");
    chat.resize(100, 30);
    for _ in 0..6 {
        chat.settle(Duration::from_millis(60));
        chat.keys("\x1b");
    }
    // Its draft may hold anything; the greeting comes back in a conversation that is new.
    chat.settle(Duration::from_millis(60));
    chat.keys("\x15\x15\x0b");
    chat.wait_for("● ready");
    // What was told for a while goes away by itself.
    let deadline = Instant::now() + Duration::from_secs(40);
    loop {
        let before = quiet(chat);
        chat.keys("\x0c");
        let after = quiet(chat);
        if before == after {
            return;
        }
        assert!(Instant::now() < deadline, "drawn piece by piece:\n{before}\nand anew:\n{after}");
    }
}

/// The screen once nothing has come for a while.
fn quiet(chat: &mut Terminal) -> String {
    loop {
        let written = chat.raw().len();
        chat.settle(Duration::from_millis(300));
        if chat.raw().len() == written {
            return chat.text();
        }
    }
}

fn survive(rounds: u32, each: Duration) {
    let mut numbers = Numbers(0x00d0_4e05);
    let mut chat = Terminal::start(scripted("chat"), 80, 24);
    chat.wait_for("● ready");
    for _ in 0..rounds {
        storm(&mut chat, &mut numbers, each);
        assert_agrees(&mut chat);
    }
    while chat.runs() {
        chat.keys("\x03");
        chat.settle(Duration::from_millis(200));
    }
    assert_eq!(chat.wait(), 0);
    chat.assert_restored();
}

#[test]
fn whatever_is_done_the_screen_is_what_the_program_means() {
    survive(2, Duration::from_secs(2));
}

/// The same for a minute.
#[test]
#[ignore = "takes more than a minute"]
fn a_minute_of_anything_is_survived() {
    survive(6, Duration::from_secs(10));
}
