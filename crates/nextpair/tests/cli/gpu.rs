//! GPUs that are asked for and cannot be used: one clear line, exit code 2, no panic.
//!
//! A machine without a GPU, an old driver and libraries that are missing or broken are made of small
//! libraries that `cc` builds here; the program loads them like NVIDIA's.
#![cfg(target_os = "linux")]

mod faults;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nextpair::models::Device;
use serde_json::Value;

use crate::world::{Run, World, nextpair};

/// Runs `bench --quick` in an environment that knows these folders of libraries and no others, as far
/// as a test can see to it.
fn bench(folder: &Path, device: &str) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_nextpair"))
        .args(["bench", "--quick", "--device", device])
        .env_clear()
        .env("NEXTPAIR_CUDA_LIBS", folder)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[track_caller]
fn refused(run: &Run, expected: &str) {
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert_eq!(run.stdout, "");
    assert!(run.stderr.contains(expected), "{}", run.stderr);
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    let line = run.stderr.lines().find(|line| line.contains(expected)).unwrap();
    assert!(line.starts_with("error: "), "{line}");
}

/// A folder of libraries.
struct Libraries {
    folder: PathBuf,
    /// Goes with them if it is theirs alone.
    _own: Option<tempfile::TempDir>,
}

impl Libraries {
    fn new() -> Self {
        let own = tempfile::tempdir().unwrap();
        Libraries { folder: own.path().to_owned(), _own: Some(own) }
    }

    /// In a folder that is there.
    fn at(folder: &Path) -> Self {
        Libraries { folder: folder.to_owned(), _own: None }
    }

    fn path(&self) -> &Path {
        &self.folder
    }

    /// Builds a library with every function that the program calls, which all fail but those of
    /// `source`.
    fn build(&self, name: &str, list: &str, source: &str) -> &Self {
        let missing =
            functions(list).into_iter().filter(|name| !source.contains(&format!("{name}(")));
        let missing: String =
            missing.map(|name| format!("int {name}(void) {{ return 999; }}\n")).collect();
        let (file, out) = (self.path().join("library.c"), self.path().join(name));
        fs::write(&file, missing + source).unwrap();
        // The name by which the loader finds a library that is loaded already.
        let own_name = format!("-Wl,-soname,{}", name.split_inclusive(".so").next().unwrap());
        let mut cc = Command::new("cc");
        cc.args(["-w", "-shared", "-fPIC", &own_name, "-o"]).arg(out).arg(file);
        assert!(cc.status().unwrap().success());
        self
    }

