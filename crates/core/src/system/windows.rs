//! Windows.

mod lost_page;

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsRawHandle;
use std::path::Path;
use std::ptr;

use memmap2::Mmap;

use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_IO_PENDING, ERROR_LOCK_VIOLATION, ERROR_SHARING_VIOLATION,
    ERROR_USER_MAPPED_FILE,
};
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_FLAG_BACKUP_SEMANTICS, FILE_TYPE_DISK, GetDiskFreeSpaceExW,
    GetFileInformationByHandle, GetFileType, LOCKFILE_EXCLUSIVE_LOCK, LOCKFILE_FAIL_IMMEDIATELY,
    LockFileEx, UnlockFileEx,
};
use windows_sys::Win32::System::IO::OVERLAPPED;
use windows_sys::Win32::System::LibraryLoader::LoadLibraryExW;
use windows_sys::Win32::System::ProcessStatus::{
    K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS, PROCESS_MEMORY_COUNTERS_EX,
};
use windows_sys::Win32::System::SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX};
use windows_sys::Win32::System::Threading::GetCurrentProcess;

use super::Identity;
pub(super) use lost_page::on_lost_page;

pub(super) fn look_at(path: &Path) -> io::Result<(Metadata, Identity)> {
    // No access to the content, and folders are opened too.
    let options = &mut OpenOptions::new();
    let file = options.access_mode(0).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path)?;
    look_into(&file)
}

pub(super) fn look_into(file: &File) -> io::Result<(Metadata, Identity)> {
    let mut found = MaybeUninit::<BY_HANDLE_FILE_INFORMATION>::uninit();
    // SAFETY: the handle is open, and there is room for what is written.
    check(unsafe { GetFileInformationByHandle(file.as_raw_handle(), found.as_mut_ptr()) })?;
    // SAFETY: the call succeeded and has written it.
    let found = unsafe { found.assume_init() };
    let number = u64::from(found.nFileIndexHigh) << 32 | u64::from(found.nFileIndexLow);
    Ok((file.metadata()?, (u64::from(found.dwVolumeSerialNumber), number)))
}

/// Opening never waits for anybody.
pub(super) fn do_not_wait(_: &mut OpenOptions) {}

/// Metadata tells folders from the rest alone: to them, `NUL` is a file.
pub(super) fn is_ordinary(file: &File) -> io::Result<bool> {
    // SAFETY: the handle is open.
    let kind = unsafe { GetFileType(file.as_raw_handle()) };
    Ok(kind == FILE_TYPE_DISK && !file.metadata()?.is_dir())
}

pub(super) fn create_private(_: &mut OpenOptions) {}

pub(super) fn make_private(_: &File) -> io::Result<()> {
    Ok(())
}

pub(super) fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// The upper half of the offset of the locked byte. Windows locks block reads, so the byte lies beyond the end of any
/// file.
const LOCKED: u32 = 0x4000_0000;

fn far_behind() -> OVERLAPPED {
    let mut place = OVERLAPPED::default();
    place.Anonymous.Anonymous.OffsetHigh = LOCKED;
    place
}

fn lock_with(file: &File, flags: u32) -> io::Result<()> {
    let mut place = far_behind();
    // SAFETY: the handle is open, and not for overlapped work: the call returns when it is done.
    check(unsafe { LockFileEx(file.as_raw_handle(), flags, 0, 1, 0, &mut place) })
}

pub(super) fn lock(file: &File) -> io::Result<()> {
    lock_with(file, LOCKFILE_EXCLUSIVE_LOCK)
}

pub(super) fn try_lock(file: &File) -> Result<(), TryLockError> {
    try_lock_with(file, LOCKFILE_EXCLUSIVE_LOCK)
}

pub(super) fn try_lock_shared(file: &File) -> Result<(), TryLockError> {
    try_lock_with(file, 0)
}

fn try_lock_with(file: &File, flags: u32) -> Result<(), TryLockError> {
    match lock_with(file, flags | LOCKFILE_FAIL_IMMEDIATELY) {
        Err(error) if is_one_of(&error, &[ERROR_LOCK_VIOLATION, ERROR_IO_PENDING]) => {
            Err(TryLockError::WouldBlock)
        }
        locked => locked.map_err(TryLockError::Error),
    }
}

pub(super) fn unlock(file: &File) -> io::Result<()> {
    let mut place = far_behind();
    // SAFETY: as in `lock_with`.
    check(unsafe { UnlockFileEx(file.as_raw_handle(), 0, 1, 0, &mut place) })
}

/// Renaming over an open or mapped file fails with an access denied.
pub(super) fn is_in_use(error: &io::Error) -> bool {
    let codes = [ERROR_ACCESS_DENIED, ERROR_SHARING_VIOLATION, ERROR_USER_MAPPED_FILE];
    is_one_of(error, &codes)
}

fn is_one_of(error: &io::Error, codes: &[u32]) -> bool {
    error.raw_os_error().is_some_and(|code| codes.contains(&(code as u32)))
}

/// No advice: Windows reads ahead by itself.
pub(super) fn will_need(_: &Mmap, _: Range<usize>) {}

/// No advice: Windows releases pages when memory is short.
pub(super) fn done_with(_: &Mmap, _: Range<usize>) {}

pub(super) fn free_space(folder: &Path) -> io::Result<u64> {
    let folder = wide(folder);
    let mut free = 0;
    // SAFETY: the name ends with zero; the other numbers are not asked for.
    let done = unsafe {
        GetDiskFreeSpaceExW(folder.as_ptr(), &mut free, ptr::null_mut(), ptr::null_mut())
    };
    check(done).map(|()| free)
}

pub(super) fn open_files() -> Option<u64> {
    None
}

pub(super) fn processor() -> Option<String> {
    std::env::var("PROCESSOR_IDENTIFIER").ok()
}

pub(super) fn available_memory() -> Option<u64> {
    let mut status =
        MEMORYSTATUSEX { dwLength: size_of::<MEMORYSTATUSEX>() as u32, ..Default::default() };
    // SAFETY: the structure says how long it is.
    check(unsafe { GlobalMemoryStatusEx(&mut status) }).ok().map(|()| status.ullAvailPhys)
}

pub(super) fn own_memory() -> Option<u64> {
    let mut counters = PROCESS_MEMORY_COUNTERS_EX::default();
    let size = size_of::<PROCESS_MEMORY_COUNTERS_EX>() as u32;
    let place = ptr::from_mut(&mut counters).cast::<PROCESS_MEMORY_COUNTERS>();
    // SAFETY: the longer structure begins like the shorter one, and the call hears which it is.
    let done = unsafe { K32GetProcessMemoryInfo(GetCurrentProcess(), place, size) };
    // Wine says nothing.
    check(done).ok().map(|()| counters.PrivateUsage as u64).filter(|&bytes| bytes > 0)
}

pub(super) fn keep_freed_memory() {}

pub(super) unsafe fn load_library(path: &Path) -> Result<(), String> {
    let name = wide(path);
    // SAFETY: the name ends with zero; the caller vouches for the initialisers.
    let library = unsafe { LoadLibraryExW(name.as_ptr(), ptr::null_mut(), 0) };
    if library.is_null() {
        return Err(format!("{}: {}", path.display(), io::Error::last_os_error()));
    }
    Ok(())
}

/// A path as Windows takes it, with a zero at its end.
fn wide(path: &Path) -> Vec<u16> {
    path.as_os_str().encode_wide().chain([0]).collect()
}

/// Returns the error of a call that returned false.
fn check(done: i32) -> io::Result<()> {
    if done == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
