//! A retrieval model: an architecture and its weights.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use nextpair_data::{Matrix, Progress, Side};
use nextpair_engine::{self as engine, Similarity};
use nextpair_kernels::{Device, Encoded, Precision, Tensor};

use crate::tensor_file::{self, Stored};
use crate::{Architecture, Comparison, Encodings, Error, Inputs, Mode, Pass, Texts, Weights};

/// Images that a GPU scores with all captions at a time.
const EVALUATED: usize = 256;

/// A model with weights.
#[derive(Clone)]
pub struct Model {
    architecture: Arc<dyn Architecture>,
    inputs: Inputs,
    weights: Weights,
    device: Device,
}

impl Model {
    /// Initialises the weights from a seed.
    ///
    /// # Errors
    /// If the settings are invalid.
    pub fn new(
        architecture: impl Into<Arc<dyn Architecture>>,
        inputs: Inputs,
        seed: u64,
        device: Device,
    ) -> Result<Self, Error> {
        let architecture = architecture.into();
        architecture.check()?;
        let weights = Weights::first(&architecture.declare(inputs), seed, device)?;
        Ok(Model { architecture, inputs, weights, device })
    }

    /// Takes these weights, which must be exactly those of the model. Errors name `origin`.
    ///
    /// # Errors
    /// If they are not, with a line for each wrong one.
    pub fn from_tensors(
        architecture: impl Into<Arc<dyn Architecture>>,
        inputs: Inputs,
        tensors: &BTreeMap<String, Tensor>,
        origin: &str,
        device: Device,
    ) -> Result<Self, Error> {
        let architecture = architecture.into();
        architecture.check()?;
        let declared = architecture.declare(inputs);
        let weights = Weights::from_tensors(&declared, tensors, origin, device)?;
        Ok(Model { architecture, inputs, weights, device })
    }

    /// Reads the weights that [`save`](Self::save) wrote.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or has other weights than the model.
    pub fn load(
        architecture: impl Into<Arc<dyn Architecture>>,
        inputs: Inputs,
        path: &Path,
        device: Device,
    ) -> Result<Self, Error> {
        let stored = tensor_file::read(path)?;
        Self::from_stored(architecture.into(), inputs, stored, &path.display().to_string(), device)
    }

