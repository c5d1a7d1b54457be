//! What each step says.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::Page;
use crate::config::Preset;
use crate::protocol::UserError;
use crate::setup::doctor::{Check, Status};
use crate::setup::download::ABOUT;
use crate::setup::wizard::{Holds, Model, Step, Test, Verdict, Wizard};
use crate::tui::app::App;
use crate::tui::numbers;
use crate::tui::view::gauge;
use crate::tui::view::header::DEMONSTRATION;
use crate::tui::view::loading::centred;
use crate::tui::width;
use crate::units::{Bytes, Seconds};

/// Fills the page of a step. Returns row and column of the caret, where something is being typed.
pub(super) fn rows(page: &mut Page<'_>, wizard: &Wizard) -> Option<(usize, usize)> {
    let mut caret = None;
    match wizard.step {
        // The greeting stands where the conversation will be, and the download has a page of its own kind.
        Step::Welcome | Step::Download => {}
        Step::Machine => machine(page, wizard),
        Step::Model => model(page, wizard),
        Step::Place => caret = place(page, wizard),
        Step::Verify => verify(page, wizard),
        Step::Memory => memory(page, wizard),
        Step::Ready => ready(page, wizard),
    }
    if let Some(problem) = &wizard.problem {
        page.gap();
        page.text(problem, page.app.theme.warn);
    }
    caret
}

/// The first screen of all: a greeting over the composer, which can be written in at once.
pub(in crate::tui::view) fn draw_welcome(app: &App, wizard: &Wizard, area: Rect, buffer: &mut Buffer) {
    let theme = &app.theme;
    let columns = usize::from(area.width.saturating_sub(2).min(72));
    let mut page = Page { app, columns, rows: Vec::new() };
    page.text("Welcome to Dormouse", theme.strong);
    page.text("It runs Kimi K3, a model of 2.78 trillion parameters, from this machine's disk.", theme.dim);
    page.gap();
    let small = format!("Chat now: {DEMONSTRATION}");
    choices(&mut page, wizard, &small, "Set up Kimi K3: 1.56 TB to fetch, also while you chat");
    page.gap();
    page.goes_on("chooses. Or just write.");
    centred(&page.rows, area, buffer);
}

fn choices(page: &mut Page<'_>, wizard: &Wizard, small: &str, real: &str) {
    for (model, text) in [(Model::Small, small), (Model::Real, real)] {
        choice(page, wizard.model == model, text);
    }
}

fn choice(page: &mut Page<'_>, chosen: bool, text: &str) {
    let theme = &page.app.theme;
    let (mark, style) = if chosen { (" ▸ ", theme.strong) } else { ("   ", theme.text) };
    page.marked(mark, theme.accent, text, style);
}

fn machine(page: &mut Page<'_>, wizard: &Wizard) {
    let theme = page.app.theme;
    page.title("What this machine can do");
    checks(page, &wizard.checks);
    page.gap();
    if let Some(report) = &wizard.report {
        page.text(&report.conclusion(), theme.text);
        page.gap();
        page.goes_on("goes on.");
    } else {
        let spinner = gauge::spinner(page.app.now());
        let key = page.app.key_of("go-on");
        page.text(&format!("{spinner} looking; {key} goes on without waiting"), theme.accent);
    }
}

/// What the doctor found, without the way that it is a step of.
pub(super) fn doctor(page: &mut Page<'_>, wizard: &Wizard) {
    checks(page, &wizard.checks);
    page.gap();
    if let Some(report) = &wizard.report {
        page.text(&report.conclusion(), page.app.theme.text);
        page.text(&format!("Next: {}", report.next), page.app.theme.dim);
    } else {
        let spinner = gauge::spinner(page.app.now());
        page.text(&format!("{spinner} looking"), page.app.theme.accent);
    }
}

/// What was found, one check under the other.
fn checks(page: &mut Page<'_>, checks: &[Check]) {
    let theme = page.app.theme;
    let names = checks.iter().map(|check| width::of(check.name)).max().unwrap_or(0);
    for check in checks {
        let (mark, style) = match check.status {
            Status::Ok => ("✓", theme.good),
            Status::Warn => ("!", theme.warn),
            Status::Fail => ("✗", theme.error),
        };
        let mark = format!(" {mark} {:names$}  ", check.name);
        page.marked(&mark, style, &check.finding, theme.text);
        if !check.advice.is_empty() {
            page.marked(&" ".repeat(width::of(&mark)), theme.dim, &check.advice, theme.dim);
        }
    }
}

fn model(page: &mut Page<'_>, wizard: &Wizard) {
    let theme = page.app.theme;
    page.title("Which model");
    choices(
        page,
        wizard,
        "The small one: comes with the program, answers at once, and is a demonstration",
        "Kimi K3: 96 shards, 1.56 TB of disk; each token reads 25 GB and more, which takes seconds to minutes",
    );
    page.gap();
    page.text(
        "The download can be left at any moment and goes on where it was. You can chat with the small model \
               meanwhile.",
        theme.dim,
    );
}

