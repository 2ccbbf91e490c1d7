//! A queue of work on a device.

use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cudarc::cublas::sys as blas;
use cudarc::driver::sys as driver;

use crate::array::{Element, Pointer};
use crate::call::check;
use crate::kernels::{Function, Loaded};
use crate::memory::{Memory, available};
use crate::{Argument, Error, Kernels, libraries};

/// One queue of work on a device: what is launched on it happens in order.
pub struct Gpu {
    device: Arc<Device>,
    stream: driver::CUstream,
    /// Copies to the host beside the work of the queue.
    beside: driver::CUstream,
    blas: blas::cublasHandle_t,
    memory: Memory,
    /// Comes after the work that somebody waits for without keeping a core busy.
    reached: driver::CUevent,
}

/// Whether who waits leaves its core to others.
static QUIET: AtomicBool = AtomicBool::new(false);

// SAFETY: the driver takes calls from any thread; handles are only read after they were made, and
// cuBLAS allows one handle in several threads as long as its settings stay, which they do.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

/// What the queues of a device share.
pub(crate) struct Device {
    index: usize,
    context: driver::CUcontext,
    name: String,
    capability: (i32, i32),
    /// The most shared memory that a block can have, in bytes.
    pub(crate) shared_memory: usize,
    /// All bytes.
    memory: usize,
    pub(crate) loaded: Mutex<HashMap<&'static str, Arc<Loaded>>>,
}

// SAFETY: a context may be made current in any thread.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// How many blocks of how many threads a kernel runs in.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    /// Blocks in each direction.
    pub blocks: (u32, u32, u32),
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory of a block, beside what the kernel declares.
    pub shared: u32,
}

impl Grid {
    /// One thread for each of `count` numbers.
    pub fn each(count: usize) -> Self {
        Grid::blocks(count.div_ceil(256), 256)
    }

    /// So many blocks of so many threads.
    pub fn blocks(blocks: usize, threads: u32) -> Self {
        Grid { blocks: (blocks as u32, 1, 1), threads, shared: 0 }
    }

    /// Blocks in two directions.
    pub fn plane(x: usize, y: usize, threads: u32) -> Self {
        Grid { blocks: (x as u32, y as u32, 1), threads, shared: 0 }
    }

    /// The same with shared memory.
    pub fn shared(self, bytes: usize) -> Self {
        Grid { shared: bytes as u32, ..self }
    }
}

impl Gpu {
    /// Number of devices.
    ///
    /// # Errors
    /// If a library is missing, or the driver cannot be used.
    pub fn count() -> Result<usize, Error> {
        static COUNT: OnceLock<Result<usize, Error>> = OnceLock::new();
        COUNT.get_or_init(count_devices).clone()
    }

    /// A new queue on a device.
    ///
    /// # Errors
    /// If there is no such device, a library is missing, or the device refuses.
    pub fn open(index: usize) -> Result<Arc<Self>, Error> {
        let device = Device::open(index)?;
        device.make_current()?;
        let (mut stream, mut handle) = (std::ptr::null_mut(), std::ptr::null_mut());
        let (mut beside, mut reached) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: driver and cuBLAS write handles; the stream lives as long as the handle.
        unsafe {
            let apart = driver::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
            check("making a queue", driver::cuStreamCreate(&mut stream, apart))?;
            check("making a queue", driver::cuStreamCreate(&mut beside, apart))?;
            let quiet = driver::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32
                | driver::CUevent_flags::CU_EVENT_BLOCKING_SYNC as u32;
            check("making an event", driver::cuEventCreate(&mut reached, quiet))?;
            check("starting cuBLAS", blas::cublasCreate_v2(&mut handle))?;
            check("starting cuBLAS", blas::cublasSetStream_v2(handle, stream.cast()))?;
            // Sums stay in single precision where results are shorter, however they are split.
            let mode = blas::cublasMath_t::CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
            check("starting cuBLAS", blas::cublasSetMathMode(handle, mode))?;
        }
        let memory = Memory::default();
        Ok(Arc::new(Gpu { device, stream, beside, blas: handle, memory, reached }))
    }

