//! Other platforms: compiled here, and run in an emulator where there is one.
//!
//! Debian's `rustc-web` is the compiler, because Debian has the source of its standard library too (`rust-web-src`):
//! a library for any platform is compiled of it. The linker and the C compiler are zig's, from PyPI. aarch64 runs in
//! `qemu-user`, Windows in Wine; nothing runs macOS, which is only checked.

mod tools;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::{root, succeed};
use tools::Tools;

/// One platform.
struct Platform {
    /// What people call it.
    name: &'static str,
    /// What Rust calls it, and what zig does.
    target: &'static str,
    zig: &'static str,
    /// Runs a program of it, unless nothing does.
    runner: Option<Runner>,
}

#[derive(Clone, Copy, PartialEq)]
enum Runner {
    Qemu,
    Wine,
}

const PLATFORMS: [Platform; 3] = [
    Platform {
        name: "aarch64",
        target: "aarch64-unknown-linux-gnu",
        // The C library that wheels may ask for.
        zig: "aarch64-linux-gnu.2.28",
        runner: Some(Runner::Qemu),
    },
    Platform {
        name: "windows",
        // Of the same interface as `-gnu`, but it needs neither GCC's libraries nor its `dlltool`.
        target: "x86_64-pc-windows-gnullvm",
        zig: "x86_64-windows-gnu",
        runner: Some(Runner::Wine),
    },
    Platform { name: "macos", target: "aarch64-apple-darwin", zig: "aarch64-macos", runner: None },
];

/// The packages whose tests run: those that meet the system and the processor.
const TESTED: [&str; 4] = ["nextpair-core", "nextpair-data", "nextpair-engine", "nextpair-kernels"];
/// Tests that start themselves again, which the kernel does not know how to, and one that selects from a thousand
/// worlds.
const NOT_EMULATED: [&str; 3] =
    ["mapping::watch", "without::", "a_thousand_clean_worlds_have_no_findings"];
const PROGRAM: &str = "nextpair";

/// Compiles the program for every platform, or for one, runs it, and runs the tests of packages.
pub(crate) fn run(name: Option<&str>, packages: &[String]) -> Result<()> {
    let wanted: Vec<&Platform> =
        PLATFORMS.iter().filter(|platform| name.is_none_or(|name| name == platform.name)).collect();
    let names = PLATFORMS.map(|platform| platform.name).join(", ");
    ensure!(!wanted.is_empty(), "no such platform; there are {names}");
    let packages: Vec<&str> = match packages {
        [] => TESTED.into_iter().chain([PROGRAM]).collect(),
        named => named.iter().map(String::as_str).collect(),
    };
    let tools = Tools::get()?;
    let mut done = Vec::new();
    for platform in wanted {
        let began = Instant::now();
        tools.standard_library(platform).with_context(|| platform.name.to_owned())?;
        let what = try_platform(&tools, platform, &packages);
        done.push(format!(
            "{:8} {}",
            platform.name,
            what.with_context(|| platform.name.to_owned())?
        ));
        eprintln!("{} took {} s", platform.name, began.elapsed().as_secs());
    }
    done.iter().for_each(|line| println!("{line}"));
    Ok(())
}

/// Compiles and runs what can be, and says what that was.
fn try_platform(tools: &Tools, platform: &Platform, packages: &[&str]) -> Result<String> {
    let Some(runner) = platform.runner else {
        let mut check = tools.cargo(platform, &["check"])?;
        succeed(check.args(packages.iter().flat_map(|package| ["-p", package])))?;
        return Ok(format!("checked, not linked and not run: {}", packages.join(" ")));
    };
    let tested: Vec<&str> = packages.iter().copied().filter(|&name| name != PROGRAM).collect();
    let mut ran = Vec::new();
    if !tested.is_empty() {
        // Documentation tests would be compiled one by one.
        let mut tests = tools.cargo(platform, &["test", "--lib", "--tests"])?;
        tests.args(tested.iter().flat_map(|package| ["-p", package]));
        if runner == Runner::Qemu {
            tests.arg("--").args(NOT_EMULATED.iter().flat_map(|name| ["--skip", name]));
        }
        succeed(&mut tests)?;
        ran.push(format!("tests of {}", tested.join(" ")));
    }
    if packages.contains(&PROGRAM) {
        succeed(&mut tools.cargo(platform, &["build", "-p", PROGRAM])?)?;
        try_program(tools, platform)?;
        ran.push("the program".to_owned());
    }
    let place = if runner == Runner::Qemu { "qemu-user" } else { "Wine" };
    Ok(format!("run in {place}: {}", ran.join(", ")))
}

/// Lets the program of another platform make an example and select from it, and compares its picks with those of ours.
fn try_program(tools: &Tools, platform: &Platform) -> Result<()> {
    let folder = tools.folder.join("trial").join(platform.name);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let theirs = select(&mut || tools.program(platform), &folder.join("theirs"))?;
    succeed(&mut crate::cargo(&["build", "--release", "--locked"]))?;
    let ours = root()?.join("target/release/nextpair");
    let ours = select(&mut || Ok(Command::new(&ours)), &folder.join("ours"))?;
    ensure!(!ours.is_empty() && theirs == ours, "{}: other picks than here", folder.display());
    Ok(())
}

/// Makes an example in a folder, selects from it, and returns the picks.
fn select(program: &mut dyn FnMut() -> Result<Command>, folder: &Path) -> Result<Vec<u8>> {
    fs::create_dir_all(folder)?;
    succeed(program()?.args(["example", "world"]).current_dir(folder))?;
    let words = "select --paired-images world/paired_images.npy --paired-texts world/paired_texts.npy --pool \
                 world/pool.npy --pool-side image --budget 500 --out picks.jsonl";
    succeed(program()?.args(words.split(' ')).current_dir(folder))?;
    let picks = folder.join("picks.jsonl");
    fs::read(&picks).with_context(|| picks.display().to_string())
}
