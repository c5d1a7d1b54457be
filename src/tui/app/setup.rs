//! Setting up the real model, as the screen holds it: the wizard's steps, the editor of the folder's name, and the trial,
//! for which the engine is ours to ask.

use super::{App, Effect, Engine};
use crate::config::{Paths, Preset};
use crate::protocol::{CancelFlag, Command, Finish, Outcome, Settings, TurnId, TurnRequest, UserError};
use crate::setup::doctor::Subject;
use crate::setup::download;
use crate::setup::wizard::{Act, Model, News, Order, Stage, Start, Step, Told, Verdict, Wizard};
use crate::tui::commands::Answer;
use crate::tui::composer::Composer;
use crate::tui::keymap::Context;
use crate::tui::models::SMALL;
use crate::units::Percent;

/// What the screen needs to set up the real model.
#[derive(Clone, Debug)]
pub struct SetUp {
    /// Where the wizard begins.
    pub start: Start,
    /// How the real model is fetched.
    pub fetch: download::Options,
    /// What the doctor looks at.
    pub subject: Subject,
    /// Where the user's files lie.
    pub paths: Paths,
}

/// What of it is shown over the chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The step of the wizard, where that is open.
    Steps,
    /// What the doctor found.
    Doctor,
}

/// Everything about setting up that the screen keeps.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) wizard: Wizard,
    pub(crate) shown: Shown,
    /// The editor of the folder's name.
    place: Composer,
    /// Rows that the page is scrolled by, once the user has scrolled it.
    top: Option<usize>,
    /// The first row that was drawn.
    first: usize,
    trial: Option<Trial>,
    /// Models that are being loaded and that nobody wants any more: what the engine says of them is not about the one that is
    /// wanted.
    stale: usize,
}

/// Another model than the chat's, in the engine.
#[derive(Debug)]
struct Trial {
    settings: Settings,
    turn: TurnId,
    cancel: CancelFlag,
    /// Whether the user wants no more of it.
    ended: bool,
}

impl Setup {
    /// The wizard as it begins, and its first orders.
    pub(super) fn new(start: Start) -> (Self, Vec<Order>) {
        let (wizard, orders) = Wizard::new(start);
        let mut place = Composer::default();
        place.set(wizard.place.clone());
        (Self { wizard, shown: Shown::Steps, place, top: None, first: 0, trial: None, stale: 0 }, orders)
    }
}

impl Setup {
    /// The editor of the folder's name.
    pub(super) const fn editor(&mut self) -> &mut Composer {
        &mut self.place
    }
}

impl App {
    /// What is shown over the chat, if anything is.
    pub(crate) fn setup_shown(&self) -> Option<(Shown, &Wizard)> {
        let setup = self.setup.as_ref()?;
        (setup.wizard.open || setup.shown == Shown::Doctor).then_some((setup.shown, &setup.wizard))
    }

    /// The greeting, which leaves the composer to the user.
    pub(crate) fn greeting(&self) -> Option<&Wizard> {
        let (shown, wizard) = self.setup_shown()?;
        (shown == Shown::Steps && wizard.step == Step::Welcome).then_some(wizard)
    }

    /// What covers the chat.
    pub(crate) fn setup_page(&self) -> Option<(Shown, &Wizard)> {
        self.setup_shown().filter(|_| self.greeting().is_none())
    }

    /// The editor of the folder's name.
    pub(crate) fn setup_place(&self) -> Option<&Composer> {
        self.setup.as_ref().map(|setup| &setup.place)
    }

    /// Lays the editor of the folder's name out.
    pub(crate) fn wrap_place(&mut self, columns: usize) {
        if let Some(setup) = &mut self.setup {
            setup.place.wrap(columns);
        }
    }

    /// Rows that the page is scrolled by, once the user has scrolled it.
    pub(crate) fn setup_top(&self) -> Option<usize> {
        self.setup.as_ref()?.top
    }

    /// The first row of the page that is seen.
    pub(crate) fn setup_first(&self) -> usize {
        self.setup.as_ref().map_or(0, |setup| setup.first)
    }

    /// Takes in what of the page is seen on this screen: from which row on, and how far it can be scrolled.
    pub(crate) fn lay_setup(&mut self, first: usize, last: usize) {
        if let Some(setup) = &mut self.setup {
            setup.first = first;
            setup.top = setup.top.map(|top| top.min(last));
        }
    }