    /// Builds a driver that says this of itself.
    fn driver(&self, init: i32, version: i32, capability: i32) -> &Self {
        let source = format!(
            "int cuInit(unsigned flags) {{ return {init}; }}
             int cuDriverGetVersion(int *version) {{ *version = {version}; return 0; }}
             int cuDeviceGetCount(int *count) {{ *count = 1; return 0; }}
             int cuDeviceGet(int *device, int index) {{ *device = 0; return 0; }}
             int cuDeviceGetName(char *name, int size, int device) {{
                 name[0] = 'X'; name[1] = 0; return 0;
             }}
             int cuDeviceGetAttribute(int *value, int which, int device) {{
                 *value = {capability}; return 0;
             }}
             int cuGetErrorString(int error, const char **text) {{ *text = \"broken\"; return 0; }}"
        );
        self.build("libcuda.so.1", "DRIVER", &source)
    }

    fn others(&self) -> &Self {
        self.build("libnvrtc.so.12", "NVRTC", "");
        self.build("libcublasLt.so.12", "NOTHING", "int nothing(void) { return 0; }");
        self.build("libcublas.so.12", "BLAS", "")
    }
}

/// The functions that the program looks for in a library.
fn functions(list: &str) -> Vec<&'static str> {
    let source = include_str!("../../../cuda/src/libraries.rs");
    let Some((_, rest)) = source.split_once(&format!("const {list}_FUNCTIONS")) else {
        return Vec::new();
    };
    let names = rest.split_once("];").unwrap().0.split('"').skip(1).step_by(2);
    names.collect()
}

fn has_gpu() -> bool {
    Device::available().len() > 1
}

#[test]
fn precisions_and_devices_that_do_not_exist() {
    let world = World::small();
    for (flags, expected) in [
        ("--precision fp8", "the precisions are fp32, tf32 and fp16"),
        ("--device gpu", "there are cpu, cuda, cuda:N and auto"),
        ("--device cuda:x", "the number of a GPU is needed"),
        ("--device cuda:4096", "device cuda:4096: "),
    ] {
        let run = nextpair(&world.path(""), &format!("bench --quick {flags}"));
        refused(&run, expected);
    }
    if !has_gpu() {
        for device in ["cuda", "cuda:0", "cuda:9"] {
            let run = nextpair(&world.path(""), &format!("bench --quick --device {device}"));
            refused(&run, &format!("device {device}: "));
        }
    }
}

#[test]
fn broken_libraries_are_named() {
    let libraries = Libraries::new();
    for name in ["libcuda.so.1", "libnvrtc.so.12", "libcublasLt.so.12", "libcublas.so.12"] {
        fs::write(libraries.path().join(name), b"").unwrap();
    }
    if !has_gpu() {
        let run = bench(libraries.path(), "cuda");
        refused(&run, "the CUDA driver (libcuda) cannot be used: ");
        assert!(run.stderr.contains("libcuda.so.1"), "{}", run.stderr);
        libraries.driver(0, 13000, 9);
        let run = bench(libraries.path(), "cuda");
        refused(&run, "the CUDA compiler (libnvrtc) cannot be used: ");
        assert!(run.stderr.contains("libnvrtc.so.12"), "{}", run.stderr);
    }
    // A library of this name that is something else.
    libraries.build("libcuda.so.1", "NOTHING", "int cuInit(unsigned flags) { return 0; }");
    refused(&bench(libraries.path(), "cuda"), "(libcuda) cannot be used: it has no cu");
}

#[test]
fn drivers_without_a_gpu_and_old_ones_are_told_apart() {
    let libraries = Libraries::new();
    libraries.others();
    for (init, version, capability, expected) in [
        (100, 13000, 9, "the CUDA driver sees no GPU"),
        (3, 13000, 9, "starting the driver failed on the GPU: broken"),
        (0, 11040, 9, "the driver knows CUDA 11.4; 12.0 is needed"),
        (0, 13000, 7, "X has compute capability 7.7; 8.0 is needed"),
        (0, 13000, 9, "opening the device failed on the GPU: broken"),
    ] {
        libraries.driver(init, version, capability);
        refused(&bench(libraries.path(), "cuda"), expected);
    }
    refused(&bench(libraries.path(), "cuda:9"), "there is no GPU 9; there are 1, counted from 0");
    // What is chosen by itself is the CPU, and if there is a GPU, the reason is told.
    for (init, told) in [(0, "the GPU is not used: opening the device failed"), (100, "")] {
        libraries.driver(init, 13000, 9);
        let run = bench(libraries.path(), "auto");
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert!(run.stdout.contains("Text-IMRAM on cpu"), "{}", run.stdout);
        assert!(run.stderr.contains(told), "{}", run.stderr);
        assert_eq!(run.stderr.contains("GPU"), !told.is_empty(), "{}", run.stderr);
    }
}

#[test]
fn a_compiler_that_is_missing_is_named() {
    let libraries = Libraries::new();
    libraries.driver(0, 13000, 9);
    if !has_gpu() {
        let run = bench(libraries.path(), "cuda");
        refused(&run, "the CUDA compiler (libnvrtc) was not found: install the CUDA toolkit");
        assert!(run.stderr.contains("pip install nvidia-cuda-nvrtc"), "{}", run.stderr);
    }
}

#[test]
fn the_cpu_is_measured_too() {
    let world = World::small();
    let folder: PathBuf = world.path("");
    let run = nextpair(&folder, "bench --quick --device cpu --lengths drawn --profile --json");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(report["sizes"]["lengths"], "drawn");
    let [one] = report["precisions"].as_array().unwrap().as_slice() else { panic!("{report}") };
    assert_eq!(one["precision"], "fp32");
    assert_eq!(one["off"]["scores"], 0.0);
    for timed in [&one["step"], &one["tile"], &report["product"]] {
        assert!(timed["ms"].as_f64().unwrap() > 0.0, "{timed}");
        assert!(timed["least"].as_f64().unwrap() <= timed["most"].as_f64().unwrap());
    }
    let run = nextpair(&folder, "bench --quick --device cpu --batch 1");
    refused(&run, "batch: at least two pairs are needed");
}
