//! The list of mapped files, so that a process that dies because an input changed can name the
//! file.
//!
//! When a mapped file becomes shorter, some mapped addresses lose their bytes. Reading one raises
//! a signal (on Windows an exception), which ends a process without a message. A program that wants a message
//! calls [`stop_on_changed_inputs`]. Its handler (`system`) may run at any point, so what it asks here neither locks
//! nor allocates: it walks a list that only ever grows and reads numbers and a path.

use std::panic;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Origin;
use crate::printable;
use crate::{Error, system};

/// An entry of the list: one mapped file, or none at the moment. Entries are reused and never
/// freed, so that walking the list is always safe.
#[derive(Debug)]
struct Entry {
    /// The first address; 0 while nothing is mapped here.
    start: AtomicUsize,
    /// The address after the last byte.
    end: AtomicUsize,
    /// Origin of the current mapping, owned by its [`Watched`].
    origin: AtomicPtr<Origin>,
    next: AtomicPtr<Entry>,
}

/// The entry added last.
static LAST: AtomicPtr<Entry> = AtomicPtr::new(ptr::null_mut());

/// Entries without a mapping. All code but the handler holds this lock while it changes an entry or
/// follows its origin.
static FREE: Mutex<Vec<&'static Entry>> = Mutex::new(Vec::new());

/// An entry in the list for as long as a mapping lives.
#[derive(Debug)]
pub(super) struct Watched {
    origin: Arc<Origin>,
    place: &'static Entry,
}

impl Watched {
    /// Enters the bytes of a mapping into the list.
    pub(super) fn new(bytes: &[u8], origin: Origin) -> Self {
        let origin = Arc::new(origin);
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let place = free.pop().unwrap_or_else(|| {
            let place: &'static Entry = Box::leak(Box::new(Entry {
                start: AtomicUsize::new(0),
                end: AtomicUsize::new(0),
                origin: AtomicPtr::new(ptr::null_mut()),
                next: AtomicPtr::new(LAST.load(Ordering::Acquire)),
            }));
            LAST.store(ptr::from_ref(place).cast_mut(), Ordering::Release);
            place
        });
        let start = bytes.as_ptr() as usize;
        place.origin.store(Arc::as_ptr(&origin).cast_mut(), Ordering::Release);
        place.end.store(start + bytes.len(), Ordering::Release);
        // The start comes last: it says that the other fields are set.
        place.start.store(start, Ordering::Release);
        Watched { origin, place }
    }

    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        self.place.start.store(0, Ordering::Release);
        self.place.origin.store(ptr::null_mut(), Ordering::Release);
        free.push(self.place);
    }
}

/// All entries, the last first.
fn places() -> impl Iterator<Item = &'static Entry> {
    let at = |pointer: *mut Entry| {
        // SAFETY: the list holds leaked places and ends with null.
        unsafe { pointer.as_ref() }
    };
    let first = at(LAST.load(Ordering::Acquire));
    std::iter::successors(first, move |place| at(place.next.load(Ordering::Acquire)))
}

/// The first mapped input that changed since it was mapped.
fn changed() -> Option<Error> {
    // Do not wait for the lock: this runs in a panic, and the panicking thread may hold it.
    let _places = FREE.try_lock().ok()?;
    places().find_map(|place| {
        let origin = place.origin.load(Ordering::Acquire);
        // SAFETY: the pointer is null, or points to an origin whose owner takes it out of the
        // entry, under the lock we hold, before freeing it.
        unsafe { origin.as_ref() }?.check_unchanged().err()
    })
}

/// Makes the process end with `code` and a line on standard error when another process changes one
/// of its inputs.
///
/// Without this, a mapped file that became shorter ends the process by SIGBUS, and checked data
/// that is gone makes it panic. Call this once, in a program, before the work starts; a library
/// should not end the process. Windows does not let a mapped file be shortened; there the cause is a disk or a server
/// that is gone.
///
/// Where a change lets the read finish, the reader compares the file and returns
/// [`Error::Changed`].
pub fn stop_on_changed_inputs(code: u8) {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |what| {
        before(what);
        if let Some(error) = changed() {
            use std::io::Write;
            let line = format!("error: {error}\n");
            let _ = std::io::stderr().write_all(printable(&line).as_bytes());
            std::process::exit(i32::from(code));
        }
    }));
    system::on_lost_page(file_at, code);
}

