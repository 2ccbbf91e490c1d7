use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

#[test]
fn files_are_told_apart_whatever_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("a"), "same").unwrap();
    fs::write(at("b"), "same").unwrap();
    let (metadata, a) = look_at(&at("a")).unwrap();
    assert_eq!(metadata.len(), 4);
    assert_ne!(a, look_at(&at("b")).unwrap().1);
    fs::rename(at("a"), at("c")).unwrap();
    assert_eq!(look_at(&at("c")).unwrap().1, a);
    assert_eq!(look_into(&File::open(at("c")).unwrap()).unwrap().1, a);
    assert!(look_at(folder.path()).unwrap().0.is_dir());
    assert!(look_at(&at("a")).is_err());
}

#[test]
fn locks_are_between_those_who_ask() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "content").unwrap();
    let open = || File::options().read(true).write(true).open(&path).unwrap();
    let (one, other) = (open(), open());
    lock(&one).unwrap();
    assert!(matches!(try_lock(&other), Err(TryLockError::WouldBlock)));
    assert_eq!(is_locked(&path), Some(true));
    // Nobody is kept from reading and writing.
    assert_eq!(fs::read(&path).unwrap(), b"content");
    fs::write(&path, "more content").unwrap();
    drop(one);
    // A child process that another test is just starting may have the file open for a moment.
    while is_locked(&path) == Some(true) {
        std::thread::yield_now();
    }
    lock(&other).unwrap();
    unlock(&other).unwrap();
    try_lock(&open()).unwrap();
    assert_eq!(is_locked(&folder.path().join("none")), Some(false));
}

#[test]
fn locks_that_come_and_go_hide_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let create = |name: &str| File::create(folder.path().join(name)).unwrap();
    let held = create("held");
    lock(&held).unwrap();
    let asked = AtomicBool::new(false);
    let asked = &asked;
    std::thread::scope(|scope| {
        let other = create("other");
        scope.spawn(move || {
            while !asked.load(Ordering::Relaxed) {
                lock(&other).unwrap();
                unlock(&other).unwrap();
            }
        });
        let always = (0..5_000).all(|_| is_locked(&folder.path().join("held")) == Some(true));
        asked.store(true, Ordering::Relaxed);
        assert!(always);
    });
}

#[test]
fn the_system_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    assert!(free_space(folder.path()).unwrap() > 0);
    assert!(free_space(&folder.path().join("none")).is_err());
    sync_folder(folder.path()).unwrap();
    assert!(open_files().is_none_or(|files| files > 10));
    assert!(own_memory().is_none_or(|bytes| bytes > 10_000));
    assert!(available_memory().is_none_or(|bytes| bytes > 1_000_000));
    assert!(available_memory().is_some() || cfg!(target_os = "macos"));
    assert!(own_memory().is_some() || cfg!(not(target_os = "linux")));
    // SAFETY: there is no such library.
    let error = unsafe { load_library("nextpair-no-such-library".as_ref()) }.unwrap_err();
    assert!(error.contains("nextpair-no-such-library"), "{error}");
}

#[test]
fn a_private_file_is_read_by_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let mut options = OpenOptions::new();
    options.write(true).create(true);
    create_private(&mut options);
    make_private(&options.open(&path).unwrap()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"");
    assert!(is_ordinary(&File::open(&path).unwrap()).unwrap());
}