    /// Name of the device.
    pub fn name(&self) -> &str {
        &self.device.name
    }

    /// Its number, from 0.
    pub fn index(&self) -> usize {
        self.device.index
    }

    /// The most shared memory that a block can have, in bytes.
    pub fn shared_memory(&self) -> usize {
        self.device.shared_memory
    }

    /// All bytes of the device.
    pub fn all_memory(&self) -> usize {
        self.device.memory
    }

    /// Bytes that are free, and all bytes of the device.
    ///
    /// # Errors
    /// If the device failed.
    pub fn available(&self) -> Result<(usize, usize), Error> {
        self.device.make_current()?;
        available()
    }

    /// Whether those who wait leave their cores to others, as they should where many wait. Who wakes up
    /// later otherwise loses some time.
    pub fn wait_quietly(quiet: bool) {
        QUIET.store(quiet, Ordering::Relaxed);
    }

    /// Waits for all work of this queue.
    ///
    /// # Errors
    /// If any of it failed.
    pub fn wait(&self) -> Result<(), Error> {
        self.device.make_current()?;
        self.wait_for(self.stream)
    }

    /// Waits for a stream of this queue, whose device is that of this thread.
    fn wait_for(&self, stream: driver::CUstream) -> Result<(), Error> {
        if QUIET.load(Ordering::Relaxed) {
            // SAFETY: stream and event are this queue's own. Where several threads wait, one may wait for
            // what another has launched since.
            unsafe {
                check("the work", driver::cuEventRecord(self.reached, stream))?;
                return check("the work", driver::cuEventSynchronize(self.reached));
            }
        }
        // SAFETY: the stream is this queue's own.
        check("the work", unsafe { driver::cuStreamSynchronize(stream) })
    }

    /// Marks what is launched now as done, for [`Array::read_at`](crate::Array::read_at).
    ///
    /// # Errors
    /// If the device failed.
    pub fn mark(self: &Arc<Self>) -> Result<Mark, Error> {
        self.device.make_current()?;
        let mut event = std::ptr::null_mut();
        let untimed = driver::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: the driver writes a handle, which the mark owns from then on.
        check("making an event", unsafe { driver::cuEventCreate(&mut event, untimed) })?;
        let mark = Mark { gpu: self.clone(), event };
        // SAFETY: both are alive.
        check("an event", unsafe { driver::cuEventRecord(event, self.stream) })?;
        Ok(mark)
    }

    /// Waits for all work, and gives memory that nobody uses back to the driver.
    ///
    /// # Errors
    /// If any of the work failed.
    pub fn release(&self) -> Result<(), Error> {
        self.wait()?;
        self.memory.give_all_back();
        Ok(())
    }

