//! The operating system. All that differs between Unix and Windows is in this module; the program's `signals.rs`
//! is the one exception, because it needs the runtime of a server.
//!
//! | | Linux | macOS | Windows |
//! | --- | --- | --- | --- |
//! | locks | advisory (`flock`) | advisory (`flock`) | a byte far behind the end of the file, so that reads are not blocked |
//! | replacing a file | always | always | refused while it is mapped, or open in a way that forbids it: [`Error::InUse`] |
//! | a name survives a power loss | the folder is synced | the folder is synced | left to the file system's journal |
//! | a mapped file becomes shorter | SIGBUS is answered with a message | the same | impossible; a page that cannot be read is answered with a message |
//! | files of the owner alone | mode 600 | mode 600 | the permissions of the folder |
//! | open files | limited | limited | no limit worth knowing |

mod names;
#[cfg(unix)]
mod unix;
#[cfg(unix)]
use unix as here;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
use windows as here;

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::ops::Range;
use std::path::Path;

use memmap2::Mmap;

use crate::Error;

/// Tells a file from all others of this machine, whatever its name: a volume and a number there.
pub type Identity = (u64, u64);

/// Returns the state and the identity of the file or folder at `path`, following links.
pub fn look_at(path: &Path) -> io::Result<(Metadata, Identity)> {
    here::look_at(path)
}

/// Returns the state and the identity of an open file.
pub fn look_into(file: &File) -> io::Result<(Metadata, Identity)> {
    here::look_into(file)
}

/// Makes opening with `options` return at once, whatever has the name: a pipe without a writer would be waited for.
pub(crate) fn do_not_wait(options: &mut OpenOptions) {
    here::do_not_wait(options);
}

/// Returns whether an open file is an ordinary one, and not a folder, pipe, socket or device.
pub(crate) fn is_ordinary(file: &File) -> io::Result<bool> {
    here::is_ordinary(file)
}

/// Makes a file that `options` create readable by its owner alone. On Windows it has the permissions of its folder.
pub fn create_private(options: &mut OpenOptions) {
    here::create_private(options);
}

/// Makes a file readable by its owner alone. On Windows it keeps the permissions of its folder.
pub fn make_private(file: &File) -> io::Result<()> {
    here::make_private(file)
}

/// Returns once the names in `folder` would survive a power loss. Windows cannot be asked for that: NTFS writes
/// names to its journal, in order.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    here::sync_folder(folder)
}

/// Waits for the lock of an open file. Locks are advisory: they do not stop reads or writes. Closing the file releases
/// its lock, and so does the end of the process, however it ends.
pub fn lock(file: &File) -> io::Result<()> {
    here::lock(file)
}

/// Takes the [`lock`] of an open file, or returns at once.
pub fn try_lock(file: &File) -> Result<(), TryLockError> {
    here::try_lock(file)
}

/// Releases the [`lock`] of an open file, also if a child process that is just being started has the file too.
pub fn unlock(file: &File) -> io::Result<()> {
    here::unlock(file)
}

/// Returns whether a process holds the [`lock`] of the file at `path`; `None` if that is unknown. The check shares the
/// lock for a moment, in which [`try_lock`] fails.
pub(crate) fn is_locked(path: &Path) -> Option<bool> {
    let file = match crate::ordinary::open(path) {
        Ok(file) => file,
        Err(Error::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
            return Some(false);
        }
        Err(_) => return None,
    };
    // Not `/proc/locks`: it is read in pieces, and a lock that is released between two of them can hide another.
    match here::try_lock_shared(&file) {
        Ok(()) => unlock(&file).ok().map(|()| false),
        Err(TryLockError::WouldBlock) => Some(true),
        Err(TryLockError::Error(_)) => None,
    }
}

/// Returns whether an operation failed because a program has the file open or mapped. Unix never refuses for that.
pub(crate) fn is_in_use(error: &io::Error) -> bool {
    here::is_in_use(error)
}

/// Refuses names of files and folders that this system gives another meaning or cannot store. On Windows these are
/// devices (`NUL`), streams (`a:b`), wildcards, and names that end with a dot or a space.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    if cfg!(windows) { names::check_for_windows(name) } else { Ok(()) }
}

/// Tells the system that a part of a mapping is read soon.
pub(crate) fn will_need(map: &Mmap, range: Range<usize>) {
    here::will_need(map, range);
}

/// Tells the system that a part of a mapping is not read soon, so that its pages may leave the process.
pub(crate) fn done_with(map: &Mmap, range: Range<usize>) {
    here::done_with(map, range);
}

/// Returns the bytes that are free for us on the disk of `folder`.
pub fn free_space(folder: &Path) -> io::Result<u64> {
    here::free_space(folder)
}

/// Returns how many files this process may have open, if there is a limit.
pub fn open_files() -> Option<u64> {
    here::open_files()
}

/// Returns the name of the processor, if the system tells.
pub fn processor() -> Option<String> {
    here::processor()
}

/// Returns the bytes of memory that programs can still get, if the system tells.
pub fn available_memory() -> Option<u64> {
    here::available_memory()
}

/// Returns the bytes of memory that this process has for itself, without mapped files, if the system tells.
pub fn own_memory() -> Option<u64> {
    here::own_memory()
}

/// Keeps freed memory for the next request instead of returning it to the system. Call it before other threads start.
/// Only glibc's allocator has this option.
pub fn keep_freed_memory() {
    here::keep_freed_memory();
}

/// Loads a shared library for as long as the process lives, so that it is found by its name from then on. A path
/// without folders is looked for where the system looks.
///
/// # Errors
/// What the system says about it.
///
/// # Safety
/// Initialisers of the library run.
pub unsafe fn load_library(path: &Path) -> Result<(), String> {
    // SAFETY: the caller vouches for the initialisers.
    unsafe { here::load_library(path) }
}

/// Names the file that is mapped at an address.
type FileAt = fn(usize) -> Option<&'static Path>;

/// Ends the process with `code` and a line on standard error when a mapped page of a file can no longer be read.
/// `file_at` runs at any moment, so it may neither wait nor allocate.
pub(crate) fn on_lost_page(file_at: FileAt, code: u8) {
    here::on_lost_page(file_at, code);
}

/// The end of the line about a lost page, after the name of the file.
const LOST: &str =
    ": changed while it was read: it became shorter, or its disk failed; nothing was made of it\n";

#[cfg(test)]
mod tests;
