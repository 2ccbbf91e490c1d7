//! Signals that end the process.

/// Completes when somebody has asked for an end so many times, by an interrupt or a termination.
/// Signals are trapped from the call on.
#[cfg(unix)]
pub(super) fn told_to_stop(times: usize) -> impl Future<Output = ()> {
    use tokio::signal::unix::{Signal, SignalKind, signal};

    async fn next(trapped: &mut Option<Signal>) {
        match trapped {
            Some(signal) => drop(signal.recv().await),
            // Not trapped, it ends the process.
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

/// Completes when somebody has asked for an end so many times.
#[cfg(not(unix))]
pub(super) async fn told_to_stop(times: usize) {
    for _ in 0..times {
        let _ = tokio::signal::ctrl_c().await;
    }
}
