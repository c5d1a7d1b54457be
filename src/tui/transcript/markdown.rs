//! Markdown to styled rows.
//!
//! The source is cleaned text (see [`width`]); what the parser makes of it (entities!) is cleaned again before it is
//! kept. Line breaks of the source are kept, since models break lines where they mean it.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::highlight::Lexer;
use super::table::Table;
use super::wrap;
use crate::tui::theme::Theme;
use crate::tui::width;

/// One block of the top level, laid out.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Block {
    /// Where its first line begins in the source.
    pub(super) source: usize,
    /// Its rows, without a blank one before or after.
    pub(super) rows: Vec<Line<'static>>,
    /// Which of the rows are of code, for each block of code within.
    pub(super) code: Vec<Range<usize>>,
}

const OPTIONS: Options =
    Options::ENABLE_TABLES.union(Options::ENABLE_STRIKETHROUGH).union(Options::ENABLE_TASKLISTS);

/// What the blocks of code in a text hold, in their order.
pub(super) fn code_of(source: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut inside = false;
    for event in Parser::new_ext(source, OPTIONS) {
        match event {
            Event::Start(Tag::CodeBlock(_)) => {
                inside = true;
                out.push(String::new());
            }
            Event::End(TagEnd::CodeBlock) => inside = false,
            Event::Text(text) if inside => {
                if let Some(code) = out.last_mut() {
                    code.push_str(&text);
                }
            }
            _ => {}
        }
    }
    out
}

/// The rows of one line of a block of code.
pub(super) fn code_line(
    lexer: &mut Lexer,
    line: &str,
    columns: usize,
    (first, rest): (&Line<'static>, &Line<'static>),
    theme: &Theme,
    out: &mut Vec<Line<'static>>,
) {
    let mut spans = vec![("  ".to_owned(), theme.text)];
    spans.extend(lexer.line(line, theme));
    wrap::styled(&spans, columns, first, rest, out);
}

/// The blocks of `source` as rows of at most `columns`, each row beginning with `indent`.
pub(super) fn blocks(source: &str, columns: usize, indent: &Line<'static>, theme: &Theme) -> Vec<Block> {
    let mut renderer = Renderer::new(columns, indent, theme);
    let mut blocks: Vec<Block> = Vec::new();
    let mut depth = 0usize;
    for (event, range) in Parser::new_ext(source, OPTIONS).into_offset_iter() {
        let opens = matches!(event, Event::Start(_));
        let closes = matches!(event, Event::End(_));
        if depth == 0 && !closes {
            let before = source.get(..range.start).unwrap_or_default();
            let line = before.trim_end_matches(' ').len();
            let source = if before.get(..line).is_some_and(|text| text.is_empty() || text.ends_with('\n')) {
                line
            } else {
                range.start
            };
            blocks.push(Block { source, rows: Vec::new(), code: Vec::new() });
        }
        depth = if opens { depth + 1 } else { depth.saturating_sub(usize::from(closes)) };
        renderer.event(event);
        if depth == 0 {
            renderer.flush();
            if let Some(block) = blocks.last_mut() {
                block.rows.append(&mut renderer.rows);
                block.code.append(&mut renderer.code_rows);
            }
        }
    }
    blocks
}

/// What surrounds the text that is being laid out.
enum Container {
    Quote,
    /// An item with its mark, which only its first row shows.
    Item {
        mark: String,
        shown: bool,
    },
}

struct Renderer<'a> {
    columns: usize,
    indent: &'a Line<'static>,
    theme: &'a Theme,
    rows: Vec<Line<'static>>,
    /// The line that is being gathered.
    spans: Vec<(String, Style)>,
    styles: Vec<Style>,
    containers: Vec<Container>,
    /// Numbers of the open lists: the next one, or none for bullets.
    lists: Vec<Option<u64>>,
    links: Vec<String>,
    code: Option<(Lexer, String)>,
    code_rows: Vec<Range<usize>>,
    table: Option<Table>,
    /// Whether the next block wants a blank row before it.
    gap: bool,
}