    /// How far the download is, in as few words as the header has room for.
    pub(crate) fn fetching(&self) -> Option<String> {
        let fetching = &self.setup.as_ref()?.wizard.fetching;
        let table = &fetching.table;
        let share = Percent::of(table.verified(), table.total());
        match &fetching.stage {
            Stage::Runs if table.total() == 0 => Some("Kimi K3: asking".to_owned()),
            Stage::Runs => Some(format!("Kimi K3 {share} here")),
            Stage::Paused | Stage::Stops { .. } => Some(format!("Kimi K3 paused at {share}")),
            Stage::Failed(_) => Some(format!("Kimi K3 stopped at {share}")),
            Stage::Idle | Stage::Done { .. } => None,
        }
    }

    /// Whether something of it changes with time alone.
    pub(super) fn setup_moves(&self) -> bool {
        self.setup_page().is_some_and(|(shown, wizard)| match wizard.step {
            _ if shown == Shown::Doctor => wizard.report.is_none(),
            Step::Machine => wizard.report.is_none(),
            Step::Verify => matches!(wizard.verdict, Verdict::Runs),
            Step::Memory => wizard.test.runs(),
            _ => false,
        })
    }

    /// The narrowest bindings where it has the keyboard.
    pub(super) fn setup_contexts(&self) -> Option<Vec<Context>> {
        let (shown, wizard) = self.setup_page()?;
        Some(match (shown, wizard.step) {
            (Shown::Doctor, _) => vec![Context::Page, Context::Anywhere],
            (Shown::Steps, Step::Place) => vec![Context::Setup, Context::Edit, Context::Anywhere],
            (Shown::Steps, Step::Download | Step::Memory) => {
                vec![Context::Pausable, Context::Setup, Context::Anywhere]
            }
            (Shown::Steps, _) => vec![Context::Setup, Context::Anywhere],
        })
    }

    /// Changes the folder's name, where that is asked for.
    pub(super) fn edit_place(&mut self, change: impl FnOnce(&mut Composer)) -> Vec<Effect> {
        let here = matches!(self.setup_page(), Some((Shown::Steps, wizard)) if wizard.step == Step::Place);
        // Other pages have nothing to write in.
        let Some(setup) = self.setup.as_mut().filter(|_| here) else { return Vec::new() };
        change(&mut setup.place);
        // A path is one line, however it was pasted.
        setup.place.join_lines();
        let text = setup.place.text().to_owned();
        let effects = self.setup_act(Act::Place(text));
        // Where it may not change it did not.
        if let Some(setup) = &mut self.setup
            && setup.place.text() != setup.wizard.place
        {
            setup.place.set(setup.wizard.place.clone());
        }
        effects
    }

    /// Hands an act to the wizard.
    pub(crate) fn setup_act(&mut self, act: Act) -> Vec<Effect> {
        let Some(setup) = &mut self.setup else { return Vec::new() };
        let before = (setup.wizard.step, setup.wizard.open);
        let orders = setup.wizard.act(act);
        if before != (setup.wizard.step, setup.wizard.open) {
            setup.top = None;
        }
        self.setup_orders(orders)
    }

    /// Whoever begins to write wants to chat.
    pub(super) fn leave_greeting(&mut self) -> Vec<Effect> {
        if self.greeting().is_some() { self.setup_act(Act::Leave) } else { Vec::new() }
    }

    /// Takes in what has come of an order.
    pub(super) fn setup_news(&mut self, news: News) -> Vec<Effect> {
        let Some(setup) = &mut self.setup else { return Vec::new() };
        let told = match &news {
            News::Fetched(_) | News::Verified(..) => !setup.wizard.open,
            _ => false,
        };
        let orders = setup.wizard.news(news);
        let notice = match (&setup.wizard.fetching.stage, &setup.wizard.verdict) {
            _ if !told => None,
            (Stage::Failed(failure), _) => {
                Some(format!("{}: /download shows the rest.", UserError::from(failure).title))
            }
            (Stage::Done { .. }, Verdict::Good(_)) => {
                Some("Kimi K3 is here, every byte checked: /setup tries it and changes to it.".to_owned())
            }
            (Stage::Done { .. }, Verdict::Bad(_)) => {
                Some("Kimi K3 was fetched and cannot be used: /setup shows why.".to_owned())
            }
            _ => None,
        };
        if let Some(notice) = notice {
            self.notify(notice);
        }
        self.setup_orders(orders)
    }

