//! Signals that end the process.

/// Completes when somebody wants the process to end: an interrupt, or a termination.
pub(super) async fn told_to_stop() {
    let interrupt = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = interrupt => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    let _ = interrupt.await;
}

/// Completes when somebody wants it for the second time.
pub(super) async fn told_twice() {
    told_to_stop().await;
    told_to_stop().await;
}
