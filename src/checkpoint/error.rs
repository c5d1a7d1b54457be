//! What can be wrong with a checkpoint. Every refusal names the place, what was expected and what was found.

use std::path::{Path, PathBuf};

use crate::sys::file;

/// A checkpoint is missing, damaged or not understood.
///
/// Text that comes out of the files (names, values) is escaped and cut before it gets here, so that a message can be
/// printed as it is.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be opened or read, or ended early.
    #[error(transparent)]
    File(#[from] file::Error),
    /// A file is not the JSON that it should be.
    #[error("{file}: {place}{problem}")]
    Json {
        /// The file.
        file: String,
        /// Empty, or the entry that cannot be read and a colon.
        place: String,
        /// What the parser says, with line and column.
        problem: String,
    },
    /// A field of a config is missing, of the wrong type, out of range, or not what this program computes.
    #[error("{file}: {field}: expected {expected}, found {found}")]
    Field {
        /// The file.
        file: String,
        /// The field, with the objects around it: `text_config.num_experts`.
        field: String,
        /// What may stand there.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// The folder holds no shard.
    #[error("{}: expected shards named *.safetensors, found none", path_shown(dir))]
    NoShards {
        /// The folder.
        dir: PathBuf,
    },
    /// The folder holds more shards than any checkpoint.
    #[error("{}: expected at most {limit} shards, found {found}", path_shown(dir))]
    TooManyShards {
        /// The folder.
        dir: PathBuf,
        /// The most.
        limit: usize,
        /// Shards there.
        found: usize,
    },
    /// The header of a shard as a whole does not fit its file.
    #[error("{shard}: {what}: expected {expected}, found {found}")]
    Header {
        /// The file.
        shard: String,
        /// The part of it.
        what: &'static str,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// One tensor's entry in a shard's header is not what it must be.
    #[error("{shard}: {tensor}: expected {expected}, found {found}")]
    Tensor {
        /// The file.
        shard: String,
        /// The tensor, by its released name.
        tensor: String,
        /// What the format, or the config, demands.
        expected: String,
        /// What the header says.
        found: String,
    },
    /// A tensor is there twice.
    #[error("{tensor}: expected once, found in {first} and again in {second}")]
    Duplicate {
        /// The tensor, by its released name.
        tensor: String,
        /// One file.
        first: String,
        /// The other, or the same.
        second: String,
    },
    /// Tensors of the language model are in no shard.
    #[error("{}: expected {expected} tensors of the language model, found {found}: {} missing{}", path_shown(dir), names(tensors, expected - found), shards(missing_shards))]
    Missing {
        /// The folder.
        dir: PathBuf,
        /// Tensors that the config demands.
        expected: u64,
        /// Tensors there.
        found: u64,
        /// The first of those missing, by their released names.
        tensors: Vec<String>,
        /// Files missing from the numbered series.
        missing_shards: Vec<String>,
    },
    /// The manifest of checksums is damaged or belongs to other files.
    #[error("{}: expected {expected}, found {found}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// Bytes are not those that the manifest was written for.
    #[error(
        "{shard}: {what}: the {len} bytes at offset {offset} have changed since the manifest was written"
    )]
    Altered {
        /// The file.
        shard: String,
        /// The tensor, by its released name, or the expert.
        what: String,
        /// Where the bytes begin in the file.
        offset: u64,
        /// How many there are.
        len: usize,
    },
    /// A read was asked for that is not of one tensor.
    #[error("a read of {wanted} bytes at offset {offset} of shard {shard} does not fit {found}")]
    Read {
        /// Index of the shard.
        shard: u16,
        /// Where the read begins.
        offset: u64,
        /// Bytes that the extent has.
        wanted: u64,
        /// What it was to be read from or into.
        found: String,
    },
}