    pub(super) fn setup_orders(&mut self, orders: Vec<Order>) -> Vec<Effect> {
        let mut effects = Vec::new();
        for order in orders {
            match order {
                Order::Try(folder, preset) => effects.extend(self.begin_trial(folder, preset)),
                Order::EndTrial => effects.extend(self.end_trial()),
                Order::Close => effects.extend(self.load_own()),
                Order::Chat(Model::Small) => effects.extend(self.chat_small()),
                Order::Chat(Model::Real) => effects.extend(self.chat_real()),
                order => effects.push(Effect::Setup(order)),
            }
        }
        effects
    }

    fn begin_trial(&mut self, folder: std::path::PathBuf, preset: Preset) -> Vec<Effect> {
        if self.running.is_some() {
            return self.tried(Err(Told {
                title: "A turn is running".to_owned(),
                detail: "The model that answers must be put away for this one.".to_owned(),
                hint: format!("Wait for its end, or stop it with {} in the chat.", self.key_of("stop")),
            }));
        }
        let settings = Settings { model: folder, memory: preset.memory(), ..self.options.settings.clone() };
        let turn = TurnId(self.next_turn);
        self.next_turn += 1;
        let trial = Trial { settings: settings.clone(), turn, cancel: CancelFlag::default(), ended: false };
        self.overtake();
        if let Some(setup) = &mut self.setup {
            setup.trial = Some(trial);
        }
        self.engine = Engine::Loading;
        vec![Effect::Send(Command::Load(settings))]
    }

    fn end_trial(&mut self) -> Vec<Effect> {
        let Some(trial) = self.setup.as_mut().and_then(|setup| setup.trial.as_mut()) else {
            return Vec::new();
        };
        trial.ended = true;
        vec![Effect::Cancel(trial.cancel.clone())]
    }

    /// The model of the trial is loaded: one token of it.
    pub(super) fn trial_loaded(&mut self) -> Vec<Effect> {
        let Some(trial) = self.setup.as_ref().and_then(|setup| setup.trial.as_ref()) else {
            return Vec::new();
        };
        if trial.ended {
            return Vec::new();
        }
        let request = TurnRequest::trial(trial.turn, trial.cancel.clone());
        let mut effects = vec![Effect::Send(Command::Generate(Box::new(request)))];
        effects.extend(self.setup_news(News::Loaded));
        effects
    }

    /// The turn of the trial is over, if it was that one.
    pub(super) fn trial_finished(&mut self, turn: TurnId, outcome: &Outcome) -> Option<Vec<Effect>> {
        let trial = self.setup.as_ref()?.trial.as_ref()?;
        if trial.turn != turn {
            return None;
        }
        let seconds = outcome.took.first_token_s.unwrap_or(outcome.took.prefill_s);
        Some(match (&outcome.error, outcome.finish) {
            (Some(error), _) => self.trial_failed(error),
            // Whoever stopped it knows.
            (None, Finish::Cancelled) => Vec::new(),
            (None, _) => self.tried(Ok(seconds)),
        })
    }

    /// The engine broke, or could not load the model of the trial.
    pub(super) fn trial_failed(&mut self, error: &UserError) -> Vec<Effect> {
        let UserError { title, detail, hint, .. } = error.clone();
        self.tried(Err(Told { title, detail, hint }))
    }

    fn tried(&mut self, how: Result<f64, Told>) -> Vec<Effect> {
        self.setup_news(News::Tried(how))
    }

    /// Puts the chat's own model back where a trial has put another one in its place.
    fn load_own(&mut self) -> Vec<Effect> {
        match self.setup.as_mut().and_then(|setup| setup.trial.take()) {
            Some(_) => {
                self.overtake();
                self.reload()
            }
            None => Vec::new(),
        }
    }

    /// Another model is to be loaded: one that is being loaded is not wanted any more.
    fn overtake(&mut self) {
        if let Some(setup) = &mut self.setup
            && matches!(self.engine, Engine::Loading)
        {
            setup.stale += 1;
        }
    }

