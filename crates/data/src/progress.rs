//! How long work tells that it is alive.

use std::sync::Mutex;

/// Told what is happening; the command line draws a bar from it.
pub trait Progress: Sync {
    /// A new phase begins, of `total` steps.
    fn start(&self, phase: &'static str, total: u64);
    /// `steps` more of the phase are done. Called from many threads.
    fn advance(&self, steps: u64);
    /// What is happening within the phase, such as "dev: ranks 30 %"; nothing is "".
    fn remark(&self, _what: &str) {}
}

/// Nobody is watching.
impl Progress for () {
    fn start(&self, _: &'static str, _: u64) {}
    fn advance(&self, _: u64) {}
}

/// Work with phases of its own within a phase of other work: it makes remarks and leaves the
/// steps of the other work alone.
pub struct Within<'a> {
    around: &'a dyn Progress,
    work: &'static str,
    phase: Mutex<Phase>,
}

#[derive(Default)]
struct Phase {
    name: &'static str,
    total: u64,
    done: u64,
}

impl Phase {
    fn percent(&self) -> u64 {
        (100.0 * self.done as f64 / self.total.max(1) as f64) as u64
    }
}

impl<'a> Within<'a> {
    /// This work, within the phase that `around` is in. The remarks end when this is dropped.
    pub fn new(around: &'a dyn Progress, work: &'static str) -> Self {
        Within { around, work, phase: Mutex::default() }
    }

    fn change(&self, change: impl FnOnce(&mut Phase)) {
        let Ok(mut phase) = self.phase.lock() else { return };
        let before = (phase.name, phase.percent());
        change(&mut phase);
        if before != (phase.name, phase.percent()) {
            let (work, name, percent) = (self.work, phase.name, phase.percent());
            self.around.remark(&format!("{work}: {name} {percent} %"));
        }
    }
}

impl Progress for Within<'_> {
    fn start(&self, name: &'static str, total: u64) {
        self.change(|phase| *phase = Phase { name, total, done: 0 });
    }

    fn advance(&self, steps: u64) {
        self.change(|phase| phase.done += steps);
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
    struct Heard(Mutex<Vec<String>>);

    impl Progress for Heard {
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
        let heard = Heard::default();
        heard.start("training", 10);
        let within = Within::new(&heard, "dev");
        within.start("images", 1000);
        within.advance(4);
        within.advance(6);
        within.start("ranks", 0);
        within.advance(1);
        drop(within);
        heard.advance(10);
        let expected = ["training of 10", "dev: images 0 %", "dev: images 1 %", "dev: ranks 0 %"];
        let heard = heard.0.into_inner().unwrap();
        assert_eq!(heard[..4], expected);
        assert_eq!(heard[4..], ["dev: ranks 100 %", "", "+10"]);
    }
}
