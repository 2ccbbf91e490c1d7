//! Page errors: a mapped page of a file whose disk or server is gone. (Windows does not let a mapped file be shortened.)

use std::io::Write;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use windows_sys::Win32::Foundation::EXCEPTION_IN_PAGE_ERROR;
use windows_sys::Win32::System::Diagnostics::Debug::{
    AddVectoredExceptionHandler, EXCEPTION_CONTINUE_SEARCH, EXCEPTION_POINTERS,
};
use windows_sys::Win32::System::Threading::ExitProcess;

use super::super::{FileAt, LOST};
use crate::printable;

/// How to find the name of a file, and the exit code.
static TASK: OnceLock<(FileAt, u8)> = OnceLock::new();

pub(in super::super) fn on_lost_page(file_at: FileAt, code: u8) {
    if TASK.set((file_at, code)).is_ok() {
        // SAFETY: the handler has the signature that is asked for. Without it, the system ends the process.
        unsafe { AddVectoredExceptionHandler(1, Some(on_exception)) };
    }
}

unsafe extern "system" fn on_exception(exception: *mut EXCEPTION_POINTERS) -> i32 {
    // SAFETY: the system passes a valid exception and its record.
    let record = unsafe { &*(*exception).ExceptionRecord };
    // The second number is the address that could not be read.
    if record.ExceptionCode == EXCEPTION_IN_PAGE_ERROR
        && let Some((file_at, code)) = TASK.get()
        && let Some(path) = file_at(record.ExceptionInformation[1])
    {
        leave(path, *code);
    }
    EXCEPTION_CONTINUE_SEARCH
}

fn leave(path: &Path, code: u8) -> ! {
    static LEAVING: AtomicBool = AtomicBool::new(false);
    if LEAVING.swap(true, Ordering::AcqRel) {
        // Another thread is already writing the message and ends the process.
        loop {
            std::thread::park();
        }
    }
    // This thread was reading a mapping, so it holds none of the locks that writing takes.
    let line = format!("error: {}{LOST}", path.display());
    let _ = std::io::stderr().write_all(printable(&line).as_bytes());
    // SAFETY: it ends the process.
    unsafe { ExitProcess(u32::from(code)) }
}
