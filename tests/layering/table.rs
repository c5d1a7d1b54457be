//! The two tables in the docs of `src/lib.rs`.

use std::collections::{BTreeMap, BTreeSet};

/// What a room may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Allowed {
    Everything,
    Rooms(BTreeSet<String>),
}

/// The house as `src/lib.rs` describes it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// Who may use whom.
    pub(crate) arrows: BTreeMap<String, Allowed>,
    /// Rooms of the map.
    pub(crate) map: BTreeSet<String>,
    /// Rooms that are declared as modules.
    pub(crate) modules: BTreeSet<String>,
}

impl Table {
    /// Reads both tables and the `mod` lines.
    pub(crate) fn parse(lib: &str) -> Result<Self, String> {
        let mut table = Self { arrows: BTreeMap::new(), map: BTreeSet::new(), modules: BTreeSet::new() };
        let mut heading = "";
        for line in lib.lines() {
            if let Some(module) = line.strip_prefix("pub mod ").or_else(|| line.strip_prefix("mod ")) {
                table.modules.insert(module.trim_end_matches(';').to_owned());
            }
            let Some(docs) = line.strip_prefix("//!") else { continue };
            let docs = docs.trim();
            if let Some(text) = docs.strip_prefix("# ") {
                heading = text;
            }
            let Some(cells) = docs.strip_prefix('|').and_then(|row| row.strip_suffix('|')) else { continue };
            let (room, rest) = cells.split_once('|').ok_or_else(|| format!("a row of one cell: {docs}"))?;
            let quoted = |cell: &str| {
                cell.trim().trim_matches(['[', ']']).strip_prefix('`')?.strip_suffix('`').map(str::to_owned)
            };
            let Some(room) = quoted(room) else { continue };
            match heading {
                "The map of the house" => {
                    let new = table.map.insert(room.clone());
                    new.then_some(()).ok_or_else(|| format!("`{room}` is twice in the map"))?;
                }
                "Who may use whom" => {
                    let rest = rest.trim();
                    let allowed = if rest == "everything" {
                        Allowed::Everything
                    } else {
                        let cells = rest.split(',').filter(|cell| !cell.trim().is_empty());
                        let rooms: Option<BTreeSet<String>> = cells.map(quoted).collect();
                        Allowed::Rooms(rooms.ok_or_else(|| format!("row of `{room}`: cannot read `{rest}`"))?)
                    };
                    if table.arrows.insert(room.clone(), allowed).is_some() {
                        return Err(format!("`{room}` is twice in the table"));
                    }
                }
                _ => {}
            }
        }
        if table.arrows.is_empty() || table.map.is_empty() {
            return Err("the tables are not where they were".to_owned());
        }
        Ok(table)
    }

    /// Whether the table has an arrow. A room may use itself.
    pub(crate) fn allows(&self, from: &str, to: &str) -> bool {
        from == to
            || match self.arrows.get(from) {
                Some(Allowed::Everything) => true,
                Some(Allowed::Rooms(rooms)) => rooms.contains(to),
                None => false,
            }
    }

    /// Rooms that use each other, if the table lets any.
    pub(crate) fn circle(&self) -> Option<Vec<String>> {
        let mut left: BTreeMap<&str, BTreeSet<&str>> = self
            .arrows
            .keys()
            .map(|from| {
                let to = self.arrows.keys().filter(|to| *to != from && self.allows(from, to));
                (from.as_str(), to.map(String::as_str).collect())
            })
            .collect();
        // Take away rooms that use nobody who is left; what stays is a circle, or leads into one.
        while let Some(done) = left.iter().find(|(_, uses)| uses.is_empty()).map(|(room, _)| *room) {
            left.remove(done);
            for uses in left.values_mut() {
                uses.remove(done);
            }
        }
        (!left.is_empty()).then(|| left.keys().map(|room| (*room).to_owned()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "//! # The map of the house\n//! | room | what |\n//! | --- | --- |\n//! | [`a`] | x |\n//! | [`b`] | y |\n\
        //! # Who may use whom\n//! | room | may use |\n//! | --- | --- |\n//! | `a` | |\n//! | `b` | `a` |\n//! | `c` | everything |\n\
        pub mod a;\npub mod b;\n";

    #[test]
    fn both_tables_are_read() {
        let table = Table::parse(LIB).unwrap();
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(table.map, set(&["a", "b"]));
        assert_eq!(table.modules, set(&["a", "b"]));
        assert!(table.allows("b", "a") && table.allows("a", "a") && table.allows("c", "b"));
        assert!(!table.allows("a", "b") && !table.allows("unknown", "a"));
        assert_eq!(table.circle(), None);
    }

    #[test]
    fn what_cannot_be_read_is_no_empty_table() {
        assert!(Table::parse("pub mod a;").is_err());
        assert!(Table::parse(&LIB.replace("| `b` | `a` |", "| `b` | a and such |")).is_err());
        assert!(Table::parse(&LIB.replace("| `b` | `a` |", "| `a` | |")).is_err());
    }

    #[test]
    fn circles_are_found() {
        let table = Table::parse(&LIB.replace("| `a` | |", "| `a` | `b` |")).unwrap();
        assert_eq!(table.circle().unwrap(), ["a", "b", "c"]);
    }
}
