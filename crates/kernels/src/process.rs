//! Settings of the whole process, for long work of many small steps.

/// Prepares a process for training. To be called once, before other threads start.
///
/// Freed memory is kept for the next request: training steps ask for the same large arrays many
/// times a second, and spend a fifth of their time on fresh pages otherwise. The process then holds
/// on to the most memory it ever used. Nothing happens where the allocator is not glibc's.
///
/// candle's own threads stay away: a pool that the whole process shares, whose threads spin while
/// they wait. Sixteen trainings side by side took five times as long with them. Our own operations
/// do the heavy work, on the threads of whoever calls them.
pub fn prepare_process() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: `mallopt` takes two numbers and sets options of the allocator; every value is
        // allowed, and unknown ones are refused without effect.
        unsafe {
            // Large arrays come from the heap, not from pages of their own...
            libc::mallopt(libc::M_MMAP_MAX, 0);
            // ...and the end of the heap is never given back.
            libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
        }
    }
    const CANDLE_THREADS: &str = "CANDLE_NUM_THREADS";
    if std::env::var_os(CANDLE_THREADS).is_none() {
        // SAFETY: no other thread reads the environment yet, as callers promise.
        unsafe { std::env::set_var(CANDLE_THREADS, "1") };
    }
}
