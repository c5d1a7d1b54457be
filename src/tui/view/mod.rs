//! The screen as a function of the state: one file for each region.
//!
//! [`prepare`] lays out what the size of the screen decides (wrapped rows, the viewport); [`draw`] only reads.

mod alert;
mod composer;
mod conversation;
mod footer;
mod forecast;
mod gauge;
mod header;
mod heat;
mod help;
mod layout;
mod loading;
mod palette;
mod popup;
mod queue;
mod sessions;
mod setup;
mod sheet;
mod stats;
mod status;
mod tables;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

use self::layout::Areas;
use super::app::{App, Engine};
use super::transcript::Look;
use super::width;

/// Rows are no longer than a person reads well.
const READABLE: u16 = 120;

/// Lays out what is shown on a screen of this size.
pub(crate) fn prepare(app: &mut App, screen: Rect) {
    app.columns = screen.width;
    // The height of the composer depends on its wrapped rows, which depend on its width alone.
    for line in app.lines() {
        line.wrap(composer::columns(screen));
    }
    let Some(areas) = Areas::of(app, screen) else { return };
    if let Some(top) = app.help {
        app.help = Some(top.min(help::last(app, areas.above_footer(screen))));
    }
    setup::prepare(app, areas.above_footer(screen));
    let last = sheet::last(app, areas.above_footer(screen));
    if let Some(sheet) = &mut app.sheet {
        sheet.top = sheet.top.min(last);
    }
    let App { scrollback, transcript, facts, theme, show_thinking, mode, .. } = app;
    let look = Look {
        columns: usize::from(areas.text().width),
        thinking: *show_thinking,
        needle: mode.needle(),
        chosen: mode.chosen(),
        theme,
    };
    scrollback.prepare(transcript.turns(), facts, &look, usize::from(areas.conversation.height));
}

/// Draws the screen.
pub(crate) fn draw(app: &App, frame: &mut Frame<'_>) {
    let screen = frame.area();
    let Some(areas) = Areas::of(app, screen) else {
        let buffer = frame.buffer_mut();
        width::draw(buffer, screen.x, screen.y, screen.width, &Line::styled("too small", app.theme.dim));
        return;
    };
    let buffer = frame.buffer_mut();
    header::draw(app, areas.header, buffer);
    if let Some(wizard) = app.greeting() {
        setup::draw_welcome(app, wizard, areas.conversation, buffer);
    } else if app.transcript.turns().is_empty() {
        match app.engine {
            Engine::Loading => loading::draw(app, areas.conversation, buffer),
            _ => loading::draw_welcome(app, areas.conversation, buffer),
        }
    } else {
        conversation::draw(app, &areas, buffer);
    }
    if let Some(area) = areas.stats {
        stats::draw(app, area, buffer);
    }
    alert::draw(app, areas.alert, buffer);
    queue::draw(app, areas.queue, buffer);
    status::draw(app, areas.status, areas.footer.is_empty(), buffer);
    let caret = composer::draw(app, areas.composer, buffer);
    footer::draw(app, areas.footer, buffer);
    if app.sheet.is_some() {
        sheet::draw(app, areas.above_footer(screen), buffer);
    }
    if app.help.is_some() {
        help::draw(app, areas.above_footer(screen), buffer);
    }
    if app.help.is_some() || app.sheet.is_some() {
        return;
    }
    if app.setup_page().is_some() {
        if let Some(caret) = setup::draw(app, areas.above_footer(screen), buffer) {
            frame.set_cursor_position(caret);
        }
        return;
    }
    if let Some(picker) = &app.picker {
        if let Some(caret) = sessions::draw(app, picker, areas.above_footer(screen), buffer) {
            frame.set_cursor_position(caret);
        }
        return;
    }
    popup::draw(app, &areas, buffer);
    let caret = palette::draw(app, areas.above_footer(screen), buffer).or(caret);
    if let Some(caret) = caret {
        frame.set_cursor_position(caret);
    }
}
