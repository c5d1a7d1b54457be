//! Who may use whom, and a few other rules of the house that no compiler checks.
//!
//! The tables stand in the docs of `src/lib.rs`. Code under `#[cfg(test)]` is exempt: a room's own tests may reach for
//! any other room to make their inputs.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[path = "layering/rules.rs"]
mod rules;
#[path = "layering/scan.rs"]
mod scan;
#[path = "layering/table.rs"]
mod table;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rules::Source;
use scan::Scan;
use table::Table;

/// Lines that a file of `src` may have.
const LONGEST: usize = 600;

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn house() -> Table {
    let lib = std::fs::read_to_string(src().join("lib.rs")).unwrap();
    Table::parse(&lib).unwrap_or_else(|fault| panic!("src/lib.rs: {fault}"))
}

/// Every Rust file of `src` but those that are only compiled for tests, in order.
fn sources() -> Vec<(Source, String)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        let mut entries: Vec<PathBuf> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let mut paths = Vec::new();
    walk(&src(), &mut paths);
    let files: Vec<(Source, String)> = paths
        .iter()
        .map(|path| (Source::at(path.strip_prefix(src()).unwrap()), std::fs::read_to_string(path).unwrap()))
        .collect();
    let test_only: BTreeSet<Vec<String>> = files
        .iter()
        .flat_map(|(source, text)| {
            let below = |module: &String| source.module.iter().chain([module]).cloned().collect();
            Scan::of(text).test_modules.iter().map(below).collect::<Vec<Vec<String>>>()
        })
        .collect();
    let in_test = |source: &Source| test_only.iter().any(|module| source.module.starts_with(module));
    files.into_iter().filter(|(source, _)| !in_test(source)).collect()
}

fn assert_none(what: &str, faults: &[String]) {
    assert!(faults.is_empty(), "{what}:\n  {}", faults.join("\n  "));
}

#[test]
fn every_arrow_is_in_the_table() {
    let (house, sources) = (house(), sources());
    assert!(sources.len() > 20, "only {} files were found", sources.len());
    let mut faults = Vec::new();
    let mut arrows = 0;
    for (source, text) in &sources {
        let scan = Scan::of(text);
        arrows += scan.uses.len();
        faults.extend(rules::arrows(source, &scan, &house));
    }
    assert!(arrows > 0, "the scanner sees no `crate::` path at all");
    assert_none("arrows that the table in src/lib.rs does not allow", &faults);
}

#[test]
fn the_tables_and_the_rooms_agree() {
    let house = house();
    let on_disk: BTreeSet<String> =
        sources().iter().filter_map(|(source, _)| source.room().map(str::to_owned)).collect();
    assert_none("rooms", &rules::rooms(&house, &on_disk));
}

#[test]
fn the_table_has_no_circle() {
    assert_eq!(house().circle(), None);
}

#[test]
fn unsafe_stays_in_the_rooms_that_need_it() {
    let faults: Vec<String> =
        sources().iter().flat_map(|(source, text)| rules::unsafe_code(source, &Scan::of(text))).collect();
    assert_none("unsafe code outside of kernels, store and sys", &faults);
}

#[test]
fn only_the_command_line_prints() {
    let faults: Vec<String> =
        sources().iter().flat_map(|(source, text)| rules::prints(source, &Scan::of(text))).collect();
    assert_none("printing outside of cli", &faults);
}

#[test]
fn no_file_is_too_long() {
    let faults: Vec<String> = sources()
        .iter()
        .map(|(source, text)| (source, text.lines().count()))
        .filter(|(_, lines)| *lines > LONGEST)
        .map(|(source, lines)| format!("{source}: {lines} lines; the most is {LONGEST}"))
        .collect();
    assert_none("files that want to be two", &faults);
}
