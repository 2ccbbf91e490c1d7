//! Tensors that record how they were computed, for gradients.

mod gradients;
mod values;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nextpair_cuda::Array;

use crate::cuda::Unit;
use crate::device::Cuda;
use crate::{Device, Error};
pub use gradients::Gradients;
pub use values::Values;

/// Numbers with a shape, on a device. Clones share the numbers.
#[derive(Clone, Debug)]
pub struct Tensor(Arc<Node>);

#[derive(Clone, Debug)]
struct Node {
    /// Tensors are younger, with higher numbers, than those they were computed from.
    age: u64,
    shape: Vec<usize>,
    values: Arc<Values>,
    /// Whether a gradient is wanted for it, or for a tensor it was computed from.
    tracked: bool,
    /// How it was computed, if it is tracked and not a weight.
    origin: Option<Arc<Origin>>,
}

struct Origin {
    inputs: Vec<Tensor>,
    operation: Box<dyn Backward>,
}

impl std::fmt::Debug for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "computed from {} tensors", self.inputs.len())
    }
}

/// How a gradient passes from the result of an operation to its inputs.
pub(crate) trait Backward: Send + Sync {
    /// One gradient per input, `None` for those that are not tracked.
    fn backward(&self, inputs: &[Tensor], upstream: &Values) -> Result<Vec<Option<Values>>, Error>;
}

/// The numbers of a tensor in another shape.
struct Reshaped;

impl Backward for Reshaped {
    fn backward(&self, _: &[Tensor], upstream: &Values) -> Result<Vec<Option<Values>>, Error> {
        Ok(vec![Some(upstream.clone())])
    }
}

fn next_age() -> u64 {
    static AGE: AtomicU64 = AtomicU64::new(0);
    AGE.fetch_add(1, Ordering::Relaxed)
}

impl Tensor {
    /// A tensor of numbers in row-major order.
    ///
    /// # Errors
    /// If the number of values does not match the shape.
    pub fn new(values: Vec<f32>, shape: &[usize], device: Device) -> Result<Self, Error> {
        let values = Values::on(device, values)?;
        Error::check_len("a tensor", values.len(), shape.iter().product())?;
        Ok(Self::leaf(values, shape.to_vec(), false))
    }

    /// Other numbers in the shape and on the device of this tensor, detached from the graph.
    ///
    /// # Errors
    /// If there are more or fewer, or the device has no memory left.
    pub fn like(&self, numbers: Vec<f64>) -> Result<Self, Error> {
        let values = match self.device() {
            Device::Reference => Values::Reference(numbers),
            other => Values::on(other, numbers.into_iter().map(|x| x as f32).collect())?,
        };
        Self::of_values(values, self.shape())
    }

    /// A tensor of zeros.
    ///
    /// # Errors
    /// If the device has no memory left, or failed.
    pub fn zeros(shape: &[usize], device: Device) -> Result<Self, Error> {
        let count = shape.iter().product();
        let values = match device {
            Device::Cuda(cuda) => Values::Cuda(cuda, Array::zeros(&cuda.gpu()?, count)?),
            other => Values::on(other, vec![0.0; count])?,
        };
        Ok(Self::leaf(values, shape.to_vec(), false))
    }

    /// A tensor of numbers that are on their device already.
    pub(crate) fn of_values(values: Values, shape: &[usize]) -> Result<Self, Error> {
        Error::check_len("a tensor", values.len(), shape.iter().product())?;
        Ok(Self::leaf(values, shape.to_vec(), false))
    }

    fn leaf(values: Values, shape: Vec<usize>, tracked: bool) -> Self {
        let values = Arc::new(values);
        Tensor(Arc::new(Node { age: next_age(), shape, values, tracked, origin: None }))
    }

    /// The result of an operation.
    pub(crate) fn computed(
        values: Values,
        shape: Vec<usize>,
        inputs: &[&Tensor],
        operation: impl Backward + 'static,
    ) -> Self {
        debug_assert_eq!(values.len(), shape.iter().product::<usize>());
        if !inputs.iter().any(|input| input.is_tracked()) {
            return Self::leaf(values, shape, false);
        }
        let inputs = inputs.iter().map(|&input| input.clone()).collect();
        let origin = Some(Arc::new(Origin { inputs, operation: Box::new(operation) }));
        let (age, values) = (next_age(), Arc::new(values));
        Tensor(Arc::new(Node { age, shape, values, tracked: true, origin }))
    }

    /// The same numbers as a weight, for which gradients are computed.
    pub fn into_weight(self) -> Self {
        let Node { shape, values, .. } = Arc::unwrap_or_clone(self.0);
        Tensor(Arc::new(Node { age: next_age(), shape, values, tracked: true, origin: None }))
    }

    /// The same numbers, detached from the graph.
    pub fn detached(&self) -> Self {
        let (shape, values) = (self.0.shape.clone(), self.0.values.clone());
        Tensor(Arc::new(Node { age: next_age(), shape, values, tracked: false, origin: None }))
    }

