//! What benchmarks ask of a device beside its work: to wait for it, how fast it multiplies, and where
//! its time goes.

use std::time::Instant;

use half::f16;
use nextpair_core::Draws;
use nextpair_cuda::{Array, Operand, Product, end_profile, start_profile};

use crate::{Device, Error, Tensor, ops, vector_unit};

/// The work of one kind in a profile.
#[derive(Clone, Debug)]
pub struct Spent {
    /// The kernel, or the sizes of a product.
    pub work: String,
    /// How often it was launched.
    pub launches: u64,
    /// Seconds in all.
    pub seconds: f64,
}

/// Runs `work`, and tells where the time of GPUs went, the longest first. Every launch is waited for:
/// what is measured is the work itself, not how well it overlaps.
pub fn profile<T>(work: impl FnOnce() -> T) -> (T, Vec<Spent>) {
    start_profile();
    let done = work();
    let spent = end_profile().into_iter().map(|(work, launches, time)| Spent {
        work,
        launches,
        seconds: time.as_secs_f64(),
    });
    (done, spent.collect())
}

impl Device {
    /// The name of the GPU, or the vector unit of the CPU.
    ///
    /// # Errors
    /// If the GPU cannot be used.
    pub fn name(self) -> Result<String, Error> {
        match self {
            Device::Cuda(cuda) => Ok(cuda.gpu()?.name().to_owned()),
            _ => Ok(format!("cpu, {}", vector_unit())),
        }
    }

    /// Waits until the queue has done all its work. Other devices are always done.
    ///
    /// # Errors
    /// If any of the work failed.
    pub fn wait(self) -> Result<(), Error> {
        match self {
            Device::Cuda(cuda) => Ok(cuda.gpu()?.wait()?),
            _ => Ok(()),
        }
    }
}

/// Products of a GPU that are timed together: one alone is over before the next is launched.
const TOGETHER: usize = 10;
/// Different random numbers of a factor. More would only take longer to draw.
const DIFFERENT: usize = 1 << 16;

/// Seconds of a plain product of two square matrices, `repeats` times after a warm-up: in half
/// precision with sums in single precision on a GPU, in single precision elsewhere.
///
/// # Errors
/// If the device failed, or has no memory left.
pub fn time_products(device: Device, size: usize, repeats: usize) -> Result<Vec<f64>, Error> {
    let mut draws = Draws::new(1);
    let some: Vec<f32> =
        (0..DIFFERENT.min(size * size)).map(|_| draws.normal() as f32 / 8.0).collect();
    let all = || some.iter().copied().cycle().take(size * size);
    let Device::Cuda(cuda) = device else {
        let factor = || Tensor::new(all().collect(), &[size, size], device);
        let (left, right) = (factor()?, factor()?);
        let nothing = Tensor::new(vec![0.0; size], &[size], device)?;
        return timed(repeats, 1, || ops::linear(&left, &right, &nothing).map(drop));
    };
    let gpu = cuda.gpu()?;
    let numbers: Vec<f16> = all().map(f16::from_f32).collect();
    let (left, right) = (Array::of(&gpu, &numbers)?, Array::of(&gpu, &numbers)?);
    let out = Array::<f16>::empty(&gpu, size * size)?;
    let product = Product {
        rows: size,
        columns: size,
        depth: size,
        left: Operand::new(&left, 0, size),
        right: Operand::new(&right, 0, size).turned(),
        keep: 0.0,
        precision: nextpair_cuda::Precision::Single,
    };
    timed(repeats, TOGETHER, || {
        for _ in 0..TOGETHER {
            gpu.multiply(product, Operand::new(&out, 0, size))?;
        }
        Ok(gpu.wait()?)
    })
}

/// Seconds of one of `count` equal parts of `work`, without the first time.
fn timed(
    repeats: usize,
    count: usize,
    mut work: impl FnMut() -> Result<(), Error>,
) -> Result<Vec<f64>, Error> {
    work()?;
    let mut one = |_| {
        let began = Instant::now();
        work()?;
        Ok(began.elapsed().as_secs_f64() / count as f64)
    };
    (0..repeats).map(&mut one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_take_time() {
        for device in Device::available() {
            let seconds = time_products(device, 64, 3).unwrap();
            assert_eq!(seconds.len(), 3);
            assert!(seconds.iter().all(|&s| s > 0.0 && s.is_finite()), "{seconds:?}");
            device.wait().unwrap();
        }
    }

    /// Profiles are of the whole process: other tests may launch kernels meanwhile.
    #[test]
    fn profiles_tell_what_a_gpu_did() {
        for device in Device::available() {
            let ((), spent) = profile(|| drop(time_products(device, 72, 2).unwrap()));
            let product = spent.iter().find(|spent| spent.work.contains("72 x 72 x 72"));
            match device {
                Device::Cuda(_) => {
                    let product = product.expect("the product is in the profile");
                    assert_eq!(product.launches, 3 * TOGETHER as u64);
                    assert!(product.seconds > 0.0);
                }
                _ => assert!(product.is_none()),
            }
        }
    }
}
