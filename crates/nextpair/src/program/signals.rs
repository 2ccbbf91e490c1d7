//! Signals that end the process. They differ between Unix and Windows, and here alone the program says so: all else
//! that differs is in `crate::core::system`, which knows no runtime.

use imp::{Interrupt, Terminate};

/// The interrupts of this process, one after the other: Ctrl-C.
pub(crate) struct Interrupts(Interrupt);

impl Interrupts {
    /// Traps them; `None` if the system refuses.
    pub(crate) fn trap() -> Option<Self> {
        imp::interrupt().map(Interrupts)
    }

    /// Completes at the next one.
    pub(crate) async fn next(&mut self) {
        imp::next_interrupt(&mut self.0).await;
    }
}

/// Completes after `times` interrupts or terminations. Signals are trapped as soon as this is
/// called, not when the future is first polled. On Windows closing the console and shutting down are terminations.
pub(crate) fn told_to_stop(times: usize) -> impl Future<Output = ()> {
    let mut interrupts = Interrupts::trap();
    let mut terminate: Option<Terminate> = imp::terminate();
    async move {
        for _ in 0..times {
            tokio::select! {
                () = imp::next_termination(&mut terminate) => {}
                () = next(&mut interrupts) => {}
            }
        }
    }
}

async fn next(interrupts: &mut Option<Interrupts>) {
    match interrupts {
        Some(interrupts) => interrupts.next().await,
        // A signal that cannot be trapped ends the process by itself.
        None => std::future::pending().await,
    }
}

#[cfg(unix)]
mod imp {
    use tokio::signal::unix::{Signal, SignalKind, signal};

    pub(super) type Interrupt = Signal;
    pub(super) type Terminate = Signal;

    pub(super) fn interrupt() -> Option<Interrupt> {
        signal(SignalKind::interrupt()).ok()
    }

    pub(super) fn terminate() -> Option<Terminate> {
        signal(SignalKind::terminate()).ok()
    }

    pub(super) async fn next_interrupt(interrupt: &mut Interrupt) {
        interrupt.recv().await;
    }

    pub(super) async fn next_termination(terminate: &mut Option<Terminate>) {
        match terminate {
            Some(signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
    }
}

#[cfg(windows)]
mod imp {
    use tokio::signal::windows::{
        CtrlBreak, CtrlC, CtrlClose, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown,
    };

    /// Ctrl-C and Ctrl-Break.
    pub(super) type Interrupt = (CtrlC, CtrlBreak);
    pub(super) type Terminate = (CtrlClose, CtrlShutdown);

    pub(super) fn interrupt() -> Option<Interrupt> {
        Some((ctrl_c().ok()?, ctrl_break().ok()?))
    }

    pub(super) fn terminate() -> Option<Terminate> {
        Some((ctrl_close().ok()?, ctrl_shutdown().ok()?))
    }

    pub(super) async fn next_interrupt((c, pause): &mut Interrupt) {
        tokio::select! {
            _ = c.recv() => {}
            _ = pause.recv() => {}
        }
    }

    pub(super) async fn next_termination(terminate: &mut Option<Terminate>) {
        match terminate {
            Some((close, shutdown)) => tokio::select! {
                _ = close.recv() => {}
                _ = shutdown.recv() => {}
            },
            None => std::future::pending().await,
        }
    }
}