    /// The same numbers in another shape, without a copy. Gradients pass through.
    ///
    /// # Errors
    /// If the number of values does not match the shape.
    pub fn reshaped(&self, shape: &[usize]) -> Result<Self, Error> {
        Error::check_len("a reshaped tensor", self.len(), shape.iter().product())?;
        let origin = self.is_tracked().then(|| {
            let (inputs, operation) = (vec![self.clone()], Box::new(Reshaped));
            Arc::new(Origin { inputs, operation })
        });
        let (age, values, tracked) = (next_age(), self.0.values.clone(), self.is_tracked());
        Ok(Tensor(Arc::new(Node { age, shape: shape.to_vec(), values, tracked, origin })))
    }

    /// The first rows, detached from the graph.
    ///
    /// # Errors
    /// If there are fewer rows.
    pub fn first_rows(&self, count: usize) -> Result<Self, Error> {
        self.some_rows(0..count)
    }

    /// Some rows, detached from the graph.
    ///
    /// # Errors
    /// If there are fewer rows.
    pub fn some_rows(&self, which: Range<usize>) -> Result<Self, Error> {
        let rows = self.shape().first().copied().unwrap_or(0);
        if which.end > rows || which.start > which.end {
            let (set, index) = ("rows", which.end.max(which.start));
            return Err(Error::IndexOutOfRange { set, position: 0, index, len: rows });
        }
        let each = self.len() / rows.max(1);
        let (first, count) = (which.start * each, which.len() * each);
        let values = match self.values() {
            Values::Cpu(values) => Values::Cpu(values[first..][..count].to_vec()),
            Values::Reference(values) => Values::Reference(values[first..][..count].to_vec()),
            Values::Cuda(cuda, values) => {
                let some = Array::empty(values.gpu(), count)?;
                some.copy_from(0, values, first, count)?;
                Values::Cuda(*cuda, some)
            }
        };
        let mut shape = self.shape().to_vec();
        shape[0] = which.len();
        Ok(Self::leaf(values, shape, false))
    }

    /// A copy on another device. It is a weight if this is one, and otherwise detached from the
    /// graph.
    ///
    /// # Errors
    /// If a device fails, or has no memory left.
    pub fn to_device(&self, device: Device) -> Result<Self, Error> {
        let values = match device {
            Device::Reference => Values::Reference(self.to_f64s()?),
            other => Values::on(other, self.to_f32s()?)?,
        };
        let weight = self.is_tracked() && self.0.origin.is_none();
        Ok(Self::leaf(values, self.0.shape.clone(), weight))
    }

    /// The same numbers for computations in the precision of another device. Copies nothing.
    pub fn in_precision_of(&self, device: Device) -> Self {
        let values = match (self.values(), device) {
            (Values::Cuda(own, values), Device::Cuda(other)) => {
                let precision = other.precision;
                Values::Cuda(Cuda { precision, ..*own }, values.clone())
            }
            (values, _) => values.clone(),
        };
        let (shape, tracked) = (self.0.shape.clone(), self.is_tracked() && self.0.origin.is_none());
        Self::leaf(values, shape, tracked)
    }

