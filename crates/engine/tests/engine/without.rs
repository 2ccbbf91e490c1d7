//! Selections with vector instructions switched off, each in a process of its own.

use std::process::Command;

use nextpair_core::WITHOUT;

/// Searches and k-center on every route.
const TESTS: [&str; 3] = ["hard_negative_equals", "core_set_equals", "large_problems_equal"];

/// A reduced form of `cargo xtask test without`.
#[test]
fn selections_are_exact_without_vector_instructions() {
    if std::env::var_os(WITHOUT).is_some_and(|names| !names.is_empty()) {
        return;
    }
    let names: &[&str] = match std::env::consts::ARCH {
        "x86_64" => &["vnni", "avx512", "avx2"],
        "aarch64" => &["i8mm", "dotprod"],
        _ => &[],
    };
    for name in names {
        let mut tests = Command::new(std::env::current_exe().unwrap());
        let output = tests.args(TESTS).env(WITHOUT, name).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && !said.contains("running 0 tests"), "{name}: {said}");
    }
}
