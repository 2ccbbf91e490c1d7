//! Work that is done one at a time, and may itself use rayon.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use rayon::{ThreadPool, ThreadPoolBuilder};

/// A lock whose holder may use rayon.
///
/// A worker of rayon that waits for parts of its work takes on whatever there is meanwhile. Under a plain lock it
/// may take on something that wants the same lock, and wait for itself for ever; or its parts may wait for
/// workers that all wait for the lock. So work under this lock is done in a pool of its own, whose workers take
/// on nothing else, while the thread that asked for it waits idly. Such work must not ask for such a lock
/// again.
#[derive(Default)]
pub(crate) struct Alone(Mutex<()>);

/// The pool of all such work. `None` if the system has no threads left: then the work is done where it is
/// asked for.
static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();

impl Alone {
    /// Does work while no other work of this lock is done.
    pub(crate) fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        let _alone = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Of the whole process, and not of the job that comes first, which may have few threads.
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        let pool = POOL.get_or_init(|| ThreadPoolBuilder::new().num_threads(threads).build().ok());
        let Some(pool) = pool else { return work() };
        if rayon::current_thread_index().is_none() {
            return pool.install(work);
        }
        // A worker would take on other things while it waits; a thread of our own does not.
        let work = Mutex::new(Some(work));
        let take = || work.lock().unwrap_or_else(PoisonError::into_inner).take();
        let install = || take().map(|work| pool.install(work));
        let done =
            thread::scope(|scope| match thread::Builder::new().spawn_scoped(scope, install) {
                Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                Err(_) => take().map(|work| work()),
            });
        done.expect("the work is taken once")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use rayon::prelude::*;

    use super::*;

    /// Work that splits under the lock, asked for by all workers at once. With a plain lock this hangs.
    #[test]
    fn workers_that_split_their_work_do_not_wait_for_themselves() {
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let alone = Alone::default();
            let split = || {
                (0..2_000u32).into_par_iter().with_max_len(1).map(|n| u64::from(n % 7)).sum::<u64>()
            };
            let all = (0..400u32).into_par_iter().with_max_len(1).map(|_| alone.run(split));
            let sum: u64 = all.sum();
            // The receiver is gone if it gave up.
            let _ = tell.send(sum);
        });
        let expected = 400 * (0..2_000u64).map(|n| n % 7).sum::<u64>();
        assert_eq!(told.recv_timeout(Duration::from_secs(120)), Ok(expected));
    }

    #[test]
    fn a_panic_comes_back_and_the_next_one_works() {
        let alone = Alone::default();
        let panics = || alone.run(|| -> u32 { panic!("as told") });
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        let both: (u32, u32) = rayon::join(|| alone.run(|| 3), || alone.run(|| 4));
        assert_eq!(both, (3, 4));
    }
}
