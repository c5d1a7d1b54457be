//! Which region gets which part of the screen. On a small screen the least needed ones give way first.

use ratatui::layout::Rect;

use super::{READABLE, alert, queue, stats};
use crate::tui::app::App;

/// Below this nothing useful fits.
const FLOOR: (u16, u16) = (12, 3);
/// Rows of the composer at most.
const COMPOSER_ROWS: u16 = 8;

/// The regions; one that has given way is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Areas {
    pub(super) header: Rect,
    pub(super) conversation: Rect,
    pub(super) stats: Option<Rect>,
    pub(super) alert: Rect,
    pub(super) queue: Rect,
    pub(super) status: Rect,
    /// With the rules around it where there is room for them.
    pub(super) composer: Rect,
    pub(super) footer: Rect,
}

impl Areas {
    /// The regions of a screen, or none where it is too small.
    pub(super) fn of(app: &App, screen: Rect) -> Option<Self> {
        if screen.width < FLOOR.0 || screen.height < FLOOR.1 {
            return None;
        }
        let height = screen.height;
        let header = u16::from(height >= 12);
        // Air around the conversation.
        let (above, below) = (u16::from(height >= 20), u16::from(height >= 14));
        let footer = u16::from(height >= 7);
        let rules = if height >= 10 { 2 } else { 0 };
        let rows = u16::try_from(app.line().rows().len()).unwrap_or(u16::MAX);
        let composer = rows.clamp(1, COMPOSER_ROWS.min((height / 3).max(1))) + rules;
        let rest = height.saturating_sub(header + above + below + footer + composer + 1);
        let alert = alert::height(app, screen.width).min(rest / 2 + rest % 2);
        let queue = queue::height(app).min((rest - alert) / 3);
        let mut y = screen.y;
        let mut take = |rows: u16| {
            let area = Rect { x: screen.x, y, width: screen.width, height: rows };
            y = y.saturating_add(rows);
            area
        };
        let header = take(header);
        take(above);
        let mut conversation = take(rest - alert - queue);
        take(below);
        let alert = take(alert);
        let queue = take(queue);
        let status = take(1);
        let composer = take(composer);
        let footer = take(footer);
        let stats = (app.remembered.panel && screen.width >= crate::tui::app::STATS_FROM).then(|| {
            let width = stats::WIDTH.min(screen.width);
            conversation.width -= width;
            let height = conversation.height + below;
            Rect { x: conversation.right(), width, height, ..conversation }
        });
        Some(Self { header, conversation, stats, alert, queue, status, composer, footer })
    }

    /// Where the rows of the conversation go.
    pub(super) fn text(&self) -> Rect {
        let Rect { x, width, .. } = self.conversation;
        Rect { x: x.saturating_add(1), width: width.saturating_sub(2).min(READABLE), ..self.conversation }
    }

    /// The whole screen but the footer.
    pub(super) const fn above_footer(&self, screen: Rect) -> Rect {
        Rect { height: screen.height.saturating_sub(self.footer.height), ..screen }
    }
}
