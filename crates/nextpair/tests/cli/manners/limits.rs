//! Systems with little room and without locks.

use std::fs;
#[cfg(target_os = "linux")]
use std::io::{Read, Write};
#[cfg(target_os = "linux")]
use std::net::TcpStream;
use std::process::{Command, Stdio};

use super::lab;
#[cfg(target_os = "linux")]
use crate::annotate::{app::Process, driver::until};

#[cfg(target_os = "linux")]
const ENCODERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../encode/tests/fixtures");

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

/// Compiles a library that takes the place of functions of the system, and returns its path.
#[cfg(target_os = "linux")]
fn library(lab: &crate::scenario::Lab, name: &str, code: &str) -> std::path::PathBuf {
    lab.write(&format!("{name}.c"), code);
    let library = lab.path(&format!("{name}.so"));
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(lab.path(&format!("{name}.c")));
    assert!(cc.status().unwrap().success());
    library
}

/// As where a limit on processes or memory is reached in the middle of the work.
#[cfg(target_os = "linux")]
#[test]
fn a_thread_that_cannot_be_had_later_is_an_error_or_not_needed() {
    let lab = lab(20);
    lab.succeeds("train ds --model vse++ --dim 8 --epochs 1 --share 0.5 --out model");
    let few = few_threads(&lab);
    for name in ["text.onnx", "tokenizer.json"] {
        fs::copy(format!("{ENCODERS}/{name}"), lab.path(name)).unwrap();
    }
    for words in [
        "embed ds --text-model text.onnx --name words",
        "import scenes out --images 20",
        "select --model model ds --pool-side image --budget 3 --out out.jsonl",
        "run e.toml --out out --jobs 2",
    ] {
        let mut finished = false;
        for most in 0..40 {
            let mut command = Command::new(env!("CARGO_BIN_EXE_nextpair"));
            command.args(words.split(' ')).args(["--threads", "2"]).current_dir(lab.path(""));
            let output =
                command.env("LD_PRELOAD", &few).env("MOST", most.to_string()).output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(!said.contains("panicked"), "{words}, {most} threads: {said}");
            for left in ["out", ".out.partial", ".out.lock", "out.jsonl"] {
                let left = lab.path(left);
                let _ = fs::remove_dir_all(&left).or_else(|_| fs::remove_file(&left));
            }
            finished = output.status.success();
            match finished {
                true => break,
                false => {
                    assert_eq!(output.status.code(), Some(2), "{words}, {most} threads: {said}")
                }
            }
        }
        assert!(finished, "{words}");
    }
    assert_eq!(lab.read("ds/features/words.text.bad.jsonl"), "");
}

/// A library with which a process gets as many threads as `MOST` says.
#[cfg(target_os = "linux")]
fn few_threads(lab: &crate::scenario::Lab) -> std::path::PathBuf {
    library(
        lab,
        "few_threads",
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <errno.h>\n#include <pthread.h>\n#include <stdlib.h>\n\
         int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *x) {\n\
         static int made;\n\
         int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, \"pthread_create\");\n\
         if (__sync_fetch_and_add(&made, 1) >= atoi(getenv(\"MOST\"))) return EAGAIN;\n\
         return real(t, a, f, x);\n}\n",
    )
}

/// Sends a request and returns the status, if there is an answer.
#[cfg(target_os = "linux")]
fn status(address: &str) -> Option<u16> {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.split(' ').nth(1)?.parse().ok()
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_without_threads_is_an_error_and_one_that_listens_answers() {
    let lab = lab(20);
    lab.succeeds("run e.toml --out run");
    lab.succeeds("train ds --model vse++ --dim 8 --epochs 1 --share 0.5 --out model");
    lab.succeeds("select --model model ds --pool-side image --budget 3 --out picks.jsonl");
    let few = few_threads(&lab);
    for words in ["watch run", "annotate picks.jsonl --dataset ds --no-sign-in"] {
        let mut listened = false;
        for most in 0..40 {
            let mut command = Command::new(env!("CARGO_BIN_EXE_nextpair"));
            command.args(words.split(' ')).args(["--threads", "1", "--port", "0"]);
            command.env("LD_PRELOAD", &few).env("MOST", most.to_string());
            let mut process = Process::spawn(&lab.path(""), command, "log");
            let address = until("it listens or ends", || {
                let said = process.said();
                let address =
                    said.split_once(" is at http://").and_then(|(_, r)| r.split_once('/'));
                match process.ended() {
                    Some(status) => {
                        assert_eq!(status.code(), Some(2), "{words}, {most} threads: {said}");
                        Some(None)
                    }
                    None => address.map(|(address, _)| Some(address.to_owned())),
                }
            });
            if let Some(address) = &address {
                assert_eq!(status(address), Some(200), "{words}, {most} threads");
            }
            let said = process.said();
            assert!(!said.contains("panicked"), "{words}, {most} threads: {said}");
            listened = address.is_some();
            if listened {
                break;
            }
            assert!(said.contains("error: "), "{words}, {most} threads: {said}");
        }
        assert!(listened, "{words}");
    }
}

/// As on a network file system whose server does not keep locks.
#[cfg(target_os = "linux")]
#[test]
fn a_lock_that_the_file_system_refuses_is_not_called_another_process() {
    let lab = lab(20);
    let library = library(
        &lab,
        "no_locks",
        "#include <errno.h>\nint flock(int f, int o) { errno = ENOLCK; return -1; }\n",
    );
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
