//! Tensors that record how they were computed, for gradients.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Device, Error};

/// Numbers with a shape, on a device. Clones share the numbers.
#[derive(Clone, Debug)]
pub struct Tensor(Arc<Node>);

/// The numbers of a tensor, as its device keeps them.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// [`Device::Cpu`].
    Cpu(Vec<f32>),
    /// [`Device::Reference`].
    Reference(Vec<f64>),
}

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
        let values = match device {
            Device::Cpu => Values::Cpu(values),
            Device::Reference => Values::Reference(values.into_iter().map(f64::from).collect()),
        };
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

    /// The same numbers in another shape, detached from the graph.
    ///
    /// # Errors
    /// If the number of values does not match the shape.
    pub fn reshaped(&self, shape: &[usize]) -> Result<Self, Error> {
        Error::check_len("a reshaped tensor", self.len(), shape.iter().product())?;
        let mut node = (*self.detached().0).clone();
        node.shape = shape.to_vec();
        Ok(Tensor(Arc::new(node)))
    }

    /// The first rows, detached from the graph.
    ///
    /// # Errors
    /// If there are fewer rows.
    pub fn first_rows(&self, count: usize) -> Result<Self, Error> {
        let rows = self.shape().first().copied().unwrap_or(0);
        if count > rows {
            let (set, len) = ("rows", rows);
            return Err(Error::IndexOutOfRange { set, position: 0, index: count, len });
        }
        let each = self.len() / rows.max(1);
        let values = match self.values() {
            Values::Cpu(values) => Values::Cpu(values[..count * each].to_vec()),
            Values::Reference(values) => Values::Reference(values[..count * each].to_vec()),
        };
        let mut shape = self.shape().to_vec();
        shape[0] = count;
        Ok(Self::leaf(values, shape, false))
    }

    /// A copy on another device. It is a weight if this is one, and otherwise detached from the
    /// graph.
    pub fn to_device(&self, device: Device) -> Self {
        let values = match device {
            Device::Cpu => Values::Cpu(self.to_f32s()),
            Device::Reference => Values::Reference(self.to_f64s()),
        };
        let weight = self.is_tracked() && self.0.origin.is_none();
        Self::leaf(values, self.0.shape.clone(), weight)
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
        }
    }

    /// Its numbers, as its device keeps them.
    pub fn values(&self) -> &Values {
        &self.0.values
    }

    /// A copy of its numbers in single precision.
    pub fn to_f32s(&self) -> Vec<f32> {
        self.values().to_f32s()
    }

    /// A copy of its numbers in double precision.
    pub fn to_f64s(&self) -> Vec<f64> {
        self.values().to_f64s()
    }

    /// Whether gradients flow through it.
    pub fn is_tracked(&self) -> bool {
        self.0.tracked
    }

    /// Its numbers, for changes in place. Shared numbers are copied first.
    pub(crate) fn values_mut(&mut self) -> &mut Values {
        Arc::make_mut(&mut Arc::make_mut(&mut self.0).values)
    }

    /// The gradients of a loss for all weights that this tensor was computed from, where `upstream`
    /// holds the derivatives of the loss by these numbers.
    ///
    /// # Errors
    /// If the number of derivatives does not match.
    pub fn backward(&self, upstream: &[f32]) -> Result<Gradients, Error> {
        Error::check_len("the derivatives", upstream.len(), self.len())?;
        let upstream = match self.device() {
            Device::Cpu => Values::Cpu(upstream.to_vec()),
            Device::Reference => {
                Values::Reference(upstream.iter().map(|&value| value.into()).collect())
            }
        };
        let mut gradients = Gradients::default();
        // Inputs are older than results: youngest first, a gradient is complete before it is passed
        // on.
        let mut open = BTreeMap::from([(self.0.age, (self.clone(), upstream))]);
        while let Some((age, (tensor, gradient))) = open.pop_last() {
            let Some(origin) = &tensor.0.origin else {
                if tensor.is_tracked() {
                    gradients.add(age, gradient)?;
                }
                continue;
            };
            let passed = origin.operation.backward(&origin.inputs, &gradient)?;
            for (input, gradient) in origin.inputs.iter().zip(passed) {
                let Some(gradient) = gradient.filter(|_| input.is_tracked()) else { continue };
                match open.get_mut(&input.0.age) {
                    Some((_, sum)) => sum.add(&gradient)?,
                    None => drop(open.insert(input.0.age, (input.clone(), gradient))),
                }
            }
        }
        Ok(gradients)
    }
}

impl Values {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Values::Cpu(values) => values.len(),
            Values::Reference(values) => values.len(),
        }
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy in single precision.
    pub fn to_f32s(&self) -> Vec<f32> {
        match self {
            Values::Cpu(values) => values.clone(),
            Values::Reference(values) => values.iter().map(|&value| value as f32).collect(),
        }
    }

    /// A copy in double precision.
    pub fn to_f64s(&self) -> Vec<f64> {
        match self {
            Values::Cpu(values) => values.iter().map(|&value| value.into()).collect(),
            Values::Reference(values) => values.clone(),
        }
    }

    fn add(&mut self, other: &Values) -> Result<(), Error> {
        match (self, other) {
            (Values::Cpu(sum), Values::Cpu(part)) => {
                sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
            }
            (Values::Reference(sum), Values::Reference(part)) => {
                sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
            }
            _ => return Err(Error::Devices),
        }
        Ok(())
    }
}

/// The gradients of a loss, one for every weight it depends on.
#[derive(Debug, Default)]
pub struct Gradients {
    by_age: HashMap<u64, Values>,
}

impl Gradients {
    /// The gradient of a weight, if the loss depends on it.
    pub fn of(&self, weight: &Tensor) -> Option<&Values> {
        self.by_age.get(&weight.0.age)
    }

    /// Adds the gradients of another loss.
    ///
    /// # Errors
    /// If they are on another device.
    pub fn merge(&mut self, other: Gradients) -> Result<(), Error> {
        other.by_age.into_iter().try_for_each(|(age, values)| self.add(age, values))
    }

    fn add(&mut self, age: u64, values: Values) -> Result<(), Error> {
        match self.by_age.get_mut(&age) {
            Some(sum) => sum.add(&values),
            None => {
                self.by_age.insert(age, values);
                Ok(())
            }
        }
    }
}
