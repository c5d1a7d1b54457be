//! What the screen knows, and how each message changes it. No thread, no terminal, no clock: time comes with the
//! messages, and what is to be done outside comes back as [`Effect`]s.

mod again;
mod attention;
mod branches;
mod commands;
mod context;
mod engine;
mod files;
mod forecast;
mod history;
mod keys;
mod mode;
mod model;
mod msg;
mod palette;
mod picker;
mod pulse;
mod queue;
mod recall;
mod setup;
mod sheet;
mod steps;

use self::again::Editing;
use self::branches::Branches;
use self::files::Files;
use self::forecast::Forecast;
pub(crate) use self::forecast::{ANSWER, Cost};
use self::history::History;
pub(crate) use self::keys::STATS_FROM;
pub(crate) use self::mode::Mode;
use self::model::Exchange;
pub(crate) use self::msg::{Effect, Msg};
use self::palette::Palette;
pub(crate) use self::picker::{Asking, Picker, Told};
pub(crate) use self::pulse::Pulse;
pub(crate) use self::queue::Queue;
pub use self::setup::SetUp;
use self::setup::Setup;
pub(crate) use self::setup::Shown;
pub(crate) use self::sheet::{Sheet, Tab, TokenRow};
pub(crate) use self::steps::Step;
use super::Options;
use super::composer::Composer;
use super::draft::Draft;
use super::keymap::Press;
use super::library::Wish;
use super::theme::{Background, Theme};
use super::transcript::{Facts, Scrollback};
use crate::chat::{Repetition, Transcript};
use crate::config::Remembered;
use crate::protocol::{
    CancelFlag, Command, LayerCost, Limits, ModelFacts, PauseFlag, Thinking, TurnId, UserError,
};
use crate::setup::wizard::Order;
use crate::units::Bytes;

/// Seconds that a notice stays.
const NOTICE_S: f64 = 6.0;

/// Seconds that the first one stays: loading takes a while.
const FIRST_NOTICE_S: f64 = 20.0;

/// What the engine is, as far as the screen was told.
#[derive(Clone, Debug)]
pub(crate) enum Engine {
    Loading,
    Ready(Box<ModelFacts>),
    /// It must be loaded again.
    Failed(UserError),
    /// Its thread has ended.
    Gone,
}

/// The turn that runs.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) turn: TurnId,
    cancel: CancelFlag,
    pause: PauseFlag,
    /// When the user sent it.
    pub(crate) began: f64,
    /// Whether it was asked to stop.
    pub(crate) stopping: bool,
    /// Its limits.
    limits: Limits,
    /// When the first piece of its thinking came.
    thinking_began: Option<f64>,
    /// The same of its answer.
    answer_began: Option<f64>,
    /// Tokens of its thinking.
    thinking_tokens: usize,
    /// Tokens of its answer.
    answer_tokens: usize,
    /// Whether it was to go on and would read something else than before: nothing of it counts.
    foreign: bool,
    /// What the model says over and over, if it does.
    pub(crate) repeats: Option<Repetition>,
}

/// A line that tells the user something for a while.
#[derive(Clone, Debug)]
pub(crate) struct Notice {
    pub(crate) text: String,
    until: f64,
}