    /// Launches a kernel.
    ///
    /// # Errors
    /// If it does not compile, or the device refuses.
    ///
    /// # Safety
    /// The kernel takes these arguments, and reads and writes within its arrays.
    pub unsafe fn launch(
        &self,
        kernels: &Kernels,
        name: &'static str,
        grid: Grid,
        arguments: &[Argument],
    ) -> Result<(), Error> {
        let (x, y, z) = grid.blocks;
        if x == 0 || y == 0 || z == 0 {
            return Ok(());
        }
        self.device.make_current()?;
        let Function(function) = kernels.function(&self.device, name)?;
        let mut slots: Vec<*mut c_void> =
            arguments.iter().map(|argument| (&raw const argument.0).cast_mut().cast()).collect();
        // SAFETY: every slot points to at least as many bytes as the argument has, little end first;
        // the rest is the caller's promise.
        let mut launched = || unsafe {
            driver::cuLaunchKernel(
                function,
                x,
                y,
                z,
                grid.threads,
                1,
                1,
                grid.shared,
                self.stream,
                slots.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        self.profiled(|| name.to_owned(), || check(name, launched()))
    }

    pub(crate) fn blas(&self) -> Result<blas::cublasHandle_t, Error> {
        self.device.make_current()?;
        Ok(self.blas)
    }

    /// The stream of this queue, whose device is made that of this thread.
    pub(crate) fn stream(&self) -> Result<driver::CUstream, Error> {
        self.device.make_current()?;
        Ok(self.stream)
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    pub(crate) fn take(&self, size: usize) -> Result<(driver::CUdeviceptr, usize), Error> {
        self.device.make_current()?;
        self.memory.take(size, || self.wait())
    }

    pub(crate) fn set_zero(&self, pointer: Pointer, bytes: usize) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        self.device.make_current()?;
        // SAFETY: the caller's array has so many bytes.
        let status = unsafe { driver::cuMemsetD8Async(pointer.0, 0, bytes, self.stream) };
        check("setting zeros", status)
    }

    pub(crate) fn copy(&self, to: Pointer, from: Pointer, bytes: usize) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        self.device.make_current()?;
        // SAFETY: both arrays of the caller have so many bytes.
        let status = unsafe { driver::cuMemcpyDtoDAsync_v2(to.0, from.0, bytes, self.stream) };
        check("a copy", status)
    }

    pub(crate) fn copy_in<T: Element>(&self, to: Pointer, values: &[T]) -> Result<(), Error> {
        if values.is_empty() {
            return Ok(());
        }
        self.device.make_current()?;
        // SAFETY: the array has room for them. The driver has read pageable memory when it returns.
        let status = unsafe {
            driver::cuMemcpyHtoDAsync_v2(
                to.0,
                values.as_ptr().cast(),
                size_of_val(values),
                self.stream,
            )
        };
        check("a copy to the device", status)
    }

    /// Copies numbers when the work before a mark is done, or all work.
    pub(crate) fn copy_out<T: Element>(
        &self,
        from: Pointer,
        values: &mut [T],
        mark: Option<&Mark>,
    ) -> Result<(), Error> {
        self.device.make_current()?;
        let stream = if mark.is_some() { self.beside } else { self.stream };
        if let Some(mark) = mark {
            // SAFETY: stream and event are this queue's own.
            check("the work", unsafe { driver::cuStreamWaitEvent(stream, mark.event, 0) })?;
        }
        if !values.is_empty() {
            let (to, bytes) = (values.as_mut_ptr().cast(), size_of_val(values));
            // SAFETY: the array has so many numbers, and the copy is waited for while they are borrowed.
            let status = unsafe { driver::cuMemcpyDtoHAsync_v2(to, from.0, bytes, stream) };
            check("a copy from the device", status)?;
        }
        self.wait_for(stream)
    }
}

/// A place in a queue, after what was launched before it.
pub struct Mark {
    gpu: Arc<Gpu>,
    event: driver::CUevent,
}

// SAFETY: the event belongs to this value alone, and the driver takes calls from any thread.
unsafe impl Send for Mark {}

impl Drop for Mark {
    fn drop(&mut self) {
        if self.gpu.device.make_current().is_ok() {
            // SAFETY: the event is this value's own; the driver keeps it for as long as it is waited for.
            unsafe { driver::cuEventDestroy_v2(self.event) };
        }
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a place in {:?}", self.gpu)
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // What fails here was reported by the work before, or nobody needs it.
        if self.release().is_ok() {
            // SAFETY: the handles are this queue's own, and no array of it is left.
            unsafe {
                driver::cuEventDestroy_v2(self.reached);
                blas::cublasDestroy_v2(self.blas);
                driver::cuStreamDestroy_v2(self.beside);
                driver::cuStreamDestroy_v2(self.stream);
            }
        }
    }
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a queue of GPU {} ({})", self.device.index, self.device.name)
    }
}

