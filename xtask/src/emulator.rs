//! A GPU that is emulated: libraries by the names of NVIDIA's, which run kernels on the CPU.
//!
//! `xtask/emulator` has their sources. Kernels are compiled by g++, threads of a block take turns, and memory is full of
//! NaN until it is written. Launches that a GPU refuses are refused, and addresses beyond an array end the kernel.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsString;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{cargo, root, servers, succeed};

const SOURCES: &str = "xtask/emulator";
const FOLDER: &str = "target/emulator";

/// Libraries: the name of each, the name that `cudarc` looks for first, and its sources.
const LIBRARIES: [(&str, &str, &[&str]); 4] = [
    ("libcuda.so.1", "libcuda.so", &["driver.cpp", "processor.cpp"]),
    ("libnvrtc.so.13", "libnvrtc.so", &["nvrtc.cpp"]),
    ("libcublasLt.so.13", "libcublasLt.so", &["blas_lt.cpp"]),
    ("libcublas.so.13", "libcublas.so", &["blas.cpp"]),
];

/// Runs the step `emulated`: every operation on an emulated GPU. Whole models take many minutes so: `cargo xtask emulate
/// cargo test --release -p nextpair-models` runs those.
pub(crate) fn test() -> Result<()> {
    let emulator = Emulator::build()?;
    // As all tests are built, so that nothing is compiled again.
    let mut tests = cargo(&["test", "--release", "--workspace", "--locked", "--lib", "ops::"]);
    succeed(emulator.lend(&mut tests))
}

/// Runs a program, with its arguments, that finds the emulated GPU.
pub(crate) fn run(words: &[OsString]) -> Result<()> {
    let (program, rest) = words.split_first().context("cargo xtask emulate takes a program")?;
    let emulator = Emulator::build()?;
    succeed(emulator.lend(Command::new(program).args(rest)))
}

/// Libraries that are built.
pub(crate) struct Emulator {
    folder: PathBuf,
}

impl Emulator {
    /// Builds the libraries, unless these were built before.
    pub(crate) fn build() -> Result<Self> {
        servers::on_path("g++").context("g++ is not on the PATH: please install it")?;
        let sources = root()?.join(SOURCES);
        let version = version(&sources)?;
        let folder = root()?.join(FOLDER).join(version.to_string());
        let emulator = Emulator { folder };
        if emulator.folder.is_dir() {
            return Ok(emulator);
        }
        // Whole when it has its name.
        let draft = emulator.folder.with_extension(std::process::id().to_string());
        fs::create_dir_all(&draft).with_context(|| draft.display().to_string())?;
        for (name, known_as, files) in LIBRARIES {
            let mut compiler = Command::new("g++");
            compiler.args([
                "-std=c++17",
                "-Wall",
                "-Wextra",
                "-shared",
                "-fPIC",
                "-fvisibility=hidden",
            ]);
            compiler.args(options().split(' ')).arg(format!("-Wl,-soname,{known_as}"));
            compiler.arg(format!("-DHEADERS=\"{}\"", sources.display()));
            compiler.arg(format!("-DOPTIONS=\"{}\"", options()));
            compiler.arg(format!("-DVERSION={version}"));
            compiler.args(files.iter().map(|file| sources.join(file)));
            succeed(compiler.args(["-ldl", "-lpthread", "-o"]).arg(draft.join(name)))?;
        }
        match fs::rename(&draft, &emulator.folder) {
            // Somebody else was faster, with the same.
            Err(_) if emulator.folder.is_dir() => fs::remove_dir_all(&draft),
            renamed => renamed,
        }
        .with_context(|| draft.display().to_string())?;
        Ok(emulator)
    }

    /// Lets a program find the libraries, and keep the kernels that it compiles apart.
    pub(crate) fn lend<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("NEXTPAIR_CUDA_LIBS", &self.folder);
        command.env("XDG_CACHE_HOME", self.folder.join("cache"))
    }
}

/// Options of g++ for libraries and kernels. Fused sums of products are what a GPU computes too.
fn options() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
        return "-O2 -march=x86-64-v3";
    }
    "-O2"
}

/// A number that changes with the sources.
fn version(sources: &Path) -> Result<u32> {
    let entries = fs::read_dir(sources).with_context(|| sources.display().to_string())?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    let mut hash = DefaultHasher::new();
    options().hash(&mut hash);
    for path in paths {
        path.hash(&mut hash);
        fs::read(&path).with_context(|| path.display().to_string())?.hash(&mut hash);
    }
    // The compiler says it as the second part of its version, an `int`.
    Ok((hash.finish() >> 33) as u32)
}
