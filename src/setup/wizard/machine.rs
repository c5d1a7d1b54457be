//! The steps, and how one leads to the next.

use std::path::PathBuf;

use super::fetching::{Fetching, Stage};
use super::place::{self, Holds, Look};
use super::{Act, Failure, Files, Kept, Model, News, Order, Start, Step, Told};
use crate::config::Preset;
use crate::setup::doctor::{Check, Report};

/// What is known of the files.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Nothing yet.
    Open,
    /// They are being looked at.
    Runs,
    /// They are what the config demands.
    Good(Files),
    /// They are not.
    Bad(Failure),
}

/// What is known of the first token.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// Nothing yet.
    Open,
    /// The model is being loaded.
    Loads,
    /// The token is being computed.
    Computes,
    /// It took so many seconds.
    Good(f64),
    /// There was none.
    Bad(Told),
    /// The user does without.
    Skipped,
}

impl Test {
    /// Whether the engine is busy with it.
    pub const fn runs(&self) -> bool {
        matches!(self, Self::Loads | Self::Computes)
    }
}

/// The whole way, and where on it one is. What is shown is read from its fields.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and any of them may hold with any other"
)]
pub struct Wizard {
    /// The step that is shown.
    pub step: Step,
    /// Whether it is shown, or the chat is.
    pub open: bool,
    /// The model that is chosen.
    pub model: Model,
    /// What was found out about the machine so far.
    pub checks: Vec<Check>,
    /// All of it, once it is complete.
    pub report: Option<Box<Report>>,
    examining: bool,
    /// The folder of the real model, as typed.
    pub place: String,
    home: Option<PathBuf>,
    look: Option<(PathBuf, Look)>,
    /// Whether to go on as soon as the folder was looked at.
    hurried: bool,
    /// The download.
    pub fetching: Fetching,
    /// What is known of the files.
    pub verdict: Verdict,
    /// Budgets that this machine has the memory for.
    pub offers: Vec<Preset>,
    /// The one that is chosen.
    pub preset: Preset,
    /// What is known of the first token.
    pub test: Test,
    /// Where the config file was written, or why not.
    pub configured: Option<Result<PathBuf, Failure>>,
    /// Why it does not go on from this step, in a sentence.
    pub problem: Option<String>,
    done: bool,
    pub(super) kept: Option<Kept>,
}

impl Wizard {
    /// Begins, or goes on where an earlier run was.
    pub fn new(start: Start) -> (Self, Vec<Order>) {
        let fits = |preset: &Preset| {
            preset.memory().is_none_or(|bytes| start.memory == 0 || bytes.0 <= start.memory)
        };
        let mut offers = vec![Preset::Auto];
        offers.extend(Preset::ALL.into_iter().filter(|preset| *preset != Preset::Auto && fits(preset)));
        let kept = start.kept.filter(|kept| !kept.done);
        let preset = kept.as_ref().and_then(|kept| kept.preset.parse().ok());
        let mut wizard = Self {
            step: Step::Welcome,
            open: start.open || kept.as_ref().is_some_and(|kept| kept.open),
            model: if kept.is_some() || start.step.is_some() { Model::Real } else { Model::Small },
            checks: Vec::new(),
            report: None,
            examining: false,
            place: kept.as_ref().map_or_else(|| start.place.display().to_string(), |kept| kept.place.clone()),
            home: start.home,
            look: None,
            hurried: false,
            fetching: Fetching::default(),
            verdict: Verdict::Open,
            preset: preset.filter(|preset| offers.contains(preset)).unwrap_or(Preset::Auto),
            offers,
            test: Test::Open,
            configured: None,
            problem: None,
            done: false,
            kept: kept.clone(),
        };
        let mut orders = Vec::new();
        let mut step = start.step.unwrap_or(Step::Welcome);
        if let Some(kept) = kept {
            // What comes after it stands on what the files are like now.
            step = kept.step.min(Step::Verify);
            if let Some(folder) = wizard.folder()
                && kept.fetching
                && wizard.fetching.begin()
            {
                orders.push(Order::Fetch(folder));
            }
        }
        if wizard.open {
            orders.extend(wizard.enter(step));
        } else {
            wizard.step = step;
        }
        (wizard, orders)
    }

    /// The folder of the real model, where what was typed names one.
    pub fn folder(&self) -> Option<PathBuf> {
        place::folder(&self.place, self.home.as_deref())
    }

    /// What was found in it, if it was looked at.
    pub fn look(&self) -> Option<&Look> {
        let folder = self.folder()?;
        self.look.as_ref().filter(|(about, _)| *about == folder).map(|(_, look)| look)
    }

    /// Whether the files came some other way, so that there is nothing to fetch.
    pub fn is_there(&self) -> bool {
        matches!(self.look().map(|look| look.holds), Some(Holds::Model | Holds::Complete))
    }

