//! The table of keys. A key that does something is one row here; a new row is found, shown in the footer, explained in
//! the help and offered in the palette without a word elsewhere.

use super::Context::{
    Alert, Anywhere, Browse, Chat, Command, Edit, Editing, Empty, Failed, Files, Find, Greeting, Help, Idle,
    Numbers, Page, Palette, Pausable, Queued, Recall, Running, Sessions, Setup,
};
use super::{Binding, Context, Run};
use crate::setup::wizard::Act;
use crate::tui::app::{App, Effect};
use crate::tui::commands::Answer;
use crate::tui::composer::Composer;

const fn bind(
    context: Context,
    action: &'static str,
    keys: &'static [&'static str],
    hint: &'static str,
    run: Run,
) -> Binding {
    Binding { context, action, keys, footer: None, hint, run }
}

/// The same, shown in the footer.
const fn shown(footer: &'static str, binding: Binding) -> Binding {
    Binding { footer: Some(footer), ..binding }
}

/// All bindings, in the order in which the footer and the help show them.
#[rustfmt::skip]
pub(crate) const TABLE: &[Binding] = &[
    shown("close", bind(Help, "close-help", &["esc", "q", "enter", "f1"], "close the help", App::close_help)),
    shown("scroll", bind(Help, "help-up", &["up"], "scroll the help up", |app| app.scroll_help(-1))),
    bind(Help, "help-down", &["down"], "scroll the help down", |app| app.scroll_help(1)),
    bind(Help, "help-page-up", &["pgup"], "scroll it up by ten rows", |app| app.scroll_help(-10)),
    bind(Help, "help-page-down", &["pgdn"], "scroll it down by ten rows", |app| app.scroll_help(10)),

    shown("run", bind(Palette, "palette-run", &["enter"], "do what is chosen in the palette", App::run_from_palette)),
    shown("close", bind(Palette, "close-palette", &["esc", "ctrl-p", "ctrl-c"], "close the palette", App::close_palette)),
    bind(Palette, "palette-up", &["up"], "choose the one above", |app| app.choose_in_palette(-1)),
    bind(Palette, "palette-down", &["down", "tab"], "choose the one below", |app| app.choose_in_palette(1)),
    bind(Palette, "palette-backspace", &["backspace", "ctrl-h"], "delete a letter", |app| app.filter_palette(|filter| {
        filter.pop();
    })),
    bind(Palette, "palette-clear", &["ctrl-u"], "look for something else", |app| app.filter_palette(String::clear)),

    shown("match", bind(Find, "match-before", &["up"], "in a search: the match before", |app| app.step(true))),
    bind(Find, "match-after", &["down"], "in a search: the match after", |app| app.step(false)),
    shown("stay", bind(Find, "match-stay", &["enter"], "in a search: stay at the match", App::take)),
    shown("back", bind(Find, "match-back", &["esc"], "in a search: back to where you were", App::back)),

    shown("choose", bind(Browse, "passage-before", &["up", "k"], "choosing: what is before", |app| app.step(true))),
    bind(Browse, "passage-after", &["down", "j"], "choosing: what is after", |app| app.step(false)),
    shown("copy", bind(Browse, "passage-copy", &["enter", "c", "y"],
        "choosing: copy the message or the block of code", App::copy_chosen)),
    shown("thinking", bind(Browse, "passage-thinking", &["t", "space"],
        "choosing: show or hide the thinking of this message", App::unfold_chosen)),
    shown("find", bind(Browse, "find", &["/"], "", App::find)),
    shown("back", bind(Browse, "passage-back", &["esc", "tab", "q"], "choosing: back to the draft", App::back)),

    shown("choose", bind(Recall, "earlier-before", &["up", "ctrl-r"], "earlier messages: the one before",
        |app| app.step(true))),
    bind(Recall, "earlier-after", &["down"], "earlier messages: the one after", |app| app.step(false)),
    shown("take", bind(Recall, "earlier-take", &["enter", "tab"], "earlier messages: write on in this one", App::take)),
    shown("back", bind(Recall, "earlier-back", &["esc"], "earlier messages: back to the draft", App::back)),

    bind(Files, "close-list", &["esc"], "close the list of files", App::close_list),

    shown("choose", bind(Greeting, "choose-up", &["up"], "the choice above", |app| app.setup_move(-1))),
    bind(Greeting, "choose-down", &["down"], "the choice below", |app| app.setup_move(1)),
    shown("take it", bind(Greeting, "go-on", &["enter"], "go on with setting up", |app| app.setup_act(Act::Next))),
    bind(Greeting, "go-back", &["esc"], "back to the step before", |app| app.setup_act(Act::Back)),
    shown("go on", bind(Setup, "go-on", &["enter"], "", |app| app.setup_act(Act::Next))),
    shown("back", bind(Setup, "go-back", &["esc"], "", |app| app.setup_act(Act::Back))),
    shown("pause", bind(Pausable, "pause", &["space"], "pause the download or go on with it; do without the trial",
        |app| app.setup_act(Act::Pause))),
    shown("choose", bind(Setup, "choose-up", &["up"], "", |app| app.setup_move(-1))),
    bind(Setup, "choose-down", &["down"], "", |app| app.setup_move(1)),
    bind(Setup, "setup-page-up", &["pgup"], "scroll a page of setting up by ten rows", |app| app.setup_move(-10)),
    bind(Setup, "setup-page-down", &["pgdn"], "scroll it down", |app| app.setup_move(10)),
    shown("to the chat", bind(Setup, "leave-setup", &["ctrl-c"], "to the chat; what runs goes on", App::close_setup)),
    shown("close", bind(Page, "leave-setup", &["esc", "q", "enter", "ctrl-c"], "", App::close_setup)),
    shown("scroll", bind(Page, "choose-up", &["up"], "", |app| app.setup_move(-1))),
    bind(Page, "choose-down", &["down"], "", |app| app.setup_move(1)),
    bind(Page, "setup-page-up", &["pgup"], "", |app| app.setup_move(-10)),
    bind(Page, "setup-page-down", &["pgdn"], "", |app| app.setup_move(10)),

    shown("close", bind(Numbers, "close-numbers", &["esc", "q", "enter"], "close the numbers", App::toggle_sheet)),
    shown("next table", bind(Numbers, "next-table", &["tab"], "next table of numbers", App::next_tab)),
    shown("scroll", bind(Numbers, "numbers-up", &["up"], "scroll the table up", |app| app.scroll_sheet(-1))),
    bind(Numbers, "numbers-down", &["down"], "scroll the table down", |app| app.scroll_sheet(1)),
    bind(Numbers, "numbers-page-up", &["pgup"], "scroll it up by ten rows", |app| app.scroll_sheet(-10)),
    bind(Numbers, "numbers-page-down", &["pgdn"], "scroll it down by ten rows", |app| app.scroll_sheet(10)),
    shown("to a file", bind(Numbers, "write-table", &["c"], "write the table to a CSV file here", App::write_sheet)),

    shown("open", bind(Sessions, "open-session", &["enter"], "open the chosen session", App::take_in_picker)),
    shown("back", bind(Sessions, "leave-sessions", &["esc"], "take the search back, or close the list of sessions",
        App::leave_picker)),
    shown("rename", bind(Sessions, "rename-session", &["ctrl-r"], "call the chosen session otherwise",
        App::rename_in_picker)),
    shown("delete", bind(Sessions, "delete-session", &["ctrl-d", "delete"], "delete the chosen session, after a question",
        App::ask_to_delete)),
    bind(Sessions, "session-before", &["up"], "the session before", |app| app.move_in_picker(-1)),
    bind(Sessions, "session-after", &["down"], "the session after", |app| app.move_in_picker(1)),
    bind(Sessions, "sessions-up", &["pgup"], "ten sessions up", |app| app.move_in_picker(-10)),
    bind(Sessions, "sessions-down", &["pgdn"], "ten sessions down", |app| app.move_in_picker(10)),
    bind(Sessions, "search-less", &["backspace", "shift-backspace", "ctrl-h"], "delete a letter of the search",
        App::delete_in_picker),
    shown("leave it as it was", bind(Editing, "leave-edit", &["esc"], "leave the message as it was", App::leave_edit)),

    shown("close", bind(Alert, "close-alert", &["esc"], "put away what could not be done", App::close_alert)),
    shown("stop", bind(Running, "stop", &["esc"], "stop the turn; what was said stays", App::stop)),
    shown("load again", bind(Failed, "load-again", &["ctrl-r"], "load the model again after a failure", App::reload)),
    shown("complete", bind(Command, "complete", &["tab"], "complete a command, or a file after @", App::complete)),
    shown("take back", bind(Queued, "take-back", &["alt-up"], "take the last queued message back", App::take_back)),
    shown("send", bind(Idle, "send", &["enter"], "send the message", App::send)),
    bind(Chat, "send", &["enter"], "", App::send),
    shown("new line", bind(Chat, "new-line", &["alt-enter", "shift-enter", "ctrl-enter", "ctrl-j"],
        "new line", |app| edit(app, |composer| composer.insert("\n")))),
    shown("thinking", bind(Chat, "fold-thinking", &["ctrl-t"], "show or hide the thinking", App::fold_thinking)),
    bind(Idle, "retry", &["alt-r"], "another answer to the last message; the old one is kept",
        |app| told(app, |app| app.retry(""))),
    bind(Idle, "edit-message", &["alt-e"], "edit the last message, once more the one before",
        |app| told(app, App::edit_message)),
    bind(Idle, "continue-answer", &["alt-g"], "go on with an answer that was cut, stopped or limited", |app| told(app, App::go_on)),
    bind(Chat, "branch-before", &["alt-up"], "the branch before", |app| app.turn_branch(-1)),
    bind(Chat, "branch-after", &["alt-down"], "the branch after", |app| app.turn_branch(1)),
    bind(Chat, "sessions", &["f6"], "all sessions", App::open_picker),
    shown("help", bind(Chat, "help", &["f1"], "show this help", App::open_help)),
    shown("all", bind(Chat, "palette", &["ctrl-p"], "all commands and keys, found by a few letters", App::open_palette)),
    shown("find", bind(Chat, "find", &["ctrl-f"], "look for words in the conversation", App::find)),
    shown("choose", bind(Empty, "choose", &["tab"], "", App::browse)),
    bind(Chat, "choose", &["ctrl-up"], "choose a message or a block of code, to copy it", App::browse),
    bind(Chat, "recall", &["ctrl-r"], "look for an earlier message", App::recall),
    bind(Chat, "editor", &["ctrl-x ctrl-e"], "write in your own editor ($VISUAL, $EDITOR)", App::open_editor),
    shown("quit", bind(Idle, "interrupt", &["ctrl-c"], "stop a turn, clear the draft, quit", App::interrupt)),
    bind(Anywhere, "interrupt", &["ctrl-c"], "", App::interrupt),
    shown("numbers", bind(Chat, "numbers", &["f2"], "numbers on the whole screen, with tables", App::toggle_sheet)),
    bind(Numbers, "numbers", &["f2"], "", App::toggle_sheet),
    bind(Anywhere, "stats", &["f4"], "show or hide the panel of numbers", App::toggle_stats),
    bind(Anywhere, "layer-strip", &["f5"], "layers by time, or by experts missed", App::toggle_strip),
    shown("scroll", bind(Chat, "page-up", &["pgup"], "scroll up; the wheel does too", |app| app.page(-1))),
    bind(Chat, "page-down", &["pgdn"], "scroll down", |app| app.page(1)),
    bind(Chat, "to-start", &["ctrl-home"], "go to the beginning", App::go_to_start),
    bind(Chat, "to-end", &["ctrl-end"], "go to the end", App::go_to_end),
    bind(Anywhere, "mouse", &["f3"], "wheel scrolls here, or the terminal selects", App::toggle_mouse),
    bind(Chat, "end-of-input", &["ctrl-d"], "delete, or quit where nothing is written", App::end_of_input),
    bind(Anywhere, "suspend", &["ctrl-z"], "to the shell; `fg` comes back", |_| vec![Effect::Suspend]),
    bind(Anywhere, "repaint", &["ctrl-l"], "draw the screen anew", |_| vec![Effect::Repaint]),

    bind(Chat, "up", &["up"], "row up; from the first one to earlier messages", App::up),
    bind(Chat, "down", &["down"], "row down; from the last one to later messages", App::down),
    bind(Edit, "left", &["left", "ctrl-b"], "character left", |app| go(app, Composer::left)),
    bind(Edit, "right", &["right"], "character right", |app| go(app, Composer::right)),
    bind(Edit, "word-left", &["ctrl-left", "alt-left", "alt-b"], "word left", |app| go(app, Composer::word_left)),
    bind(Edit, "word-right", &["ctrl-right", "alt-right", "alt-f"], "word right", |app| go(app, Composer::word_right)),
    bind(Edit, "line-start", &["ctrl-a", "home"], "beginning of the line", |app| go(app, Composer::home)),
    bind(Edit, "line-end", &["ctrl-e", "end"], "end of the line", |app| go(app, Composer::end)),
    bind(Edit, "cut-to-end", &["ctrl-k"], "cut to the end of the line", |app| edit(app, Composer::kill_to_end)),
    bind(Edit, "cut-to-start", &["ctrl-u"], "cut to its beginning", |app| edit(app, Composer::kill_to_start)),
    bind(Edit, "cut-word", &["ctrl-w", "alt-backspace", "ctrl-backspace"], "cut a word",
        |app| edit(app, Composer::kill_word)),
    bind(Edit, "put-back", &["ctrl-y"], "put back what was cut", |app| edit(app, Composer::yank)),
    bind(Edit, "backspace", &["backspace", "shift-backspace", "ctrl-h"], "delete before the caret",
        |app| edit(app, Composer::backspace)),
    bind(Edit, "delete", &["delete"], "delete after the caret", |app| edit(app, Composer::delete_next)),
];

/// Does what a command does, and tells why not where it cannot be done.
fn told(app: &mut App, what: fn(&mut App) -> Answer) -> Vec<Effect> {
    what(app).unwrap_or_else(|problem| {
        app.notify(problem);
        Vec::new()
    })
}

/// Changes what is being written.
fn edit(app: &mut App, change: fn(&mut Composer)) -> Vec<Effect> {
    app.write(change)
}

/// Moves the caret.
fn go(app: &mut App, to: fn(&mut Composer)) -> Vec<Effect> {
    app.move_caret(to);
    Vec::new()
}
