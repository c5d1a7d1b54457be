//! How far it is, as a person or a script is told.

use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// What becomes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Its turn has not come.
    Waiting,
    /// What is there of it is being looked at.
    Checking,
    /// Bytes are coming.
    Fetching,
    /// The disk is full, and it waits for room.
    Paused,
    /// Its digest is being held against the published one.
    Verifying,
    /// It is there under its name, and its digest is right.
    Complete,
    /// It is there under its name, and nothing is published to hold it against.
    Unverified,
    /// What the hub sends is not what it publishes.
    Mismatch,
    /// It could not be had.
    Failed,
}

impl State {
    /// Whether the file is there.
    pub const fn is_there(self) -> bool {
        matches!(self, Self::Complete | Self::Unverified)
    }
}

/// The last thing that went wrong, until there is progress again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// When.
    pub at: SystemTime,
    /// The file that it is about.
    pub path: String,
    /// What.
    pub message: String,
}

impl fmt::Display for Trouble {
    /// The time of day, as the world keeps it, the file and the message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let [h, m, s] = [seconds / 3600 % 24, seconds / 60 % 60, seconds % 60];
        write!(f, "{h:02}:{m:02}:{s:02} UTC ")?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// What a connection is at.
#[derive(Clone, Debug, PartialEq)]
pub struct Connection {
    /// Its file.
    pub path: String,
    /// What becomes of that.
    pub state: State,
    /// Bytes safe on the disk, or looked at, where the file was there.
    pub at: u64,
    /// Bytes in all.
    pub size: u64,
    /// Bytes in a second over the network, over the last while.
    pub rate: f64,
}

/// A look at the whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Bytes that are safe on the disk. Never less than in an earlier look.
    pub verified: u64,
    /// Bytes in all.
    pub total: u64,
    /// Bytes that came over the network, those that came twice included.
    pub received: u64,
    /// Bytes that had to come again.
    pub again: u64,
    /// Bytes in a second, over the last while.
    pub rate: f64,
    /// Seconds to the end, if that can be told.
    pub left_s: Option<f64>,
    /// Files that are there.
    pub files_done: usize,
    /// Files in all.
    pub files: usize,
    /// What each connection is at.
    pub connections: Vec<Connection>,
    /// What stands in the way.
    pub trouble: Option<Trouble>,
}

/// The rate is that of the last ten seconds.
const SPAN: Duration = Duration::from_secs(10);

struct File {
    path: String,
    size: u64,
    state: State,
    /// Safe bytes now, and the most there ever were.
    now: u64,
    most: u64,
    /// Bytes looked at that may still prove bad.
    looked_at: u64,
    /// What came of it over the network.
    coming: Window,
}

/// A count as it grew of late.
#[derive(Default)]
struct Window(VecDeque<(Duration, u64)>);

impl Window {
    fn push(&mut self, now: Duration, count: u64) {
        self.0.push_back((now, count));
        while self.0.len() > 2 && self.0[1].0 + SPAN <= now {
            self.0.pop_front();
        }
    }

    /// By how much it grows in a second.
    fn rate(&self) -> f64 {
        let (Some(first), Some(last)) = (self.0.front(), self.0.back()) else { return 0.0 };
        let seconds = last.0.saturating_sub(first.0).as_secs_f64();
        if seconds > 0.0 { last.1.saturating_sub(first.1) as f64 / seconds } else { 0.0 }
    }
}

/// The whole, fed by what the connections say. Knows no clock: times since the start are handed in.
pub(super) struct Progress {
    files: Vec<File>,
    received: u64,
    /// Bytes that were there and had to be thrown away.
    lost: u64,
    coming: Window,
    trouble: Option<(usize, Trouble)>,
}

impl Progress {
    pub(super) fn new(files: impl IntoIterator<Item = (String, u64)>) -> Self {
        let file = |(path, size)| File {
            path,
            size,
            state: State::Waiting,
            now: 0,
            most: 0,
            looked_at: 0,
            coming: Window::default(),
        };
        Self {
            files: files.into_iter().map(file).collect(),
            received: 0,
            lost: 0,
            coming: Window::default(),
            trouble: None,
        }
    }

    pub(super) fn state(&mut self, index: usize, state: State) {
        if let Some(file) = self.files.get_mut(index) {
            file.state = state;
            if state.is_there() {
                self.clear(index);
            }
        }
    }

    pub(super) fn trouble(&mut self, index: usize, trouble: Trouble) {
        self.trouble = Some((index, trouble));
    }

    fn clear(&mut self, index: usize) {
        if self.trouble.as_ref().is_some_and(|(about, _)| *about == index) {
            self.trouble = None;
        }
    }

    /// `safe` bytes of a file are on the disk.
    pub(super) fn safe(&mut self, index: usize, safe: u64) {
        let Some(file) = self.files.get_mut(index) else { return };
        let safe = safe.min(file.size);
        let grew = safe > file.now;
        self.lost += file.now.saturating_sub(safe);
        file.now = safe;
        file.most = file.most.max(safe);
        if grew {
            self.clear(index);
        }
    }

