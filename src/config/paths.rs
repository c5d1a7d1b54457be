//! Where the user's files lie.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Error;

/// The folders of this user. Nothing is created here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// Models that the program lays out, and sessions.
    pub data: PathBuf,
    /// Holds `config.toml`, `keymap.toml` and `themes`.
    pub config: PathBuf,
    /// What the program has found out about this machine, and can find out again.
    pub state: PathBuf,
}

impl Paths {
    /// `DORMOUSE_HOME` for everything where it is set, else what the system prescribes (on Linux `XDG_DATA_HOME`,
    /// `XDG_CONFIG_HOME`, `XDG_STATE_HOME` and their defaults).
    pub fn of_user() -> Result<Self, Error> {
        if let Some(home) = std::env::var_os("DORMOUSE_HOME").filter(|home| !home.is_empty()) {
            return Ok(Self::under(&home));
        }
        let system = directories::ProjectDirs::from("", "", "dormouse").ok_or(Error::NoHome)?;
        let data = system.data_dir().to_owned();
        // Only Linux has a folder of its own for this.
        let state = system.state_dir().map_or_else(|| data.clone(), Path::to_owned);
        Ok(Self { data, config: system.config_dir().to_owned(), state })
    }

    fn under(home: &OsString) -> Self {
        let home = Path::new(home).to_owned();
        Self { data: home.clone(), config: home.clone(), state: home }
    }

    /// The config file.
    pub fn config_file(&self) -> PathBuf {
        self.config.join("config.toml")
    }

    /// The user's own keys.
    pub fn keymap_file(&self) -> PathBuf {
        self.config.join("keymap.toml")
    }

    /// Folder of the user's own themes.
    pub fn themes(&self) -> PathBuf {
        self.config.join("themes")
    }

    /// Folder of the conversations that were written down.
    pub fn sessions(&self) -> PathBuf {
        self.data.join("sessions")
    }

    /// How far setting up is.
    pub fn setup(&self) -> PathBuf {
        self.state.join("setup.json")
    }

    /// Messages that were sent in the chat.
    pub fn history(&self) -> PathBuf {
        self.state.join("history.jsonl")
    }

    /// What was copied in the chat and did not fit the terminal's clipboard.
    pub fn copied(&self) -> PathBuf {
        self.data.join("copied.txt")
    }

    /// A message while it is written in the user's editor, by this process alone.
    pub fn draft(&self) -> PathBuf {
        self.state.join(format!("draft-{}.md", std::process::id()))
    }

    /// What the screen remembers.
    pub fn screen(&self) -> PathBuf {
        self.state.join("screen.json")
    }

    /// What the disks were measured at.
    pub fn disk_rates(&self) -> PathBuf {
        self.state.join("disks.json")
    }

    /// Folder of what the model remembers of conversations, which can be computed again.
    pub fn states(&self) -> PathBuf {
        self.state.join("states")
    }

    /// Folder of what is known of models: which files were found right, and when.
    pub fn verified(&self) -> PathBuf {
        self.state.join("verified")
    }

    /// Folder of the models that the program laid out.
    pub fn models(&self) -> PathBuf {
        self.data.join("models")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_home_holds_everything() {
        let paths = Paths::under(&OsString::from("/somewhere"));
        assert_eq!(paths.config_file(), Path::new("/somewhere/config.toml"));
        assert_eq!(paths.models(), Path::new("/somewhere/models"));
    }
}
