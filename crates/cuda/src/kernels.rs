//! Kernels in CUDA C, compiled for the device at hand.

use std::collections::HashMap;
use std::ffi::{CString, c_char};
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys as driver;
use cudarc::nvrtc::sys as nvrtc;

use crate::array::{Element, Pointer};
use crate::call::check;
use crate::gpu::Device;
use crate::{Array, Error, cache};

/// Sources of kernels. Those of one name are compiled once per device and process.
#[derive(Debug)]
pub struct Kernels {
    /// Their name.
    pub name: &'static str,
    /// CUDA C, without includes: nothing but the compiler is needed.
    pub sources: &'static [&'static str],
}

/// An argument of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Argument(pub(crate) u64);

impl From<u32> for Argument {
    fn from(value: u32) -> Self {
        Argument(value.into())
    }
}

/// Sizes are 32 bits wide in kernels.
impl From<usize> for Argument {
    fn from(value: usize) -> Self {
        debug_assert!(u32::try_from(value).is_ok(), "a size that kernels do not take");
        Argument((value as u32).into())
    }
}

impl From<u64> for Argument {
    fn from(value: u64) -> Self {
        Argument(value)
    }
}

impl From<f32> for Argument {
    fn from(value: f32) -> Self {
        Argument(value.to_bits().into())
    }
}

impl From<bool> for Argument {
    fn from(value: bool) -> Self {
        Argument(value.into())
    }
}

impl From<Pointer> for Argument {
    fn from(value: Pointer) -> Self {
        Argument(value.0)
    }
}

impl<T: Element> From<&Array<T>> for Argument {
    fn from(value: &Array<T>) -> Self {
        value.pointer().into()
    }
}

impl<T: Element> From<Option<&Array<T>>> for Argument {
    fn from(value: Option<&Array<T>>) -> Self {
        value.map_or(Pointer::NULL, Array::pointer).into()
    }
}

/// Kernels in the memory of a device.
pub(crate) struct Loaded {
    module: driver::CUmodule,
    functions: Mutex<HashMap<&'static str, Function>>,
}

// SAFETY: handles may be used in any thread.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

/// One kernel.
#[derive(Clone, Copy)]
pub(crate) struct Function(pub(crate) driver::CUfunction);

// SAFETY: as above.
unsafe impl Send for Function {}

impl Kernels {
    /// The kernel of a name. The device is current.
    pub(crate) fn function(&self, device: &Device, name: &'static str) -> Result<Function, Error> {
        let loaded = self.loaded(device)?;
        let mut functions = loaded.functions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&function) = functions.get(name) {
            return Ok(function);
        }
        let text = CString::new(name).expect("a name without zeros");
        let mut function = std::ptr::null_mut();
        let (mut own, size) =
            (0, driver::CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
        // SAFETY: the driver writes a handle and a number.
        unsafe {
            let status = driver::cuModuleGetFunction(&mut function, loaded.module, text.as_ptr());
            check(name, status)?;
            check(name, driver::cuFuncGetAttribute(&mut own, size, function))?;
            // Blocks may have as much shared memory as the device has.
            let most =
                driver::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let free = device.shared_memory as i32 - own;
            check(name, driver::cuFuncSetAttribute(function, most, free))?;
        }
        functions.insert(name, Function(function));
        Ok(Function(function))
    }

    fn loaded(&self, device: &Device) -> Result<Arc<Loaded>, Error> {
        let mut all = device.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = all.get(self.name) {
            return Ok(loaded.clone());
        }
        let image = self.compiled(device.architecture())?;
        let mut module = std::ptr::null_mut();
        // SAFETY: the image is one that the compiler made, whole as its checksum says.
        let status = unsafe { driver::cuModuleLoadData(&mut module, image.as_ptr().cast()) };
        check("loading kernels", status)?;
        let loaded = Arc::new(Loaded { module, functions: Mutex::default() });
        all.insert(self.name, loaded.clone());
        Ok(loaded)
    }

    /// Machine code for an architecture, from the disk if it was compiled before.
    fn compiled(&self, architecture: String) -> Result<Vec<u8>, Error> {
        let source = self.sources.concat();
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the compiler writes two numbers.
        check("the compiler", unsafe { nvrtc::nvrtcVersion(&mut major, &mut minor) })?;
        let key = cache::key(&[
            source.as_bytes(),
            architecture.as_bytes(),
            format!("{major}.{minor}").as_bytes(),
        ]);
        if let Some(image) = cache::read(&key) {
            return Ok(image);
        }
        let image = self.compile(&source, &architecture)?;
        cache::write(&key, &image);
        Ok(image)
    }

    fn compile(&self, source: &str, architecture: &str) -> Result<Vec<u8>, Error> {
        let text = CString::new(source).expect("a source without zeros");
        let options = [format!("--gpu-architecture={architecture}"), "--std=c++17".to_owned()];
        let options = options.map(|option| CString::new(option).expect("no zeros"));
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let mut program = std::ptr::null_mut();
        // SAFETY: the source outlives the program, and the buffers have the sizes the compiler says.
        unsafe {
            let status = nvrtc::nvrtcCreateProgram(
                &mut program,
                text.as_ptr(),
                std::ptr::null(),
                0,
                std::ptr::null(),
                std::ptr::null(),
            );
            check("the compiler", status)?;
            let done = nvrtc::nvrtcCompileProgram(program, options.len() as i32, options.as_ptr());
            let result = if check("the compiler", done).is_err() {
                let mut size = 0;
                nvrtc::nvrtcGetProgramLogSize(program, &mut size);
                let mut log = vec![0u8; size];
                nvrtc::nvrtcGetProgramLog(program, log.as_mut_ptr().cast());
                let log = String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned();
                let architecture = architecture.to_owned();
                Err(Error::Compile { name: self.name, architecture, log })
            } else {
                let mut size = 0;
                check("the compiler", nvrtc::nvrtcGetCUBINSize(program, &mut size)).and_then(|()| {
                    let mut image = vec![0u8; size];
                    let status = nvrtc::nvrtcGetCUBIN(program, image.as_mut_ptr().cast());
                    check("the compiler", status).map(|()| image)
                })
            };
            nvrtc::nvrtcDestroyProgram(&mut program);
            result
        }
    }
}
