//! Unix: Linux and macOS.

mod lost_page;

use std::ffi::{CStr, CString};
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use memmap2::{Advice, Mmap, UncheckedAdvice};

use super::Identity;
pub(super) use lost_page::on_lost_page;

/// Read and written by the owner alone.
const PRIVATE: u32 = 0o600;

pub(super) fn look_at(path: &Path) -> io::Result<(Metadata, Identity)> {
    fs::metadata(path).map(with_identity)
}

pub(super) fn look_into(file: &File) -> io::Result<(Metadata, Identity)> {
    file.metadata().map(with_identity)
}

fn with_identity(metadata: Metadata) -> (Metadata, Identity) {
    let identity = (metadata.dev(), metadata.ino());
    (metadata, identity)
}

pub(super) fn do_not_wait(options: &mut OpenOptions) {
    options.custom_flags(libc::O_NONBLOCK);
}

pub(super) fn is_ordinary(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.is_file())
}

pub(super) fn create_private(options: &mut OpenOptions) {
    options.mode(PRIVATE);
}

pub(super) fn make_private(file: &File) -> io::Result<()> {
    file.set_permissions(PermissionsExt::from_mode(PRIVATE))
}

#[allow(clippy::disallowed_methods, reason = "a folder, in which something was just named")]
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

pub(super) fn lock(file: &File) -> io::Result<()> {
    file.lock()
}

pub(super) fn try_lock(file: &File) -> Result<(), TryLockError> {
    file.try_lock()
}

pub(super) fn try_lock_shared(file: &File) -> Result<(), TryLockError> {
    file.try_lock_shared()
}

pub(super) fn unlock(file: &File) -> io::Result<()> {
    file.unlock()
}

pub(super) fn is_in_use(_: &io::Error) -> bool {
    false
}

pub(super) fn will_need(map: &Mmap, range: Range<usize>) {
    // Advice that is not taken costs time and nothing else.
    let _ = map.advise_range(Advice::WillNeed, range.start, range.len());
}

pub(super) fn done_with(map: &Mmap, range: Range<usize>) {
    // SAFETY: the mapping is of a file and never written to, so that pages which leave come back with the same
    // bytes when they are read.
    let _ =
        unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, range.start, range.len()) };
}

#[allow(clippy::useless_conversion, reason = "the types of the fields differ between systems")]
pub(super) fn free_space(folder: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(folder)?;
    Ok(u64::from(disk.f_bavail).saturating_mul(u64::from(disk.f_frsize)))
}

pub(super) fn open_files() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

/// Returns the value of a line such as `MemAvailable:    123 kB` of a file of Linux.
fn value(file: &str, name: &str) -> Option<String> {
    let text = read_system_file(file)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim_start().strip_prefix(':')?.trim().to_owned())
}

fn bytes(file: &str, name: &str) -> Option<u64> {
    let number = value(file, name)?.strip_suffix("kB")?.trim().parse::<u64>().ok()?;
    Some(number * 1024)
}

/// Reads a file of the system; elsewhere than on Linux there is none.
#[allow(clippy::disallowed_methods, reason = "a file of the system that ends")]
fn read_system_file(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

#[cfg(not(target_os = "macos"))]
pub(super) fn processor() -> Option<String> {
    value("/proc/cpuinfo", "model name")
}

#[cfg(target_os = "macos")]
pub(super) fn processor() -> Option<String> {
    let mut name = [0u8; 256];
    let mut length = name.len();
    // SAFETY: the name ends with zero, and the buffer is as long as `length` says; nothing is set.
    let failed = unsafe {
        libc::sysctlbyname(
            c"machdep.cpu.brand_string".as_ptr(),
            name.as_mut_ptr().cast(),
            &mut length,
            std::ptr::null_mut(),
            0,
        )
    };
    let name = CStr::from_bytes_until_nul(&name).ok().filter(|_| failed == 0)?;
    Some(name.to_string_lossy().into_owned())
}

pub(super) fn available_memory() -> Option<u64> {
    bytes("/proc/meminfo", "MemAvailable")
}

pub(super) fn own_memory() -> Option<u64> {
    bytes("/proc/self/status", "RssAnon")
}

pub(super) fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: `mallopt` takes two numbers and sets options of the allocator; every value is
    // allowed, and unknown ones are rejected without effect.
    unsafe {
        // Large arrays come from the heap, not from pages of their own...
        libc::mallopt(libc::M_MMAP_MAX, 0);
        // ...and the end of the heap is never given back.
        libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
    }
}

pub(super) unsafe fn load_library(path: &Path) -> Result<(), String> {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else {
        return Err(format!("{}: not the name of a file", path.display()));
    };
    // SAFETY: the name ends with zero; the caller vouches for the initialisers. An error is a text that stays until
    // the next call of this thread.
    unsafe {
        // Symbols are seen by libraries that are loaded later.
        if !libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL).is_null() {
            return Ok(());
        }
        let error = libc::dlerror();
        if error.is_null() {
            return Err(format!("{}: cannot be loaded", path.display()));
        }
        Err(CStr::from_ptr(error).to_string_lossy().into_owned())
    }
}
