//! What the parts of a round take.

use std::time::Instant;

use crate::Phase;
use crate::memory::Watch;

/// Parts of a round, as they are done.
pub(super) struct Clock {
    began: Instant,
    phases: Vec<Phase>,
    /// Seconds of parts that an earlier process did.
    before: f64,
}

impl Clock {
    pub(super) fn start() -> Self {
        Clock { began: Instant::now(), phases: Vec::new(), before: 0.0 }
    }

    /// Does a part of the work.
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

    /// The last part.
    pub(super) fn last(&self) -> Option<&Phase> {
        self.phases.last()
    }

    /// A part that an earlier process did.
    pub(super) fn remember(&mut self, phase: Phase) {
        self.before += phase.seconds;
        self.phases.push(phase);
    }

    /// Says what the last part was made of, in seconds, some of them of an earlier process. What
    /// remains of it was in between.
    pub(super) fn split_last(&mut self, parts: &[(&str, f64)]) {
        let Some(Phase { seconds, memory, .. }) = self.phases.pop() else { return };
        let known: f64 = parts.iter().map(|(_, seconds)| seconds).sum();
        self.before += (known - seconds).max(0.0);
        for &(name, seconds) in parts.iter().filter(|(_, seconds)| *seconds > 0.0) {
            self.phases.push(Phase { name: name.to_owned(), seconds, memory });
        }
    }

    /// All parts, and what was between them.
    pub(super) fn finish(mut self) -> Vec<Phase> {
        let whole = self.began.elapsed().as_secs_f64() + self.before;
        let known: f64 = self.phases.iter().map(|phase| phase.seconds).sum();
        let seconds = (whole - known).max(0.0);
        self.phases.push(Phase { name: "other".to_owned(), seconds, memory: None });
        self.phases
    }
}
