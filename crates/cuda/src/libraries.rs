//! Finds the driver, the compiler and the products at run time.
//!
//! `cudarc` loads them by name and panics where one is missing. So each is loaded here first, from
//! wherever it is: the loader then finds it by its name.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use crate::Error;

/// The environment variable that names folders with the libraries, separated by colons.
pub const LIBRARIES_VARIABLE: &str = "NEXTPAIR_CUDA_LIBS";

/// File names, newest first. They are names that `cudarc` tries too.
const DRIVER: &[&str] = &["libcuda.so.1", "libcuda.so"];
const NVRTC: &[&str] = &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];
const BLAS_LT: &[&str] = &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"];
const BLAS: &[&str] = &["libcublas.so.13", "libcublas.so.12", "libcublas.so"];

/// Loads every library that is needed, once per process.
pub(crate) fn load() -> Result<(), Error> {
    static LOADED: OnceLock<Result<(), Error>> = OnceLock::new();
    LOADED.get_or_init(load_all).clone()
}

fn load_all() -> Result<(), Error> {
    let advice = "is there an NVIDIA GPU with its driver?".to_owned();
    open("the CUDA driver (libcuda)", DRIVER, &[], advice)?;
    let folders = folders();
    let advice = |package: &str| {
        format!(
            "install the CUDA toolkit, or `pip install {package}` (PyTorch brings it), or name its \
             folder in {LIBRARIES_VARIABLE}"
        )
    };
    open("the CUDA compiler (libnvrtc)", NVRTC, &folders, advice("nvidia-cuda-nvrtc"))?;
    // cuBLAS needs cuBLASLt, which may lie where the loader does not look.
    open("cuBLASLt (libcublasLt)", BLAS_LT, &folders, advice("nvidia-cublas"))?;
    open("cuBLAS (libcublas)", BLAS, &folders, advice("nvidia-cublas"))
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
    for path in first.chain(system).chain(last) {
        // SAFETY: these libraries of NVIDIA have initialisers that only set themselves up.
        if let Ok(found) = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) } {
            // Loaded for as long as the process lives.
            std::mem::forget(found);
            load_parts(&path);
            return Ok(());
        }
    }
    Err(Error::NoLibrary { library, advice })
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
            if let Ok(part) = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) } {
                std::mem::forget(part);
            }
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
}
