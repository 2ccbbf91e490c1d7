//! Finds the driver, the compiler and the products at run time.
//!
//! `cudarc` loads them by name and panics where one, or a function of it, is missing. So each is loaded
//! here first, from wherever it is, and the loader then finds it by its name; and every function that
//! this crate calls is looked for before the first is called.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cudarc::{cublas::sys as blas, driver::sys as driver, nvrtc::sys as nvrtc};
use nextpair_core::system;

use crate::Error;

/// The environment variable that names folders with the libraries, separated by colons.
pub const LIBRARIES_VARIABLE: &str = "NEXTPAIR_CUDA_LIBS";

/// File names, newest first. They are names that `cudarc` tries too.
const DRIVER: &[&str] = &["libcuda.so.1", "libcuda.so"];
const NVRTC: &[&str] = &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];
const BLAS_LT: &[&str] = &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"];
const BLAS: &[&str] = &["libcublas.so.13", "libcublas.so.12", "libcublas.so"];

/// The functions that this crate calls.
const DRIVER_FUNCTIONS: &[&str] = &[
    "cuCtxSetCurrent",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRetain",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuGetErrorString",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAlloc_v2",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
];
const NVRTC_FUNCTIONS: &[&str] = &[
    "nvrtcCompileProgram",
    "nvrtcCreateProgram",
    "nvrtcDestroyProgram",
    "nvrtcGetCUBIN",
    "nvrtcGetCUBINSize",
    "nvrtcGetProgramLog",
    "nvrtcGetProgramLogSize",
    "nvrtcVersion",
];
const BLAS_FUNCTIONS: &[&str] = &[
    "cublasCreate_v2",
    "cublasDestroy_v2",
    "cublasGemmStridedBatchedEx",
    "cublasSetMathMode",
    "cublasSetStream_v2",
];

/// What messages call the driver.
pub(crate) const THE_DRIVER: &str = "the CUDA driver (libcuda)";

/// Loads every library that is needed, once per process.
pub(crate) fn load() -> Result<(), Error> {
    static LOADED: OnceLock<Result<(), Error>> = OnceLock::new();
    LOADED.get_or_init(load_all).clone()
}

fn load_all() -> Result<(), Error> {
    let advice = "is there an NVIDIA GPU with its driver?".to_owned();
    open(THE_DRIVER, DRIVER, &[], advice)?;
    // SAFETY: these look for the library by its names, and it is loaded.
    let found = unsafe { driver::is_culib_present().then(|| driver::culib()) };
    check_functions(THE_DRIVER, found, DRIVER_FUNCTIONS)?;
    let folders = folders();
    let advice = |package: &str| {
        format!(
            "install the CUDA toolkit, or `pip install {package}` (PyTorch brings it), or name its \
             folder in {LIBRARIES_VARIABLE}"
        )
    };
    let compiler = "the CUDA compiler (libnvrtc)";
    open(compiler, NVRTC, &folders, advice("nvidia-cuda-nvrtc"))?;
    // SAFETY: as above.
    let found = unsafe { nvrtc::is_culib_present().then(|| nvrtc::culib()) };
    check_functions(compiler, found, NVRTC_FUNCTIONS)?;
    // cuBLAS needs cuBLASLt, which may lie where the loader does not look.
    open("cuBLASLt (libcublasLt)", BLAS_LT, &folders, advice("nvidia-cublas"))?;
    let products = "cuBLAS (libcublas)";
    open(products, BLAS, &folders, advice("nvidia-cublas"))?;
    // SAFETY: as above.
    let found = unsafe { blas::is_culib_present().then(|| blas::culib()) };
    check_functions(products, found, BLAS_FUNCTIONS)
}

/// Refuses a library that lacks a function: one that is too old, or something else of its name.
fn check_functions(
    library: &'static str,
    found: Option<&libloading::Library>,
    functions: &[&str],
) -> Result<(), Error> {
    let Some(found) = found else {
        let why = "it has none of the names that it is looked for by".to_owned();
        return Err(Error::BadLibrary { library, why });
    };
    for &function in functions {
        // SAFETY: it is looked for and not called.
        if unsafe { found.get::<unsafe extern "C" fn()>(function) }.is_err() {
            let why = format!("it has no {function}: is it too old?");
            return Err(Error::BadLibrary { library, why });
        }
    }
    Ok(())
}

