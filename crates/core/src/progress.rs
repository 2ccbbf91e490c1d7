//! Progress reports and cancellation of long work.

use std::sync::Mutex;

/// Receives the progress of some work; the command line draws a bar from it.
pub trait Progress: Sync {
    /// Begins a new phase of `total` steps.
    fn start(&self, phase: &'static str, total: u64);
    /// Completes `steps` more steps of the phase. Called from many threads.
    fn advance(&self, steps: u64);
    /// Describes the current activity within the phase, such as "dev: ranks 30 %"; "" clears it.
    fn remark(&self, _what: &str) {}
    /// Returns whether the work should end now, without a result. Called often, from many threads.
    fn stopped(&self) -> bool {
        false
    }
}

/// Reports go nowhere.
impl Progress for () {
    fn start(&self, _: &'static str, _: u64) {}
    fn advance(&self, _: u64) {}
}

/// Hides the phases of some work; it can still be stopped.
pub struct Silent<'a>(pub &'a dyn Progress);

impl Progress for Silent<'_> {
    fn start(&self, _: &'static str, _: u64) {}
    fn advance(&self, _: u64) {}

    fn stopped(&self) -> bool {
        self.0.stopped()
    }
}

/// Reports of work that runs inside a phase of other work. Its own phases become remarks, and some
/// of them count as steps of the outer phase.
pub struct Within<'a> {
    around: &'a dyn Progress,
    work: String,
    worth: &'a [(&'static str, u64)],
    phase: Mutex<Phase>,
}

#[derive(Default)]
struct Phase {
    name: &'static str,
    total: u64,
    done: u64,
    /// Steps of the outer phase that this work counts for.
    worth: u64,
    /// How many of those were already reported.
    passed: u64,
}

impl Phase {
    fn share(&self) -> f64 {
        (self.done as f64 / self.total.max(1) as f64).min(1.0)
    }

    fn percent(&self) -> u64 {
        (100.0 * self.share()) as u64
    }
}

impl<'a> Within<'a> {
    /// Wraps `around`, whose current phase this work runs in. `worth` maps the phases of this work
    /// to steps of the outer phase. The remarks end when this is dropped.
    pub fn new(
        around: &'a dyn Progress,
        work: impl Into<String>,
        worth: &'a [(&'static str, u64)],
    ) -> Self {
        Within { around, work: work.into(), worth, phase: Mutex::default() }
    }

    fn change(&self, change: impl FnOnce(&mut Phase)) {
        let Ok(mut phase) = self.phase.lock() else { return };
        let before = (phase.name, phase.percent());
        change(&mut phase);
        let due = (phase.worth as f64 * phase.share()) as u64;
        if due > phase.passed {
            self.around.advance(due - phase.passed);
            phase.passed = due;
        }
        if before != (phase.name, phase.percent()) {
            let (work, name, percent) = (&self.work, phase.name, phase.percent());
            self.around.remark(&format!("{work}: {name} {percent} %"));
        }
    }
}

impl Progress for Within<'_> {
    fn start(&self, name: &'static str, total: u64) {
        let worth = self.worth.iter().find(|(phase, _)| *phase == name);
        let worth = worth.map_or(0, |&(_, steps)| steps);
        self.change(|phase| *phase = Phase { name, total, worth, ..Phase::default() });
    }

    fn advance(&self, steps: u64) {
        self.change(|phase| phase.done += steps);
    }

    fn stopped(&self) -> bool {
        self.around.stopped()
    }
}

impl Drop for Within<'_> {
    fn drop(&mut self) {
        self.around.remark("");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Recorder(Mutex<Vec<String>>);

    impl Progress for Recorder {
        fn start(&self, phase: &'static str, total: u64) {
            self.0.lock().unwrap().push(format!("{phase} of {total}"));
        }
        fn advance(&self, steps: u64) {
            self.0.lock().unwrap().push(format!("+{steps}"));
        }
        fn remark(&self, what: &str) {
            self.0.lock().unwrap().push(what.to_owned());
        }
    }

    #[test]
    fn inner_phases_are_remarks_of_the_outer_one() {
        let heard = Recorder::default();
        heard.start("training", 10);
        let within = Within::new(&heard, "dev", &[("images", 4)]);
        within.start("images", 1000);
        within.advance(4);
        within.advance(496);
        within.advance(500);
        within.start("ranks", 0);
        within.advance(1);
        drop(within);
        heard.advance(6);
        let heard = heard.0.into_inner().unwrap();
        let images = ["dev: images 0 %", "+2", "dev: images 50 %", "+2", "dev: images 100 %"];
        assert_eq!(heard[0], "training of 10");
        assert_eq!(heard[1..6], images);
        assert_eq!(heard[6..], ["dev: ranks 0 %", "dev: ranks 100 %", "", "+6"]);
    }
}
