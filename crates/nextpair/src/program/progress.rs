//! Progress on standard error: a bar with an ETA on a terminal, a line every few seconds elsewhere.

use std::collections::VecDeque;
use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::core::printable;
use crate::engine::Progress;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use crate::program::interrupt;
use crate::program::streams::{Volume, is_heard};

/// Time between lines if standard error is not a terminal.
const QUIET: Duration = Duration::from_secs(10);

/// Shows the progress that the engine reports.
pub(crate) struct Bar {
    bar: ProgressBar,
    phase: Arc<Mutex<Phase>>,
    on_terminal: bool,
}

struct Phase {
    name: &'static str,
    began: Instant,
    /// Times of some reports, and their numbers of steps. The first need not be zero: an earlier
    /// process may have done them.
    marks: VecDeque<(Instant, u64)>,
    said: Instant,
    remark: String,
}

impl Phase {
    fn new(name: &'static str) -> Self {
        let now = Instant::now();
        Phase { name, began: now, marks: VecDeque::new(), said: now, remark: String::new() }
    }

    /// Reports the time of a phase that ends.
    fn end(&self) {
        if !self.name.is_empty() {
            detail!("{}: {:.2} s", self.name, self.began.elapsed().as_secs_f64());
        }
    }

    /// Takes note of a report now and then: marks are of the last quarter of the work.
    fn mark(&mut self, now: Instant, done: u64, total: u64) {
        let due = self.marks.back().is_none_or(|&(_, last)| done >= last + total.div_ceil(20));
        if due {
            self.marks.push_back((now, done));
            if self.marks.len() > 6 {
                self.marks.pop_front();
            }
        }
    }

    /// Estimates the time left at the pace of late. A disk that is slower than its cache, or a machine
    /// that others begin to use, changes the pace.
    fn left(&self, done: u64, total: u64) -> Option<Duration> {
        let &(began, before) = self.marks.front()?;
        let steps = done.checked_sub(before).filter(|&steps| steps > 0)?;
        let pace = began.elapsed().as_secs_f64() / steps as f64;
        Duration::try_from_secs_f64(pace * total.saturating_sub(done) as f64).ok()
    }
}

impl Bar {
    pub(crate) fn new() -> Self {
        let on_terminal = std::io::stderr().is_terminal();
        let bar = if on_terminal && is_heard(Volume::Usual) {
            ProgressBar::new(0)
        } else {
            ProgressBar::hidden()
        };
        let phase = Arc::new(Mutex::new(Phase::new("")));
        let style = "{msg:16} [{bar:32}] {percent:>3}%  ETA {left}  {prefix}";
        if let Ok(style) = ProgressStyle::with_template(style) {
            let phase = phase.clone();
            let left = move |state: &ProgressState, out: &mut dyn Write| {
                let phase = phase.try_lock().ok();
                let left = phase.and_then(|p| p.left(state.pos(), state.len().unwrap_or(0)));
                // A failed write to the bar is no reason to stop.
                let _ = match left {
                    Some(left) => write!(out, "{}", clock(left)),
                    None => write!(out, "-"),
                };
            };
            bar.set_style(style.with_key("left", left).progress_chars("=> "));
        }
        Bar { bar, phase, on_terminal }
    }

    /// Writes a line above the bar.
    pub(crate) fn say(&self, line: &str) {
        self.bar.suspend(|| say!("{line}"));
    }

    /// The steps that are done.
    pub(crate) fn position(&self) -> u64 {
        self.bar.position()
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
        if let Ok(mut phase) = self.phase.lock() {
            std::mem::replace(&mut *phase, Phase::new("")).end();
        }
    }

    /// Prints a line every few seconds if there is no bar.
    fn line(&self, phase: &mut Phase, done: u64, total: u64) {
        if self.on_terminal || phase.said.elapsed() < QUIET {
            return;
        }
        let Some(left) = phase.left(done, total) else { return };
        phase.said = Instant::now();
        let remark = match phase.remark.as_str() {
            "" => String::new(),
            remark => format!(" ({remark})"),
        };
        say!("{}: {} %, ETA {}{remark}", phase.name, 100 * done / total.max(1), clock(left));
    }
}

/// Formats a duration, rounded: 47s, 3m 05s, 2h 07m.
fn clock(time: Duration) -> String {
    let step = Duration::from_secs(if time.as_secs_f64() < 3599.5 { 1 } else { 60 });
    let seconds = time.saturating_add(step / 2).as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m {seconds:02}s"),
        (hours, minutes, _) => format!("{hours}h {minutes:02}m"),
    }
}

impl Progress for Bar {
    fn start(&self, phase: &'static str, total: u64) {
        if let Ok(mut current) = self.phase.lock() {
            let ended = std::mem::replace(&mut *current, Phase::new(phase));
            self.bar.suspend(|| {
                ended.end();
                detail!("{phase}...");
            });
        }
        self.bar.set_length(total);
        self.bar.set_prefix("");
        self.bar.set_message(phase);
        self.bar.reset();
    }

    fn advance(&self, steps: u64) {
        self.bar.inc(steps);
        let (done, total) = (self.bar.position(), self.bar.length().unwrap_or(0));
        let Ok(mut phase) = self.phase.try_lock() else { return };
        phase.mark(Instant::now(), done, total);
        self.line(&mut phase, done, total);
    }

    fn remark(&self, what: &str) {
        self.bar.set_prefix(printable(what).into_owned());
        let (done, total) = (self.bar.position(), self.bar.length().unwrap_or(0));
        let Ok(mut phase) = self.phase.try_lock() else { return };
        phase.remark = what.to_owned();
        self.line(&mut phase, done, total);
    }

    fn stopped(&self) -> bool {
        interrupt::is_asked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short_to_read() {
        let clock = |seconds| clock(Duration::from_secs(seconds));
        assert_eq!([0, 59, 60, 3599].map(clock), ["0s", "59s", "1m 00s", "59m 59s"]);
        assert_eq!(clock(7620), "2h 07m");
        assert_eq!(super::clock(Duration::from_millis(59_500)), "1m 00s");
        assert_eq!([3659, 3600 + 59 * 60 + 30].map(clock), ["1h 01m", "2h 00m"]);
    }

    #[test]
    fn the_pace_is_that_of_this_process() {
        let mut phase = Phase::new("x");
        assert_eq!(phase.left(0, 100), None);
        let began = Instant::now().checked_sub(Duration::from_secs(10)).unwrap();
        phase.mark(began, 50, 100);
        assert_eq!(phase.left(50, 100), None);
        let left = phase.left(60, 100).unwrap().as_secs_f64();
        assert!((40.0..41.0).contains(&left), "{left}");
    }

    #[test]
    fn a_pace_of_long_ago_does_not_count() {
        let mut phase = Phase::new("x");
        let now = Instant::now();
        let ago = |seconds| now.checked_sub(Duration::from_secs(seconds)).unwrap();
        // Sixty steps in six seconds, then one in a second.
        (0..=60).for_each(|step| phase.mark(ago(26 - step / 10), step, 100));
        (60..=80).for_each(|step| phase.mark(ago(80 - step), step, 100));
        let left = phase.left(80, 100).unwrap().as_secs_f64();
        assert!((15.0..21.0).contains(&left), "{left}");
    }
}
