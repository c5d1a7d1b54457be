//! Commands that set how the model answers, which one it is, and how the screen looks.

use crossterm::event::{KeyCode, KeyModifiers};

use super::{Bench, failure, outcome};
use crate::config::Key;
use crate::protocol::{Command, Event, Finish, Message, Prompt, Settings};
use crate::session::Record;
use crate::tui::app::{Effect, Engine, Msg};
use crate::tui::models::Model;
use crate::tui::theme::Theme;
use crate::units::Bytes;

fn loads(bench: &Bench) -> Vec<&Settings> {
    let load = |effect| match effect {
        &Effect::Send(Command::Load(ref settings)) => Some(settings),
        _ => None,
    };
    bench.sent.iter().filter_map(load).collect()
}

fn other() -> Model {
    Model {
        settings: Settings { model: "/k3".into(), ..Settings::default() },
        label: "k3".to_owned(),
        folder: "/k3".to_owned(),
        name: "k3".to_owned(),
        ..Model::default()
    }
}

#[test]
fn another_model_takes_the_place_of_the_first_and_begins_a_conversation() {
    let mut bench = Bench::answered();
    bench.app.session = Some("one".to_owned());
    bench.send("/model /k3");
    assert!(matches!(bench.sent.last(), Some(Effect::FindModel(name)) if name == "/k3"));
    bench.update(Msg::Model(Ok(other())));
    assert_eq!(loads(&bench).last().unwrap().model, std::path::Path::new("/k3"));
    bench.send("too early");
    assert_eq!((bench.generated().len(), bench.app.composer.text()), (1, "too early"));
    assert!(bench.text((80, 24)).contains("Done."), "the conversation stays while another model is loaded");
    let mut facts = Bench::facts();
    facts.digest = 8;
    bench.engine(Event::Ready(facts));
    let last: Vec<_> =
        bench.sent.iter().rev().filter(|effect| !matches!(effect, Effect::Count(_))).take(2).collect();
    assert!(matches!(last[0], Effect::CloseSession), "{last:?}");
    assert!(matches!(last[1], Effect::Model(_, name) if name == "k3"), "{last:?}");
    assert!(bench.app.transcript.turns().is_empty() && bench.app.session.is_none());
    let text = bench.text((80, 24));
    assert!(text.contains("k3") && !text.contains("demonstration"), "{text}");
}

#[test]
fn a_refusal_keeps_the_model_the_memory_and_the_conversation() {
    let mut bench = Bench::answered();
    bench.send("/memory 1GiB");
    assert_eq!(loads(&bench).last().unwrap().memory, Some(Bytes(1 << 30)));
    bench.engine(Event::Refused(failure()));
    assert!(matches!(bench.app.engine, Engine::Ready(_)));
    assert_eq!(bench.app.options.settings.memory, None);
    let text = bench.text((80, 30));
    assert!(
        text.contains("12 bytes are missing at the end") && text.contains("Nothing has changed"),
        "{text}"
    );
    assert!(text.contains("Done.") && text.contains("● ready"), "{text}");
    bench.press(KeyCode::Esc);
    assert!(!bench.text((80, 30)).contains("12 bytes"));
    // What fails after the old model was let go brings it back.
    bench.send("/memory laptop");
    bench.engine(Event::Failed(failure()));
    let asked: Vec<_> = loads(&bench).iter().map(|settings| settings.memory).collect();
    assert_eq!(asked, [None, Some(Bytes(1 << 30)), Some(Bytes(8_000_000_000)), None]);
    assert!(matches!(bench.app.engine, Engine::Loading));
    bench.engine(Event::Ready(Bench::facts()));
    assert_eq!(bench.app.transcript.turns().len(), 1);
    bench.send("/memory auto");
    bench.engine(Event::Ready(Bench::facts()));
    assert_eq!(bench.app.transcript.turns().len(), 1, "the conversation goes on with other memory");
    for wrong in ["/memory lots", "/temperature -1", "/temperature warm", "/seed x", "/theme drak", "/save"] {
        bench.send(wrong);
        assert_eq!(bench.app.composer.text(), wrong, "it stays to be mended");
        bench.ctrl('u');
    }
}

