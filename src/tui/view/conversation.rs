//! The rows of the conversation, and where the reader is when he has scrolled back.

use ratatui::buffer::Buffer;
use ratatui::text::Line;

use super::layout::Areas;
use crate::tui::app::App;
use crate::tui::numbers;
use crate::tui::width;

pub(super) fn draw(app: &App, areas: &Areas, buffer: &mut Buffer) {
    let text = areas.text();
    for (y, line) in (text.top()..text.bottom()).zip(app.scrollback.visible()) {
        width::draw(buffer, text.x, y, text.width, line);
    }
    if !app.scrollback.follows() && text.height > 0 {
        let hint = match app.scrollback.unseen() {
            0 => " ↓ Ctrl-End to the end ".to_owned(),
            unseen => format!(" ↓ {} below ", numbers::counted(unseen as u64, "new line")),
        };
        let hint = width::ellipsis(&hint, usize::from(text.width));
        let columns = u16::try_from(width::of(&hint)).unwrap_or(text.width);
        let x = text.right().saturating_sub(columns);
        width::draw(buffer, x, text.bottom() - 1, columns, &Line::styled(hint, app.theme.chosen));
    }
}