    /// Takes in what the user does.
    pub fn act(&mut self, act: Act) -> Vec<Order> {
        self.problem = None;
        let mut orders = match act {
            Act::Next => self.next(),
            Act::Back => self.back(),
            Act::Up => self.choose(-1),
            Act::Down => self.choose(1),
            Act::Pause => self.pause(),
            Act::Place(text) => self.place(text),
            Act::Show(step) => {
                self.open = true;
                self.enter(step)
            }
            Act::Examine => self.examine(),
            Act::Leave => self.leave(Order::Close),
        };
        orders.extend(self.keep());
        orders
    }

    /// Takes in what has come of an order.
    pub fn news(&mut self, news: News) -> Vec<Order> {
        let mut orders = match news {
            News::Check(check) => {
                self.checks.push(check);
                Vec::new()
            }
            News::Examined(report) => {
                self.examining = false;
                self.report = Some(report);
                Vec::new()
            }
            News::Looked(folder, look) => {
                self.look = Some((folder, look));
                if std::mem::take(&mut self.hurried) && self.step == Step::Place {
                    self.next()
                } else {
                    Vec::new()
                }
            }
            News::Fetch(event) => {
                self.fetching.event(&event);
                Vec::new()
            }
            News::Fetched(how) => self.fetched(how),
            News::Verified(folder, how) => {
                // Whoever asked about another folder meanwhile gets that one's answer.
                if self.folder() == Some(folder) {
                    self.verdict = match how {
                        Ok(files) => Verdict::Good(files),
                        Err(failure) => Verdict::Bad(failure),
                    };
                }
                Vec::new()
            }
            News::Loaded => {
                if self.test == Test::Loads {
                    self.test = Test::Computes;
                }
                Vec::new()
            }
            News::Tried(how) => {
                if self.test.runs() {
                    self.test = how.map_or_else(Test::Bad, Test::Good);
                }
                Vec::new()
            }
            News::Configured(how) => {
                self.configured = Some(how);
                Vec::new()
            }
        };
        orders.extend(self.keep());
        orders
    }

    fn next(&mut self) -> Vec<Order> {
        match self.step {
            Step::Welcome if self.model == Model::Real => self.enter(Step::Machine),
            Step::Machine => self.enter(Step::Model),
            Step::Model if self.model == Model::Real => self.enter(Step::Place),
            Step::Welcome | Step::Model => self.leave(Order::Chat(Model::Small)),
            Step::Place => self.placed(),
            Step::Download => match self.fetching.stage {
                Stage::Done { .. } => self.enter(Step::Verify),
                Stage::Idle if self.is_there() => self.enter(Step::Verify),
                // It goes on while one chats.
                Stage::Runs => self.leave(Order::Close),
                _ => self.fetch(),
            },
            Step::Verify => match self.verdict {
                Verdict::Good(_) => self.enter(Step::Memory),
                Verdict::Runs => Vec::new(),
                Verdict::Open => self.verify(),
                Verdict::Bad(_) => {
                    let mut orders = self.enter(Step::Download);
                    orders.extend(self.fetch());
                    orders
                }
            },
            Step::Memory => match self.test {
                Test::Loads | Test::Computes => Vec::new(),
                Test::Good(_) | Test::Skipped => self.enter(Step::Ready),
                Test::Open | Test::Bad(_) => match self.folder() {
                    Some(folder) => {
                        self.test = Test::Loads;
                        vec![Order::Try(folder, self.preset)]
                    }
                    None => self.enter(Step::Place),
                },
            },
            Step::Ready => {
                self.done = true;
                self.leave(Order::Chat(Model::Real))
            }
        }
    }

    fn back(&mut self) -> Vec<Order> {
        let Some(mut before) = self.step.before() else { return self.leave(Order::Chat(Model::Small)) };
        let mut orders = self.end_trial();
        // What was never fetched here has no download to go back to.
        if before == Step::Download && matches!(self.fetching.stage, Stage::Idle) && self.is_there() {
            before = Step::Place;
        }
        orders.extend(self.enter(before));
        orders
    }

    fn choose(&mut self, by: isize) -> Vec<Order> {
        match self.step {
            Step::Welcome | Step::Model => self.model = if by < 0 { Model::Small } else { Model::Real },
            Step::Memory if !self.test.runs() => {
                let at = self.offers.iter().position(|offer| *offer == self.preset).unwrap_or(0);
                let to = at.saturating_add_signed(by).min(self.offers.len().saturating_sub(1));
                if let Some(preset) = self.offers.get(to)
                    && *preset != self.preset
                {
                    self.preset = *preset;
                    self.test = Test::Open;
                    self.configured = None;
                }
            }
            _ => {}
        }
        Vec::new()
    }

