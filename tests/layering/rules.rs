//! The rules, on what the scanner saw of one file. Each gives its complaints, with file and line.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use super::scan::{Scan, Target};
use super::table::Table;

/// Rooms that may have unsafe code: registers, aligned buffers, system calls.
const UNSAFE: [&str; 3] = ["kernels", "store", "sys"];

/// The room that prints.
const PRINTS: &str = "cli";

/// A file of `src`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Source {
    path: PathBuf,
    /// Its module, from the room on: empty for the roots of library and binary.
    pub(crate) module: Vec<String>,
}

impl Source {
    /// The file at a path below `src`.
    pub(crate) fn at(path: &Path) -> Self {
        let mut module: Vec<String> =
            path.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if module
            .last()
            .is_some_and(|name| name == "mod" || (module.len() == 1 && (name == "lib" || name == "main")))
        {
            module.pop();
        }
        Self { path: path.to_owned(), module }
    }

    /// The room that the file is in; the two roots are in none.
    pub(crate) fn room(&self) -> Option<&str> {
        self.module.first().map(String::as_str)
    }

    fn is_binary(&self) -> bool {
        self.path == Path::new("main.rs")
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "src/{}", self.path.display())
    }
}

/// Arrows that the table does not have. The library's root may only declare rooms, the binary's may use what it likes.
pub(crate) fn arrows(source: &Source, scan: &Scan, house: &Table) -> Vec<String> {
    if source.is_binary() {
        return Vec::new();
    }
    let room = source.room().unwrap_or("lib");
    let mut faults = Vec::new();
    for used in &scan.uses {
        let place = format!("{source}:{}", used.line);
        match &used.target {
            Target::Room(to) if house.allows(room, to) => {}
            Target::Room(to) if house.arrows.contains_key(to) => {
                faults.push(format!("{place}: {room} uses {to}"));
            }
            Target::Room(to) => faults.push(format!("{place}: `crate::{to}` is no room of the table")),
            Target::Root => faults.push(format!("{place}: names the crate's root as a whole")),
            Target::Super(count, name) if *count >= source.module.len() => {
                let name = name.as_deref().unwrap_or_default();
                faults.push(format!("{place}: leaves the room by `super`; write `crate::{name}`"));
            }
            Target::Super(..) => {}
        }
    }
    faults
}

/// Where map, table, `mod` lines and files disagree.
pub(crate) fn rooms(house: &Table, on_disk: &BTreeSet<String>) -> Vec<String> {
    let table: BTreeSet<String> = house.arrows.keys().cloned().collect();
    let listed =
        [("files in src", on_disk), ("mod lines", &house.modules), ("map", &house.map), ("table", &table)];
    let all: BTreeSet<&String> = listed.iter().flat_map(|(_, rooms)| rooms.iter()).collect();
    let mut faults = Vec::new();
    for room in all {
        for (what, rooms) in &listed {
            if !rooms.contains(room) {
                faults.push(format!("{room}: not in the {what}"));
            }
        }
    }
    for (from, allowed) in &house.arrows {
        if let super::table::Allowed::Rooms(rooms) = allowed {
            faults.extend(
                rooms.difference(&table).map(|to| format!("row of {from}: {to} is no room of the table")),
            );
        }
    }
    faults
}

/// Unsafe code where none belongs.
pub(crate) fn unsafe_code(source: &Source, scan: &Scan) -> Vec<String> {
    if source.room().is_some_and(|room| UNSAFE.contains(&room)) {
        return Vec::new();
    }
    scan.unsafe_lines.iter().map(|line| format!("{source}:{line}")).collect()
}

/// Printing where none belongs.
pub(crate) fn prints(source: &Source, scan: &Scan) -> Vec<String> {
    if source.is_binary() || source.room() == Some(PRINTS) {
        return Vec::new();
    }
    scan.prints.iter().map(|(line, name)| format!("{source}:{line}: {name}!")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "//! # The map of the house\n//! | [`low`] | x |\n//! | [`high`] | y |\n//! | [`cli`] | z |\n\
        //! # Who may use whom\n//! | `low` | |\n//! | `high` | `low` |\n//! | `cli` | everything |\n\
        pub mod low;\npub mod high;\npub mod cli;\n";

    fn house() -> Table {
        Table::parse(LIB).unwrap()
    }

    fn complaints(path: &str, text: &str) -> Vec<String> {
        arrows(&Source::at(Path::new(path)), &Scan::of(text), &house())
    }

    #[test]
    fn arrows_of_the_table_pass() {
        for (path, text) in [
            ("high/mod.rs", "use crate::low::X; use crate::high::y; use self::z; use super::high::x as _;"),
            ("high/part.rs", "use super::other; use crate::{high, low::{a, b}};"),
            ("high/part/deep.rs", "use super::super::other;"),
            ("cli/run.rs", "use crate::{high, low};"),
            ("main.rs", "use dormouse::cli; use dormouse::low;"),
        ] {
            let found = complaints(path, text);
            // `super` of a room is the root: the one exception above.
            let expected = usize::from(path == "high/mod.rs");
            assert_eq!(found.len(), expected, "{path}: {found:?}");
        }
    }

    #[test]
    fn every_other_arrow_is_a_fault_with_its_place() {
        assert_eq!(complaints("low/mod.rs", "\nuse crate::high::X;"), ["src/low/mod.rs:2: low uses high"]);
        for (path, text) in [
            ("low.rs", "fn f() { crate::high::x() }"),
            ("low/a.rs", "use crate::{low::b, high::c};"),
            ("high/a.rs", "use crate::cli;"),
            ("high/a.rs", "use crate::nowhere::X;"),
            ("high/a.rs", "use crate::*;"),
            ("low/a.rs", "use super::super::high;"),
            ("low/a.rs", "mod tests { use super::super::super::high; }"),
            ("lib.rs", "pub use crate::low::X;"),
            ("new/mod.rs", "use crate::low::X;"),
        ] {
            assert_eq!(complaints(path, text).len(), 1, "{path}: {text}");
        }
    }

    #[test]
    fn rooms_are_missed_wherever_they_are_missing() {
        let on_disk = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert!(rooms(&house(), &on_disk(&["low", "high", "cli"])).is_empty());
        assert_eq!(rooms(&house(), &on_disk(&["low", "high"])), ["cli: not in the files in src"]);
        assert_eq!(rooms(&house(), &on_disk(&["low", "high", "cli", "attic"])).len(), 3);
        let unlisted = Table::parse(&LIB.replace("//! | `high` | `low` |\n", "")).unwrap();
        assert_eq!(rooms(&unlisted, &on_disk(&["low", "high", "cli"])), ["high: not in the table"]);
        let unknown = Table::parse(&LIB.replace("`high` | `low` |", "`high` | `low`, `cellar` |")).unwrap();
        assert_eq!(rooms(&unknown, &on_disk(&["low", "high", "cli"])).len(), 1);
    }

    #[test]
    fn unsafe_and_printing_are_seen_outside_their_rooms() {
        let scan = Scan::of("unsafe fn f() {}\nfn g() { println!(\"x\"); }");
        let at = |path: &str| Source::at(Path::new(path));
        assert_eq!(unsafe_code(&at("tui/mod.rs"), &scan), ["src/tui/mod.rs:1"]);
        assert_eq!(prints(&at("tui/mod.rs"), &scan), ["src/tui/mod.rs:2: println!"]);
        assert!(unsafe_code(&at("kernels/avx2.rs"), &scan).is_empty());
        assert!(prints(&at("cli/run.rs"), &scan).is_empty());
    }
}
