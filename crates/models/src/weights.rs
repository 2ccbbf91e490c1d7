//! The weights of a model: declared, initialised, loaded.

use std::collections::BTreeMap;

use nextpair_data::{Draws, draw};
use nextpair_kernels::{Device, Tensor};

use crate::Error;
use crate::members::{part, stacked};
use crate::tensor_file::Stored;

/// How to initialise a weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Start {
    /// Uniform between minus and plus this number.
    Uniform(f64),
    /// Normal with mean 0 and this standard deviation.
    Normal(f64),
    /// This number everywhere.
    Constant(f64),
    /// The Frobenius norm of the weight declared just before (the scale of a weight norm).
    NormOfPrevious,
}

/// How a weight is updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By the optimiser.
    Trained,
    /// By the model itself during training, such as the running means of batch norm.
    Buffer,
    /// By nobody: it stays what it was at first, or was loaded as.
    Fixed,
}

/// A weight that a model declares.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    /// Its name, as in published checkpoints.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// How to initialise it.
    pub start: Start,
    /// How it is updated.
    pub kind: Kind,
}

impl Declared {
    /// A trained weight.
    pub fn new(name: impl Into<String>, shape: &[usize], start: Start) -> Self {
        Declared { name: name.into(), shape: shape.to_vec(), start, kind: Kind::Trained }
    }

    /// A weight that stays what it is.
    pub fn fixed(name: impl Into<String>, shape: &[usize], start: Start) -> Self {
        Declared { name: name.into(), shape: shape.to_vec(), start, kind: Kind::Fixed }
    }

    /// A buffer, initialised with one value everywhere.
    pub fn buffer(name: impl Into<String>, shape: &[usize], value: f64) -> Self {
        let start = Start::Constant(value);
        Declared { name: name.into(), shape: shape.to_vec(), start, kind: Kind::Buffer }
    }
}

/// Named weights in the order of their declaration: those of a model, or of several that train
/// together, which then have a leading axis of members.
#[derive(Clone, Debug)]
pub struct Weights {
    names: Vec<String>,
    kinds: Vec<Kind>,
    tensors: Vec<Tensor>,
    members: usize,
}

/// Purpose of the initial draws, which keeps them apart from other draws of the same seed.
const FIRST_WEIGHTS: u64 = 0x77;

impl Weights {
    /// Initialises the weights. They depend on the seed, the name and the shape alone.
    pub(crate) fn first(declared: &[Declared], seed: u64, device: Device) -> Result<Self, Error> {
        let mut norm = 0.0;
        let tensors = declared.iter().map(|weight| {
            let count: usize = weight.shape.iter().product();
            let name =
                weight.name.bytes().fold(FIRST_WEIGHTS, |h, b| draw::draw_of(h, b.into(), 0));
            let mut draws = Draws::new(draw::draw_of(seed, name, 0));
            let values: Vec<f32> = match weight.start {
                Start::Uniform(bound) => {
                    (0..count).map(|_| ((2.0 * draws.unit() - 1.0) * bound) as f32).collect()
                }
                Start::Normal(deviation) => {
                    (0..count).map(|_| (draws.normal() * deviation) as f32).collect()
                }
                Start::Constant(value) => vec![value as f32; count],
                Start::NormOfPrevious => vec![norm as f32; count],
            };
            norm = values.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>().sqrt();
            Ok(Tensor::new(values, &weight.shape, device)?)
        });
        let tensors = tensors.collect::<Result<Vec<Tensor>, Error>>()?;
        Ok(Self::of(declared, tensors))
    }

    /// Takes these weights, which must be exactly those declared. Errors name `origin`.
    ///
    /// # Errors
    /// If they are not, with a line for each wrong one.
    pub fn from_tensors(
        declared: &[Declared],
        tensors: &BTreeMap<String, Tensor>,
        origin: &str,
        device: Device,
    ) -> Result<Self, Error> {
        let stored = tensors
            .iter()
            .map(|(name, tensor)| Ok((name.clone(), Stored::try_from(tensor)?)))
            .collect::<Result<_, Error>>()?;
        Self::load(declared, stored, origin, device)
    }

    /// Loads weights, which must be exactly those declared. Errors name `origin`.
    pub(crate) fn load(
        declared: &[Declared],
        mut stored: BTreeMap<String, Stored>,
        origin: &str,
        device: Device,
    ) -> Result<Self, Error> {
        let mut listing = Vec::new();
        let mut found = Vec::new();
        for weight in declared {
            let (name, shape) = (&weight.name, &weight.shape);
            match stored.remove(name) {
                None => listing.push(format!("  {name} {shape:?} is missing")),
                Some(stored) if stored.shape != *shape => {
                    listing.push(format!("  {name} is {:?}, not {shape:?}", stored.shape));
                }
                Some(Stored { dtype, values: None, .. }) => {
                    listing.push(format!("  {name} holds {dtype:?}"));
                }
                Some(Stored { values: Some(values), .. }) => {
                    if values.iter().any(|value| !value.is_finite()) {
                        listing.push(format!("  {name} holds NaN or infinity"));
                    }
                    found.push(Tensor::new(values, shape, device)?);
                }
            }
        }
        let extra = stored.iter().map(|(name, s)| format!("  {name} {:?} is extra", s.shape));
        listing.extend(extra);
        if listing.is_empty() {
            Ok(Self::of(declared, found))
        } else {
            Err(Error::Weights { origin: origin.to_owned(), listing })
        }
    }

