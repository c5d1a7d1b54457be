//! The numbers on the whole screen: which table is shown, and how far it is scrolled.

use super::{App, Effect, Step};
use crate::tui::csv;

/// What the sheet shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tab {
    /// What the panel shows.
    #[default]
    Overview,
    /// Each layer in the last pass.
    Layers,
    /// Each token, the newest first.
    Tokens,
}

impl Tab {
    /// In the order in which they stand.
    pub(crate) const ALL: [Self; 3] = [Self::Overview, Self::Layers, Self::Tokens];

    /// How it is called.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Overview => "overview",
            Self::Layers => "layers",
            Self::Tokens => "tokens",
        }
    }
}

/// The sheet while it is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sheet {
    pub(crate) tab: Tab,
    /// Rows that are scrolled out above.
    pub(crate) top: usize,
}

/// A token in the table: its turn and its place in it, both counted from one, and what it took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TokenRow {
    pub(crate) turn: usize,
    pub(crate) token: usize,
    pub(crate) step: Step,
}

impl App {
    /// Opens or closes the sheet.
    pub(crate) fn toggle_sheet(&mut self) -> Vec<Effect> {
        self.sheet = if self.sheet.is_some() { None } else { Some(Sheet::default()) };
        Vec::new()
    }

    /// Shows the next table.
    pub(crate) fn next_tab(&mut self) -> Vec<Effect> {
        if let Some(sheet) = &mut self.sheet {
            let at = Tab::ALL.iter().position(|tab| *tab == sheet.tab).unwrap_or(0);
            let tab = Tab::ALL.get(at + 1).copied().unwrap_or_default();
            *sheet = Sheet { tab, top: 0 };
        }
        Vec::new()
    }

    /// Scrolls the sheet.
    pub(crate) fn scroll_sheet(&mut self, rows: isize) -> Vec<Effect> {
        if let Some(sheet) = &mut self.sheet {
            sheet.top = sheet.top.saturating_add_signed(rows);
        }
        Vec::new()
    }

    /// Writes the table that is shown to a file.
    pub(crate) fn write_sheet(&mut self) -> Vec<Effect> {
        let (name, text) = match self.sheet.unwrap_or_default().tab {
            Tab::Layers => ("layers", csv::layers(&self.layers)),
            Tab::Overview | Tab::Tokens => ("tokens", csv::tokens(&self.token_rows())),
        };
        vec![Effect::WriteTable { name, text }]
    }

    /// Shows the strip of layers by time or by misses.
    pub(crate) fn toggle_strip(&mut self) -> Vec<Effect> {
        self.remembered.misses = !self.remembered.misses;
        vec![Effect::Switched(self.remembered)]
    }

    /// Every token that was decoded since the program began, oldest first.
    pub(crate) fn token_rows(&self) -> Vec<TokenRow> {
        let mut rows = Vec::new();
        for (turn, said) in (1..).zip(self.transcript.turns()) {
            let Some(outcome) = &said.outcome else { continue };
            let steps = outcome.decode_s.iter().zip(&outcome.tokens);
            // The first one comes of the prompt, and those of before a cut were decoded then.
            let first = outcome.ids.len().saturating_sub(outcome.decode_s.len()) + 1;
            rows.extend((first..).zip(steps).map(|(token, (seconds, cost))| TokenRow {
                turn,
                token,
                step: Step { seconds: *seconds, cost: *cost },
            }));
        }
        if self.running.is_some() {
            let turn = self.transcript.turns().len();
            rows.extend((2..).zip(&self.steps).map(|(token, step)| TokenRow { turn, token, step: *step }));
        }
        rows
    }
}
