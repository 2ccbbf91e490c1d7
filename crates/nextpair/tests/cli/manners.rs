//! Manners of the terminal: Ctrl-C, `--resume`, `-q` and `-v`, completions, manual pages, files of
//! flags, first searches, control characters, little room, and the first steps of new users.

mod columns;
mod first_steps;
mod flag_file;
#[cfg(unix)]
mod limits;
mod resume;
mod screens;
#[cfg(unix)]
mod stopped;
#[cfg(unix)]
mod terminal;
mod volume;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::scenario::Lab;
use crate::world::{Run, nextpair};

#[test]
fn bash_completes_commands() {
    let folder = tempfile::tempdir().unwrap();
    let script = nextpair(folder.path(), "completions bash");
    assert_eq!(script.code, Some(0), "{}", script.stderr);
    let complete = "COMP_WORDS=(nextpair sel); COMP_CWORD=1; _nextpair nextpair sel nextpair; \
                    echo \"${COMPREPLY[@]}\"";
    let bash = Command::new("bash")
        .args(["--noprofile", "--norc", "-c"])
        .arg(format!("{}\n{complete}", script.stdout))
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(bash.stdout).unwrap().trim(), "select");
    for shell in ["zsh", "fish", "powershell", "elvish"] {
        let script = nextpair(folder.path(), &format!("completions {shell}"));
        assert!(script.stdout.contains("quickstart"), "{shell}: {}", script.stderr);
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let run = nextpair(folder.path(), "man pages");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let path = |name: &str| -> PathBuf { folder.path().join("pages").join(format!("{name}.1")) };
    for name in ["nextpair", "nextpair-select", "nextpair-import-scenes", "nextpair-run"] {
        let page = fs::read_to_string(path(name)).unwrap();
        for section in [".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS", ".SH DESCRIPTION"] {
            assert!(page.contains(section), "{name}: no {section}");
        }
        assert!(page.contains("quiet"), "{name}: no global flags");
    }
    // Where there is a renderer, it finds nothing to complain about.
    let rendered = Command::new("groff")
        .args(["-man", "-Tutf8", "-ww"])
        .arg(path("nextpair-select"))
        .stderr(Stdio::piped())
        .output();
    if let Ok(rendered) = rendered {
        let text = String::from_utf8_lossy(&rendered.stdout);
        assert!(text.contains("budget"), "{text}");
    }
}

/// Runs a command in the folder of a lab.
fn run(lab: &Lab, words: &str) -> Run {
    nextpair(&lab.path(""), words)
}

/// Returns a lab with a dataset of scenes.
fn lab(images: usize) -> Lab {
    Lab::new(images)
}
