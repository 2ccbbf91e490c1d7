//! Ctrl-C: says what is kept and how to go on, and ends with [`INTERRUPTED`]. A second one ends at
//! once.
//!
//! Most commands end where they are: whatever they write survives a kill at any moment. Commands
//! that have something to clear away are asked to end instead, through
//! [`Progress::stopped`](crate::engine::Progress::stopped).

use std::io::IsTerminal;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError, mpsc};
use std::thread;

use crate::program::signals::Interrupts;
use crate::program::typed;

/// The exit code of a command that was stopped: 128 and the number of SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;

/// Says what is kept at the moment it is called, and how to go on.
type Kept = Box<dyn Fn() -> String + Send>;

/// What to do at the next Ctrl-C.
enum Plan {
    /// Say what is kept, and end.
    EndNow(Kept),
    /// Let the command clear up; it says what is kept when it is done.
    AskFirst(Kept),
}

static PLAN: Mutex<Option<Plan>> = Mutex::new(None);
static ASKED: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C ends the process, after it has printed what `kept` returns.
pub(crate) fn on_stop(kept: impl Fn() -> String + Send + 'static) {
    plan(Plan::EndNow(Box::new(kept)));
}

/// From now on the first Ctrl-C only makes [`is_asked`] true. The command then returns an error, and
/// [`end`] prints what `kept` returns.
pub(crate) fn ask_to_stop(kept: impl Fn() -> String + Send + 'static) {
    plan(Plan::AskFirst(Box::new(kept)));
}

/// Returns whether Ctrl-C has asked the command to end.
pub(crate) fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Says what is kept, and ends the process.
pub(crate) fn end() -> ! {
    let plan = PLAN.lock().unwrap_or_else(PoisonError::into_inner);
    // Leave the line of the progress bar.
    let new_line = if std::io::stderr().is_terminal() { "\n" } else { "" };
    match &*plan {
        Some(Plan::EndNow(kept) | Plan::AskFirst(kept)) => alert!("{new_line}stopped; {}", kept()),
        None => alert!("{new_line}stopped"),
    }
    process::exit(i32::from(INTERRUPTED))
}

/// Says that nothing is kept, and that the same command begins again.
pub(crate) fn nothing_kept() -> String {
    format!("nothing was written. Begin again with: {}", typed::command_line())
}

fn plan(new: Plan) {
    static TRAPPED: Once = Once::new();
    *PLAN.lock().unwrap_or_else(PoisonError::into_inner) = Some(new);
    TRAPPED.call_once(trap);
}

/// Traps Ctrl-C. Where that is impossible, it ends the process as usual.
fn trap() {
    let (trapped, is_trapped) = mpsc::channel();
    let thread = thread::Builder::new().spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
            return;
        };
        runtime.block_on(async move {
            let Some(mut interrupts) = Interrupts::trap() else { return };
            let _ = trapped.send(());
            interrupts.next().await;
            ASKED.store(true, Ordering::Relaxed);
            // On another thread, so that a second Ctrl-C is heard while this one reads files.
            let ending = thread::Builder::new().spawn(|| {
                if ends_now() {
                    end()
                }
            });
            if ending.is_err() && ends_now() {
                end()
            }
            interrupts.next().await;
            process::exit(i32::from(INTERRUPTED));
        });
    });
    if thread.is_ok() {
        // Return when it is trapped, or when the thread has given up.
        let _ = is_trapped.recv();
    }
}

fn ends_now() -> bool {
    let plan = PLAN.lock().unwrap_or_else(PoisonError::into_inner);
    matches!(&*plan, Some(Plan::EndNow(_)))
}
