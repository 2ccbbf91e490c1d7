//! Long work on threads of our own, without the interpreter's lock: the calling thread waits, hears
//! about Ctrl-C and tells how far the work is.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nextpair::Progress;
use pyo3::prelude::*;

use crate::errors::{self, Failure};

/// Time between looks at signals.
const TICK: Duration = Duration::from_millis(50);
/// Names of our threads begin so.
const THREADS: &str = "nextpair-";
/// More than any machine has cores.
const MOST_THREADS: usize = 4096;

/// The last panic of one of our threads, with its place.
static PANIC: Mutex<String> = Mutex::new(String::new());

/// How to work: the threads, and who hears how far it is: `progress(phase, done, total)`.
#[derive(FromPyObject)]
pub(crate) struct How<'py>(Option<usize>, Option<Bound<'py, PyAny>>);

/// What the work has told so far.
#[derive(Default)]
struct CallbackProgress {
    phase: Mutex<&'static str>,
    done: AtomicU64,
    total: AtomicU64,
    stopped: AtomicBool,
}

impl Progress for CallbackProgress {
    fn start(&self, phase: &'static str, total: u64) {
        if let Ok(mut current) = self.phase.lock() {
            *current = phase;
            self.done.store(0, Ordering::Relaxed);
            self.total.store(total, Ordering::Relaxed);
        }
    }

    fn advance(&self, steps: u64) {
        self.done.fetch_add(steps, Ordering::Relaxed);
    }

    fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

impl CallbackProgress {
    /// Tells Python, unless nothing has begun.
    fn tell(&self, progress: &Bound<'_, PyAny>) -> PyResult<()> {
        let phase = self.phase.lock().map(|phase| *phase).unwrap_or_default();
        if phase.is_empty() {
            return Ok(());
        }
        let total = self.total.load(Ordering::Relaxed);
        let done = self.done.load(Ordering::Relaxed).min(total);
        progress.call1((phase, done, total)).map(drop)
    }
}

impl How<'_> {
    /// Runs `job`. Returns when it has ended, also if it was told to stop, so that nobody reads the
    /// arrays any more.
    pub(crate) fn work<T: Send + 'static>(
        &self,
        py: Python<'_>,
        job: impl FnOnce(&dyn Progress) -> Result<T, Failure> + Send + 'static,
    ) -> PyResult<T> {
        let told = Arc::new(CallbackProgress::default());
        let (send, results) = mpsc::channel();
        // A pool of this call: a process that was forked has none of its parent's threads.
        let pool = self.pool(py)?;
        let progress = told.clone();
        pool.spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(|| job(&*progress)));
            // The other end waits until we have spoken.
            let _ = send.send(result);
        });
        // For the closures below: a receiver may be used by one thread at a time.
        let results = Mutex::new(results);
        let wait = || match results.lock() {
            Ok(results) => results.recv_timeout(TICK),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        };
        let mut stopped_by = None;
        let result = loop {
            match py.detach(wait) {
                Ok(result) => break result,
                Err(RecvTimeoutError::Disconnected) => break Err(Box::new(())),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if stopped_by.is_none()
                && let Err(reason) = py.check_signals().and_then(|()| self.tell(&told))
            {
                told.stopped.store(true, Ordering::Relaxed);
                stopped_by = Some(reason);
            }
        };
        match (stopped_by, result) {
            (Some(reason), _) => Err(reason),
            (None, Ok(result)) => result.map_err(|error| errors::raise(py, error)),
            (None, Err(_)) => {
                let said = PANIC.lock().map(|said| said.clone()).unwrap_or_default();
                Err(errors::panicked(py, &said))
            }
        }
    }

    fn tell(&self, told: &CallbackProgress) -> PyResult<()> {
        self.1.as_ref().map_or(Ok(()), |progress| told.tell(progress))
    }

    fn pool(&self, py: Python<'_>) -> PyResult<rayon::ThreadPool> {
        // All cores unless it is said.
        let threads = match self.0 {
            None => 0,
            Some(threads) if (1..=MOST_THREADS).contains(&threads) => threads,
            Some(threads) => {
                let said = format!("threads: {threads} is not between 1 and {MOST_THREADS}");
                return Err(errors::setting(py, said));
            }
        };
        let builder = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let builder = builder.thread_name(|index| format!("{THREADS}{index}"));
        builder.build().map_err(|error| errors::setting(py, format!("threads: {error}")))
    }
}

/// Keeps what panics of our threads say for the exceptions they become, instead of printing it. Other
/// threads print theirs as ever.
pub(crate) fn remember_panics() {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let ours = std::thread::current().name().is_some_and(|name| name.starts_with(THREADS));
        match PANIC.lock() {
            Ok(mut said) if ours => *said = panic.to_string().replace('\n', " "),
            _ => others(panic),
        }
    }));
}

/// Panics as a mistake of ours would, for the tests.
#[pyfunction]
pub(crate) fn panic_on_purpose(py: Python<'_>, how: How<'_>) -> PyResult<()> {
    how.work(py, |_| panic!("on purpose"))
}