    /// Whether what the engine says of a model that it has loaded, or could not, is about one that nobody wants any more.
    pub(super) fn is_stale(&mut self) -> bool {
        match &mut self.setup {
            Some(setup) if setup.stale > 0 => {
                setup.stale -= 1;
                true
            }
            _ => false,
        }
    }

    /// The chat goes on with the model that comes with the program.
    fn chat_small(&mut self) -> Vec<Effect> {
        let mut effects = self.load_own();
        if !self.options.demo {
            match self.set_model(SMALL) {
                Ok(more) => effects.extend(more),
                Err(why) => self.notify(format!("This chat keeps {}. {why}", self.options.model_label)),
            }
        }
        effects
    }

    /// The chat goes on with the real model, in a conversation of its own.
    fn chat_real(&mut self) -> Vec<Effect> {
        let Some(setup) = &mut self.setup else { return Vec::new() };
        let Some(folder) = setup.wizard.folder() else { return Vec::new() };
        let memory = setup.wizard.preset.memory();
        let trial = setup.trial.take();
        let settings = Settings { model: folder, memory, ..self.options.settings.clone() };
        let name =
            settings.model.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        self.options.settings = settings;
        self.options.model_label.clone_from(&name);
        self.options.demo = false;
        self.options.suggestions.clear();
        let mut effects = self.new_conversation().unwrap_or_else(|problem| {
            self.notify(problem);
            Vec::new()
        });
        effects.push(Effect::Model(self.options.settings.model.clone(), name));
        // What was tried is what the engine has.
        if !matches!((&trial, &self.engine), (Some(trial), Engine::Ready(_)) if trial.settings == self.options.settings)
        {
            self.overtake();
            effects.extend(self.reload());
        }
        effects
    }

    /// Shows the wizard, where it was left.
    pub(crate) fn open_setup(&mut self) -> Answer {
        self.show_setup(|wizard| match wizard.step {
            Step::Welcome => Step::Machine,
            Step::Download if wizard.fetching.is_done() => Step::Verify,
            step => step,
        })
    }

    /// Shows the download.
    pub(crate) fn open_download(&mut self) -> Answer {
        let setup = self.setup.as_ref().ok_or(NOT_HERE)?;
        if matches!(setup.wizard.fetching.stage, Stage::Idle) {
            return Err("Nothing is being fetched; /setup begins.".to_owned());
        }
        self.show_setup(|_| Step::Download)
    }

    /// Shows what the doctor finds.
    pub(crate) fn open_doctor(&mut self) -> Answer {
        let setup = self.setup.as_mut().ok_or(NOT_HERE)?;
        setup.shown = Shown::Doctor;
        setup.top = None;
        Ok(self.setup_act(Act::Examine))
    }

    fn show_setup(&mut self, step: impl FnOnce(&Wizard) -> Step) -> Answer {
        let setup = self.setup.as_mut().ok_or(NOT_HERE)?;
        setup.shown = Shown::Steps;
        let step = step(&setup.wizard);
        Ok(self.setup_act(Act::Show(step)))
    }

    /// Closes the page.
    pub(crate) fn close_setup(&mut self) -> Vec<Effect> {
        let Some(setup) = &mut self.setup else { return Vec::new() };
        if setup.shown == Shown::Doctor {
            setup.shown = Shown::Steps;
            setup.top = None;
            return Vec::new();
        }
        self.setup_act(Act::Leave)
    }

    /// Up or down: among choices where there are any, else over the page.
    pub(crate) fn setup_move(&mut self, rows: isize) -> Vec<Effect> {
        let chooses = self.greeting().is_some()
            || self.setup_page().is_some_and(|(shown, wizard)| {
                shown == Shown::Steps && matches!(wizard.step, Step::Model | Step::Memory)
            });
        if chooses && rows.abs() == 1 {
            return self.setup_act(if rows < 0 { Act::Up } else { Act::Down });
        }
        self.scroll_setup(rows);
        Vec::new()
    }

    /// Scrolls the page by rows; negative is up.
    pub(super) fn scroll_setup(&mut self, rows: isize) {
        if let Some(setup) = &mut self.setup {
            setup.top = Some(setup.top.unwrap_or(setup.first).saturating_add_signed(rows));
        }
    }
}

const NOT_HERE: &str = "Setting up is not possible here.";