impl Error {
    /// The way out, in one sentence; empty where there is none to give.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::File(error) if error.is_not_found() => {
                "Check that the folder is the model's folder and that its download is complete."
            }
            Self::File(error) if error.is_in_no_folder() => {
                "Name the model's folder, in which config.json and the shards lie, and not a file."
            }
            Self::File(file::Error::Short { .. }) => {
                "The file was cut short, perhaps while the program was running: download it again."
            }
            Self::File(file::Error::TooLarge { .. }) | Self::Json { .. } => {
                "The file is damaged: download it again."
            }
            Self::File(_) => "Check the disk and the permissions of the model's folder.",
            Self::Field { .. } => {
                "Dormouse runs Kimi K3 in its released form: take this file from the release again."
            }
            Self::NoShards { .. } => {
                "Check that the folder is the model's folder: shards and config.json lie side by side."
            }
            Self::TooManyShards { .. } => "Move whatever does not belong to the model out of its folder.",
            Self::Header { .. } => "The shard is damaged or its download is incomplete: download it again.",
            Self::Tensor { .. } => {
                "Shard and config.json do not fit each other, or the shard is damaged: take both from the same release."
            }
            Self::Duplicate { .. } => {
                "Files of two downloads are mixed: move the ones that do not belong out of the folder."
            }
            Self::Missing { missing_shards, .. } if missing_shards.is_empty() => {
                "Shards and config.json do not fit each other: take both from the same release."
            }
            Self::Missing { .. } => "Download the missing shards.",
            Self::Manifest { .. } => {
                "Write it again with `dormouse verify --seal`, or delete it to run unchecked."
            }
            Self::Altered { .. } => {
                "The disk gave other bytes than before: check it, and download the shard again."
            }
            Self::Read { .. } => "",
        }
    }
}

fn names(tensors: &[String], missing: u64) -> String {
    let rest = missing.saturating_sub(tensors.len() as u64);
    let list = tensors.join(", ");
    if rest == 0 { list } else { format!("{list} and {rest} more") }
}

/// Shards named in a message; the rest is counted.
const SHOWN_SHARDS: usize = 8;

fn shards(missing: &[String]) -> String {
    if missing.is_empty() {
        return String::new();
    }
    let list = missing.iter().take(SHOWN_SHARDS).map(String::as_str).collect::<Vec<_>>().join(", ");
    match missing.len().saturating_sub(SHOWN_SHARDS) {
        0 => format!("; there is no {list}"),
        rest => format!("; there is no {list} and {rest} more shards"),
    }
}

/// Characters of text from a file that a message repeats.
const SHOWN_CHARS: usize = 120;

/// Text from a file as a message may show it: cut, and without anything that could move a cursor.
pub(super) fn shown(text: &str) -> String {
    let mut out = escaped(text.chars().take(SHOWN_CHARS));
    if text.chars().nth(SHOWN_CHARS).is_some() {
        out.push('…');
    }
    out
}

/// The name of a file as a message shows it.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path_shown(path), |name| shown(&name.to_string_lossy()))
}

/// A path as a message shows it: whole, since it may have to be found by it.
fn path_shown(path: &Path) -> String {
    escaped(path.to_string_lossy().chars())
}

/// Control characters and others that do not print are written as their numbers. Quotes stay as they are.
fn escaped(chars: impl Iterator<Item = char>) -> String {
    let mut out = String::new();
    for c in chars {
        match c {
            '"' | '\'' | '\\' => out.push(c),
            c => out.extend(c.escape_debug()),
        }
    }
    out
}

/// What the JSON parser says: it may repeat text of the file at any length, and ends with line and column.
pub(super) fn json(file: String, place: String, problem: &serde_json::Error) -> Error {
    let text = problem.to_string();
    let at = format!(" at line {} column {}", problem.line(), problem.column());
    let problem = match text.strip_suffix(&at) {
        Some(text) => shown(text) + &at,
        None => shown(&text),
    };
    Error::Json { file, place, problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_files_is_cut_and_escaped() {
        assert_eq!(shown("a\u{1b}[2Jb\n\u{9b}\u{202e}"), "a\\u{1b}[2Jb\\n\\u{9b}\\u{202e}");
        let long = shown(&"x".repeat(1000));
        assert_eq!(long.chars().count(), SHOWN_CHARS + 1);
        assert!(long.ends_with('…'));
        assert_eq!(file_name(Path::new("/models/\u{7}k3/a\u{1b}b.safetensors")), "a\\u{1b}b.safetensors");
    }

    #[test]
    fn a_list_of_what_is_missing_counts_the_rest() {
        let series: Vec<String> = (1..=10).map(|n| format!("s{n}")).collect();
        let error = Error::Missing {
            dir: "k3".into(),
            expected: 100,
            found: 90,
            tensors: vec!["a".into(), "b".into()],
            missing_shards: series,
        };
        let text = error.to_string();
        assert!(
            text.contains("expected 100 tensors of the language model, found 90: a, b and 8 more missing"),
            "{text}"
        );
        assert!(text.contains("there is no s1, s2, s3, s4, s5, s6, s7, s8 and 2 more shards"), "{text}");
        assert_eq!(error.hint(), "Download the missing shards.");
    }
}