/// Loads the first file of these names: from the named folders, from where the system looks, or
/// from the other folders.
fn open(
    library: &'static str,
    names: &[&str],
    folders: &[PathBuf],
    advice: String,
) -> Result<(), Error> {
    let named = named_folders();
    let first = named.iter().flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    let system = names.iter().map(PathBuf::from);
    let last = folders.iter().flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    let mut broken = None;
    for path in first.chain(system).chain(last) {
        // SAFETY: these libraries of NVIDIA have initialisers that only set themselves up.
        match unsafe { system::load_library(&path) } {
            Ok(()) => {
                load_parts(&path);
                return Ok(());
            }
            Err(said) if path.is_absolute() && path.exists() => {
                broken.get_or_insert(said);
            }
            Err(_) => {}
        }
    }
    match broken {
        Some(why) => Err(Error::BadLibrary { library, why }),
        None => Err(Error::NoLibrary { library, advice }),
    }
}

/// Loads what a library opens by name when it is used, from its own folder: the compiler's own
/// functions.
fn load_parts(library: &Path) {
    let Some(folder) = library.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return;
    };
    for path in children(folder) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("libnvrtc-builtins.so") {
            // SAFETY: as above.
            let _ = unsafe { system::load_library(&path) };
        }
    }
}

fn named_folders() -> Vec<PathBuf> {
    env::var_os(LIBRARIES_VARIABLE)
        .map(|folders| env::split_paths(&folders).collect())
        .unwrap_or_default()
}

/// Folders in which toolkits and wheels put the libraries.
fn folders() -> Vec<PathBuf> {
    let mut all = vec![PathBuf::from("/usr/local/cuda/lib64"), PathBuf::from("/opt/cuda/lib64")];
    let mut prefixes: Vec<PathBuf> = ["VIRTUAL_ENV", "CONDA_PREFIX", "CUDA_HOME", "CUDA_PATH"]
        .iter()
        .filter_map(env::var_os)
        .map(PathBuf::from)
        .collect();
    // The environment of the `python3` that people call.
    for folder in env::var_os("PATH").iter().flat_map(env::split_paths) {
        let python = folder.join("python3");
        if python.exists() {
            prefixes.extend(folder.parent().map(Path::to_path_buf));
            let real = fs::canonicalize(&python).ok();
            prefixes.extend(real.and_then(|path| Some(path.parent()?.parent()?.to_path_buf())));
        }
    }
    prefixes.extend(env::var_os("HOME").map(|home| Path::new(&home).join(".local")));
    prefixes.push(PathBuf::from("/usr/local"));
    for prefix in &prefixes {
        all.push(prefix.join("lib64"));
        all.push(prefix.join("lib"));
        for python in children(&prefix.join("lib")) {
            for packages in ["site-packages", "dist-packages"] {
                let wheels = children(&python.join(packages).join("nvidia"));
                all.extend(wheels.into_iter().map(|wheel| wheel.join("lib")));
            }
        }
    }
    all.retain(|folder| folder.is_dir());
    all
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    // Newer versions of Python and of CUDA come later by name.
    all.sort_by(|a, b| b.cmp(a));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_named_with_advice() {
        let found = open("a library", &["libnextpair-missing.so"], &[], "install it".to_owned());
        assert_eq!(found.unwrap_err().to_string(), "a library was not found: install it");
    }

    /// Names of functions that are called in a source as `MODULE::NAME(`.
    fn called<'a>(source: &'a str, module: &str) -> Vec<&'a str> {
        let calls = source.split(module).skip(1);
        let name = |rest: &'a str| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next();
        let is_called = |name: &&str, rest: &str| rest[name.len()..].starts_with('(');
        let named = calls.filter_map(|rest| name(rest).filter(|name| is_called(name, rest)));
        named.filter(|name| name.starts_with(char::is_lowercase)).collect()
    }

    #[test]
    fn every_function_that_is_called_is_looked_for() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut count = 0;
        for path in children(&folder).iter().filter(|path| !path.ends_with("libraries.rs")) {
            let source = fs::read_to_string(path).unwrap();
            for (module, functions) in [
                ("driver::", DRIVER_FUNCTIONS),
                ("nvrtc::", NVRTC_FUNCTIONS),
                ("blas::", BLAS_FUNCTIONS),
            ] {
                for name in called(&source, module) {
                    assert!(functions.contains(&name), "{}: {name}", path.display());
                    count += 1;
                }
            }
        }
        assert!(count > 30, "{count} calls");
    }

    #[test]
    fn a_library_without_a_function_is_refused() {
        // The C library is there under this name.
        // SAFETY: it is loaded already.
        let Ok(library) = (unsafe { libloading::Library::new("libc.so.6") }) else { return };
        assert!(check_functions("a library", Some(&library), &["malloc"]).is_ok());
        let error = check_functions("a library", Some(&library), &["malloc", "cuInit"]);
        let expected = "a library cannot be used: it has no cuInit: is it too old?";
        assert_eq!(error.unwrap_err().to_string(), expected);
    }
}