fn place(page: &mut Page<'_>, wizard: &Wizard) -> Option<(usize, usize)> {
    let theme = page.app.theme;
    page.title("Where Kimi K3 goes");
    page.text("A folder on a fast disk of this machine (NVMe):", theme.text);
    page.gap();
    let mark = " ❯ ";
    let editor = page.app.setup_place()?;
    let (row, column) = editor.caret_cell();
    let first = page.rows.len();
    for (number, content) in editor.rows().enumerate() {
        let mark = if number == 0 { mark } else { "   " };
        page.line(Line::from(vec![
            Span::styled(mark, theme.accent),
            Span::styled(content.to_owned(), theme.strong),
        ]));
    }
    page.gap();
    match wizard.look() {
        None => page.text("", theme.dim),
        Some(look) => {
            let said: (&str, Style) = match look.holds {
                Holds::Nothing => ("Nothing is there yet.", theme.text),
                Holds::Begun => ("A download was begun there; it goes on where it was.", theme.good),
                Holds::Complete => ("The model is there, and complete.", theme.good),
                Holds::Model => ("A model is there, and nothing need be fetched.", theme.good),
                Holds::NoFolder => ("That is a file.", theme.error),
                Holds::Closed => ("You may not write there.", theme.error),
            };
            page.text(said.0, said.1);
            let wanted = matches!(look.holds, Holds::Nothing | Holds::Begun);
            if let Some(free) = look.free.filter(|_| wanted) {
                page.text(&format!("Free on that disk: {}.", Bytes(free)), theme.text);
                if look.holds == Holds::Nothing && free < ABOUT {
                    let missing = Bytes(ABOUT - free);
                    page.text(
                        &format!("Kimi K3 needs {} (1.56 TB): about {missing} are missing.", Bytes(ABOUT)),
                        theme.warn,
                    );
                }
            }
        }
    }
    page.gap();
    page.goes_on("begins to fetch.");
    Some((first + row, width::of(mark) + column))
}

fn verify(page: &mut Page<'_>, wizard: &Wizard) {
    let theme = page.app.theme;
    page.title("Whether it is all there");
    match &wizard.verdict {
        Verdict::Open => page.goes_on("looks at the files."),
        Verdict::Runs => {
            let spinner = gauge::spinner(page.app.now());
            page.text(
                &format!("{spinner} holding headers, sizes and tensors against the config"),
                theme.accent,
            );
        }
        Verdict::Good(files) => {
            page.marked(
                " ✓ ",
                theme.good,
                &format!(
                    "{} tensors in {} shards, {}: headers, sizes and shapes are what the config demands",
                    numbers::grouped(files.tensors),
                    files.shards,
                    Bytes(files.bytes)
                ),
                theme.text,
            );
            if wizard.fetching.is_done() {
                page.marked(
                    " ✓ ",
                    theme.good,
                    "every byte was held against the digests that the hub publishes",
                    theme.text,
                );
            } else {
                page.text("Not every byte was looked at: `dormouse verify` does that.", theme.dim);
            }
            page.gap();
            page.goes_on("goes on.");
        }
        Verdict::Bad(failure) => {
            failed(page, &UserError::from(failure));
            page.gap();
            page.goes_on("fetches what is missing or damaged.");
        }
    }
}

fn memory(page: &mut Page<'_>, wizard: &Wizard) {
    let theme = page.app.theme;
    page.title("How much memory it gets");
    page.text("More memory makes the same answer faster, never different.", theme.text);
    page.gap();
    for offer in &wizard.offers {
        choice(page, wizard.preset == *offer, &offered(*offer));
    }
    page.gap();
    let spinner = gauge::spinner(page.app.now());
    match &wizard.test {
        Test::Open => {
            let pause = page.app.key_of("pause");
            page.goes_on(&format!("loads it and computes one token. {pause} does without."));
        }
        Test::Loads => {
            let now = page.app.pulse.now();
            let far = if now.load_total > 0 {
                format!(": {} of {}", Bytes(now.load_done), Bytes(now.load_total))
            } else {
                String::new()
            };
            page.text(&format!("{spinner} loading{far}"), theme.accent);
        }
        Test::Computes => {
            let now = page.app.pulse.now();
            let far = if now.layers > 0 {
                format!(", layer {} of {}", (now.layer + 1).min(now.layers), now.layers)
            } else {
                String::new()
            };
            page.text(&format!("{spinner} computing a token{far}"), theme.accent);
        }
        Test::Good(seconds) => {
            page.marked(
                " ✓ ",
                theme.good,
                &format!("it works: the token took {}", Seconds(*seconds)),
                theme.text,
            );
            page.goes_on("takes this budget.");
        }
        Test::Bad(told) => {
            page.marked(" ✗ ", theme.error, &told.title, theme.error);
            page.text(&told.detail, theme.text);
            page.text(&told.hint, theme.dim);
            page.goes_on("tries again; another budget may do better.");
        }
        Test::Skipped => page.goes_on("takes this budget, which was not tried."),
    }
}

fn offered(preset: Preset) -> String {
    match preset.memory() {
        Some(bytes) => format!("{:12} {} GB", preset.as_str(), bytes.0 / 1_000_000_000),
        None => format!("{:12} most of what is free, with room left for others", preset.as_str()),
    }
}

fn ready(page: &mut Page<'_>, wizard: &Wizard) {
    let theme = page.app.theme;
    page.title("Ready");
    if let Some(folder) = wizard.folder() {
        page.text(
            &format!("Kimi K3 in {}, with the budget `{}`.", folder.display(), wizard.preset.as_str()),
            theme.text,
        );
    }
    if let Test::Good(seconds) = wizard.test {
        page.text(&format!("A token took {}.", Seconds(seconds)), theme.text);
    }
    page.gap();
    match &wizard.configured {
        None => page.text("Writing the config file.", theme.dim),
        Some(Ok(path)) => page.text(
            &format!("{} says so from now on: `dormouse` alone chats with it.", path.display()),
            theme.text,
        ),
        Some(Err(failure)) => failed(page, &UserError::from(failure)),
    }
    page.gap();
    page.goes_on("chats with Kimi K3.");
}

fn failed(page: &mut Page<'_>, error: &UserError) {
    let theme = page.app.theme;
    page.marked(" ✗ ", theme.error, &error.title, theme.error);
    page.text(&error.detail, theme.text);
    page.text(&error.hint, theme.dim);
}
