//! The way to the real model, as a newcomer goes it: from a home with nothing in it to an answered message. The hub is on the
//! loopback, and what it calls Kimi K3 is the model in `assets/nano`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use portable_pty::CommandBuilder;
use tempfile::TempDir;

use crate::hub::{Act, Hub, Served};
use crate::terminal::{Terminal, dormouse};

fn files() -> Vec<Served> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/nano");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_file()).map(|path| Served::of(&path)).collect()
}

fn command(home: &Path, hub: &Hub) -> CommandBuilder {
    let mut command = dormouse(home);
    command.env("XDG_STATE_HOME", home.join("state"));
    command.env("HF_ENDPOINT", &hub.url);
    command.env_remove("HF_TOKEN");
    command
}

/// The first start, in a home with nothing in it.
fn newcomer(hub: &Hub, columns: u16, rows: u16) -> (Terminal, TempDir) {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::start(command(home.path(), hub), columns, rows);
    terminal.wait_for("Welcome to Dormouse");
    (terminal, home)
}

/// Presses a key once the screen shows what it is for.
fn press(terminal: &mut Terminal, text: &str, keys: &str) {
    terminal.wait_for(text);
    // A person's finger needs longer; without it this would be a burst.
    terminal.settle(Duration::from_millis(40));
    terminal.keys(keys);
}

/// On from what was found of the machine. Its heading may have gone: a folder with a long name makes more rows than the
/// screen has, and the last of them are seen.
fn pass_the_machine(terminal: &mut Terminal) {
    press(terminal, "goes on", "\r");
}

/// To the step where the folder is named, and names one.
fn name_folder(terminal: &mut Terminal, folder: &Path) {
    press(terminal, "Welcome to Dormouse", "\x1b[B");
    press(terminal, "▸ Set up Kimi K3", "\r");
    pass_the_machine(terminal);
    press(terminal, "▸ Kimi K3: 96 shards", "\r");
    press(terminal, "Where Kimi K3 goes", "\x15");
    let folder = folder.display().to_string();
    press(terminal, "A folder on a fast disk", &folder);
    press(terminal, "Nothing is there yet", "\r");
}

/// From a look at the files to the end.
fn finish(terminal: &mut Terminal, home: &Path, folder: &Path) {
    press(terminal, "every byte was held against the digests", "\r");
    press(terminal, "How much memory it gets", "\x1b[B");
    press(terminal, "▸ ultra", "\r");
    press(terminal, "it works: the token took", "\r");
    press(terminal, "says so from now on", "\r");
    terminal.wait_for("● ready");
    terminal.wait_without("Kimi K3");
    let config = std::fs::read_to_string(home.join("config/dormouse/config.toml")).unwrap();
    assert_eq!(config, format!("model = \"{}\"\npreset = \"ultra\"\n", folder.display()));
    terminal.send("What is the capital of Italy?");
    terminal.wait_for("✓ done");
}

fn quit(mut terminal: Terminal) {
    terminal.keys("\x03");
    assert_eq!(terminal.wait(), 0);
    terminal.assert_restored();
}

#[test]
fn a_newcomer_needs_one_key_or_none_for_the_small_model() {
    let hub = Hub::good(Vec::new());
    let (mut chat, home) = newcomer(&hub, 80, 24);
    chat.wait_for("● ready");
    chat.keys("\r");
    chat.wait_for("Ready: dormouse-nano");
    chat.send("Hello!");
    chat.wait_for("✓ done");
    quit(chat);
    // Never again afterwards.
    let mut chat = Terminal::start(command(home.path(), &hub), 80, 24);
    chat.wait_for("Ready: dormouse-nano");
    assert!(!chat.text().contains("Welcome"), "{}", chat.text());
    quit(chat);
    let (mut chat, _home) = newcomer(&hub, 80, 24);
    chat.wait_for("● ready");
    chat.send("Hello!");
    chat.wait_for("✓ done");
    assert!(hub.log().is_empty(), "nobody was asked for anything");
    quit(chat);
}

#[test]
fn the_whole_way_ends_in_an_answer() {
    let hub = Hub::good(files());
    let (mut chat, home) = newcomer(&hub, 80, 24);
    let folder = home.path().join("my models");
    name_folder(&mut chat, &folder);
    finish(&mut chat, home.path(), &folder);
    quit(chat);
    // What was set up is what the next start begins with.
    let mut chat = Terminal::start(command(home.path(), &hub), 120, 40);
    chat.wait_for("Ready: my models");
    assert!(!chat.text().contains("demonstration"), "{}", chat.text());
    quit(chat);
}

