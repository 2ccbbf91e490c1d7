//! Signals that end the process.

/// Completes after `times` interrupts or terminations. Signals are trapped as soon as this is
/// called, not when the future is first polled.
#[cfg(unix)]
pub(crate) fn told_to_stop(times: usize) -> impl Future<Output = ()> {
    use tokio::signal::unix::{Signal, SignalKind, signal};

    async fn next(trapped: &mut Option<Signal>) {
        match trapped {
            Some(signal) => drop(signal.recv().await),
            // A signal that cannot be trapped ends the process by itself.
            None => std::future::pending().await,
        }
    }

    let mut interrupt = signal(SignalKind::interrupt()).ok();
    let mut terminate = signal(SignalKind::terminate()).ok();
    async move {
        for _ in 0..times {
            tokio::select! {
                () = next(&mut interrupt) => {}
                () = next(&mut terminate) => {}
            }
        }
    }
}

/// Completes after `times` interrupts.
#[cfg(not(unix))]
pub(crate) async fn told_to_stop(times: usize) {
    for _ in 0..times {
        let _ = tokio::signal::ctrl_c().await;
    }
}
