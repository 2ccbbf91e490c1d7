//! The compiler, the linker and the emulators.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Platform, Runner};
use crate::servers::{self, Find};
use crate::{python, root, succeed, without_own_package};

const FOLDER: &str = "target/platforms";
const SOURCES: &str = "xtask/platforms";
/// Debian's compiler, whatever else is on the path: the source of its standard library is there.
const RUSTC: &str = "/usr/bin/rustc";
const CARGO: &str = "/usr/bin/cargo";
const LIBRARY_SOURCE: &str = "/usr/lib/rustlib/src/rust/library/std";
const QEMU: &str = "qemu-aarch64 -cpu max -L /usr/aarch64-linux-gnu";
const WINE: &str = "/usr/lib/wine/wine64";

const PACKAGES: [(&str, Find); 6] = [
    ("rustc-web", || there(RUSTC)),
    ("cargo-web", || there(CARGO)),
    ("rust-web-src", || there(LIBRARY_SOURCE)),
    ("qemu-user", || servers::on_path("qemu-aarch64")),
    ("libc6-arm64-cross", || there("/usr/aarch64-linux-gnu/lib/libc.so.6")),
    ("wine64", || there(WINE)),
];

fn there(path: &str) -> Option<PathBuf> {
    Some(PathBuf::from(path)).filter(|path| path.exists())
}

/// Everything that is needed, installed.
pub(super) struct Tools {
    pub(super) folder: PathBuf,
    zig: PathBuf,
    /// What the compiler says of itself.
    version: String,
}

impl Tools {
    pub(super) fn get() -> Result<Self> {
        servers::install(&PACKAGES)?;
        let folder = root()?.join(FOLDER);
        let python =
            python::environment(&folder.join("python"), &format!("{SOURCES}/requirements.txt"))?;
        let code = "import os, ziglang; print(os.path.dirname(ziglang.__file__))";
        let zig = said(Command::new(python).args(["-c", code]))?;
        let zig = Path::new(zig.trim()).join("zig");
        let version = said(Command::new(RUSTC).arg("-vV"))?;
        eprintln!("{RUSTC}: {}", version.lines().next().unwrap_or_default());
        Ok(Tools { folder, zig, version })
    }

