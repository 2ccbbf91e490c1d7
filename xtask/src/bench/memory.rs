//! The peak memory of another process, from Linux's status file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes; zero where the system does not tell.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memory {
    /// What the process allocated, sampled every few milliseconds.
    pub(super) anonymous: u64,
    /// With the files it mapped; the kernel's own high-water mark.
    pub(super) resident: u64,
}

pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Memory>,
}

impl Watch {
    pub(super) fn start(process: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut peak = Memory::default();
            while !asked.load(Ordering::Relaxed) {
                let status = std::fs::read_to_string(format!("/proc/{process}/status"));
                let status = status.unwrap_or_default();
                peak.anonymous = peak.anonymous.max(bytes(&status, "RssAnon:"));
                peak.resident = peak.resident.max(bytes(&status, "VmHWM:"));
                std::thread::sleep(Duration::from_millis(2));
            }
            peak
        });
        Watch { stop, thread }
    }

    pub(super) fn stop(self) -> Memory {
        self.stop.store(true, Ordering::Relaxed);
        // The thread only reads a file; if it panicked nothing was measured.
        self.thread.join().unwrap_or_default()
    }
}

/// The most that a process had in memory so far, with the files it mapped.
pub(super) fn peak(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"));
    bytes(&status.unwrap_or_default(), "VmHWM:")
}

fn bytes(status: &str, field: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    kilobytes.unwrap_or(0u64) * 1024
}
