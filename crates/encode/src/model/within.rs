//! Work that the runtime cannot be asked to stop: it is done on a thread that can be left behind.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::Error;

/// Bytes of stack of a thread that the runtime works on: it goes along a graph by recursion.
const STACK: usize = 64 << 20;

type Job = Box<dyn FnOnce() + Send>;

/// A thread of its own for one piece of work after the other.
#[derive(Debug)]
pub(super) struct Bench {
    /// Held while a piece is worked on, so that its time does not begin before.
    jobs: Mutex<Sender<Job>>,
}

impl Bench {
    /// A new thread. It ends with this, unless it is busy for ever.
    pub(super) fn new() -> Self {
        let (jobs, todo) = mpsc::channel::<Job>();
        // Without a thread nobody takes the jobs, and whoever has one hears that.
        let _ = thread::Builder::new()
            .name("encode".to_owned())
            .stack_size(STACK)
            .spawn(move || todo.into_iter().for_each(|job| job()));
        Bench { jobs: Mutex::new(jobs) }
    }

    /// Does `work` for the model of `path`, which is called `what` in errors. A panic in it is an
    /// error about the model: the runtime states some expectations about a graph with `expect` or
    /// slicing, and nothing that `work` touched is seen again.
    ///
    /// With [`Error::Slow`] the thread is still busy. It ends with the process.
    pub(super) fn work<T: Send + 'static>(
        &self,
        (path, what): (&Path, &'static str),
        limit: Duration,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (tell, hear) = mpsc::sync_channel(1);
        let job = Box::new(move || {
            // Whoever asked may have left.
            let _ = tell.send(catch_unwind(AssertUnwindSafe(work)));
        });
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = || Error::file(path, "no thread to work on");
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
    fn work_is_done_refused_or_left_behind() {
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