#[test]
fn nothing_is_loaded_while_a_turn_runs() {
    let mut bench = Bench::thinking();
    for command in ["/model small", "/memory 1GiB"] {
        bench.send(command);
        assert_eq!(bench.app.composer.text(), command);
        bench.ctrl('u');
    }
    assert_eq!(loads(&bench).len(), 1);
    bench.update(Msg::Model(Ok(other())));
    assert_eq!(loads(&bench).len(), 1, "one that was found too late");
}

#[test]
fn the_system_message_is_told_and_written_down_before_the_turn() {
    let system = |bench: &Bench| {
        let request = bench.generated().last().unwrap().prompt.clone();
        let Prompt::Chat(conversation) = request else { panic!("no chat") };
        match conversation.messages.first() {
            Some(Message::System { content, .. }) => Some(content.concat()),
            _ => None,
        }
    };
    let written = |bench: &Bench| {
        let record = |effect: &Effect| match effect {
            Effect::Record(Record::System(text)) => Some(format!("{text:?}")),
            Effect::Record(Record::Turn(_)) => Some("turn".to_owned()),
            _ => None,
        };
        bench.sent.iter().filter_map(record).collect::<Vec<_>>().join(" ")
    };
    let mut bench = Bench::ready();
    bench.send("/system Be brief.");
    bench.send("Hi");
    assert_eq!(system(&bench).as_deref(), Some("Be brief."));
    bench.finish(1, outcome(Finish::Stop));
    bench.send("And?");
    bench.finish(2, outcome(Finish::Stop));
    bench.send("/system none");
    bench.send("Well?");
    assert_eq!(system(&bench), None);
    assert_eq!(written(&bench), "Some(\"Be brief.\") turn turn None turn");
    bench.finish(3, outcome(Finish::Stop));
    bench.send("/system One");
    bench.send("/new");
    bench.send("Hi");
    assert_eq!(system(&bench), None, "it is of one conversation");
    assert!(written(&bench).ends_with("None turn turn"));
}

#[test]
fn tokens_are_drawn_as_it_was_asked_for() {
    let mut bench = Bench::ready();
    bench.send("/temperature 0.5");
    bench.send("/seed 7");
    bench.send("Hi");
    let sampling = bench.generated()[0].sampling;
    assert_eq!((sampling.temperature, sampling.seed), (Some(0.5), Some(7)));
    bench.finish(1, outcome(Finish::Stop));
    bench.send("/temperature default");
    bench.send("/seed random");
    bench.send("/seed");
    assert!(bench.text((80, 24)).contains("another for each message"));
    bench.send("Hi");
    let sampling = bench.generated()[1].sampling;
    assert!(sampling.temperature == Some(Bench::facts().temperature) && sampling.seed != Some(7));
}

#[test]
fn conversations_are_written_out() {
    let mut bench = Bench::ready();
    bench.send("/export");
    assert!(bench.text((80, 24)).contains("There is nothing to write yet"));
    let mut bench = Bench::answered();
    let mut asked = |command: &str| {
        bench.send(command);
        match bench.sent.last() {
            Some(Effect::Write { path, text, over }) => {
                format!("{} {over} {}", path.display(), text.lines().next().unwrap_or_default())
            }
            other => panic!("{command}: {other:?}"),
        }
    };
    assert_eq!(asked("/save ~/a b.md"), "~/a b.md false # What is a dormouse?");
    assert_eq!(asked("/save --over a.json"), "a.json true [");
    assert_eq!(asked("/export"), "dormouse-conversation.md false # What is a dormouse?");
    assert_eq!(asked("/export ids"), "dormouse-conversation.ids false 7,7,7,7,7,7,7,7,7,7,7,7,7");
    assert_eq!(asked("/export messages --x.json"), "--x.json false [");
    assert_eq!(asked("/export ./notes"), "./notes false # What is a dormouse?");
    bench.update(Msg::Written("Written to a.".to_owned()));
    assert!(bench.text((80, 24)).contains("Written to a."));
    bench.send("/export mardown");
    assert!(bench.text((80, 24)).contains("`mardown` is no form"));
}

