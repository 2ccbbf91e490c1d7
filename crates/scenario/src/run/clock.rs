//! Time and memory of the phases of a round.

use std::time::Instant;

use crate::Phase;
use nextpair_data::Watch;

/// Measures the phases of a round.
pub(super) struct Clock {
    /// When it began, or was taken up again; `None` while the round waits for others.
    began: Option<Instant>,
    phases: Vec<Phase>,
    /// Seconds of phases from an earlier process, and before the last pause.
    before: f64,
}

impl Clock {
    pub(super) fn start() -> Self {
        Clock { began: Some(Instant::now()), phases: Vec::new(), before: 0.0 }
    }

    /// Stops counting, while others work.
    pub(super) fn pause(&mut self) {
        self.before += self.began.take().map_or(0.0, |began| began.elapsed().as_secs_f64());
    }

    /// Counts again.
    pub(super) fn resume(&mut self) {
        self.began = Some(Instant::now());
    }

    /// Runs a phase and measures it.
    pub(super) fn time<T, E>(
        &mut self,
        name: &str,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let (began, watch) = (Instant::now(), Watch::start());
        let result = work()?;
        let (seconds, memory) = (began.elapsed().as_secs_f64(), watch.peak());
        self.phases.push(Phase { name: name.to_owned(), seconds, memory });
        Ok(result)
    }

    /// Returns the last phase.
    pub(super) fn last(&self) -> Option<&Phase> {
        self.phases.last()
    }

    /// Adds a phase from an earlier process.
    pub(super) fn remember(&mut self, phase: Phase) {
        self.before += phase.seconds;
        self.phases.push(phase);
    }

    /// Adds work that took so many seconds while the clock stood still, as its parts. Some of them may be
    /// from an earlier process. The rest counts as other time.
    pub(super) fn add(&mut self, parts: &[(&str, f64)], seconds: f64, memory: Option<u64>) {
        let known: f64 = parts.iter().map(|(_, seconds)| seconds).sum();
        self.before += known.max(seconds);
        for &(name, seconds) in parts.iter().filter(|(_, seconds)| *seconds > 0.0) {
            self.phases.push(Phase { name: name.to_owned(), seconds, memory });
        }
    }

    /// Returns all phases, and the time between them as `other`.
    pub(super) fn finish(mut self) -> Vec<Phase> {
        self.pause();
        let whole = self.before;
        let known: f64 = self.phases.iter().map(|phase| phase.seconds).sum();
        let seconds = (whole - known).max(0.0);
        self.phases.push(Phase { name: "other".to_owned(), seconds, memory: None });
        self.phases
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(phases: &[Phase], name: &str) -> f64 {
        phases.iter().filter(|phase| phase.name == name).map(|phase| phase.seconds).sum()
    }

    #[test]
    fn parts_and_what_is_between_them_are_the_whole() {
        let mut clock = Clock::start();
        assert!(clock.last().is_none());
        assert_eq!(clock.time("selection", || Ok::<_, ()>(7)), Ok(7));
        assert_eq!(clock.time("selection", || Err::<(), _>("no")), Err("no"));
        assert_eq!(clock.last().unwrap().name, "selection");
        let phases = clock.finish();
        let names: Vec<&str> = phases.iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(names, ["selection", "other"], "what failed is no part");
        assert!(phases.iter().all(|phase| phase.seconds >= 0.0));
    }

    #[test]
    fn a_pause_is_no_part() {
        let mut clock = Clock::start();
        clock.pause();
        let before = clock.before;
        clock.pause();
        assert_eq!(clock.before, before, "paused twice");
        clock.remember(Phase { name: "training".to_owned(), seconds: 7.0, memory: None });
        let phases = clock.finish();
        assert_eq!(seconds(&phases, "training"), 7.0);
        assert!((seconds(&phases, "other") - before).abs() < 1e-9, "{phases:?}");
        let mut clock = Clock::start();
        clock.pause();
        clock.resume();
        assert!(clock.began.is_some());
    }

    #[test]
    fn what_an_earlier_process_did_is_not_between_the_parts() {
        let mut clock = Clock::start();
        clock.remember(Phase { name: "selection".to_owned(), seconds: 500.0, memory: None });
        // An earlier process trained most of the epochs.
        let parts = [("training", 1000.0), ("evaluation", 100.0), ("nothing", 0.0)];
        clock.add(&parts, 30.0, None);
        let phases = clock.finish();
        assert_eq!(phases.len(), 4, "{phases:?}");
        assert_eq!(seconds(&phases, "training"), 1000.0);
        assert_eq!(seconds(&phases, "evaluation"), 100.0);
        assert!((0.0..60.0).contains(&seconds(&phases, "other")), "{phases:?}");
        let mut clock = Clock::start();
        clock.add(&[("training", 1.0)], 8.0, None);
        assert!((7.0..60.0).contains(&seconds(&clock.finish(), "other")), "what is no part");
    }
}
