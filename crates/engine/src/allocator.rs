//! Memory that is asked for again and again.

/// Tells the allocator to keep what is freed for the next request, for work that asks for the
/// same large arrays many times a second: training steps spend a fifth of their time on fresh
/// pages otherwise. The process then holds on to the most memory it ever used. To be called once,
/// before other threads start. Nothing happens where the allocator is not glibc's.
pub fn keep_freed_memory() {
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
