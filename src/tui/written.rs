//! Files that the user writes for the screen: keys and themes. Both are tables of names and texts, and every complaint
//! about them names the line.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Error;

/// One line of such a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Counted from one.
    pub(super) line: usize,
    /// The table that it stands in; empty above all tables.
    pub(super) table: String,
    pub(super) name: String,
    pub(super) value: String,
}

/// The lines of a file, in its order. All that is no text in at most one table is refused.
pub(super) fn entries(path: &Path, text: &str) -> Result<Vec<Entry>, Error> {
    let line = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    let wrong =
        |at: usize, problem: String| Error::Written { path: path.to_owned(), line: line(at), problem };
    let parsed = DeTable::parse(text)
        .map_err(|error| wrong(error.span().unwrap_or_default().start, error.message().to_owned()))?;
    let mut found = Vec::new();
    let mut take = |table: &str, name: &Spanned<_>, value: &Spanned<DeValue<'_>>| {
        let at = name.span().start;
        let name: &std::borrow::Cow<'_, str> = name.get_ref();
        let DeValue::String(value) = value.get_ref() else {
            let kind = value.get_ref().type_str();
            return Err(wrong(at, format!("{} must be a text, found {kind}", name.escape_debug())));
        };
        let entry = Entry {
            line: line(at),
            table: table.to_owned(),
            name: name.to_string(),
            value: value.to_string(),
        };
        found.push((at, entry));
        Ok(())
    };
    for (name, value) in parsed.get_ref() {
        match value.get_ref() {
            DeValue::Table(table) => {
                for (inner, value) in table {
                    take(name.get_ref(), inner, value)?;
                }
            }
            _ => take("", name, value)?,
        }
    }
    found.sort_by_key(|(at, _)| *at);
    Ok(found.into_iter().map(|(_, entry)| entry).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        entries(Path::new("keys.toml"), text).unwrap_err().to_string()
    }

    #[test]
    fn lines_come_in_their_order() {
        let text = "# mine\nname = 'x'\n\n[b]\n\"ctrl-s\" = \"send\"\nz = \"\"\n[a]\nq = \"c\"\n";
        let found = entries(Path::new("f"), text).unwrap();
        let short: Vec<_> =
            found.iter().map(|e| (e.line, e.table.as_str(), e.name.as_str(), e.value.as_str())).collect();
        assert_eq!(
            short,
            [(2, "", "name", "x"), (5, "b", "ctrl-s", "send"), (6, "b", "z", ""), (8, "a", "q", "c")]
        );
        assert!(entries(Path::new("f"), "").unwrap().is_empty());
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        assert!(problem("a = 'b'\nc = \n").starts_with("keys.toml, line 2: "));
        assert!(problem("[x]\na = 'b'\na = 'c'\n").starts_with("keys.toml, line 3: "));
        assert_eq!(problem("[x]\n\na = 3\n"), "keys.toml, line 3: a must be a text, found integer");
        assert_eq!(problem("[x.y]\na = 'b'\n"), "keys.toml, line 1: y must be a text, found table");
    }
}
