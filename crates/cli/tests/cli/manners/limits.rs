//! Systems with little room and without locks.

use std::fs;
use std::process::{Command, Stdio};

use super::lab;

#[test]
fn threads_that_cannot_be_had_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let run = |limit: &str, threads: usize| {
        let line = format!("{limit} exec \"$0\" example world --threads {threads}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &line, env!("CARGO_BIN_EXE_nextpair")]).current_dir(folder.path());
        let output = shell.stdin(Stdio::null()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    // The stacks alone would take 500 MB.
    let (code, said) = run("ulimit -v 300000;", 250);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.starts_with("error: no threads could be started: "), "{said}");
    let (code, said) = run("", 100_000);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.starts_with("error: --threads is 100000; this machine has "), "{said}");
    assert!(!folder.path().join("world").exists());
}

/// As on a network file system whose server does not keep locks.
#[cfg(target_os = "linux")]
#[test]
fn a_lock_that_the_file_system_refuses_is_not_called_another_process() {
    let lab = lab(20);
    lab.write(
        "no_locks.c",
        "#include <errno.h>\nint flock(int f, int o) { errno = ENOLCK; return -1; }\n",
    );
    let library = lab.path("no_locks.so");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(lab.path("no_locks.c"));
    assert!(cc.status().unwrap().success());
    for words in [
        "import scenes more --images 20",
        "train ds --model vse++ --dim 8 --epochs 1 --out model",
        "run e.toml --out lab",
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_nextpair"))
            .args(words.split(' '))
            .current_dir(lab.path(""))
            .env("LD_PRELOAD", &library)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words}: {said}");
        assert!(said.contains("cannot be locked: No locks available"), "{words}: {said}");
        assert!(!said.contains("another process"), "{words}: {said}");
    }
    assert!(!fs::exists(lab.path("more")).unwrap());
}