    /// `bytes` of a file that was there already have been looked at.
    pub(super) fn looked_at(&mut self, index: usize, bytes: u64) {
        if let Some(file) = self.files.get_mut(index) {
            file.looked_at = bytes.min(file.size);
        }
    }

    /// `bytes` of each file came over the network up to `now`.
    pub(super) fn received(&mut self, bytes: impl IntoIterator<Item = u64>, now: Duration) {
        self.received = 0;
        for (file, bytes) in self.files.iter_mut().zip(bytes) {
            self.received += bytes;
            // Most files are not on their way, and have no rate.
            if file.state == State::Fetching {
                file.coming.push(now, bytes);
            } else if !file.coming.0.is_empty() {
                file.coming = Window::default();
            }
        }
        self.coming.push(now, self.received);
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let total = self.files.iter().map(|file| file.size).sum::<u64>();
        let now = self.files.iter().map(|file| file.now).sum::<u64>();
        let rate = self.coming.rate();
        let busy = |file: &&File| {
            matches!(file.state, State::Checking | State::Fetching | State::Paused | State::Verifying)
        };
        Snapshot {
            verified: self.files.iter().map(|file| file.most).sum(),
            total,
            received: self.received,
            again: self.lost,
            rate,
            left_s: (rate > 0.0).then(|| (total - now) as f64 / rate),
            files_done: self.files.iter().filter(|file| file.state.is_there()).count(),
            files: self.files.len(),
            connections: self
                .files
                .iter()
                .filter(busy)
                .map(|file| {
                    let checking = file.state == State::Checking;
                    let at = if checking { file.now.max(file.looked_at) } else { file.now };
                    Connection {
                        path: file.path.clone(),
                        state: file.state,
                        at,
                        size: file.size,
                        rate: file.coming.rate(),
                    }
                })
                .collect(),
            trouble: self.trouble.as_ref().map(|(_, trouble)| trouble.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Progress {
        Progress::new([("a".to_owned(), 100), ("b".to_owned(), 50)])
    }

    #[test]
    fn d14_it_never_runs_backwards_and_d33_never_over_the_total() {
        let mut progress = two();
        let mut last = 0;
        for (index, safe) in [(0, 40), (1, 50), (0, 0), (0, 20), (0, 60), (0, 1000)] {
            progress.safe(index, safe);
            let shown = progress.snapshot();
            assert!(shown.verified >= last && shown.verified <= shown.total);
            last = shown.verified;
        }
        let shown = progress.snapshot();
        assert_eq!((shown.verified, shown.total, shown.again), (150, 150, 40));
    }

    #[test]
    fn the_rate_is_of_late_and_the_estimate_of_what_is_left() {
        let mut progress = two();
        assert_eq!(progress.snapshot().left_s, None);
        for second in 0..60 {
            progress.received([second], Duration::from_secs(second));
        }
        for second in 60..=80 {
            progress.received([59, (second - 59) * 5], Duration::from_secs(second));
        }
        progress.safe(0, 100);
        let shown = progress.snapshot();
        assert!((shown.rate - 5.0).abs() < 1e-9, "{}", shown.rate);
        assert!((shown.left_s.unwrap() - 10.0).abs() < 1e-9);
    }

    #[test]
    fn each_connection_has_a_rate_of_its_own() {
        let mut progress = two();
        progress.state(0, State::Fetching);
        progress.state(1, State::Fetching);
        for second in 0..5 {
            progress.received([second * 3, second * 7], Duration::from_secs(second));
        }
        progress.state(1, State::Verifying);
        progress.received([15, 28], Duration::from_secs(5));
        let shown = progress.snapshot();
        let rates: Vec<f64> = shown.connections.iter().map(|connection| connection.rate).collect();
        assert!((rates[0] - 3.0).abs() < 1e-9 && rates[1].abs() < 1e-9, "{rates:?}");
        assert_eq!(shown.received, 43);
    }

    #[test]
    fn trouble_has_its_time() {
        let at = UNIX_EPOCH + Duration::from_secs(86_400 + 3661);
        let mut trouble = Trouble { at, path: "f".into(), message: "no".into() };
        assert_eq!(trouble.to_string(), "01:01:01 UTC f: no");
        trouble.path.clear();
        assert_eq!(trouble.to_string(), "01:01:01 UTC no");
    }

    #[test]
    fn d27_trouble_is_shown_until_there_is_progress() {
        let mut progress = two();
        let trouble = Trouble { at: SystemTime::UNIX_EPOCH, path: "a".into(), message: "no".into() };
        progress.trouble(0, trouble.clone());
        progress.safe(1, 10);
        assert_eq!(progress.snapshot().trouble, Some(trouble), "another file's progress is not its own");
        progress.safe(0, 10);
        assert_eq!(progress.snapshot().trouble, None);
    }
}
