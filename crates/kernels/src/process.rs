//! Settings of the whole process, for long work of many small steps.

/// Prepares a process for training. To be called once, before other threads start.
///
/// Freed memory is kept for the next request: training steps ask for the same large arrays many
/// times a second, and spend a fifth of their time on fresh pages otherwise. The process then holds
/// on to the most memory it ever used. Nothing happens where the allocator is not glibc's.
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
}