    /// Writes the weights as a safetensors file that [`load`](Self::load) reads, whole or not at all.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let weights = self.weights.iter().map(|(name, weight)| (name.to_owned(), weight));
        let about = ("architecture", self.architecture.name().to_owned());
        tensor_file::write(path, weights, about).map(drop)
    }

    fn from_stored(
        architecture: Arc<dyn Architecture>,
        inputs: Inputs,
        stored: BTreeMap<String, Stored>,
        origin: &str,
        device: Device,
    ) -> Result<Self, Error> {
        architecture.check()?;
        let weights = Weights::load(&architecture.declare(inputs), stored, origin, device)?;
        Ok(Model { architecture, inputs, weights, device })
    }

    /// Takes the weights of another model where names and shapes are the same. Returns the names of
    /// the others.
    ///
    /// # Errors
    /// If it has none of them, or a device failed.
    pub(crate) fn begin_with(&mut self, start: &Model) -> Result<Vec<String>, Error> {
        let mut left = Vec::new();
        let own: Vec<String> = self.weights.iter().map(|(name, _)| name.to_owned()).collect();
        let count = own.len();
        for name in own {
            match start.weights.get(&name) {
                Ok(found) if found.shape() == self.weights.get(&name)?.shape() => {
                    self.weights.set(&name, found.to_device(self.device)?)?;
                }
                _ => left.push(name),
            }
        }
        if left.len() < count {
            return Ok(left);
        }
        let (own, other) = (self.architecture.name(), start.architecture.name());
        let what = format!("no weight of {other} has name and shape of one of {own}");
        Err(Error::setting("start", what))
    }

    /// A copy on another device.
    ///
    /// # Errors
    /// If a device fails, or has no memory left.
    pub fn to_device(&self, device: Device) -> Result<Self, Error> {
        let (architecture, inputs) = (self.architecture.clone(), self.inputs);
        Ok(Model { architecture, inputs, weights: self.weights.to_device(device)?, device })
    }

    /// Models of one architecture as one, on a device.
    pub(crate) fn stacked(members: &[Model], device: Device) -> Result<Self, Error> {
        let [first, ..] = members else {
            return Err(Error::setting("members", "there are none"));
        };
        let weights: Vec<&Weights> = members.iter().map(|model| &model.weights).collect();
        let (architecture, inputs) = (first.architecture.clone(), first.inputs);
        Ok(Model { architecture, inputs, weights: Weights::stacked(&weights, device)?, device })
    }

    /// One of the models that are one.
    pub(crate) fn member(&self, member: usize) -> Result<Self, Error> {
        Ok(Model { weights: self.weights.member(member)?, ..self.clone() })
    }

    /// The same model, which computes in single precision. Copies nothing.
    pub fn in_single_precision(&self) -> Self {
        let device = self.device.with_precision(Precision::Fp32);
        let (architecture, inputs) = (self.architecture.clone(), self.inputs);
        Model { architecture, inputs, weights: self.weights.in_precision_of(device), device }
    }

    /// Its architecture with its settings.
    pub fn architecture(&self) -> &dyn Architecture {
        &*self.architecture
    }

    /// Its inputs.
    pub fn inputs(&self) -> Inputs {
        self.inputs
    }

    /// Its weights.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    pub(crate) fn weights_mut(&mut self) -> &mut Weights {
        &mut self.weights
    }

    /// Its device.
    pub fn device(&self) -> Device {
        self.device
    }

    /// Encodes images from features: images by regions by numbers.
    ///
    /// # Errors
    /// If the features do not match the weights.
    pub fn encode_images(&self, features: &Tensor) -> Result<Encoded, Error> {
        // Without gradients, nothing but the result is kept.
        let weights = self.weights.detached();
        self.architecture.encode_images(&Pass::new(&weights, Mode::Evaluate), features)
    }

    /// Encodes captions from words or vectors.
    ///
    /// # Errors
    /// If the captions do not match the weights.
    pub fn encode_texts(&self, texts: &Texts) -> Result<Encoded, Error> {
        let weights = self.weights.detached();
        self.architecture.encode_texts(&Pass::new(&weights, Mode::Evaluate), texts)
    }

    /// How it compares encoded images and captions, with the current weights.
    ///
    /// # Errors
    /// If a weight is missing.
    pub fn comparison(&self) -> Result<Box<dyn Comparison>, Error> {
        self.architecture.comparison(&self.weights)
    }

    /// The similarity of encoded `rows` of the side `of_rows` and `columns` of the other side.
    ///
    /// # Errors
    /// If they cannot be compared.
    pub fn similarity(
        &self,
        of_rows: Side,
        rows: &Encodings,
        columns: &Encodings,
    ) -> Result<Box<dyn Similarity>, Error> {
        self.comparison()?.similarity(of_rows, rows.clone(), columns.clone(), self.device)
    }

    /// The similarity of encoded images and captions for an evaluation. On a GPU all scores are
    /// computed at once, in its precision.
    pub(crate) fn evaluated(
        &self,
        images: &Encodings,
        texts: &Encodings,
        progress: &dyn Progress,
    ) -> Result<Box<dyn Similarity>, Error> {
        if !matches!(self.device, Device::Cuda(_)) {
            return self.similarity(Side::Image, images, texts);
        }
        let comparison = self.comparison()?;
        let every = |count: usize| (0..count as u32).collect::<Vec<_>>();
        let of_texts = texts.gather(&every(texts.len()), self.device)?;
        let mut values = Vec::with_capacity(images.len() * texts.len());
        let (mut rest, mut at_once) = (&every(images.len())[..], EVALUATED);
        while !rest.is_empty() {
            if progress.stopped() {
                return Err(engine::Error::Stopped.into());
            }
            let (items, later) = rest.split_at(at_once.min(rest.len()));
            let scores = images
                .gather(items, self.device)
                .and_then(|of_images| comparison.scores(&of_images, &of_texts));
            match scores {
                // Fewer need less.
                Err(error) if error.is_out_of_memory() && items.len() > 1 => {
                    at_once = items.len() / 2;
                }
                scores => {
                    values.extend(scores?);
                    rest = later;
                }
            }
        }
        let scores = Matrix::from_vec(texts.len(), values);
        Ok(Box::new(engine::Stored::new(scores, "the scores of the model")?))
    }
}