/// D16, and the whole of it: a program that is killed in the middle comes up where it was, and fetches on.
#[test]
fn a_killed_download_is_on_the_screen_again_and_goes_on() {
    let hub = Hub::new(files(), |request| {
        if request.at_store { Act::Slow(8 << 10, Duration::from_millis(20)) } else { Act::Well }
    });
    let (mut chat, home) = newcomer(&hub, 80, 24);
    let folder = home.path().join("k3");
    name_folder(&mut chat, &folder);
    chat.wait_for("fetching");
    // Paused, and at once gone on with.
    chat.keys(" ");
    chat.wait_for("Paused; what came is kept");
    chat.settle(Duration::from_millis(40));
    chat.keys(" ");
    chat.wait_for("Fetching Kimi K3");
    // One can chat meanwhile.
    chat.settle(Duration::from_millis(40));
    chat.keys("\r");
    chat.wait_for("● ready");
    chat.resize(120, 40);
    chat.wait_for("% here");
    chat.send("/download");
    chat.wait_for("fetching");
    let process = rustix::process::Pid::from_raw(i32::try_from(chat.process()).unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    chat.wait();

    let mut chat = Terminal::start(command(home.path(), &hub), 80, 24);
    chat.wait_for("Fetching Kimi K3");
    finish(&mut chat, home.path(), &folder);
    quit(chat);
    for file in files() {
        assert!(std::fs::read(folder.join(&file.path)).unwrap() == *file.bytes, "{}", file.path);
    }
}

/// The real list of 96 files in their sizes, on a disk that claims to have the room.
#[test]
fn the_released_list_is_a_table_that_scrolls() {
    let able = std::process::Command::new("unshare")
        .args(["-rm", "sh", "-c", "mount -t tmpfs -o size=4t none /tmp"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !able {
        eprintln!("skipped: a file system of that size cannot be mounted here");
        return;
    }
    let list = include_str!("../fixtures/released_sizes.txt");
    let shard = |line: &str| {
        let (name, size) = line.split_once(' ').unwrap();
        Served::zeros(name, size.parse().unwrap())
    };
    let hub = Hub::new(list.lines().map(shard).collect(), |request| {
        if request.at_store { Act::Slow(64 << 10, Duration::from_millis(20)) } else { Act::Well }
    });
    let home = tempfile::tempdir().unwrap();
    let disk = home.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mut wrapped = CommandBuilder::new("unshare");
    let script = r#"mount -t tmpfs -o size=2t none "$1" && exec "$0" setup --target "$1/k3" --block 1MiB"#;
    wrapped.args(["-rm", "sh", "-c", script, env!("CARGO_BIN_EXE_dormouse")]);
    wrapped.arg(&disk);
    let own = command(home.path(), &hub);
    for (name, value) in own.iter_full_env_as_str() {
        wrapped.env(name, value);
    }
    let mut screen = Terminal::start(wrapped, 80, 24);
    pass_the_machine(&mut screen);
    press(&mut screen, "▸ Kimi K3: 96 shards", "\r");
    press(&mut screen, "Free on that disk: 2.00 TiB", "\r");
    screen.wait_for("model-00001-of-000096.safetensors fetching");
    screen.wait_until("something that is safe", |text| {
        text.contains("of 1.42 TiB verified") && text.contains("0/96 files") && !text.contains(" 0 B of")
    });
    let text = screen.text();
    assert!(text.contains("model-00004-of-000096.safetensors fetching"), "{text}");
    assert!(text.contains("model-00005-of-000096.safetensors waiting"), "{text}");
    assert!(text.contains("left"), "{text}");
    for _ in 0..12 {
        screen.keys("\x1b[6~");
    }
    screen.wait_for("model-00096-of-000096.safetensors waiting");
    let peak = std::fs::read_to_string(PathBuf::from(format!("/proc/{}/status", screen.process()))).unwrap();
    let peak = peak.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kib < 200 << 10, "{kib} KiB");
    screen.keys("\x03");
    screen.wait_for("Kimi K3");
    screen.settle(Duration::from_millis(40));
    screen.keys("\x03");
    assert_eq!(screen.wait(), 0);
    screen.assert_restored();
}
