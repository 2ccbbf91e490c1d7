//! How long work tells that it is alive.

/// Told what is happening; the command line draws a bar from it.
pub trait Progress: Sync {
    /// A new phase begins, of `total` steps.
    fn start(&self, phase: &'static str, total: u64);
    /// `steps` more of the phase are done. Called from many threads.
    fn advance(&self, steps: u64);
}

/// Nobody is watching.
impl Progress for () {
    fn start(&self, _: &'static str, _: u64) {}
    fn advance(&self, _: u64) {}
}
