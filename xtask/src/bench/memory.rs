//! Peak memory of another process, and what it read, from `/proc`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Peak memory and reads in bytes; zero if the system does not report it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memory {
    /// Anonymous memory, sampled every few milliseconds.
    pub(super) anonymous: u64,
    /// Resident memory including mapped files: the high-water mark of the kernel.
    pub(super) resident: u64,
    /// Resident pages of mapped files, sampled too.
    pub(super) mapped: u64,
    /// Bytes that the process has had read from a disk, by the last sample.
    pub(super) from_disk: u64,
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
                peak.mapped = peak.mapped.max(bytes(&status, "RssFile:"));
                let io = std::fs::read_to_string(format!("/proc/{process}/io"));
                let read = io.unwrap_or_default();
                let read = read.lines().find_map(|line| line.strip_prefix("read_bytes: "));
                let read = read.and_then(|number| number.parse().ok());
                peak.from_disk = peak.from_disk.max(read.unwrap_or(0));
                std::thread::sleep(Duration::from_millis(2));
            }
            peak
        });
        Watch { stop, thread }
    }

    pub(super) fn stop(self) -> Memory {
        self.stop.store(true, Ordering::Relaxed);
        // The thread only reads a file. If it panicked, nothing was measured.
        self.thread.join().unwrap_or_default()
    }
}

/// Returns the peak resident memory of a process so far, including mapped files.
pub(super) fn peak(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"));
    bytes(&status.unwrap_or_default(), "VmHWM:")
}

fn bytes(status: &str, field: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    kilobytes.unwrap_or(0u64) * 1024
}
