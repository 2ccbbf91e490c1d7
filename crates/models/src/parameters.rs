//! The weights of a model: declared, initialised, loaded, saved.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{DType, Device, Tensor, Var};
use nextpair_data::{Draws, draw, ordinary};

use crate::Error;

/// How a weight starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Start {
    /// Uniform between minus and plus this.
    Uniform(f64),
    /// 0.
    Zero,
    /// The Frobenius norm of the weight declared just before (the scale of a weight norm).
    NormOfPrevious,
}

/// A weight that a model has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Declared {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) start: Start,
}

impl Declared {
    pub(crate) fn new(name: impl Into<String>, shape: &[usize], start: Start) -> Self {
        Declared { name: name.into(), shape: shape.to_vec(), start }
    }
}

/// Named weights in the order of their declaration.
#[derive(Clone, Debug)]
pub struct Parameters {
    names: Vec<String>,
    vars: Vec<Var>,
}

/// What the draws of the first weights are for, apart from other draws of the same seed.
const FIRST_WEIGHTS: u64 = 0x77;

impl Parameters {
    /// The first weights of a seed. They depend on the seed, the name and the shape alone.
    pub(crate) fn first(declared: &[Declared], seed: u64, device: &Device) -> Result<Self, Error> {
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
                Start::Zero => vec![0.0; count],
                Start::NormOfPrevious => vec![norm as f32; count],
            };
            norm = values.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>().sqrt();
            Ok(Tensor::from_vec(values, weight.shape.as_slice(), device)?)
        });
        let tensors = tensors.collect::<Result<Vec<Tensor>, Error>>()?;
        Self::of(declared, tensors)
    }

    /// Weights from somewhere else, which must be exactly those declared.
    pub(crate) fn from_tensors(
        declared: &[Declared],
        mut tensors: BTreeMap<String, Tensor>,
        origin: &str,
        device: &Device,
    ) -> Result<Self, Error> {
        let mut listing = Vec::new();
        let mut found = Vec::new();
        for weight in declared {
            match tensors.remove(&weight.name) {
                None => listing.push(format!("  {} {:?} is missing", weight.name, weight.shape)),
                Some(tensor) if tensor.dims() != weight.shape => listing.push(format!(
                    "  {} is {:?}, not {:?}",
                    weight.name,
                    tensor.dims(),
                    weight.shape
                )),
                Some(tensor) if !tensor.dtype().is_float() => {
                    listing.push(format!("  {} holds {:?}", weight.name, tensor.dtype()));
                }
                Some(tensor) => {
                    let tensor = tensor.to_dtype(DType::F32)?.to_device(device)?.contiguous()?;
                    if !tensor.abs()?.sum_all()?.to_scalar::<f32>()?.is_finite() {
                        listing.push(format!("  {} holds NaN or infinity", weight.name));
                    }
                    found.push(tensor);
                }
            }
        }
        listing.extend(tensors.iter().map(|(name, t)| format!("  {name} {:?} is extra", t.dims())));
        match listing.is_empty() {
            true => Self::of(declared, found),
            false => Err(Error::Weights { origin: origin.to_owned(), listing }),
        }
    }

    fn of(declared: &[Declared], tensors: Vec<Tensor>) -> Result<Self, Error> {
        let vars = tensors.iter().map(Var::from_tensor).collect::<Result<_, _>>()?;
        Ok(Parameters { names: declared.iter().map(|w| w.name.clone()).collect(), vars })
    }

    /// A copy in another precision.
    pub(crate) fn to_dtype(&self, dtype: DType) -> Result<Self, Error> {
        let convert = |var: &Var| Ok(Var::from_tensor(&var.as_tensor().to_dtype(dtype)?)?);
        let vars = self.vars.iter().map(convert).collect::<Result<_, Error>>()?;
        Ok(Parameters { names: self.names.clone(), vars })
    }

    /// The weight called `name`.
    pub(crate) fn get(&self, name: &str) -> Result<&Tensor, Error> {
        match self.names.iter().position(|known| known == name) {
            Some(at) => Ok(self.vars[at].as_tensor()),
            None => Err(Error::Weights {
                origin: "the model".to_owned(),
                listing: vec![format!("  {name} is not declared")],
            }),
        }
    }

    /// All weights with their names, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Var)> {
        self.names.iter().map(String::as_str).zip(&self.vars)
    }

    /// How many numbers there are.
    pub fn count(&self) -> usize {
        self.vars.iter().map(|var| var.elem_count()).sum()
    }
}

/// The tensors of a safetensors file, each copied.
pub(crate) fn read_tensors(path: &Path) -> Result<BTreeMap<String, Tensor>, Error> {
    let bytes = ordinary::read(path)?;
    let tensors = candle_core::safetensors::load_buffer(&bytes, &Device::Cpu)
        .map_err(|e| Error::file(path, e.to_string()))?;
    Ok(tensors.into_iter().collect())
}
