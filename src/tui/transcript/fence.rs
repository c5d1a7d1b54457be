//! A block of code that has begun and may grow for long: its lines are final as they end.

use super::highlight::Lexer;

/// What opened the block.
#[derive(Clone, Debug)]
pub(super) struct Fence {
    mark: char,
    len: usize,
    indent: usize,
    /// Has read the lines that have ended.
    pub(super) lexer: Lexer,
    /// Whether a line of code has ended.
    pub(super) has_lines: bool,
}

impl Fence {
    /// The fence that a line opens at the top level, if it is one that needs no more of the parser.
    pub(super) fn opened_by(line: &str) -> Option<Self> {
        let inside = line.trim_start_matches(' ');
        let indent = line.len() - inside.len();
        let mark = inside.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let info = inside.trim_start_matches(mark);
        let len = inside.len() - info.len();
        // Escapes and entities are the parser's, and a backtick behind backticks makes them code within text.
        let plain = !info.contains(['\\', '&']) && (mark == '~' || !info.contains('`'));
        let fits = indent <= 3 && len >= 3 && plain;
        fits.then(|| Self { mark, len, indent, lexer: Lexer::new(info.trim()), has_lines: false })
    }

    /// Whether a line ends the block.
    pub(super) fn is_closed_by(&self, line: &str) -> bool {
        let inside = line.trim_start_matches(' ');
        let rest = inside.trim_start_matches(self.mark);
        line.len() - inside.len() <= 3 && inside.len() - rest.len() >= self.len && rest.trim().is_empty()
    }

    /// What a line holds behind the indentation that the fence has, too.
    pub(super) fn content<'a>(&self, line: &'a str) -> &'a str {
        let spaces = line.len() - line.trim_start_matches(' ').len();
        line.get(spaces.min(self.indent)..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_open_and_close_as_the_format_says() {
        for line in ["```", "```rust", "   ~~~~ a`b", "`````"] {
            assert!(Fence::opened_by(line).is_some(), "{line}");
        }
        for line in ["``", "    ```", "```a`b", "text", "", "```a&amp;"] {
            assert!(Fence::opened_by(line).is_none(), "{line}");
        }
        let fence = Fence::opened_by("  ````rust").unwrap();
        assert!(fence.is_closed_by("````") && fence.is_closed_by("   `````  "));
        for line in ["```", "    ````", "````x", "~~~~", ""] {
            assert!(!fence.is_closed_by(line), "{line}");
        }
        assert_eq!([" a", "  a", "    a", ""].map(|line| fence.content(line)), ["a", "a", "  a", ""]);
    }
}
