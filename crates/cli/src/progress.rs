//! Progress on standard error: a bar with an ETA on a terminal, a line now and then elsewhere.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use nextpair_engine::Progress;

/// Between lines where nobody watches a bar.
const QUIET: Duration = Duration::from_secs(10);

/// Draws what the engine reports.
pub(crate) struct Bar {
    bar: ProgressBar,
    phase: Mutex<Phase>,
    on_terminal: bool,
}

struct Phase {
    name: &'static str,
    began: Instant,
    said: Instant,
}

impl Bar {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        let on_terminal = std::io::stderr().is_terminal();
        let bar = match on_terminal {
            true => ProgressBar::new(0),
            false => ProgressBar::hidden(),
        };
        let style = "{msg:16} [{bar:32}] {percent:>3}%  ETA {eta}";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style.progress_chars("=> "));
        }
        Bar { bar, phase: Mutex::new(Phase { name: "", began: now, said: now }), on_terminal }
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for Bar {
    fn start(&self, phase: &'static str, total: u64) {
        let now = Instant::now();
        if let Ok(mut current) = self.phase.lock() {
            *current = Phase { name: phase, began: now, said: now };
        }
        self.bar.reset();
        self.bar.set_length(total);
        self.bar.set_position(0);
        self.bar.set_message(phase);
    }

    fn advance(&self, steps: u64) {
        self.bar.inc(steps);
        if self.on_terminal {
            return;
        }
        let Ok(mut phase) = self.phase.try_lock() else { return };
        let (done, total) = (self.bar.position(), self.bar.length().unwrap_or(0));
        if phase.said.elapsed() >= QUIET && done > 0 {
            phase.said = Instant::now();
            let left = phase.began.elapsed().as_secs_f64() * (total as f64 / done as f64 - 1.0);
            eprintln!("{}: {} %, ETA {left:.0} s", phase.name, 100 * done / total.max(1));
        }
    }
}