impl<'a> Renderer<'a> {
    fn new(columns: usize, indent: &'a Line<'static>, theme: &'a Theme) -> Self {
        Self {
            columns,
            indent,
            theme,
            rows: Vec::new(),
            spans: Vec::new(),
            styles: Vec::new(),
            containers: Vec::new(),
            lists: Vec::new(),
            links: Vec::new(),
            code: None,
            code_rows: Vec::new(),
            table: None,
            gap: false,
        }
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(&text, None),
            Event::Code(text) => self.text(&text, Some(self.theme.code)),
            Event::InlineHtml(tag) if is_break(&tag) => self.line_break(),
            Event::Html(text) | Event::InlineHtml(text) => self.html(&text),
            Event::SoftBreak | Event::HardBreak => self.line_break(),
            Event::Rule => {
                self.begin_block();
                let (first, _) = self.prefixes();
                let room = self.columns.saturating_sub(width::of_line(&first)).min(40);
                self.spans.push(("─".repeat(room), self.theme.dim));
                self.flush();
                self.gap = true;
            }
            Event::TaskListMarker(done) => {
                self.spans.push((if done { "[x] " } else { "[ ] " }.to_owned(), self.theme.text));
            }
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                self.text(&text, None);
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.begin_block(),
            Tag::Heading { level, .. } => {
                self.begin_block();
                self.styles.push(if level <= HeadingLevel::H2 {
                    self.theme.heading
                } else {
                    self.theme.strong
                });
            }
            Tag::BlockQuote(_) => {
                self.begin_block();
                self.containers.push(Container::Quote);
            }
            Tag::CodeBlock(kind) => {
                self.begin_block();
                let info = match kind {
                    CodeBlockKind::Fenced(info) => width::clean_line(info.trim()),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((Lexer::new(&info), String::new()));
                if !info.is_empty() {
                    self.spans.push((info, self.theme.dim));
                    self.flush();
                }
            }
            Tag::List(first) => {
                self.flush();
                if self.lists.is_empty() {
                    self.begin_block();
                }
                self.lists.push(first);
            }
            Tag::Item => {
                self.flush();
                self.gap = false;
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let mark = format!("{number}. ");
                        *number = number.saturating_add(1);
                        mark
                    }
                    _ => "• ".to_owned(),
                };
                self.containers.push(Container::Item { mark, shown: false });
            }
            Tag::Table(alignments) => {
                self.begin_block();
                self.table = Some(Table::new(alignments));
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.begin_row();
                }
            }
            Tag::TableCell => self.spans.clear(),
            Tag::Emphasis => self.styles.push(self.theme.emphasis),
            Tag::Strong => self.styles.push(self.theme.strong),
            Tag::Strikethrough => self.styles.push(self.theme.struck),
            Tag::Link { dest_url, .. } => self.links.push(width::clean_line(&dest_url)),
            Tag::Image { dest_url, .. } => {
                self.text("image: ", Some(self.theme.dim));
                self.links.push(width::clean_line(&dest_url));
            }
            Tag::FootnoteDefinition(_)
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::Superscript
            | Tag::Subscript
            | Tag::MetadataBlock(_) => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.end_block(),
            TagEnd::Heading(_) => {
                self.styles.pop();
                self.end_block();
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.containers.pop();
                self.gap = true;
            }
            TagEnd::CodeBlock => {
                if let Some((lexer, code)) = self.code.take() {
                    self.code_block(lexer, &code);
                }
                self.gap = true;
            }
            TagEnd::List(_) => {
                self.flush();
                self.lists.pop();
                self.gap = self.lists.is_empty();
            }
            TagEnd::Item => {
                // An item without text still shows its mark.
                if matches!(self.containers.last(), Some(Container::Item { shown: false, .. })) {
                    self.emit();
                } else {
                    self.flush();
                }
                self.containers.pop();
                self.gap = false;
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    let (first, _) = self.prefixes();
                    let room = self.columns.saturating_sub(width::of_line(&first));
                    for row in table.rows(room, self.theme) {
                        let (mut line, _) = self.prefixes();
                        line.spans.extend(row.spans);
                        self.rows.push(line);
                        self.mark_shown();
                    }
                }
                self.gap = true;
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.spans);
                if let Some(table) = &mut self.table {
                    table.push_cell(cell);
                }
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => self.end_link(),
            _ => {}
        }
    }

    /// A link shows its address, since nobody can hover over it, unless its text is the address.
    fn end_link(&mut self) {
        let Some(url) = self.links.pop() else { return };
        let shown = self.spans.last().map_or("", |(text, _)| text.as_str());
        if !url.is_empty() && shown != url && url.strip_prefix("mailto:") != Some(shown) {
            self.spans.push((" (".to_owned(), self.theme.dim));
            self.spans.push((url, self.theme.link));
            self.spans.push((")".to_owned(), self.theme.dim));
        }
    }

    fn code_block(&mut self, mut lexer: Lexer, code: &str) {
        let begin = self.rows.len();
        for line in code.strip_suffix('\n').unwrap_or(code).split('\n') {
            let (first, rest) = self.prefixes();
            code_line(&mut lexer, line, self.columns, (&first, &rest), self.theme, &mut self.rows);
            self.mark_shown();
        }
        self.code_rows.push(begin..self.rows.len());
    }

    fn text(&mut self, text: &str, style: Option<Style>) {
        if let Some((_, code)) = &mut self.code {
            code.push_str(&width::clean(text));
            return;
        }
        let own = self.styles.iter().copied().chain(style);
        let style = own.fold(self.theme.text, Style::patch);
        self.spans.push((width::clean_line(text), style));
    }

    fn html(&mut self, text: &CowStr<'_>) {
        let text = width::clean(text);
        let mut lines = text.split('\n').peekable();
        while let Some(line) = lines.next() {
            self.spans.push((line.to_owned(), self.theme.dim));
            if lines.peek().is_some() {
                self.line_break();
            }
        }
    }

    fn line_break(&mut self) {
        if self.table.is_some() {
            self.spans.push((" ".to_owned(), self.theme.text));
        } else {
            self.emit();
        }
    }

    fn begin_block(&mut self) {
        self.flush();
        if std::mem::take(&mut self.gap) && !self.rows.is_empty() {
            let (_, rest) = self.prefixes();
            self.rows.push(rest);
        }
    }

    fn end_block(&mut self) {
        self.flush();
        self.gap = true;
    }

    /// Lays out what was gathered, if anything was.
    fn flush(&mut self) {
        if !self.spans.is_empty() && self.table.is_none() {
            self.emit();
        }
    }

    /// Lays out what was gathered as a line of its own, also where it is empty.
    fn emit(&mut self) {
        let (first, rest) = self.prefixes();
        let spans = std::mem::take(&mut self.spans);
        wrap::styled(&spans, self.columns, &first, &rest, &mut self.rows);
        self.mark_shown();
    }

    fn mark_shown(&mut self) {
        for container in &mut self.containers {
            if let Container::Item { shown, .. } = container {
                *shown = true;
            }
        }
    }

    /// What the next row begins with, and what the rows after it begin with. Where the containers leave too little
    /// room for text, the innermost are not shown.
    fn prefixes(&self) -> (Line<'static>, Line<'static>) {
        let mut first = self.indent.clone();
        let mut rest = self.indent.clone();
        let limit = self.columns / 2;
        for container in &self.containers {
            let (mark, blank, style) = match container {
                Container::Quote => ("│ ".to_owned(), "│ ".to_owned(), self.theme.dim),
                Container::Item { mark, shown } => {
                    let blank = " ".repeat(width::of(mark));
                    (if *shown { blank.clone() } else { mark.clone() }, blank, self.theme.accent)
                }
            };
            if width::of_line(&rest) + width::of(&blank) > limit {
                break;
            }
            first.spans.push(Span::styled(mark, style));
            rest.spans.push(Span::styled(blank, style));
        }
        (first, rest)
    }
}

fn is_break(tag: &str) -> bool {
    matches!(tag.to_ascii_lowercase().as_str(), "<br>" | "<br/>" | "<br />")
}

#[cfg(test)]
mod tests;