/// The state of the screen.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) options: Options,
    pub(crate) theme: Theme,
    pub(crate) engine: Engine,
    /// The model that is being loaded in place of another.
    exchange: Option<Exchange>,
    /// What could not be done, until the user has read it.
    pub(crate) alert: Option<UserError>,
    pub(crate) running: Option<Running>,
    pub(crate) thinking: Thinking,
    /// How long a turn may think and answer.
    pub(crate) limits: Limits,
    pub(crate) transcript: Transcript,
    /// The system message that the session has.
    kept_system: Option<String>,
    /// What is known of each turn beside its text, in the order of the transcript.
    pub(crate) facts: Vec<Facts>,
    pub(crate) scrollback: Scrollback,
    /// Whether all thinking is shown or hidden; `None` shows it until the answer begins.
    pub(crate) show_thinking: Option<bool>,
    pub(crate) composer: Composer,
    /// What has the keys.
    pub(crate) mode: Mode,
    /// How many things were looked for.
    needles: u64,
    history: History,
    /// Keys that begin a sequence, of which more must come.
    pressed: Vec<Press>,
    /// The messages that wait for the running turn.
    pub(crate) queue: Queue,
    /// The files that the word at the caret may become.
    files: Files,
    /// Which of the completions is chosen.
    pub(crate) choice: usize,
    /// What is remembered from one start to the next: whether the panel of numbers is wanted, and more.
    pub(crate) remembered: Remembered,
    /// The numbers on the whole screen, where they are shown.
    pub(crate) sheet: Option<Sheet>,
    /// What each layer cost in the last pass.
    pub(crate) layers: Vec<LayerCost>,
    /// Whether the terminal has the keyboard, as far as it tells.
    focused: bool,
    /// Rows that the help is scrolled by, where it is open.
    pub(crate) help: Option<usize>,
    /// The palette, where it is open.
    pub(crate) palette: Option<Palette>,
    /// Whether the wheel is ours.
    pub(crate) mouse: bool,
    pub(crate) notice: Option<Notice>,
    /// Setting up the real model, where that is possible.
    setup: Option<Setup>,
    /// What it wants done first.
    first_orders: Vec<Order>,
    /// How the panel and the status line see the numbers.
    pub(crate) pulse: Pulse,
    /// The decoded tokens of the turn that runs, or ran last.
    pub(crate) steps: Vec<Step>,
    /// What the draft will cost.
    forecast: Forecast,
    /// How often Ctrl-C was pressed while the turn was already stopping.
    impatience: u32,
    /// Columns of the screen as it was last drawn.
    pub(crate) columns: u16,
    /// The session that the conversation is written to, once it is.
    pub(crate) session: Option<String>,
    /// Whether another program writes that session.
    pub(crate) read_only: bool,
    /// Bytes that wait for room on a full disk.
    pub(crate) disk_full: Option<Bytes>,
    pub(crate) branches: Branches,
    /// The message that is being written anew.
    editing: Option<Editing>,
    /// The sessions to choose from, where they are shown.
    pub(crate) picker: Option<Picker>,
    next_turn: u64,
}

impl App {
    /// A screen whose engine is being loaded.
    pub(crate) fn new(mut options: Options) -> Self {
        let opening = options.opening.take();
        let mut history = History::default();
        for text in std::mem::take(&mut options.earlier) {
            history.keep(&Draft::from(text));
        }
        let notice = options.notice.take().map(|text| Notice { text, until: FIRST_NOTICE_S });
        let (setup, first_orders) = options
            .setup
            .take()
            .map(|setup| Setup::new(setup.start))
            .map_or((None, Vec::new()), |(setup, orders)| (Some(setup), orders));
        let mut app = Self {
            setup,
            first_orders,
            thinking: options.thinking,
            limits: options.limits,
            remembered: options.remembered,
            theme: options.themes.theme(),
            session: None,
            read_only: false,
            disk_full: None,
            branches: Branches::default(),
            editing: None,
            picker: options.pick.then(Picker::default),
            next_turn: 1,
            facts: Vec::new(),
            options,
            engine: Engine::Loading,
            exchange: None,
            alert: None,
            running: None,
            kept_system: None,
            transcript: Transcript::default(),
            scrollback: Scrollback::default(),
            show_thinking: None,
            composer: Composer::default(),
            mode: Mode::default(),
            needles: 0,
            history,
            pressed: Vec::new(),
            queue: Queue::default(),
            files: Files::default(),
            choice: 0,
            sheet: None,
            layers: Vec::new(),
            focused: true,
            help: None,
            palette: None,
            mouse: true,
            notice,
            pulse: Pulse::default(),
            steps: Vec::new(),
            forecast: Forecast::default(),
            impatience: 0,
            columns: 0,
        };
        if let Some(opening) = opening {
            app.open(opening);
        }
        app
    }

