//! The annotation app, on threads of its own while Python goes on.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nextpair::annotate::{Project, Server, Settings};
use nextpair::core::Error;
use nextpair::data::dataset::Dataset;
use nextpair::data::queue::{AnswerLog, PicksFile};
use nextpair::encode::DatasetEncoders;
use nextpair::scenario::Inbox;
use nextpair::{ExperimentSource, PicksSource, Side};
use pyo3::prelude::*;
use tokio::sync::oneshot;

use crate::errors::{self, Failure};
use crate::work::How;

/// The most threads that read and write files at once.
const BLOCKING: usize = 16;

/// What is asked, and how the app is to be.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct GivenApp {
    /// A file of picks, or the folder of an experiment.
    target: PathBuf,
    /// The dataset of the picks; an experiment knows its own.
    dataset: Option<PathBuf>,
    pool_side: String,
    address: String,
    public_url: Option<String>,
    database: Option<String>,
    sign_in: bool,
    invite: Vec<String>,
    reviewers: Vec<String>,
    review: Option<f64>,
    captions: usize,
    annotators: usize,
    language: Option<String>,
    guidelines: Option<String>,
    price: Option<f64>,
    /// Seconds for second thoughts; the lead closes rounds if there is none.
    grace: Option<f64>,
    /// Images that people may choose for texts, beside those of the dataset.
    images: Option<PathBuf>,
}

/// What an app asks about.
enum Asked {
    Picks { ids: Vec<String>, answers: PathBuf, closed: Arc<AtomicBool> },
    Experiment(PathBuf),
}

/// An app that people can reach.
#[pyclass(frozen, module = "nextpair._engine")]
pub(crate) struct App {
    asked: Asked,
    address: SocketAddr,
    invitations: Vec<(String, String)>,
    running: Mutex<Option<Running>>,
}

struct Running {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Result<(), Failure>>,
}

#[pymethods]
impl App {
    /// Starts the app; it is reached when this returns.
    #[new]
    fn new(py: Python<'_>, given: GivenApp, how: How<'_>) -> PyResult<Self> {
        how.work(py, move |_| start(given))
    }

    #[getter]
    fn address(&self) -> String {
        self.address.to_string()
    }

    /// The links that sign the lead and other people in.
    #[getter]
    fn invitations(&self) -> Vec<(String, String)> {
        self.invitations.clone()
    }

    /// Answers so far that were handed over, and all that are asked for.
    fn answered(&self, py: Python<'_>) -> PyResult<(usize, usize)> {
        py.detach(|| self.asked.answered()).map_err(|failure| errors::raise(py, failure))
    }

    /// The file of the answers.
    #[getter]
    fn answers(&self) -> PathBuf {
        match &self.asked {
            Asked::Picks { answers, .. } => answers.clone(),
            Asked::Experiment(folder) => {
                nextpair::scenario::ExperimentFolder::new(folder).answers()
            }
        }
    }

    #[getter]
    fn is_running(&self) -> bool {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_ref().is_some_and(|running| !running.thread.is_finished())
    }

    /// Stops the app and waits until everything is stored.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Running { stop, thread }) = running else { return Ok(()) };
        let ended = py.detach(|| {
            // It may have ended by itself.
            let _ = stop.send(());
            thread.join()
        });
        match ended {
            Ok(ended) => ended.map_err(|failure| errors::raise(py, failure)),
            Err(_) => Err(errors::panicked(py, "the annotation app")),
        }
    }
}

impl Asked {
    fn answered(&self) -> Result<(usize, usize), Failure> {
        match self {
            Asked::Picks { ids, answers, closed } => {
                // Before the log is read: the round is closed after its answers are there.
                let closed = closed.load(Ordering::Acquire);
                let log = AnswerLog::open(answers)?;
                let answered = ids.iter().filter(|id| log.of(id).next().is_some()).count();
                // What nobody answered is asked no more.
                Ok((answered, if closed { answered } else { ids.len() }))
            }
            Asked::Experiment(folder) => {
                let inbox = Inbox::open(folder)?;
                match inbox.batch()? {
                    Some(batch) => Ok((inbox.answered(&batch)?, batch.tasks.len())),
                    None => Ok((0, 0)),
                }
            }
        }
    }
}