    fn of(declared: &[Declared], tensors: Vec<Tensor>) -> Self {
        let tensors = declared.iter().zip(tensors).map(|(weight, tensor)| match weight.kind {
            Kind::Trained => tensor.into_weight(),
            Kind::Buffer | Kind::Fixed => tensor,
        });
        Weights {
            names: declared.iter().map(|weight| weight.name.clone()).collect(),
            kinds: declared.iter().map(|weight| weight.kind).collect(),
            tensors: tensors.collect(),
            members: 1,
        }
    }

    /// The weights of several models of one architecture, on a device.
    pub(crate) fn stacked(members: &[&Weights], device: Device) -> Result<Self, Error> {
        let [first, ..] = members else {
            return Err(Error::setting("members", "there are none"));
        };
        let tensors = (0..first.tensors.len()).map(|at| {
            let parts: Vec<&Tensor> = members.iter().map(|weights| &weights.tensors[at]).collect();
            stacked(&parts, device)
        });
        Ok(first.with(tensors.collect::<Result<_, Error>>()?, members.len()))
    }

    /// The weights of a member.
    pub(crate) fn member(&self, member: usize) -> Result<Self, Error> {
        let parts = self.tensors.iter().map(|tensor| part(tensor, member, self.members));
        Ok(self.with(parts.collect::<Result<_, Error>>()?, 1))
    }

    /// Number of models whose weights these are.
    pub fn members(&self) -> usize {
        self.members
    }

    /// Other numbers by the same names.
    fn with(&self, tensors: Vec<Tensor>, members: usize) -> Self {
        Weights { names: self.names.clone(), kinds: self.kinds.clone(), tensors, members }
    }

    /// A copy on another device.
    pub(crate) fn to_device(&self, device: Device) -> Result<Self, Error> {
        let tensors = self.tensors.iter().map(|tensor| tensor.to_device(device));
        Ok(self.with(tensors.collect::<Result<_, _>>()?, self.members))
    }

    /// The same weights for computations in the precision of another device. Copies nothing.
    pub(crate) fn in_precision_of(&self, device: Device) -> Self {
        let tensors = self.tensors.iter().map(|tensor| tensor.in_precision_of(device)).collect();
        self.with(tensors, self.members)
    }

    /// The weight called `name`.
    ///
    /// # Errors
    /// If it was not declared.
    pub fn get(&self, name: &str) -> Result<&Tensor, Error> {
        self.place(name).map(|at| &self.tensors[at])
    }

    /// Whether a weight was declared.
    pub fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// Replaces a weight.
    pub(crate) fn set(&mut self, name: &str, tensor: Tensor) -> Result<(), Error> {
        let at = self.place(name)?;
        self.tensors[at] = match self.kinds[at] {
            Kind::Trained => tensor.into_weight(),
            Kind::Buffer | Kind::Fixed => tensor.detached(),
        };
        Ok(())
    }

    /// Keeps a weight from being trained: it has no gradient from now on.
    pub(crate) fn freeze(&mut self, name: &str) -> Result<(), Error> {
        let at = self.place(name)?;
        self.tensors[at] = self.tensors[at].detached();
        Ok(())
    }

    /// Refuses numbers that cannot take the place of a buffer.
    pub(crate) fn check_buffer(&self, name: &str, value: &Tensor) -> Result<(), Error> {
        let at = self.place(name)?;
        let (own, kind) = (&self.tensors[at], self.kinds[at]);
        let fits = own.shape() == value.shape() && own.device() == value.device();
        if kind == Kind::Buffer && fits {
            return Ok(());
        }
        let listing = match kind {
            Kind::Buffer => format!("  {name} is {:?}, not {:?}", value.shape(), own.shape()),
            Kind::Trained => format!("  {name} is trained, not a buffer"),
            Kind::Fixed => format!("  {name} is fixed, not a buffer"),
        };
        Err(Error::Weights { origin: "the model".to_owned(), listing: vec![listing] })
    }

    /// The same numbers without gradients.
    pub(crate) fn detached(&self) -> Self {
        let tensors = self.tensors.iter().map(Tensor::detached).collect();
        self.with(tensors, self.members)
    }

    fn place(&self, name: &str) -> Result<usize, Error> {
        self.names.iter().position(|known| known == name).ok_or_else(|| Error::Weights {
            origin: "the model".to_owned(),
            listing: vec![format!("  {name} is not declared")],
        })
    }

    /// All weights with their names, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.names.iter().map(String::as_str).zip(&self.tensors)
    }

    /// The same, for changes.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (String, &mut Tensor)> {
        self.names.iter().cloned().zip(&mut self.tensors)
    }

    /// The weights that the optimiser changes, with their names, in order.
    pub fn trained(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        let kinds = self.kinds.iter();
        self.iter().zip(kinds).filter(|(_, kind)| **kind == Kind::Trained).map(|(weight, _)| weight)
    }

    /// The same, for changes.
    pub(crate) fn trained_mut(&mut self) -> impl Iterator<Item = &mut Tensor> {
        let both = self.tensors.iter_mut().zip(&self.kinds);
        both.filter(|(_, kind)| **kind == Kind::Trained).map(|(tensor, _)| tensor)
    }

    /// Number of parameters.
    pub fn count(&self) -> usize {
        self.tensors.iter().map(Tensor::len).sum()
    }
}
