//! Carries orders out, each on a thread of its own, and tells what has come of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::place::Look;
use super::{Failure, Files, Kept, News, Order};
use crate::checkpoint::Checkpoint;
use crate::config::{self, Key, Paths, Preset};
use crate::setup::doctor::{self, Subject, Target};
use crate::setup::download::{self, Options};

/// Something that runs until it ends or is asked to.
struct Job {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Job {
    /// Asks it to come to an end.
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Carries out what concerns disks, the network and the config file. What it has begun and must not be torn off is brought
/// to an end when it is dropped.
pub struct Hands {
    /// How to fetch; the folder comes with the order.
    options: Options,
    /// What to examine.
    subject: Subject,
    paths: Paths,
    news: Sender<News>,
    download: Option<Job>,
    doctor: Option<Job>,
}

impl Hands {
    /// Hands for this user, and where they tell what has come of their orders.
    pub fn new(options: Options, subject: Subject, paths: Paths) -> (Self, Receiver<News>) {
        let (news, told) = unbounded();
        (Self { options, subject, paths, news, download: None, doctor: None }, told)
    }

    /// Begins to carry an order out. One that is not for these hands comes back.
    pub fn carry_out(&mut self, order: Order) -> Option<Order> {
        match order {
            Order::Examine(folder) => self.examine(&folder),
            Order::Look(folder) => self.aside("look", move |news| {
                let look = Look::at(&folder);
                let _ = news.send(News::Looked(folder, look));
            }),
            Order::Fetch(folder) => self.fetch(folder),
            Order::Pause => {
                if let Some(job) = &self.download {
                    job.stop();
                }
            }
            Order::Verify(folder) => self.aside("verify", move |news| {
                let files = verify(&folder);
                let _ = news.send(News::Verified(folder, files));
            }),
            Order::Keep(kept) => self.keep(&kept),
            Order::Configure(model, preset) => self.configure(&model, preset),
            Order::Try(..) | Order::EndTrial | Order::Close | Order::Chat(_) => return Some(order),
        }
        None
    }

    fn keep(&self, kept: &Kept) {
        // Where it cannot be written the way is as good, and only begins anew after a crash.
        let _ = kept.write(&self.paths.setup());
    }

    fn configure(&self, model: &Path, preset: Preset) {
        let model = model.display().to_string();
        let written = config::write(
            &self.paths,
            &[(Key::Model, &model), (Key::Preset, preset.as_str())],
            &[Key::Memory],
        );
        let told =
            written.map(|()| self.paths.config_file()).map_err(|error| Failure::Config(Arc::new(error)));
        let _ = self.news.send(News::Configured(told));
    }

    fn examine(&mut self, folder: &Path) {
        let subject = Subject { target: Target::at(folder), ..self.subject.clone() };
        self.doctor = self.job("doctor", move |stop, news| {
            let examined = doctor::examine(&subject, stop, &mut |check| {
                let _ = news.send(News::Check(check.clone()));
            });
            // Whoever stopped it asks no more.
            if let Ok(report) = examined {
                let _ = news.send(News::Examined(Box::new(report)));
            }
        });
    }

    fn fetch(&mut self, folder: PathBuf) {
        let options = Options { folder, ..self.options.clone() };
        self.download = self.job("download", move |stop, news| {
            let ended = download::run(&options, stop, &mut |event| {
                let _ = news.send(News::Fetch(event));
            });
            let _ = news.send(News::Fetched(ended.map_err(|error| Failure::Download(Arc::new(error)))));
        });
        if self.download.is_none() {
            let _ = self.news.send(News::Fetched(Err(Failure::NoThread)));
        }
    }

    /// Begins something that is asked now and then whether it should stop. None where the system has no thread to spare.
    fn job(
        &self,
        name: &str,
        work: impl FnOnce(&dyn Fn() -> bool, &Sender<News>) + Send + 'static,
    ) -> Option<Job> {
        let stop = Arc::new(AtomicBool::new(false));
        let (asked, news) = (Arc::clone(&stop), self.news.clone());
        let work = move || work(&|| asked.load(Ordering::Relaxed), &news);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(work).ok()?;
        Some(Job { stop, thread })
    }

    /// Does something short on a thread of its own, for a disk may sleep or be far away.
    fn aside(&self, name: &str, work: impl FnOnce(&Sender<News>) + Send + 'static) {
        let news = self.news.clone();
        // A system without a thread to spare has told so where it matters.
        let _ = thread::Builder::new().name(name.to_owned()).spawn(move || work(&news));
    }
}

impl Drop for Hands {
    fn drop(&mut self) {
        let jobs: Vec<Job> = [self.download.take(), self.doctor.take()].into_iter().flatten().collect();
        for job in &jobs {
            job.stop();
        }
        for job in jobs {
            // Each comes to its end within two seconds or so: it makes safe what came, and takes its probes away. One that
            // has panicked has ended as well.
            let _ = job.thread.join();
        }
    }
}

fn verify(folder: &Path) -> Result<Files, Failure> {
    let checkpoint = Checkpoint::open(folder).map_err(|error| Failure::Files(Arc::new(error)))?;
    Ok(Files {
        shards: checkpoint.shards().len(),
        tensors: checkpoint.tensors(),
        bytes: checkpoint.tensor_bytes(),
    })
}
