//! The sessions to choose from: searched by typing, opened, called otherwise, deleted.

use super::{App, Effect};
use crate::session::Record;
use crate::tui::commands::Answer;
use crate::tui::library::{Row, Wish};
use crate::tui::opening::Opening;

/// What came of something that was asked of the sessions.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    /// These there are, the one that was written last first.
    Listed(Vec<Row>),
    /// One is open.
    Opened(Box<Opening>),
    /// It cannot be done.
    Refused(String),
}

/// What the user is being asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asking {
    /// Whether the chosen session is to be deleted.
    Delete,
    /// How it is to be called.
    Rename(String),
}

/// The list, and where the user is in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Picker {
    /// All sessions; nothing until they were read.
    rows: Option<Vec<Row>>,
    /// What they are searched for.
    pub(crate) search: String,
    chosen: usize,
    pub(crate) asking: Option<Asking>,
    /// The session that is being opened.
    opening: Option<String>,
}

impl Picker {
    /// Whether the sessions were not read yet.
    pub(crate) const fn is_reading(&self) -> bool {
        self.rows.is_none()
    }

    /// How many sessions there are.
    pub(crate) fn total(&self) -> usize {
        self.rows.as_ref().map_or(0, Vec::len)
    }

    /// Those that hold every word that is searched for, in their title, name or model.
    pub(crate) fn found(&self) -> Vec<&Row> {
        let words: Vec<String> = self.search.split_whitespace().map(str::to_lowercase).collect();
        let fits = |row: &&Row| {
            let text = format!("{} {} {}", row.title, row.id, row.model.0).to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        self.rows.iter().flatten().filter(fits).collect()
    }

    /// Which of those is chosen.
    pub(crate) fn chosen(&self) -> usize {
        self.chosen.min(self.found().len().saturating_sub(1))
    }

    fn row(&self) -> Option<Row> {
        self.found().get(self.chosen()).map(|row| (*row).clone())
    }
}

impl App {
    /// Shows all sessions.
    pub(crate) fn open_picker(&mut self) -> Vec<Effect> {
        self.picker = Some(Picker::default());
        vec![Effect::Sessions(Wish::List)]
    }

    /// The same as a command; with a name, opens that session.
    pub(crate) fn sessions_command(&mut self, id: &str) -> Answer {
        if id.is_empty() {
            return Ok(self.open_picker());
        }
        self.wants_no_turn()?;
        self.picker = Some(Picker { opening: Some(id.to_owned()), ..Picker::default() });
        Ok(vec![Effect::Sessions(Wish::List), Effect::Sessions(Wish::Open(id.to_owned()))])
    }

    /// Whether this session is being opened and still wanted.
    pub(crate) fn awaits(&self, id: &str) -> bool {
        let opening = self.picker.as_ref().and_then(|picker| picker.opening.as_deref());
        opening == Some(id) && self.running.is_none()
    }

    pub(super) fn sessions_told(&mut self, told: Told) -> Vec<Effect> {
        match told {
            Told::Listed(rows) => {
                if let Some(picker) = &mut self.picker {
                    picker.rows = Some(rows);
                }
            }
            Told::Opened(opening) => {
                self.picker = None;
                self.open(*opening);
            }
            Told::Refused(why) => {
                if let Some(picker) = &mut self.picker {
                    picker.opening = None;
                }
                self.notify(why);
            }
        }
        Vec::new()
    }

    /// Puts a text where the picker takes it: into the search, or into the title that is being written.
    pub(super) fn write_in_picker(&mut self, text: &str) -> Vec<Effect> {
        let Some(picker) = &mut self.picker else { return Vec::new() };
        let text: String = text.chars().filter(|c| !c.is_control()).collect();
        match &mut picker.asking {
            Some(Asking::Rename(title)) => title.push_str(&text),
            Some(Asking::Delete) => {
                picker.asking = None;
                if text.eq_ignore_ascii_case("y")
                    && let Some(row) = picker.row()
                {
                    return vec![Effect::Sessions(Wish::Delete(row.id))];
                }
            }
            None => {
                picker.search.push_str(&text);
                picker.chosen = 0;
            }
        }
        Vec::new()
    }