    fn pause(&mut self) -> Vec<Order> {
        match self.step {
            Step::Download if matches!(self.fetching.stage, Stage::Runs | Stage::Stops { again: true }) => {
                if self.fetching.pause() {
                    vec![Order::Pause]
                } else {
                    Vec::new()
                }
            }
            Step::Download if !self.fetching.is_done() => self.fetch(),
            Step::Memory => {
                let mut orders = self.end_trial();
                self.test = Test::Skipped;
                orders.extend(self.enter(Step::Ready));
                orders
            }
            _ => Vec::new(),
        }
    }

    fn place(&mut self, text: String) -> Vec<Order> {
        if text == self.place {
            return Vec::new();
        }
        if self.fetching.is_alive() {
            self.problem = Some("The download runs; pause it before you name another folder.".to_owned());
            return Vec::new();
        }
        let before = self.folder();
        self.place = text;
        self.hurried = false;
        let now = self.folder();
        if before == now {
            return Vec::new();
        }
        self.fetching = Fetching::default();
        self.verdict = Verdict::Open;
        self.test = Test::Open;
        self.configured = None;
        now.map(Order::Look).into_iter().collect()
    }

    /// The folder was chosen.
    fn placed(&mut self) -> Vec<Order> {
        let Some(folder) = self.folder() else {
            self.problem = Some("Name the folder by its whole path, like /data/k3 or ~/k3.".to_owned());
            return Vec::new();
        };
        let Some(look) = self.look() else {
            self.hurried = true;
            return vec![Order::Look(folder)];
        };
        match look.holds {
            Holds::NoFolder => {
                self.problem = Some("There is a file of that name, and no folder can be.".to_owned());
                Vec::new()
            }
            Holds::Closed => {
                let nearest = look.nearest.display();
                self.problem = Some(format!("{nearest} is not yours to write in; name another folder."));
                Vec::new()
            }
            Holds::Complete | Holds::Model if !self.fetching.is_alive() => self.enter(Step::Verify),
            _ if self.fetching.is_done() => self.enter(Step::Download),
            _ => {
                let mut orders = self.enter(Step::Download);
                orders.extend(self.fetch());
                orders
            }
        }
    }

    fn fetch(&mut self) -> Vec<Order> {
        let Some(folder) = self.folder() else { return self.enter(Step::Place) };
        self.verdict = Verdict::Open;
        if self.fetching.begin() { vec![Order::Fetch(folder)] } else { Vec::new() }
    }

    fn fetched(&mut self, how: Result<crate::setup::download::Summary, Failure>) -> Vec<Order> {
        let again = self.fetching.ended(how);
        match (again, self.folder()) {
            (true, Some(folder)) => vec![Order::Fetch(folder)],
            _ if !self.fetching.is_done() => Vec::new(),
            _ if self.open && self.step == Step::Download => self.enter(Step::Verify),
            _ => self.verify(),
        }
    }

    fn verify(&mut self) -> Vec<Order> {
        let Some(folder) = self.folder() else { return Vec::new() };
        self.verdict = Verdict::Runs;
        vec![Order::Verify(folder)]
    }

    fn enter(&mut self, step: Step) -> Vec<Order> {
        self.step = step;
        match step {
            Step::Machine if self.report.is_none() => self.examine(),
            // What is there may have changed since.
            Step::Place if !self.fetching.is_alive() => self.folder().map(Order::Look).into_iter().collect(),
            Step::Verify if matches!(self.verdict, Verdict::Open) && !self.fetching.is_alive() => {
                self.verify()
            }
            Step::Ready if !matches!(self.configured, Some(Ok(_))) => {
                self.configured = None;
                let preset = self.preset;
                self.folder().map(|folder| Order::Configure(folder, preset)).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn examine(&mut self) -> Vec<Order> {
        if self.examining {
            return Vec::new();
        }
        // What is typed may be no folder yet, and the machine is the same.
        let folder = self.folder().or_else(|| self.home.clone()).unwrap_or_else(|| PathBuf::from("/"));
        self.examining = true;
        self.checks.clear();
        self.report = None;
        vec![Order::Examine(folder)]
    }

    fn end_trial(&mut self) -> Vec<Order> {
        if !self.test.runs() {
            return Vec::new();
        }
        self.test = Test::Open;
        vec![Order::EndTrial]
    }

    fn leave(&mut self, order: Order) -> Vec<Order> {
        let mut orders = self.end_trial();
        self.open = false;
        orders.push(order);
        orders
    }

    /// Has it written down how far this is, where that has changed. Who only passed by the first step left nothing to go on
    /// with.
    fn keep(&mut self) -> Option<Order> {
        let now = Kept {
            step: self.step,
            open: self.open,
            place: self.place.clone(),
            fetching: self.fetching.is_wanted(),
            preset: self.preset.as_str().to_owned(),
            done: self.done,
        };
        if self.kept.as_ref() == Some(&now) || self.kept.is_none() && self.step == Step::Welcome {
            return None;
        }
        self.kept = Some(now.clone());
        Some(Order::Keep(now))
    }
}
