//! SIGBUS: a mapped page of a file that became shorter.

use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, c_void, sigaction, siginfo_t};

use super::super::{FileAt, LOST};

/// How to find the name of a file, and the exit code.
static TASK: OnceLock<(FileAt, u8)> = OnceLock::new();
/// The previous SIGBUS action: the standard library looks for stack overflows.
static BEFORE: OnceLock<sigaction> = OnceLock::new();

pub(in super::super) fn on_lost_page(file_at: FileAt, code: u8) {
    if TASK.set((file_at, code)).is_err() {
        return;
    }
    // SAFETY: all zeros is a valid `sigaction`; the handler has the signature that SA_SIGINFO
    // asks for and does only what a handler may; both pointers are valid for the call.
    unsafe {
        let mut action: sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction =
            on_signal as extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize;
        // Use the alternative stack where a thread has one: its own may be the missing memory.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        let mut before: sigaction = MaybeUninit::zeroed().assume_init();
        if libc::sigaction(libc::SIGBUS, &action, &mut before) == 0 {
            let _ = BEFORE.set(before);
        }
    }
}

extern "C" fn on_signal(signal: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a valid `siginfo_t`.
    let (address, sent) = unsafe { ((*info).si_addr() as usize, (*info).si_code <= 0) };
    if !sent
        && let Some((file_at, code)) = TASK.get()
        && let Some(path) = file_at(address)
    {
        leave(path, *code);
    }
    // The signal is not about an input.
    // SAFETY: `sigaction` filled in the previous action. `raise` takes a signal, which
    // waits until this handler returns.
    unsafe {
        match BEFORE.get() {
            // The previous handler sees the signal when the access is tried again.
            Some(before) if !sent => {
                libc::sigaction(signal, before, ptr::null_mut());
            }
            // Another process sent the signal to end us.
            _ => {
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal);
            }
        }
    }
}

fn leave(path: &Path, code: u8) -> ! {
    static LEAVING: AtomicBool = AtomicBool::new(false);
    if LEAVING.swap(true, Ordering::AcqRel) {
        // Another thread is already writing the message and ends the process.
        loop {
            // SAFETY: `pause` waits for a signal.
            unsafe { libc::pause() };
        }
    }
    let write = |part: &str| {
        // SAFETY: the bytes are valid for the call. A closed standard error does not matter.
        unsafe { libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len()) };
    };
    write("error: ");
    // As `printable`, which allocates, and a handler may not.
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for piece in chunk.valid().split_inclusive(char::is_control) {
            let kept = piece.trim_end_matches(char::is_control);
            write(kept);
            write(if kept.len() < piece.len() { "?" } else { "" });
        }
        write(if chunk.invalid().is_empty() { "" } else { "?" });
    }
    write(LOST);
    // SAFETY: `_exit` ends the process at once and is allowed in a handler.
    unsafe { libc::_exit(i32::from(code)) }
}