#[test]
fn the_theme_follows_the_terminal_until_one_is_chosen() {
    let mut bench = Bench::answered();
    assert!(bench.sent.iter().any(|effect| matches!(effect, Effect::AskBackground)));
    assert_eq!(bench.app.theme, Theme::TERMINAL);
    let styles = |bench: &mut Bench| {
        let (buffer, _) = bench.buffer((80, 60));
        let code = buffer.content.iter().find(|cell| cell.symbol() == "✓").unwrap();
        code.fg
    };
    let before = styles(&mut bench);
    bench.update(Msg::Background([1.0, 1.0, 1.0]));
    assert_eq!(bench.app.theme, Theme::LIGHT);
    let light = styles(&mut bench);
    assert_ne!(light, before, "what was laid out before is laid out anew");
    bench.send("/theme dark");
    let kept = bench.sent.iter().rev().find_map(|effect| match effect {
        Effect::Configure(key, value) => Some((*key, value.clone())),
        _ => None,
    });
    assert_eq!(kept, Some((Key::Theme, "dark".to_owned())), "the next start begins with it");
    assert_eq!(bench.app.theme, Theme::DARK);
    assert_ne!(styles(&mut bench), light);
    bench.update(Msg::Background([1.0, 1.0, 1.0]));
    assert_eq!(bench.app.theme, Theme::DARK, "what was chosen stays");
    bench.send("/theme auto");
    assert_eq!(bench.app.theme, Theme::LIGHT);
}

#[test]
fn keys_that_follow_each_other_are_waited_for() {
    let mut bench = Bench::ready();
    let path = std::path::Path::new("keymap.toml");
    bench.app.options.keymap = crate::tui::Keymap::with(path, "[chat]\n'ctrl-x ctrl-h' = 'help'\n").unwrap();
    bench.ctrl('x');
    assert!(bench.text((80, 24)).contains("Ctrl-X …"));
    bench.ctrl('h');
    assert!(bench.app.help.is_some());
    bench.press(KeyCode::Esc);
    bench.ctrl('x');
    bench.key(KeyCode::Char('q'), KeyModifiers::NONE);
    assert!(bench.text((80, 24)).contains("Ctrl-X q does nothing here."));
    assert_eq!(bench.app.composer.text(), "");
}

#[test]
fn the_palette_finds_and_does() {
    let mut bench = Bench::answered();
    bench.write("draft");
    bench.ctrl('p');
    bench.write("fold thi");
    assert_eq!(bench.app.composer.text(), "draft");
    bench.ctrl('u');
    bench.write("showthink");
    let text = bench.text((80, 24));
    assert!(text.contains("▸ Ctrl-T") && !text.contains("/quit"), "{text}");
    bench.press(KeyCode::Enter);
    assert!(bench.app.palette.is_none() && bench.app.show_thinking == Some(true));
    // A command that more may follow waits for it; the draft is not lost.
    bench.ctrl('p');
    bench.write("memory");
    bench.press(KeyCode::Enter);
    assert_eq!(bench.app.composer.text(), "/memory ");
    bench.ctrl('u');
    bench.press(KeyCode::Up);
    assert_eq!(bench.app.composer.text(), "draft");
    bench.ctrl('p');
    bench.update(Msg::Paste("/new".to_owned()));
    bench.press(KeyCode::Enter);
    assert!(bench.app.transcript.turns().is_empty());
    bench.ctrl('p');
    bench.write("zzzz");
    assert!(bench.text((80, 24)).contains("Nothing fits."));
    bench.press(KeyCode::Enter);
    bench.ctrl('p');
    bench.ctrl('c');
    assert!(bench.app.palette.is_none() && !bench.left());
}