    /// What there is to do when the screen comes up.
    pub(crate) fn start(&mut self) -> Vec<Effect> {
        let mut effects = vec![Effect::Send(Command::Load(self.options.settings.clone()))];
        let orders = std::mem::take(&mut self.first_orders);
        effects.extend(self.setup_orders(orders));
        if self.picker.is_some() {
            effects.push(Effect::Sessions(Wish::List));
        }
        if self.options.themes.follows_terminal() {
            effects.push(Effect::AskBackground);
        }
        effects
    }

    /// What there is to do when the screen is left.
    pub(crate) fn farewell(&mut self) -> Vec<Effect> {
        let mut effects = self.stop();
        effects.push(Effect::Send(Command::Shutdown));
        effects
    }

    /// Takes in what happened, and says what is to be done about it.
    pub(crate) fn update(&mut self, msg: Msg) -> Vec<Effect> {
        let mut effects = self.take_in(msg);
        if let Engine::Ready(facts) = &self.engine {
            let empty = Draft::default();
            let command = super::commands::is_command(self.composer.text());
            let draft = if command { &empty } else { self.composer.draft() };
            let asks = self.forecast.ask(facts, draft, &self.transcript, self.thinking);
            effects.extend(asks.into_iter().map(Effect::Count));
        }
        effects
    }

    fn take_in(&mut self, msg: Msg) -> Vec<Effect> {
        match msg {
            Msg::Clock(sample) => {
                self.pulse.observe(&sample);
                if self.notice.as_ref().is_some_and(|notice| notice.until <= self.now()) {
                    self.notice = None;
                }
                Vec::new()
            }
            Msg::Key(key) => {
                let mut effects = self.key(key);
                effects.extend(self.ask_for_files());
                effects
            }
            Msg::Paste(text) => {
                if self.sheet.is_some() {
                    return Vec::new();
                }
                if self.palette.is_some() {
                    return self.filter_palette(|filter| filter.push_str(&super::width::clean_line(&text)));
                }
                if self.setup_page().is_some() && self.help.is_none() {
                    return self.write(|line| line.insert(&text));
                }
                if self.picker.is_some() {
                    return self.write_in_picker(&text);
                }
                let mut effects = Vec::new();
                if self.help.is_none() {
                    effects = self.leave_greeting();
                    match self.mode {
                        Mode::Write | Mode::Browse(_) => {
                            self.mode = Mode::Write;
                            self.edit(|composer| composer.paste(&text));
                        }
                        Mode::Find(_) | Mode::Recall(_) => self.edit(|line| line.insert(&text)),
                    }
                }
                effects.extend(self.ask_for_files());
                effects
            }
            Msg::Listed { word, files } => self.listed(word, files),
            Msg::Attached { word, file } => self.attached(&word, file),
            Msg::Edited(draft) => self.edited(draft),
            Msg::Told(text) => {
                self.notify(text);
                Vec::new()
            }
            Msg::Wheel(notches) => {
                self.scroll(notches.saturating_mul(3));
                Vec::new()
            }
            Msg::Click => {
                let key = self.key_of("mouse");
                self.notify(format!(
                    "Shift and drag selects text; {key} gives the mouse back to the terminal."
                ));
                Vec::new()
            }
            Msg::Background(rgb) => {
                self.options.themes.tell(Background::of(rgb));
                self.theme = self.options.themes.theme();
                Vec::new()
            }
            Msg::Model(found) => self.found_model(found),
            Msg::Written(said) => {
                self.notify(said);
                Vec::new()
            }
            Msg::Setup(news) => self.setup_news(news),
            Msg::Focus(focused) => {
                self.focus(focused);
                Vec::new()
            }
            Msg::Layers(layers) => {
                self.layers = layers;
                Vec::new()
            }
            Msg::Engine(event) => self.engine_event(event),
            Msg::EngineGone => self.engine_gone(),
            Msg::Disk(missing) => self.disk(missing),
            Msg::Sessions(told) => self.sessions_told(told),
            Msg::EngineBusy => self.engine_busy(),
            Msg::Counted(counted) => {
                self.forecast.counted(&counted);
                self.composer.learn(&counted.draft);
                Vec::new()
            }
        }
    }

