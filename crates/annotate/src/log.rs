//! Log lines for the operator of the app.

use std::fmt;
use std::sync::Arc;

/// Receives the lines that the app writes while it runs: failures, and rounds that were closed.
///
/// The default discards them. Lines may come from any thread; none contains a password or a link.
#[derive(Clone)]
pub struct Log(Arc<dyn Fn(&str) + Send + Sync>);

impl Log {
    /// Passes every line, without its end, to `write`.
    pub fn new(write: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Log(Arc::new(write))
    }

    pub(crate) fn line(&self, line: impl fmt::Display) {
        (self.0)(&line.to_string());
    }
}

impl Default for Log {
    fn default() -> Self {
        Log::new(|_| {})
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}
