//! The screen in a real pseudo-terminal: the program itself with its small model, and the screen alone with an engine
//! that follows a script.

#![expect(clippy::unwrap_used, clippy::exit, reason = "what fails here fails a test")]

#[path = "download/hub.rs"]
#[expect(dead_code, reason = "most of it misbehaves, and is needed where that is tested")]
mod hub;
#[path = "pty/lifecycle.rs"]
mod lifecycle;
#[path = "pty/program.rs"]
mod program;
#[path = "pty/reading.rs"]
mod reading;
#[path = "pty/scripted.rs"]
mod scripted;
#[path = "pty/sessions.rs"]
mod sessions;
#[path = "pty/setup.rs"]
mod setup;
#[path = "pty/starting.rs"]
mod starting;
#[path = "pty/storm.rs"]
mod storm;
#[path = "pty/terminal.rs"]
mod terminal;
#[path = "pty/turns.rs"]
mod turns;
#[path = "pty/waiting.rs"]
mod waiting;

use dormouse::tui::{Exit, Files, Options, Themes, run};

/// Not a test: the process that the tests with a scripted engine put into their terminal.
#[test]
#[ignore = "the program under test of the others"]
fn scripted_child() {
    let Ok(scene) = std::env::var("DORMOUSE_SCENE") else { return };
    let files = std::env::var_os("DORMOUSE_FILES").map(|folder| {
        let file = |name| std::path::Path::new(&folder).join(name);
        Files { history: file("history.jsonl"), copied: file("copied.txt"), draft: file("draft.md") }
    });
    let mut themes = Themes::default();
    if std::env::var_os("NO_COLOR").is_some() {
        themes.choose("none").unwrap();
    }
    let options = Options {
        files,
        themes,
        model_label: "nano".to_owned(),
        demo: true,
        suggestions: vec!["What is a dormouse?".to_owned()],
        ..Options::default()
    };
    let exit = run(options, scripted::spawn(&scene), None, None).unwrap();
    println!("left: {exit:?}");
    if let Exit::Signal(number) = exit {
        std::process::exit(128 + number);
    }
}
