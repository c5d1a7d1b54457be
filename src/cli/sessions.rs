//! `dormouse sessions`: the conversations that were written down.

use std::fmt::Write as _;
use std::io::{self, Write as _, stdout};
use std::path::{Path, PathBuf};

use super::args::{Common, Sessions};
use super::kept::folder;
use super::output::clean;
use super::words::Words;
use super::{Done, settings};
use crate::chat::{self, Form, Transcript};
use crate::engine::saved;
use crate::protocol::{ExitCode, Part, ToolCall, UserError};
use crate::session::{self, Entry, Folder, Record, Session, Turn};

/// What a turn says, put together.
#[derive(Debug, Default)]
struct Said {
    thinking: String,
    answer: String,
    calls: Vec<ToolCall>,
}

/// Does what was asked of the sessions.
pub(super) fn sessions(common: &Common, args: &Sessions) -> Result<Done, UserError> {
    let resolved = settings::resolve(common)?;
    let folder = folder(&resolved.paths);
    let model = resolved.model.as_deref();
    let text = match args {
        Sessions::List => list(&folder)?,
        Sessions::Show { id, all } => show(&folder, id, *all, model)?,
        Sessions::Rename { id, title } => {
            let opened = folder.open(id)?;
            opened.journal.append(&Record::Title(title.clone()));
            let not_written = |trouble| {
                UserError::new(ExitCode::Resources, "The session cannot be written", format!("{trouble:?}"))
            };
            opened.journal.flush(|_trouble| false).map_err(not_written)?;
            String::new()
        }
        Sessions::Export { id, format, all } => export(&folder, id, format.form(), *all, model)?,
        Sessions::Delete { id } => {
            let prompts = prompts(&folder, id);
            folder.delete(id)?;
            // What the model remembers of it goes as well.
            saved::Folder::at(resolved.paths.states()).forget(&prompts)?;
            String::new()
        }
    };
    match stdout().lock().write_all(clean(&text).as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(UserError::new(ExitCode::Resources, "Cannot write the sessions", error.to_string()))
        }
        _ => Ok(Done::Well),
    }
}

/// What tells the turns of a session from those of others, as far as it can be read.
fn prompts(folder: &Folder, id: &str) -> Vec<(u64, u64)> {
    let turns = folder.read(id).map(|(session, _damage)| session.turns).unwrap_or_default();
    turns.iter().filter_map(|turn| turn.prompt).map(|prompt| (prompt.count.into(), prompt.digest)).collect()
}

fn list(folder: &Folder) -> Result<String, UserError> {
    let entries = folder.list()?;
    if entries.is_empty() {
        return Ok(format!("There are no sessions in {}.\n", folder.dir().display()));
    }
    let widest = entries.iter().map(|entry| entry.id.len()).max().unwrap_or(0);
    Ok(entries.iter().map(|entry| line(entry, widest)).collect())
}

fn line(entry: &Entry, width: usize) -> String {
    let (id, date) = (&entry.id, session::date(entry.changed));
    match &entry.content {
        Ok((session, damage)) => {
            let last = session.last().map_or("new", Turn::finish);
            let mark = if damage.is_some() { "  (damaged)" } else { "" };
            let (turns, tokens, title) = (session.branch().len(), session.tokens(), session.title());
            let title = title.replace(['\n', '\t'], " ");
            format!("{id:width$}  {date}  {turns:>3} turns  {tokens:>7} tokens  {last:<9}  {title}{mark}\n")
        }
        Err(error) => format!("{id:width$}  {date}  cannot be read: {error}\n"),
    }
}

/// The branches that were asked for: all of them, or the one that is gone on with.
fn branches(session: &Session, all: bool) -> Vec<Vec<&Turn>> {
    if all {
        session.ends().into_iter().map(|end| session.branch_to(end)).collect()
    } else {
        vec![session.branch()]
    }
}

