//! The table of commands. A command is one row here; a new row is found, completed, explained in the help and offered in
//! the palette without a word elsewhere.

use super::{Entry, Takes};
use crate::chat::Form;
use crate::config::Preset;
use crate::protocol::Thinking;
use crate::tui::app::{App, Effect};
use crate::tui::models::SMALL;

const THINKING: [&str; 4] =
    [Thinking::Off.as_str(), Thinking::Low.as_str(), Thinking::High.as_str(), Thinking::Max.as_str()];

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

const fn text(usage: &'static str, suggest: fn(&App) -> Vec<String>) -> Takes {
    Takes::Text { usage, suggest }
}

/// All of them, in the order in which they are shown.
pub(crate) const TABLE: &[Entry] = &[
    Entry {
        name: "/help",
        takes: Takes::Nothing,
        help: "show keys and commands",
        screen_only: false,
        run: |app, _| Ok(app.open_help()),
    },
    Entry {
        name: "/new",
        takes: Takes::Nothing,
        help: "start a new conversation",
        screen_only: false,
        run: |app, _| app.new_conversation(),
    },
    Entry {
        name: "/sessions",
        takes: Takes::Text { usage: "[name]", suggest: |_| Vec::new() },
        help: "choose, rename and delete conversations",
        screen_only: true,
        run: App::sessions_command,
    },
    Entry {
        name: "/retry",
        takes: Takes::Text { usage: "[seed]", suggest: |_| Vec::new() },
        help: "another answer to the last message; the old one is kept",
        screen_only: false,
        run: App::retry,
    },
    Entry {
        name: "/edit",
        takes: Takes::Nothing,
        help: "edit the last message; the old one is kept",
        screen_only: true,
        run: |app, _| app.edit_message(),
    },
    Entry {
        name: "/continue",
        takes: Takes::Nothing,
        help: "go on with an answer that was cut, stopped or limited",
        screen_only: false,
        run: |app, _| app.go_on(),
    },
    Entry {
        name: "/drop",
        takes: Takes::Text { usage: "[turns]", suggest: |_| Vec::new() },
        help: "make room: the model reads the oldest turns no more",
        screen_only: false,
        run: App::drop_oldest,
    },
    Entry {
        name: "/think",
        takes: Takes::OneOf(&THINKING),
        help: "how much to think before answering",
        screen_only: false,
        run: App::set_thinking,
    },
    Entry {
        name: "/limit",
        takes: text("think or answer with 300, 10m or off; or off", |_| {
            words(&["think 10m", "think off", "answer 300", "answer off", "off"])
        }),
        help: "how long a turn may think and answer",
        screen_only: false,
        run: App::set_limit,
    },
    Entry {
        name: "/system",
        takes: text("TEXT or none", |app| {
            if app.transcript.system.is_some() { words(&["none"]) } else { Vec::new() }
        }),
        help: "what the model is told before everything else",
        screen_only: false,
        run: |app, text| Ok(app.set_system(text)),
    },
    Entry {
        name: "/temperature",
        takes: text("a number from 0, or default", |_| words(&["0", "0.7", "1", "default"])),
        help: "how freely tokens are drawn",
        screen_only: false,
        run: App::set_temperature,
    },
    Entry {
        name: "/seed",
        takes: text("a number, or random", |_| words(&["random"])),
        help: "where random numbers begin",
        screen_only: false,
        run: App::set_seed,
    },
    Entry {
        name: "/copy",
        takes: Takes::OneOf(&["code"]),
        help: "copy the last answer, or its last block of code",
        screen_only: true,
        run: App::copy_last,
    },
    Entry {
        name: "/model",
        takes: text("a folder, or small", |_| words(&[SMALL])),
        help: "load another checkpoint",
        screen_only: false,
        run: App::set_model,
    },
    Entry {
        name: "/memory",
        takes: text("a size like 24GiB, or a preset", |_| words(&Preset::ALL.map(Preset::as_str))),
        help: "load the model with another budget",
        screen_only: false,
        run: App::set_memory,
    },
    Entry {
        name: "/save",
        takes: text("a file; --over FILE replaces one", |_| Vec::new()),
        help: "write the conversation to a file",
        screen_only: false,
        run: App::save,
    },
    Entry {
        name: "/export",
        takes: text("markdown, messages or ids, and a file", |_| words(&Form::ALL.map(Form::as_str))),
        help: "write it in another form",
        screen_only: false,
        run: App::export,
    },
    Entry {
        name: "/theme",
        takes: text("its name", |app| app.options.themes.names()),
        help: "how the screen looks",
        screen_only: true,
        run: App::set_theme,
    },
    Entry {
        name: "/stats",
        takes: Takes::Nothing,
        help: "show or hide the panel of numbers",
        screen_only: true,
        run: |app, _| Ok(app.toggle_stats()),
    },
    Entry {
        name: "/notify",
        takes: Takes::OneOf(&["on", "off"]),
        help: "announce the end of a turn",
        screen_only: true,
        run: |app, wish| Ok(app.set_notify(wish)),
    },
    Entry {
        name: "/mouse",
        takes: Takes::Nothing,
        help: "wheel scrolls here, or the terminal selects",
        screen_only: true,
        run: |app, _| Ok(app.toggle_mouse()),
    },
    Entry {
        name: "/setup",
        takes: Takes::Nothing,
        help: "set up Kimi K3, from where it was left",
        screen_only: true,
        run: |app, _| app.open_setup(),
    },
    Entry {
        name: "/download",
        takes: Takes::Nothing,
        help: "how far the download of Kimi K3 is",
        screen_only: true,
        run: |app, _| app.open_download(),
    },
    Entry {
        name: "/doctor",
        takes: Takes::Nothing,
        help: "what this machine can do",
        screen_only: true,
        run: |app, _| app.open_doctor(),
    },
    Entry {
        name: "/quit",
        takes: Takes::Nothing,
        help: "leave",
        screen_only: false,
        run: |_, _| Ok(vec![Effect::Leave]),
    },
];
