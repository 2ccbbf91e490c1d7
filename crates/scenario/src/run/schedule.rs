//! The order of work in an experiment: seeds first, then strategies, several in parallel.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use nextpair_data::system;
use nextpair_engine::{BagOfWords, Strategy};
use nextpair_models::Device;

use super::people::Waiting;
use super::{Observer, Scenario};
use crate::{Annotator, Arm, Bow, Error, ItemFeatures};

impl Scenario {
    /// Runs all remaining work. Small trainings scale badly over many cores, so several run in
    /// parallel, each with its share of the threads. The results do not depend on `jobs`.
    pub fn run(&self, jobs: usize, observer: &dyn Observer) -> Result<Option<Waiting>, Error> {
        self.write_logs()?;
        observer.start("rounds", self.work_left());
        self.options.device.wait_quietly(jobs > 1);
        let (seeds, arms) = (&self.experiment.seeds, &self.experiment.strategies);
        let first: Vec<_> = seeds.iter().map(|&seed| (seed, None)).collect();
        self.run_lanes(&first, 0..=0, jobs, observer)?;
        let of_seed = |&seed: &u64| arms.iter().map(move |arm| (seed, Some(arm)));
        let lanes: Vec<_> = seeds.iter().flat_map(of_seed).collect();
        self.run_lanes(&lanes, 1..=self.experiment.rounds, jobs, observer)
    }

    /// Runs rounds of lanes: all of them round by round if their models train together, else each by
    /// itself.
    fn run_lanes(
        &self,
        lanes: &[(u64, Option<&Arm>)],
        rounds: RangeInclusive<usize>,
        jobs: usize,
        observer: &dyn Observer,
    ) -> Result<Option<Waiting>, Error> {
        let size = if self.trains_together() { lanes.len() } else { 1 };
        let groups: Vec<_> = lanes.chunks(size.max(1)).collect();
        let waiting = Mutex::new(None);
        side_by_side(&groups, jobs, |group, queue, stop| {
            let lanes = group.iter().map(|&(seed, arm)| Ok(Mutex::new(self.lane(seed, arm)?)));
            let lanes = lanes.collect::<Result<Vec<_>, Error>>()?;
            let jobs = (jobs, queue);
            if let Some(found) = self.run_rounds(&lanes, rounds.clone(), jobs, observer, stop)? {
                *waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
            }
            Ok(())
        })?;
        Ok(waiting.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether the models of a round train together.
    pub(super) fn trains_together(&self) -> bool {
        let gpu = matches!(self.options.device, Device::Cuda(_));
        self.options.together.unwrap_or(gpu)
            && self.experiment.model.architecture().trains_together()
            && self.experiment.annotator != Annotator::Human
    }

    /// Returns the number of trainings to run in parallel: one per thread, as memory allows.
    pub fn jobs(&self) -> usize {
        // Weights, gradients and two moments of four bytes per parameter, in memory and while being
        // saved, plus the memory of a batch.
        let corpus = self.experiment.seeds.first().and_then(|&seed| self.reading(seed).ok());
        let corpus = corpus.map_or(&self.corpus, |reading| reading.corpus);
        let weights = self.experiment.model.weights(corpus.inputs()) as u64;
        let each = weights * 4 * 8 + (256 << 20) + self.words_memory();
        let mut fit =
            system::available_memory().map_or(usize::MAX, |bytes| (bytes / each) as usize);
        if let Ok(Some(free)) = self.options.device.free_memory() {
            // On the device a model is not saved, but a batch may need as much again.
            fit = fit.min((free as u64 / each) as usize);
        }
        rayon::current_num_threads().min(fit).max(1)
    }

    /// Returns the memory to find visual words, if a strategy uses them.
    fn words_memory(&self) -> u64 {
        let features = self.corpus.image_features().1.matrix();
        let Bow { sample, iterations, .. } = self.experiment.bow;
        let words = BagOfWords { sample, iterations, ..BagOfWords::default() };
        let asks = |arm: &Arm| arm.strategy.needs().features == Some(ItemFeatures::Bow);
        if features.locals() > 1 && self.experiment.strategies.iter().any(asks) {
            words.memory(self.plan.whole() * features.locals(), features.dim()) as u64
        } else {
            0
        }
    }

    /// Returns the remaining steps of progress.
    pub(super) fn work_left(&self) -> u64 {
        let experiment = &self.experiment;
        let lanes = (experiment.seeds.len() * experiment.strategies.len()) as u64;
        let whole = experiment.seeds.len() as u64 * self.work(0)
            + lanes * (1..=experiment.rounds).map(|round| self.work(round)).sum::<u64>();
        let done: u64 = self
            .done()
            .rounds
            .iter()
            .filter(|round| experiment.asks_for(round))
            .map(|round| self.work(round.round))
            .sum();
        whole.saturating_sub(done)
    }
}

fn no_threads(error: impl std::fmt::Display) -> Error {
    Error::setting("jobs", format!("no threads for them: {error}"))
}

/// Runs tasks in order, `jobs` at a time, each with its own threads. After an error, no task
/// starts, and running tasks are told to stop.
pub(super) fn side_by_side<T: Sync>(
    tasks: &[T],
    jobs: usize,
    work: impl Fn(&T, usize, &dyn Fn() -> bool) -> Result<(), Error> + Sync,
) -> Result<(), Error> {
    let jobs = jobs.clamp(1, tasks.len().max(1));
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let stop = || failed.load(Ordering::Relaxed);
    let one_after_the_other = |job: usize| {
        while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)).filter(|_| !stop()) {
            if let Err(error) = work(task, job, &stop) {
                failed.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(())
    };
    if jobs == 1 {
        return one_after_the_other(0);
    }
    let threads = rayon::current_num_threads();
    thread::scope(|scope| {
        let worker = |job: usize| {
            let threads = (threads * (job + 1) / jobs - threads * job / jobs).max(1);
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let one_after_the_other = &one_after_the_other;
            let thread = pool.map_err(no_threads).and_then(|pool| {
                let work = move || pool.install(|| one_after_the_other(job));
                thread::Builder::new().spawn_scoped(scope, work).map_err(no_threads)
            });
            failed.fetch_or(thread.is_err(), Ordering::Relaxed);
            thread
        };
        let workers: Vec<_> = (0..jobs).map(worker).collect();
        let join = |worker: Result<thread::ScopedJoinHandle<'_, _>, Error>| {
            worker?.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        // Wait for all workers, then return the first error.
        let results: Vec<Result<(), Error>> = workers.into_iter().map(join).collect();
        results.into_iter().collect()
    })
}
