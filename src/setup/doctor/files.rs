//! A checkpoint's files, and its tokenizer.

use std::path::{Path, PathBuf};

use super::{Check, Subject, Target};
use crate::checkpoint::{Checkpoint, Manifest};
use crate::setup::download::Published;
use crate::setup::verify::{self, Finding, Marks, Standing};
use crate::tokenizer::Tokenizer;

/// Files that are named one by one.
const NAMED: usize = 4;

/// What is known of the model's files.
pub(super) struct Files {
    pub(super) checks: Vec<Check>,
    /// The shards, if all is there.
    pub(super) shards: Vec<PathBuf>,
    /// Whether a download was begun here and not ended.
    pub(super) begun: bool,
}

/// Looks at the files in the target's folder; no weight is read.
pub(super) fn files(subject: &Subject, target: &Target) -> Files {
    const NAME: &str = "model";
    let folder = &target.folder;
    let published = Published::of(folder);
    if !target.holds_model && published.is_none() {
        let finding = "only the small one that comes with the program is here";
        return Files { checks: vec![Check::ok(NAME, finding)], shards: Vec::new(), begun: false };
    }
    let shown = folder.display();
    let known = published.as_ref().map(|published| verify::quick(folder, &published.files));
    let problems: Vec<String> = known.iter().flatten().filter_map(Finding::problem).collect();
    if !problems.is_empty() {
        let total = published.as_ref().map_or(0, |published| published.files.len());
        let more = problems.len().checked_sub(NAMED + 1).map(|more| format!("and {} more", more + 1));
        let named = problems.iter().take(NAMED).map(String::as_str).chain(more.as_deref());
        let named = named.collect::<Vec<_>>().join("; ");
        let finding = format!(
            "{shown}: {} of {total} files are missing or have another length: {named}",
            problems.len()
        );
        let advice = format!("`dormouse download {shown}` goes on where it was, and fetches only these.");
        // A download that was left is no fault, unless the model was asked for.
        let check = if target.holds_model && target.named {
            Check::fail(NAME, finding, advice)
        } else {
            Check::warn(NAME, finding, advice)
        };
        return Files { checks: vec![check], shards: Vec::new(), begun: true };
    }
    let checkpoint = match Checkpoint::open(folder) {
        Ok(checkpoint) => checkpoint,
        Err(error) => {
            let check = Check::fail(NAME, error.to_string(), error.hint());
            return Files { checks: vec![check], shards: Vec::new(), begun: false };
        }
    };
    let mut checks = vec![content(subject, &checkpoint, folder)];
    checks.push(match Tokenizer::load(folder, checkpoint.config().vocabulary) {
        Ok(tokenizer) => Check::ok("tokenizer", format!("{} ids", tokenizer.len())),
        Err(error) => {
            let advice = format!("`dormouse verify --repair --model {shown}` fetches its files again.");
            Check::fail("tokenizer", error.to_string(), advice)
        }
    });
    let shards = checkpoint.shards().iter().map(|source| source.path().to_owned()).collect();
    Files { checks, shards, begun: false }
}

/// Whether the content of a whole checkpoint was ever looked at.
fn content(subject: &Subject, checkpoint: &Checkpoint, folder: &Path) -> Check {
    const NAME: &str = "model";
    let shown = folder.display();
    let whole = format!(
        "{shown}: {} tensors in {} shards, {}",
        checkpoint.tensors(),
        checkpoint.shards().len(),
        crate::units::Bytes(checkpoint.tensor_bytes())
    );
    let sealed = match Manifest::read(checkpoint) {
        Ok(Some(_)) => ", sealed: every read is checked",
        Ok(None) => "",
        Err(error) => {
            let advice = format!("`dormouse verify --seal --model {shown}` writes it anew.");
            return Check::fail(NAME, format!("{whole}; its seal is not of these files: {error}"), advice);
        }
    };
    if crate::setup::published(&subject.paths, folder).is_some() {
        return Check::ok(NAME, format!("{whole}, compiled into the program{sealed}"));
    }
    match verify::standing(&subject.paths, folder) {
        Standing::Verified => {
            let day = Marks::read(&subject.paths, folder).day();
            let day = day.map_or_else(String::new, |day| format!(" on {day}"));
            Check::ok(NAME, format!("{whole}, held against their published digests{day}{sealed}"))
        }
        Standing::Unverified { files, of } => {
            let finding =
                format!("{whole}; {files} of {of} files were never held against their digests{sealed}");
            Check::warn(NAME, finding, format!("`dormouse verify --deep --model {shown}` does it."))
        }
        Standing::Unpublished => {
            let finding = format!("{whole}; nobody here knows their published digests{sealed}");
            let advice = format!(
                "`dormouse verify --repair --model {shown}` asks the hub for them and checks every byte."
            );
            Check::warn(NAME, finding, advice)
        }
    }
}