    /// Its shape, slowest dimension first.
    pub fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    /// Rows and columns.
    ///
    /// # Errors
    /// If it is not a matrix.
    pub fn matrix_shape(&self) -> Result<(usize, usize), Error> {
        match *self.shape() {
            [rows, columns] => Ok((rows, columns)),
            _ => Err(Error::NotAMatrix { shape: self.shape().to_vec() }),
        }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.0.values.len()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its device.
    pub fn device(&self) -> Device {
        match self.values() {
            Values::Cpu(_) => Device::Cpu,
            Values::Reference(_) => Device::Reference,
            Values::Cuda(cuda, _) => Device::Cuda(*cuda),
        }
    }

    /// Its numbers, as its device keeps them.
    pub fn values(&self) -> &Values {
        &self.0.values
    }

    /// Its numbers, copied if they are shared.
    pub(crate) fn into_values(self) -> Values {
        Arc::unwrap_or_clone(Arc::unwrap_or_clone(self.0).values)
    }

    /// Its numbers, which are on a GPU.
    pub(crate) fn array(&self) -> Result<&Array<f32>, Error> {
        match self.values() {
            Values::Cuda(_, array) => Ok(array),
            _ => Err(Error::Devices),
        }
    }

    /// A copy of its numbers in single precision.
    ///
    /// # Errors
    /// If its device, or work on it, failed.
    pub fn to_f32s(&self) -> Result<Vec<f32>, Error> {
        self.values().to_f32s()
    }

    /// A copy of its numbers in double precision.
    ///
    /// # Errors
    /// If its device, or work on it, failed.
    pub fn to_f64s(&self) -> Result<Vec<f64>, Error> {
        self.values().to_f64s()
    }

    /// Whether gradients flow through it.
    pub fn is_tracked(&self) -> bool {
        self.0.tracked
    }

    /// Its numbers, for changes in place. Shared numbers are copied first.
    pub(crate) fn values_mut(&mut self) -> &mut Values {
        if Arc::get_mut(&mut self.0).is_none() {
            // From here on these are other numbers: the gradients of both must not mix.
            self.0 = Arc::new(Node { age: next_age(), ..(*self.0).clone() });
        }
        Arc::make_mut(&mut Arc::make_mut(&mut self.0).values)
    }

    /// Adds the numbers of another tensor in place.
    ///
    /// # Errors
    /// If they differ in their number of values or in their device.
    pub fn accumulate(&mut self, other: &Tensor) -> Result<(), Error> {
        Error::check_len("the numbers to add", other.len(), self.len())?;
        self.values_mut().add(other.values())
    }

    /// Raises and lowers its numbers in place to be from `low` to `high`.
    ///
    /// # Errors
    /// If its device failed.
    pub fn bound(&mut self, low: f32, high: f32) -> Result<(), Error> {
        match self.values_mut() {
            Values::Cpu(values) => values.iter_mut().for_each(|v| *v = v.clamp(low, high)),
            Values::Reference(values) => {
                values.iter_mut().for_each(|v| *v = v.clamp(low.into(), high.into()));
            }
            Values::Cuda(cuda, values) => Unit::new(*cuda)?.bound(values, low, high)?,
        }
        Ok(())
    }

    /// The same numbers divided by `divisor`, detached from the graph.
    ///
    /// # Errors
    /// If its device failed.
    pub fn divided(&self, divisor: f64) -> Result<Self, Error> {
        let values = match self.values() {
            Values::Cpu(values) => {
                Values::Cpu(values.iter().map(|&v| (f64::from(v) / divisor) as f32).collect())
            }
            Values::Reference(values) => {
                Values::Reference(values.iter().map(|v| v / divisor).collect())
            }
            Values::Cuda(cuda, values) => {
                Values::Cuda(*cuda, Unit::new(*cuda)?.divided(values, divisor)?)
            }
        };
        Ok(Self::leaf(values, self.shape().to_vec(), false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{linear, relu};

    fn tensor(values: &[f32], shape: &[usize]) -> Tensor {
        Tensor::new(values.to_vec(), shape, Device::Cpu).unwrap()
    }

    #[test]
    fn copies_that_change_are_weights_of_their_own() {
        let mut first = tensor(&[1.0, 2.0], &[1, 2]).into_weight();
        let second = first.clone();
        match first.values_mut() {
            Values::Cpu(values) => values[0] = 5.0,
            _ => unreachable!("it is on the CPU"),
        }
        assert_eq!((first.to_f32s().unwrap()[0], second.to_f32s().unwrap()[0]), (5.0, 1.0));
        let (rows, bias) = (tensor(&[1.0, 1.0], &[1, 2]), tensor(&[0.0], &[1]));
        let of_second = linear(&rows, &second, &bias).unwrap().backward(&[1.0]).unwrap();
        assert!(of_second.of(&second).is_some() && of_second.of(&first).is_none());
    }

    #[test]
    fn gradients_pass_through_shapes_and_add_up() {
        let weight = tensor(&[1.0, -2.0, 3.0, 4.0], &[4]).into_weight();
        let square = weight.reshaped(&[2, 2]).unwrap();
        let (a, b) = (relu(&square).unwrap(), relu(&weight).unwrap());
        let both = Tensor::backward_of(&[(&a, &[1.0; 4]), (&b, &[10.0; 4])]).unwrap();
        assert_eq!(both.of(&weight).unwrap().to_f32s().unwrap(), [11.0, 0.0, 11.0, 11.0]);
        assert!(weight.reshaped(&[3]).is_err());
        let mut sum = weight.detached();
        sum.accumulate(&weight).unwrap();
        sum.accumulate(&weight).unwrap();
        let third = sum.divided(3.0).unwrap();
        assert_eq!(third.to_f32s().unwrap(), weight.to_f32s().unwrap());
        assert!(sum.accumulate(&tensor(&[1.0], &[1])).is_err());
        assert!(a.backward(&[1.0]).is_err());
    }

    #[test]
    fn rows_zeros_and_bounds_are_the_same_on_every_device() {
        for device in Device::available() {
            let numbers = tensor(&[-2.0, -1.0, 0.0, 1.0, 2.0, 3.0], &[3, 2]);
            let mut numbers = numbers.to_device(device).unwrap();
            let middle = numbers.some_rows(1..2).unwrap();
            assert_eq!((middle.shape(), middle.to_f32s().unwrap()), (&[1, 2][..], vec![0.0, 1.0]));
            assert!(numbers.some_rows(2..4).is_err());
            numbers.bound(-1.5, 1.5).unwrap();
            assert_eq!(numbers.to_f32s().unwrap(), [-1.5, -1.0, 0.0, 1.0, 1.5, 1.5]);
            assert_eq!(Tensor::zeros(&[2, 2], device).unwrap().to_f32s().unwrap(), [0.0; 4]);
        }
    }
}
