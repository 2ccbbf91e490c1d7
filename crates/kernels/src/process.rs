//! Process-wide settings for long work of many small steps.

/// Prepares a process for training. Call it once, before other threads start.
///
/// Keeps freed memory for the next request. Training steps allocate the same large arrays many
/// times a second, and would spend a fifth of their time on fresh pages. In return, the process
/// holds on to the most memory it ever used. Does nothing unless the allocator is glibc's.
pub fn prepare_process() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: `mallopt` takes two numbers and sets options of the allocator; every value is
        // allowed, and unknown ones are rejected without effect.
        unsafe {
            // Large arrays come from the heap, not from pages of their own...
            libc::mallopt(libc::M_MMAP_MAX, 0);
            // ...and the end of the heap is never given back.
            libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
        }
    }
}