fn start(given: GivenApp) -> Result<App, Failure> {
    let (project, asked) = project(&given)?;
    let settings = given.settings(matches!(asked, Asked::Experiment(_)));
    let address: SocketAddr =
        given.address.parse().map_err(|error| Failure::Setting(format!("host, port: {error}")))?;
    settings.check(address)?;
    let cannot = |error| Error::io(Path::new(&given.address), error);
    let listener = TcpListener::bind(address).map_err(cannot)?;
    listener.set_nonblocking(true).map_err(cannot)?;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().worker_threads(2).max_blocking_threads(BLOCKING).build();
    let runtime = runtime.map_err(cannot)?;
    let server = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).map_err(cannot)?;
        Ok::<_, Failure>(Server::open(listener, project, &settings).await?)
    })?;
    let invitations = server.invitations().iter();
    let invitations = invitations.map(|one| (one.name.clone(), one.link.clone())).collect();
    let address = server.address();
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::Builder::new().name("nextpair-app".to_owned()).spawn(move || {
        let stopped = async {
            // Nobody can stop it any more, if the sender is gone: then it is to stop.
            let _ = stopped.await;
        };
        Ok::<_, Failure>(runtime.block_on(server.run(stopped, std::future::pending()))?)
    });
    let thread = thread.map_err(cannot)?;
    let running = Mutex::new(Some(Running { stop, thread }));
    Ok(App { asked, address, invitations, running })
}

/// What people are asked about.
fn project(given: &GivenApp) -> Result<(Project, Asked), Failure> {
    let target = &given.target;
    if target.is_dir() {
        let inbox = Inbox::open(target)?.with_source(Arc::new(DatasetEncoders));
        let (dataset, pool) = (inbox.dataset().clone(), inbox.pool());
        let places = given.images.iter().cloned().collect();
        let source = Box::new(ExperimentSource::new(inbox).with_images(places));
        return Ok((Project { dataset, pool, source }, Asked::Experiment(target.clone())));
    }
    let Some(folder) = &given.dataset else {
        let what = "dataset: picks are about the items of one; give it";
        return Err(Failure::Setting(what.to_owned()));
    };
    let dataset = Dataset::open(folder)?;
    let pool = if given.pool_side == "text" { Side::Text } else { Side::Image };
    let source = PicksSource::open(target, PicksFile::read(target)?, &dataset, pool)?;
    let closed = Arc::new(AtomicBool::new(false));
    let asked = Asked::Picks {
        ids: source.tasks().iter().map(|task| task.id.clone()).collect(),
        answers: source.answers().to_path_buf(),
        closed: Arc::clone(&closed),
    };
    let source = source.when_closed(move || closed.store(true, Ordering::Release));
    Ok((Project { dataset, pool, source: Box::new(source) }, asked))
}

impl GivenApp {
    fn settings(&self, is_experiment: bool) -> Settings {
        let file = match is_experiment {
            true => self.target.join("annotate.db"),
            false => self.target.with_extension("annotate.db"),
        };
        let beside = || format!("sqlite:{}", file.display());
        Settings {
            public_url: self.public_url.clone(),
            sign_in: self.sign_in,
            invite: self.invite.clone(),
            reviewers: self.reviewers.clone(),
            review: self.review,
            captions: self.captions,
            annotators: self.annotators,
            language: self.language.clone(),
            guidelines: self.guidelines.clone(),
            price: self.price,
            grace: self
                .grace
                .map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default()),
            images: self.images.clone(),
            ..Settings::new(self.database.clone().unwrap_or_else(beside))
        }
    }
}