    /// Seconds by the clock of the numbers.
    pub(crate) fn now(&self) -> f64 {
        self.pulse.now().at
    }

    /// Digest of the model, once it is loaded.
    pub(crate) fn model_digest(&self) -> u64 {
        match &self.engine {
            Engine::Ready(facts) => facts.digest,
            Engine::Loading | Engine::Failed(_) | Engine::Gone => 0,
        }
    }

    /// Whether the costs of layers are shown anywhere.
    pub(crate) const fn shows_layers(&self) -> bool {
        self.sheet.is_some() || (self.remembered.panel && self.columns >= STATS_FROM)
    }

    /// Whether something on the screen changes with time alone.
    pub(crate) fn moves(&self) -> bool {
        self.running.is_some()
            || matches!(self.engine, Engine::Loading)
            || self.notice.is_some()
            || self.setup_moves()
            || self.disk_full.is_some()
    }

    /// What the draft will cost, where there is one and a model to read it.
    pub(crate) fn cost(&self) -> Option<Cost> {
        let Engine::Ready(facts) = &self.engine else { return None };
        let remembered = usize::try_from(self.pulse.now().context_used).unwrap_or(usize::MAX);
        self.forecast.cost(facts, &self.transcript, self.thinking, remembered)
    }

    /// Tells the user something.
    pub(crate) fn notify(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice { text: text.into(), until: self.now() + NOTICE_S });
    }

    fn scroll(&mut self, rows: isize) {
        if let Some(top) = &mut self.help {
            *top = top.saturating_add_signed(rows);
        } else if let Some(sheet) = &mut self.sheet {
            sheet.top = sheet.top.saturating_add_signed(rows);
        } else if self.setup_page().is_some() {
            self.scroll_setup(rows);
        } else {
            self.scrollback.scroll(rows);
        }
    }

    /// Keeps a message for Up, here and after the next start.
    fn remember(&mut self, draft: &Draft) -> Vec<Effect> {
        self.history.keep(draft);
        vec![Effect::Remember(draft.expanded())]
    }

    /// The editor was left.
    fn edited(&mut self, draft: Result<String, String>) -> Vec<Effect> {
        match draft {
            Ok(text) => {
                // Editors end the last line. Chips stay chips where nothing was changed.
                let bare = |text: &str| text.strip_suffix('\n').unwrap_or(text).to_owned();
                let text = bare(&text);
                if text != bare(&self.composer.draft().expanded()) {
                    self.mode = Mode::Write;
                    self.composer.set("");
                    self.edit(|composer| composer.insert(&text));
                }
            }
            Err(reason) => self.notify(format!("The draft is as it was: {reason}")),
        }
        Vec::new()
    }

    /// Changes what is being written: the name of a folder where that is asked for, else the text that has the keys.
    pub(crate) fn write(&mut self, change: impl FnOnce(&mut Composer)) -> Vec<Effect> {
        if self.setup_page().is_some() {
            return self.edit_place(change);
        }
        // Whoever begins to write wants to chat.
        let effects = self.leave_greeting();
        self.edit(change);
        effects
    }

    /// Moves the caret of what is being written.
    pub(crate) fn move_caret(&mut self, to: impl FnOnce(&mut Composer)) {
        if self.setup_page().is_some() {
            if let Some(setup) = &mut self.setup {
                to(setup.editor());
            }
        } else {
            self.go(to);
        }
    }
}