fn count_devices() -> Result<usize, Error> {
    libraries::load()?;
    let mut count = 0;
    // SAFETY: the driver is loaded; it writes one number.
    unsafe {
        match driver::cuInit(0) {
            driver::CUresult::CUDA_ERROR_NO_DEVICE => return Err(Error::NoGpu),
            status => check("starting the driver", status)?,
        }
        check("counting devices", driver::cuDeviceGetCount(&mut count))?;
    }
    match count {
        0 => Err(Error::NoGpu),
        count => Ok(count as usize),
    }
}

/// The oldest CUDA whose driver is enough, and the oldest device.
const OLDEST_DRIVER: i32 = 12000;
const OLDEST_DEVICE: (i32, i32) = (8, 0);

impl Device {
    fn open(index: usize) -> Result<Arc<Self>, Error> {
        static OPEN: Mutex<Vec<Arc<Device>>> = Mutex::new(Vec::new());
        let count = Gpu::count()?;
        if index >= count {
            return Err(Error::NoDevice { index, count });
        }
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = open.iter().find(|device| device.index == index) {
            return Ok(device.clone());
        }
        let device = Arc::new(Device::new(index)?);
        open.push(device.clone());
        Ok(device)
    }

    fn new(index: usize) -> Result<Self, Error> {
        use driver::CUdevice_attribute as Attribute;
        let mut device = 0;
        let mut context = std::ptr::null_mut();
        let mut name = [0; 256];
        let mut driver_version = 0;
        // SAFETY: the driver writes what is asked for; the name has room for its length.
        unsafe {
            check("asking for the driver", driver::cuDriverGetVersion(&mut driver_version))?;
            check("finding a device", driver::cuDeviceGet(&mut device, index as i32))?;
            let status = driver::cuDeviceGetName(name.as_mut_ptr(), name.len() as i32, device);
            check("asking for the device", status)?;
        }
        let attribute = |attribute| {
            let mut value = 0;
            // SAFETY: the driver writes one number.
            let status = unsafe { driver::cuDeviceGetAttribute(&mut value, attribute, device) };
            check("asking for the device", status).map(|()| value)
        };
        let name: Vec<u8> =
            name.iter().take_while(|&&byte| byte != 0).map(|&byte| byte as u8).collect();
        let name = String::from_utf8_lossy(&name).into_owned();
        let capability = (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        if driver_version < OLDEST_DRIVER {
            let version = (driver_version / 1000, driver_version % 1000 / 10);
            let why = format!("the driver knows CUDA {}.{}; 12.0 is needed", version.0, version.1);
            return Err(Error::Unusable { why });
        }
        if capability < OLDEST_DEVICE {
            let (major, minor) = capability;
            let why = format!("{name} has compute capability {major}.{minor}; 8.0 is needed");
            return Err(Error::Unusable { why });
        }
        let shared = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        // SAFETY: the driver writes the handle of the context that programs of a device share.
        let status = unsafe { driver::cuDevicePrimaryCtxRetain(&mut context, device) };
        check("opening the device", status)?;
        let mut device = Device {
            index,
            context,
            name,
            capability,
            shared_memory: shared as usize,
            memory: 0,
            loaded: Mutex::default(),
        };
        device.make_current()?;
        device.memory = available()?.1;
        Ok(device)
    }

    /// Makes the device that of this thread.
    pub(crate) fn make_current(&self) -> Result<(), Error> {
        // SAFETY: the context lives as long as the process.
        check("using the device", unsafe { driver::cuCtxSetCurrent(self.context) })
    }

    /// The architecture that NVRTC compiles for.
    pub(crate) fn architecture(&self) -> String {
        let (major, minor) = self.capability;
        // Hopper's own instructions exist for its own architecture only.
        let own = if self.capability == (9, 0) { "a" } else { "" };
        format!("sm_{major}{minor}{own}")
    }
}
