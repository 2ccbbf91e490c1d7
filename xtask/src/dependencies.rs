//! What a crate must not depend on, so that it can be used without, and what only one module may know.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{cargo, root};

#[test]
fn the_engine_reads_no_files_of_others() {
    let arguments = ["tree", "-p", "nextpair-engine", "-e", "normal", "--prefix", "none"];
    let mut tree = cargo(&arguments);
    let tree = tree.args(["--locked", "--offline"]).current_dir(root().unwrap()).output().unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout).unwrap();
    let names: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(names.contains(&"nextpair-core"), "{names:?}");
    for heavy in ["parquet", "image", "tar"] {
        assert!(!names.contains(&heavy), "nextpair-engine depends on {heavy}");
    }
}

/// The one module that knows the operating system, and what the program adds to it.
const OF_THE_SYSTEM: [&str; 3] = [
    "crates/core/src/system.rs",
    "crates/core/src/system/",
    "crates/nextpair/src/program/signals.rs",
];
/// How code names a system, its calls and its files.
const NAMES: [&str; 12] = [
    "cfg(unix",
    "cfg(windows",
    "cfg!(unix",
    "cfg!(windows",
    "(not(unix",
    "(not(windows",
    "target_os",
    "target_family",
    "os::unix",
    "os::windows",
    "/proc/",
    "rustix::",
];
const CRATES: [&str; 2] = ["libc::", "windows_sys::"];

#[test]
fn one_module_knows_the_operating_system() {
    let root = root().unwrap();
    let mut sources = Vec::new();
    for package in fs::read_dir(root.join("crates")).unwrap() {
        find_sources(&package.unwrap().path().join("src"), &mut sources);
    }
    find_sources(&root.join("python/src"), &mut sources);
    assert!(sources.len() > 300, "{} sources", sources.len());
    let (mut elsewhere, mut known) = (Vec::new(), 0);
    for path in sources {
        let text = fs::read_to_string(&path).unwrap();
        let path = path.strip_prefix(&root).unwrap().to_str().unwrap();
        let is_system = OF_THE_SYSTEM.iter().any(|allowed| path.starts_with(allowed));
        for (number, line) in without_tests(&text).lines().enumerate() {
            let named = NAMES.iter().chain(&CRATES).any(|name| line.contains(name));
            if named && is_system {
                known += 1;
            } else if named && !line.trim_start().starts_with("//") {
                elsewhere.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(elsewhere.is_empty(), "ask nextpair_core::system instead:\n{}", elsewhere.join("\n"));
    assert!(known > 10, "the names are found where they are: {known}");
}

/// Finds the sources of a crate that are not tests.
fn find_sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("tests") {
            find_sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

/// A source up to its tests.
fn without_tests(text: &str) -> &str {
    let end = ["#[cfg(test)]", "#[cfg(all(test"].iter().filter_map(|mark| text.find(mark)).min();
    &text[..end.unwrap_or(text.len())]
}
