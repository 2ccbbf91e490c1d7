//! Process-wide settings for long work of many small steps.

/// Prepares a process for training. Call it once, before other threads start.
///
/// Keeps freed memory for the next request. Training steps allocate the same large arrays many
/// times a second, and would spend a fifth of their time on fresh pages. In return, the process
/// holds on to the most memory it ever used. Does nothing unless the allocator is glibc's.
pub fn prepare_process() {
    nextpair_core::system::keep_freed_memory();
}
