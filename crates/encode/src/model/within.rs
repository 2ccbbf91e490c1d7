//! Time limits on the runtime. It cannot be interrupted, so it works on a thread that can be
//! abandoned.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::Error;

/// Stack size in bytes of the runtime's thread: it walks a graph by recursion.
const STACK: usize = 64 << 20;

type Job = Box<dyn FnOnce() + Send>;

/// A thread that does one job after the other.
#[derive(Debug)]
pub(super) struct Bench {
    /// Locked during a job, so that the time limit of the next one starts only after it.
    jobs: Mutex<Sender<Job>>,
}

impl Bench {
    /// Starts a thread. It ends when this is dropped, unless its job never does.
    pub(super) fn new() -> Self {
        let (jobs, todo) = mpsc::channel::<Job>();
        // If the thread cannot be started, sending a job fails.
        let _ = thread::Builder::new()
            .name("encode".to_owned())
            .stack_size(STACK)
            .spawn(move || todo.into_iter().for_each(|job| job()));
        Bench { jobs: Mutex::new(jobs) }
    }

    /// Does `work` for the model of `path`; errors call it `what`. A panic becomes an error about
    /// the model: the runtime checks some properties of a graph only by `expect` or slicing.
    /// Nothing that `work` touched is used again.
    ///
    /// After [`Error::Slow`] the thread is still busy. It ends with the process.
    pub(super) fn work<T: Send + 'static>(
        &self,
        (path, what): (&Path, &'static str),
        limit: Duration,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (tell, hear) = mpsc::sync_channel(1);
        let job = Box::new(move || {
            // The caller may have given up waiting.
            let _ = tell.send(catch_unwind(AssertUnwindSafe(work)));
        });
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = || Error::NoThread { path: path.to_path_buf() };
        jobs.send(job).map_err(|_| gone())?;
        match hear.recv_timeout(limit) {
            Ok(Ok(result)) => result,
            Ok(Err(payload)) => {
                let text = payload.downcast_ref::<String>().map(String::as_str);
                let said = text.or_else(|| payload.downcast_ref::<&str>().copied());
                let said = said.unwrap_or("no message");
                Err(Error::file(path, format!("malformed: the runtime failed ({said})")))
            }
            Err(RecvTimeoutError::Timeout) => {
                Err(Error::Slow { path: path.to_path_buf(), what, seconds: limit.as_secs_f64() })
            }
            Err(RecvTimeoutError::Disconnected) => Err(gone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_finish_fail_or_time_out() {
        let bench = Bench::new();
        let of = (Path::new("m.onnx"), "a test");
        let long = Duration::from_secs(600);
        assert_eq!(bench.work(of, long, || Ok(7)).unwrap(), 7);
        let failed: Result<(), Error> = bench.work(of, long, || panic!("odd graph"));
        let what = failed.unwrap_err().to_string();
        assert_eq!(what, "m.onnx: malformed: the runtime failed (odd graph)");
        assert_eq!(bench.work(of, long, || Ok(8)).unwrap(), 8, "a panic does not end the thread");
        let (_keep, never) = mpsc::channel::<()>();
        let endless = move || {
            let _ = never.recv();
            Ok(())
        };
        let slow = bench.work(of, Duration::from_millis(1), endless).unwrap_err();
        assert!(matches!(slow, Error::Slow { what: "a test", .. }), "{slow}");
    }

    #[test]
    fn threads_that_share_a_bench_wait_for_each_other() {
        let bench = Bench::new();
        let sum = thread::scope(|scope| {
            let add = |number: u64| {
                let work = move || Ok(number);
                let of = (Path::new("m.onnx"), "a test");
                bench.work(of, Duration::from_secs(600), work).unwrap()
            };
            let threads: Vec<_> = (0..8).map(|n| scope.spawn(move || add(n))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
        });
        assert_eq!(sum, 28);
    }
}
