//! Starts that fail.

use std::fs;

use crate::terminal::{Terminal, dormouse};

/// T02, T28: whichever step of a start fails, the terminal is as it was, and the reason stands on it with a way out.
#[test]
fn t02_a_start_that_fails_leaves_the_terminal_as_it_was() {
    let fails = |arguments: &[&str], files: &[(&str, &str)], code: u32, told: &[&str]| {
        let home = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = home.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let mut command = dormouse(home.path());
        command.args(arguments);
        let mut terminal = Terminal::start(command, 100, 24);
        let ended = terminal.wait();
        let text = terminal.text();
        assert_eq!(ended, code, "{text}");
        for part in told {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!terminal.screen().alternate_screen() && !terminal.screen().hide_cursor());
        for mode in ["1049", "1000", "2004"] {
            let (set, unset) = (format!("\x1b[?{mode}h"), format!("\x1b[?{mode}l"));
            assert!(terminal.last(&set).is_none() || terminal.last(&set) < terminal.last(&unset), "{mode}");
        }
    };
    fails(&[], &[("config/dormouse/config.toml", "temprature = 1\n")], 2, &["temprature", "temperature"]);
    fails(&["chat", "--session", "nowhere"], &[], 2, &["nowhere", "dormouse sessions"]);
    fails(&["--theme", "pink"], &[], 2, &["pink"]);
    fails(&["--memory", "lots"], &[], 2, &["lots"]);
}

/// What is chosen once need not be chosen again.
#[test]
fn a_theme_is_there_at_the_next_start() {
    let home = tempfile::tempdir().unwrap();
    let start = || {
        let mut chat = Terminal::start(dormouse(home.path()), 100, 24);
        chat.wait_for("● ready");
        chat
    };
    let quit = |mut chat: Terminal| {
        chat.keys("\x03");
        assert_eq!(chat.wait(), 0);
    };
    let mut chat = start();
    chat.send("/theme light");
    chat.wait_for("also at the next start");
    quit(chat);
    let config = fs::read_to_string(home.path().join("config/dormouse/config.toml")).unwrap();
    assert_eq!(config, "theme = \"light\"\n");
    let mut chat = start();
    chat.send("/theme");
    chat.wait_for("The theme is light;");
    quit(chat);
}