    /// Deletes a letter of it.
    pub(crate) fn delete_in_picker(&mut self) -> Vec<Effect> {
        if let Some(picker) = &mut self.picker {
            let text = match &mut picker.asking {
                Some(Asking::Rename(title)) => title,
                _ => &mut picker.search,
            };
            text.pop();
        }
        Vec::new()
    }

    /// Chooses another session.
    pub(crate) fn move_in_picker(&mut self, rows: isize) -> Vec<Effect> {
        if let Some(picker) = &mut self.picker
            && picker.asking.is_none()
        {
            let last = picker.found().len().saturating_sub(1);
            picker.chosen = picker.chosen().saturating_add_signed(rows).min(last);
        }
        Vec::new()
    }

    /// Opens the chosen session, or carries out what was asked.
    pub(crate) fn take_in_picker(&mut self) -> Vec<Effect> {
        let (running, model) = (self.running.is_some(), self.model_digest());
        let Some(picker) = &mut self.picker else { return Vec::new() };
        let Some(row) = picker.row() else { return Vec::new() };
        match picker.asking.take() {
            Some(Asking::Rename(title)) => return self.rename(row, &title),
            // Only a clear yes deletes.
            Some(Asking::Delete) => return Vec::new(),
            None => {}
        }
        if self.session.as_ref() == Some(&row.id) && !self.read_only {
            self.picker = None;
            return Vec::new();
        }
        let refused = if !row.readable {
            Some(row.title)
        } else if running {
            let (leave, stop) = (self.key_of("leave-sessions"), self.key_of("stop"));
            Some(format!("A turn is running; {leave} here and {stop} there stops it first."))
        } else if model != 0 && row.model.1 != model {
            Some(format!("It belongs to {}: `dormouse chat --session {}` opens it.", row.model.0, row.id))
        } else {
            None
        };
        if let Some(why) = refused {
            self.notify(why);
            return Vec::new();
        }
        if let Some(picker) = &mut self.picker {
            picker.opening = Some(row.id.clone());
        }
        vec![Effect::Sessions(Wish::Open(row.id))]
    }

    fn rename(&mut self, row: Row, title: &str) -> Vec<Effect> {
        let title = title.trim().to_owned();
        if title.is_empty() || title == row.title {
            return Vec::new();
        }
        if self.session.as_ref() != Some(&row.id) {
            return vec![Effect::Sessions(Wish::Rename(row.id, title))];
        }
        if self.read_only {
            self.notify("This session is open in another dormouse, which can rename it.");
            return Vec::new();
        }
        // It is ours to write, and may be read again before it is written.
        let rows = self.picker.iter_mut().filter_map(|picker| picker.rows.as_mut()).flatten();
        for listed in rows.filter(|listed| listed.id == row.id) {
            listed.title.clone_from(&title);
        }
        vec![Effect::Record(Record::Title(title))]
    }

    /// Asks how the chosen session is to be called.
    pub(crate) fn rename_in_picker(&mut self) -> Vec<Effect> {
        if let Some(picker) = &mut self.picker
            && let Some(row) = picker.row()
            && row.readable
        {
            picker.asking = Some(Asking::Rename(row.title));
        }
        Vec::new()
    }

    /// Asks whether the chosen session is to be deleted.
    pub(crate) fn ask_to_delete(&mut self) -> Vec<Effect> {
        let Some(picker) = &mut self.picker else { return Vec::new() };
        let Some(row) = picker.row() else { return Vec::new() };
        if self.session.as_ref() == Some(&row.id) {
            self.notify("This session is open; /new leaves it, and then it can be deleted.");
        } else {
            picker.asking = Some(Asking::Delete);
        }
        Vec::new()
    }

    /// Takes back what is asked, else what is searched for, else closes the list.
    pub(crate) fn leave_picker(&mut self) -> Vec<Effect> {
        let Some(picker) = &mut self.picker else { return Vec::new() };
        if picker.asking.take().is_some() {
            return Vec::new();
        }
        if picker.search.is_empty() {
            self.picker = None;
        } else {
            picker.search.clear();
            picker.chosen = 0;
        }
        Vec::new()
    }
}