/// The words of a session's model: of the folder that the user names, else of the one that it was begun with.
fn words(session: &Session, model: Option<&Path>) -> Result<Words, UserError> {
    let folder = model.map_or_else(|| PathBuf::from(&session.header.folder), Path::to_owned);
    let words = Words::of(&folder)?;
    if words.digest == session.header.model {
        return Ok(words);
    }
    let detail =
        format!("it was begun with {}, and {} is not the same", session.header.folder, folder.display());
    Err(UserError::new(ExitCode::Usage, "The session belongs to another model", detail)
        .with_hint("Name its model with --model; `--format ids` needs none."))
}

fn said(words: &Words, turn: &Turn) -> Said {
    let mut said = Said::default();
    for part in words.parts(turn) {
        match part {
            Part::Thinking(text) => said.thinking.push_str(&text),
            Part::Answer(text) => said.answer.push_str(&text),
            Part::ToolCall(call) => said.calls.push(call),
        }
    }
    said
}

fn show(folder: &Folder, id: &str, all: bool, model: Option<&Path>) -> Result<String, UserError> {
    let (session, damage) = folder.read(id)?;
    let mut text = format!(
        "{}\nsession {id}, begun {} with {}, {} tokens\n",
        session.title(),
        session::date(session.header.created),
        session.header.folder,
        session.tokens()
    );
    for note in &session.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if let Some(damage) = damage {
        let _ = writeln!(text, "damaged: {damage}");
    }
    let words = words(&session, model);
    if let Err(error) = &words {
        let _ = writeln!(text, "the text cannot be shown: {error}");
    }
    let branches = branches(&session, all);
    for (number, branch) in branches.iter().enumerate() {
        if branches.len() > 1 {
            let current = if branch.last().copied() == session.last() { ", gone on with" } else { "" };
            let _ = write!(text, "\n=== branch {} of {}{current}\n", number + 1, branches.len());
        }
        for turn in branch {
            show_turn(turn, words.as_ref().ok(), &mut text);
        }
    }
    Ok(text)
}

fn show_turn(turn: &Turn, words: Option<&Words>, text: &mut String) {
    if turn.dropped > 0 {
        let _ = write!(text, "\n[the oldest {} turns are left out from here on]\n", turn.dropped);
    }
    let _ = write!(text, "\n> {}\n", turn.start.user.replace('\n', "\n> "));
    if let Some(words) = words {
        let said = said(words, turn);
        if !said.thinking.is_empty() {
            let _ = write!(text, "\n(thinking) {}\n", said.thinking.trim());
        }
        if !said.answer.is_empty() {
            let _ = write!(text, "\n{}\n", said.answer.trim());
        }
        for call in &said.calls {
            let _ = write!(text, "\n(calls {})\n", call.name);
        }
    }
    let reason = turn.end.as_ref().map(|end| end.error.as_str()).filter(|error| !error.is_empty());
    let _ = write!(
        text,
        "\n[{}{}{}, {} tokens, seed {}]\n",
        turn.finish(),
        if reason.is_some() { ": " } else { "" },
        reason.unwrap_or_default(),
        turn.ids.len(),
        turn.start.seed
    );
}

fn export(
    folder: &Folder,
    id: &str,
    form: Form,
    all: bool,
    model: Option<&Path>,
) -> Result<String, UserError> {
    let (session, _damage) = folder.read(id)?;
    let branches = branches(&session, all);
    if form == Form::Ids {
        // They need no model to be understood.
        let line = |turn: &Turn| turn.ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",") + "\n";
        let of = |branch: &Vec<&Turn>| branch.iter().map(|turn| line(turn)).collect::<String>();
        return Ok(branches.iter().map(of).collect::<Vec<_>>().join("\n"));
    }
    let words = words(&session, model)?;
    let mut transcripts: Vec<Transcript> = branches.iter().map(|turns| words.transcript(turns, id)).collect();
    let title = session.title();
    if all {
        return Ok(chat::export_all(&transcripts, &title, form));
    }
    Ok(chat::export(&transcripts.pop().unwrap_or_default(), &title, form))
}
