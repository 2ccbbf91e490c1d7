//! Peak memory of a piece of work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::system;

/// Samples the anonymous memory of this process: allocations, without mapped files.
pub struct Watch {
    peak: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Starts sampling.
    pub fn start() -> Self {
        let (peak, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (peak_seen, asked_to_stop) = (peak.clone(), stop.clone());
        // Without a thread, the peak is the memory at the end.
        let thread = std::thread::Builder::new().spawn(move || {
            while !asked_to_stop.load(Ordering::Relaxed) {
                peak_seen.fetch_max(system::own_memory().unwrap_or(0), Ordering::Relaxed);
                std::thread::park_timeout(Duration::from_millis(5));
            }
        });
        Watch { peak, stop, thread: thread.ok() }
    }

    /// Returns the peak in bytes, sampled every few milliseconds, or `None` if the system does not
    /// report it.
    pub fn peak(&self) -> Option<u64> {
        let now = system::own_memory()?;
        Some(self.peak.fetch_max(now, Ordering::Relaxed).max(now))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread only asks the system. If it panicked, there is nothing to clean up.
            let _ = thread.join();
        }
    }
}
