//! A download as a table: one row for each file, and what stands over them. Fed by the events, so that whoever shows it
//! keeps nothing of its own.

use std::collections::HashMap;

use super::progress::{Snapshot, State, Trouble};
use super::run::Event;

/// A file.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its path.
    pub path: String,
    /// Its bytes.
    pub size: u64,
    /// What becomes of it.
    pub state: State,
    /// Of its bytes, those that are safe on the disk.
    pub at: u64,
    /// Bytes in a second over the network; zero where none come.
    pub rate: f64,
}

/// All files, and how far they are together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The files, in the order in which they come.
    pub rows: Vec<Row>,
    /// The commit that they are from, once it is known.
    pub commit: Option<String>,
    /// The last look at the whole.
    pub look: Option<Snapshot>,
    /// What went wrong last, until there is progress again.
    pub trouble: Option<Trouble>,
    /// The most bytes that were ever safe: a later run looks at files again, and what is shown does not go back.
    verified: u64,
    /// Where each file stands among the rows.
    places: HashMap<String, usize>,
}

impl Table {
    /// Takes an event in.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Resolved { commit, .. } => {
                // Another commit has other files, of which nothing is known.
                if self.commit.as_ref().is_some_and(|known| known != commit) {
                    *self = Self::default();
                }
                self.commit = Some(commit.clone());
                self.trouble = None;
            }
            Event::Listed { list, kept, .. } => {
                self.rows = list
                    .iter()
                    .map(|file| Row {
                        path: file.path.clone(),
                        size: file.size,
                        state: State::Waiting,
                        at: file.kept,
                        rate: 0.0,
                    })
                    .collect();
                self.places = list.iter().enumerate().map(|(at, file)| (file.path.clone(), at)).collect();
                self.verified = self.verified.max(*kept).min(self.total());
                self.trouble = None;
            }
            Event::File { path, state } => {
                if let Some(row) = self.row(path) {
                    row.state = *state;
                    row.rate = 0.0;
                    if state.is_there() {
                        row.at = row.size;
                    }
                }
            }
            Event::Trouble(trouble) => self.trouble = Some(trouble.clone()),
            Event::Progress(look) => {
                for connection in &look.connections {
                    if let Some(row) = self.row(&connection.path) {
                        (row.state, row.rate) = (connection.state, connection.rate);
                        // While a file that was there is looked at, all of it is still there.
                        if connection.state != State::Checking {
                            row.at = connection.at;
                        }
                    }
                }
                self.verified = self.verified.max(look.verified);
                self.trouble.clone_from(&look.trouble);
                self.look = Some(look.clone());
            }
        }
    }

    /// The run is over, and nothing comes any more.
    pub fn rest(&mut self) {
        for row in &mut self.rows {
            row.rate = 0.0;
            if matches!(row.state, State::Checking | State::Fetching | State::Paused | State::Verifying) {
                row.state = State::Waiting;
            }
        }
        if let Some(look) = &mut self.look {
            (look.rate, look.left_s) = (0.0, None);
            look.connections.clear();
        }
    }

    /// Bytes in all.
    pub fn total(&self) -> u64 {
        self.rows.iter().map(|row| row.size).fold(0, u64::saturating_add)
    }

    /// Bytes that are safe on the disk. Never less than before.
    pub const fn verified(&self) -> u64 {
        self.verified
    }

    /// Files that are there.
    pub fn files_done(&self) -> usize {
        self.rows.iter().filter(|row| row.state.is_there()).count()
    }

    /// Rows of files that something is being done with.
    pub fn busy(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| {
            matches!(row.state, State::Checking | State::Fetching | State::Paused | State::Verifying)
        })
    }

    fn row(&mut self, path: &str) -> Option<&mut Row> {
        let at = *self.places.get(path)?;
        self.rows.get_mut(at)
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::super::progress::Connection;
    use super::super::run::Wanted;
    use super::*;

    fn listed(kept: [u64; 2]) -> Event {
        let list = [("a", 100, kept[0]), ("b", 50, kept[1])].map(|(path, size, kept)| Wanted {
            path: path.to_owned(),
            size,
            kept,
        });
        Event::Listed { files: 2, bytes: 150, kept: kept.iter().sum(), list: list.to_vec() }
    }

    fn look(verified: u64, state: State, at: u64) -> Event {
        Event::Progress(Snapshot {
            verified,
            total: 150,
            received: 0,
            again: 0,
            rate: 7.0,
            left_s: Some(3.0),
            files_done: 0,
            files: 2,
            connections: vec![Connection { path: "a".to_owned(), state, at, size: 100, rate: 7.0 }],
            trouble: None,
        })
    }

    fn file(path: &str, state: State) -> Event {
        Event::File { path: path.to_owned(), state }
    }

    #[test]
    fn rows_follow_their_files() {
        let mut table = Table::default();
        table.event(&listed([0, 0]));
        table.event(&look(40, State::Fetching, 40));
        let shown = |table: &Table| {
            table.rows.iter().map(|row| (row.state, row.at, row.rate > 0.0)).collect::<Vec<_>>()
        };
        assert_eq!(shown(&table), [(State::Fetching, 40, true), (State::Waiting, 0, false)]);
        assert_eq!((table.busy().count(), table.files_done()), (1, 0));
        table.event(&file("a", State::Complete));
        assert_eq!(shown(&table)[0], (State::Complete, 100, false));
        assert_eq!((table.busy().count(), table.files_done(), table.total()), (0, 1, 150));
        // Files that nobody listed are nobody's row.
        table.event(&file("c", State::Complete));
        assert_eq!(table.rows.len(), 2);
    }

    #[test]
    fn d14_d33_a_pause_takes_nothing_back() {
        let mut table = Table::default();
        table.event(&listed([0, 0]));
        table.event(&look(120, State::Fetching, 90));
        table.rest();
        assert_eq!((table.busy().count(), table.verified()), (0, 120));
        assert_eq!(table.look.as_ref().unwrap().left_s, None);
        // The next run looks at what is there before it counts it.
        table.event(&listed([90, 0]));
        table.event(&look(0, State::Checking, 10));
        assert_eq!((table.verified(), table.rows[0].at), (120, 90));
        table.event(&look(150, State::Verifying, 100));
        assert_eq!((table.verified(), table.total()), (150, 150));
    }

    #[test]
    fn d27_trouble_goes_with_progress() {
        let mut table = Table::default();
        table.event(&listed([0, 0]));
        let trouble = Trouble { at: SystemTime::UNIX_EPOCH, path: String::new(), message: "no".into() };
        table.event(&Event::Trouble(trouble.clone()));
        assert_eq!(table.trouble, Some(trouble));
        table.event(&look(1, State::Fetching, 1));
        assert_eq!(table.trouble, None);
    }

    #[test]
    fn d36_another_commit_is_another_table() {
        let mut table = Table::default();
        let resolved = |commit: &str| Event::Resolved {
            repo: "o/n".into(),
            revision: "main".into(),
            commit: commit.into(),
            moved: None,
        };
        table.event(&resolved("one"));
        table.event(&listed([0, 0]));
        table.event(&look(120, State::Fetching, 90));
        table.event(&resolved("one"));
        assert_eq!(table.verified(), 120);
        table.event(&resolved("two"));
        assert_eq!((table.verified(), table.rows.len()), (0, 0));
    }
}
