//! Memory: what a selection will need, and what it did need.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Watches the anonymous memory of this process: what it allocated, not the files it mapped.
pub(crate) struct Watch {
    peak: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub(crate) fn start() -> Self {
        let (peak, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (peak_seen, asked_to_stop) = (peak.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            while !asked_to_stop.load(Ordering::Relaxed) {
                peak_seen.fetch_max(anonymous().unwrap_or(0), Ordering::Relaxed);
                std::thread::park_timeout(Duration::from_millis(5));
            }
        });
        Watch { peak, stop, thread: Some(thread) }
    }

    /// The most bytes seen, sampled every few milliseconds; `None` where the system does not tell.
    pub(crate) fn peak(&self) -> Option<u64> {
        let now = anonymous()?;
        Some(self.peak.fetch_max(now, Ordering::Relaxed).max(now))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread only reads a file; if it panicked there is nothing to save.
            let _ = thread.join();
        }
    }
}

/// Resident anonymous bytes, from Linux's status file.
fn anonymous() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kb| kb * 1024)
}

/// The predicted peak of anonymous memory, in bytes.
pub(crate) struct Need {
    pub(crate) pool: usize,
    pub(crate) pairs: usize,
    pub(crate) dim: usize,
    pub(crate) threads: usize,
    pub(crate) ids: usize,
    pub(crate) features: bool,
}

impl Need {
    /// Norms, scores and picks of every item; codes of the anchors; tiles of every thread.
    pub(crate) fn predict(&self) -> u64 {
        let per_item = 40 * (self.pool + self.pairs);
        let columns = self.pairs.max(self.pool.min(16384));
        let codes = columns * self.dim * 5;
        let axes = (4096 * self.dim + 2 * self.dim * self.dim) * 4;
        let tiles = self.threads * (252 * (2 * self.dim + 512) * 4 + (1 << 20));
        let features = if self.features { (self.pool + self.pairs) * self.dim * 8 } else { 0 };
        (per_item + codes + axes.min(256 << 20) + tiles + features + self.ids + (12 << 20)) as u64
    }
}

/// Bytes as people say them.
pub(crate) fn megabytes(bytes: u64) -> String {
    format!("{:.0} MB", bytes as f64 / 1e6)
}