    /// Compiles the standard library for a platform, unless this compiler has done so.
    pub(super) fn standard_library(&self, platform: &Platform) -> Result<()> {
        let place = self.sysroot().join("lib/rustlib").join(platform.target);
        let marker = place.join("version");
        if fs::read_to_string(&marker).is_ok_and(|version| version == self.version) {
            return Ok(());
        }
        eprintln!("compiling the standard library for {}", platform.target);
        let package = self.folder.join("standard-library");
        write(
            &package.join("Cargo.toml"),
            "[package]\nname = \"empty\"\nedition = \"2024\"\n\n[workspace]\n",
        )?;
        write(&package.join("src/lib.rs"), "")?;
        let mut build = Self::command();
        // The library is compiled as the compiler's own, which alone may use what is not stable.
        build.env("RUSTC_BOOTSTRAP", "1").env("CARGO_TARGET_DIR", package.join("target"));
        build.args(["build", "--release", "-Zbuild-std=std,panic_unwind,test"]);
        build.args(["--target", platform.target]).current_dir(&package);
        succeed(&mut build)?;
        if place.exists() {
            fs::remove_dir_all(&place).with_context(|| place.display().to_string())?;
        }
        let library = place.join("lib");
        fs::create_dir_all(&library).with_context(|| library.display().to_string())?;
        let built = package.join("target").join(platform.target).join("release/deps");
        for entry in fs::read_dir(&built).with_context(|| built.display().to_string())? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.ends_with(".rlib") && !name.starts_with("libempty-") {
                fs::copy(&path, library.join(name)).with_context(|| path.display().to_string())?;
            }
        }
        write(&marker, &self.version)
    }

    /// The folder in which the compiler looks for standard libraries.
    fn sysroot(&self) -> PathBuf {
        self.folder.join("sysroot")
    }

    fn build_folder(&self, platform: &Platform) -> PathBuf {
        self.folder.join(format!("build-{}", platform.name))
    }

    /// Returns a command of cargo for a platform, such as `test`.
    pub(super) fn cargo(&self, platform: &Platform, words: &[&str]) -> Result<Command> {
        let bin = self.folder.join("bin");
        let cc = bin.join(format!("cc-{}", platform.name));
        let (zig, script) = (self.zig.display(), root()?.join(SOURCES).join("cc.sh"));
        let script = script.display();
        write_program(&cc, &format!("exec sh '{script}' '{zig}' {} \"$@\"", platform.zig))?;
        let ar = bin.join("ar");
        write_program(&ar, &format!("exec '{zig}' ar \"$@\""))?;
        let mut command = Self::command();
        let (lower, upper) =
            (platform.target.replace('-', "_"), platform.target.replace('-', "_").to_uppercase());
        command.env(format!("CC_{lower}"), &cc).env(format!("AR_{lower}"), &ar);
        command.env(format!("CARGO_TARGET_{upper}_LINKER"), &cc);
        let sysroot = format!("--sysroot={}", self.sysroot().display());
        command.env(format!("CARGO_TARGET_{upper}_RUSTFLAGS"), sysroot);
        if let Some(runner) = platform.runner {
            let words = if runner == Runner::Qemu { QEMU } else { WINE };
            command.env(format!("CARGO_TARGET_{upper}_RUNNER"), words);
            self.prepare(runner, &mut command)?;
        }
        if platform.runner != Some(Runner::Qemu) {
            // Whether it works is the question, and it compiles in half the time so. An emulated processor is slow enough.
            command.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0");
        }
        command.env("CARGO_TARGET_DIR", self.build_folder(platform));
        command.args(words).args(["--release", "--locked", "--target", platform.target]);
        Ok(command)
    }

    /// Returns a command that runs the program of a platform.
    pub(super) fn program(&self, platform: &Platform) -> Result<Command> {
        let runner = platform.runner.context("nothing runs it")?;
        let (words, name) =
            if runner == Runner::Qemu { (QEMU, "nextpair") } else { (WINE, "nextpair.exe") };
        let mut words = words.split(' ');
        let mut command = Command::new(words.next().unwrap_or_default());
        let built = self.build_folder(platform).join(platform.target).join("release");
        command.args(words).arg(built.join(name));
        self.prepare(runner, &mut command)?;
        Ok(command)
    }

    /// Lets a command use a runner.
    fn prepare(&self, runner: Runner, command: &mut Command) -> Result<()> {
        if runner == Runner::Wine {
            let prefix = self.folder.join("wine");
            command.env("WINEPREFIX", &prefix).env("WINEDEBUG", "-all");
            self.make_wine_complete(&prefix)?;
        }
        Ok(())
    }

    /// Makes a place for Wine, with the library that versions before 9 lack.
    fn make_wine_complete(&self, prefix: &Path) -> Result<()> {
        let library = prefix.join("drive_c/windows/system32/bcryptprimitives.dll");
        if library.exists() {
            return Ok(());
        }
        fs::create_dir_all(prefix).with_context(|| prefix.display().to_string())?;
        let mut boot = Command::new(WINE);
        boot.args(["wineboot", "--init"]).env("WINEPREFIX", prefix).env("WINEDEBUG", "-all");
        succeed(&mut boot)?;
        let mut compiler = Command::new(&self.zig);
        compiler.args(["cc", "-target", "x86_64-windows-gnu", "-O2", "-shared"]);
        compiler.arg(format!("{SOURCES}/bcryptprimitives.c")).args(["-ladvapi32", "-o"]);
        succeed(compiler.arg(&library))
    }

    /// Returns a command of Debian's cargo, without what the cargo that runs us has set.
    fn command() -> Command {
        let mut command = without_own_package(Command::new(CARGO));
        for name in ["CARGO", "RUSTUP_TOOLCHAIN", "RUSTUP_HOME", "LD_LIBRARY_PATH", "RUSTFLAGS"] {
            command.env_remove(name);
        }
        command.env("RUSTC", RUSTC);
        command
    }
}

fn said(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}: {error}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// Writes a file, unless it is so already.
fn write(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|known| known == text) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    fs::write(path, text).with_context(|| path.display().to_string())
}

fn write_program(path: &Path, line: &str) -> Result<()> {
    write(path, &format!("#!/bin/sh\n{line}\n"))?;
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path, executable).with_context(|| path.display().to_string())
}