/// The file that is mapped at an address which the interrupted thread reads.
fn file_at(address: usize) -> Option<&'static Path> {
    let place = places().find(|place| {
        let start = place.start.load(Ordering::Acquire);
        start != 0 && (start..place.end.load(Ordering::Acquire)).contains(&address)
    })?;
    // SAFETY: the reader of this address borrows the mapping, which therefore lives and owns
    // the origin. That reader is the thread which was interrupted, and it does not
    // continue: the process ends there.
    let origin: &'static Origin = unsafe { place.origin.load(Ordering::Acquire).as_ref() }?;
    Some(&origin.path)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::fs::{self, File};
    use std::process::Command;

    use crate::mapping::map;

    /// Environment variable that is set in the child processes of these tests.
    const DOOMED: &str = "NEXTPAIR_TEST_DOOMED";

    /// Runs this test in a process of its own and returns its exit code and output.
    fn doomed(test: &str, file: &std::path::Path) -> (Option<i32>, String) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let test = format!("{}::{test}", module_path!().split_once("::").unwrap().1);
        command.args(["--exact", &test, "--nocapture"]).env(DOOMED, file);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }

    #[test]
    fn a_file_that_became_shorter_is_named() {
        if let Some(path) = std::env::var_os(DOOMED) {
            super::stop_on_changed_inputs(7);
            let other = map(path.as_ref()).unwrap();
            let bytes = map(path.as_ref()).unwrap();
            drop(other);
            File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
            let threads: Vec<_> = (0..4)
                .map(|at| {
                    let bytes = bytes.clone();
                    std::thread::spawn(move || bytes.as_slice()[at * 4096])
                })
                .collect();
            threads.into_iter().for_each(|thread| drop(thread.join()));
            panic!("there was nothing to read");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("features é.npy");
        fs::write(&path, vec![1; 5 * 4096]).unwrap();
        let (code, said) = doomed("a_file_that_became_shorter_is_named", &path);
        let line = format!("error: {}: changed while it was read: it became", path.display());
        assert_eq!((code, said.matches(&line).count()), (Some(7), 1), "{said}");
    }

    #[test]
    fn a_panic_about_a_file_that_changed_names_it() {
        if let Some(path) = std::env::var_os(DOOMED) {
            super::stop_on_changed_inputs(7);
            let bytes = map(path.as_ref()).unwrap();
            fs::write(&path, "{}").unwrap();
            panic!("{} bytes were here before", bytes.as_slice().len());
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("items.jsonl");
        fs::write(&path, "whole").unwrap();
        let (code, said) = doomed("a_panic_about_a_file_that_changed_names_it", &path);
        let line = format!("error: {}: changed while it was read: it had 5 b", path.display());
        assert!(code == Some(7) && said.contains(&line), "{code:?}: {said}");
    }

    #[test]
    fn other_bus_errors_and_panics_end_as_before() {
        if let Some(path) = std::env::var_os(DOOMED) {
            super::stop_on_changed_inputs(7);
            let _bytes = map(path.as_ref()).unwrap();
            if fs::read(&path).unwrap() == b"panic" {
                panic!("for a reason of its own");
            }
            // SAFETY: `raise` takes a signal.
            unsafe { libc::raise(libc::SIGBUS) };
            panic!("the signal passed");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for (content, code) in [("panic", Some(101)), ("signal", None)] {
            fs::write(&path, content).unwrap();
            let (ended, said) = doomed("other_bus_errors_and_panics_end_as_before", &path);
            assert_eq!(ended, code, "{said}");
            assert!(!said.contains("changed while"), "{said}");
        }
    }
}
