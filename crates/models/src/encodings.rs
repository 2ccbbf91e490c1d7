//! Encoded images and captions: encoders run once. Their output lies on disk, or stays on the GPU
//! that computed it.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use nextpair_data::{Dtype, Matrix, Progress, Spill};
use nextpair_kernels::{Device, Encoded, Tensor, ops};

use crate::{Corpus, Error, Model};

/// Encoded images or captions in a mapped file, which does not count as memory, or on a GPU. Clones
/// share them.
#[derive(Clone)]
pub struct Encodings {
    vectors: Vectors,
    /// The first row of each item, then the end of the last.
    offsets: Arc<[usize]>,
    /// The item at each position, unless all are in their own order.
    order: Option<Arc<[u32]>>,
}

/// Where vectors lie.
#[derive(Clone)]
enum Vectors {
    Mapped(Matrix),
    /// On a GPU, and in a file as well once the CPU asked for them.
    OnGpu {
        rows: Tensor,
        mapped: Arc<OnceLock<Matrix>>,
    },
}

impl Vectors {
    fn dim(&self) -> usize {
        match self {
            Vectors::Mapped(matrix) => matrix.dim(),
            Vectors::OnGpu { rows, .. } => rows.shape()[1],
        }
    }

    /// The vectors for the CPU.
    fn matrix(&self) -> Result<&Matrix, Error> {
        match self {
            Vectors::Mapped(matrix) => Ok(matrix),
            Vectors::OnGpu { rows, mapped } => {
                if let Some(matrix) = mapped.get() {
                    return Ok(matrix);
                }
                let mut spill = Spill::new()?;
                spill.append_f32(&rows.to_f32s()?)?;
                let matrix = spill.finish(self.dim(), Dtype::F32)?;
                Ok(mapped.get_or_init(|| matrix))
            }
        }
    }
}

/// Items encoded together.
const CHUNK: usize = 128;

impl Encodings {
    /// Encodes images of a corpus, in single precision whatever the model compares in.
    pub fn of_images(
        model: &Model,
        corpus: &Corpus,
        items: &[usize],
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        progress.start("images", items.len() as u64);
        let model = model.in_single_precision();
        corpus.steady(|| {
            Self::collect(items, progress, |items| {
                model.encode_images(&corpus.features(items, model.device())?)
            })
        })
    }

    /// Encodes captions of a corpus, in single precision whatever the model compares in.
    pub fn of_texts(
        model: &Model,
        corpus: &Corpus,
        captions: &[usize],
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        progress.start("captions", captions.len() as u64);
        let model = model.in_single_precision();
        corpus.steady(|| {
            Self::collect(captions, progress, |captions| {
                model.encode_texts(&corpus.texts(captions, model.device())?)
            })
        })
    }

    /// Wraps items that are already encoded.
    pub fn of(encoded: &Encoded) -> Result<Self, Error> {
        let vectors = Vectors::Mapped(Matrix::from_vec(encoded.dim()?, encoded.to_f32s()?));
        Ok(Encodings { vectors, offsets: encoded.offsets.clone().into(), order: None })
    }

    fn collect(
        items: &[usize],
        progress: &dyn Progress,
        encode: impl Fn(&[usize]) -> Result<Encoded, Error>,
    ) -> Result<Self, Error> {
        let mut kept = Kept { dim: 1, offsets: vec![0], chunks: Vec::new(), spill: None };
        for chunk in items.chunks(CHUNK) {
            match encode(chunk) {
                Err(error) if error.is_out_of_memory() => {
                    kept.spill()?;
                    in_parts(&encode, chunk, &mut |encoded| kept.add(encoded))?;
                }
                encoded => kept.add(encoded?)?,
            }
            progress.advance(chunk.len() as u64);
        }
        let (vectors, offsets) = kept.finish()?;
        Ok(Encodings { vectors, offsets: offsets.into(), order: None })
    }

    /// The same items in another order, possibly with some left out or repeated: `order` has the
    /// item of every position. Copies nothing.
    ///
    /// # Panics
    /// If an item does not exist.
    pub fn arranged(self, order: Vec<u32>) -> Self {
        let count = self.len();
        assert!(order.iter().all(|&at| (at as usize) < count), "an item beyond {count}");
        let order = order.into_iter().map(|at| self.item(at)).collect();
        Encodings { order: Some(order), ..self }
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.order.as_ref().map_or(self.offsets.len() - 1, |order| order.len())
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One vector per item: the mean of its vectors, in double precision.
    pub fn means(&self) -> Result<Matrix, Error> {
        let (dim, vectors) = (self.vectors.dim(), self.vectors.matrix()?);
        let mut spill = Spill::new()?;
        let mut values = vec![0.0; dim];
        for item in 0..self.len() as u32 {
            let rows = self.rows_of(item);
            let mut mean = vec![0.0; dim];
            for row in rows.clone() {
                vectors.read_f64(row, &mut values);
                mean.iter_mut().zip(&values).for_each(|(mean, value)| *mean += value);
            }
            mean.iter_mut().for_each(|mean| *mean /= rows.len().max(1) as f64);
            spill.append_f64(&mean)?;
        }
        Ok(spill.finish(dim, Dtype::F64)?)
    }

    /// The vectors of items that have one each, in order, without a copy.
    pub(crate) fn matrix(&self) -> Result<Matrix, Error> {
        let vectors = self.vectors.matrix()?;
        Ok(match &self.order {
            None => vectors.clone(),
            Some(order) => vectors.view(order.iter().map(|&item| self.offsets[item as usize])),
        })
    }

    /// The encoded item at a position.
    fn item(&self, at: u32) -> u32 {
        self.order.as_ref().map_or(at, |order| order[at as usize])
    }

    /// The rows of the item at a position.
    fn rows_of(&self, at: u32) -> Range<usize> {
        let item = self.item(at) as usize;
        self.offsets[item]..self.offsets[item + 1]
    }

    /// The largest norm of a vector.
    pub(crate) fn longest(&self) -> Result<f64, Error> {
        let vectors = self.vectors.matrix()?;
        let mut values = vec![0.0; vectors.dim()];
        Ok((0..vectors.rows()).fold(0.0, |longest: f64, row| {
            vectors.read_f64(row, &mut values);
            longest.max(values.iter().map(|v| v * v).sum::<f64>().sqrt())
        }))
    }

    /// The numbers of some items, one after the other, and the offset of each.
    pub(crate) fn numbers(&self, items: &[u32]) -> Result<(Vec<f32>, Vec<usize>), Error> {
        let (dim, vectors) = (self.vectors.dim(), self.vectors.matrix()?);
        let mut offsets = vec![0];
        let mut values = Vec::new();
        for &item in items {
            for row in self.rows_of(item) {
                let start = values.len();
                values.resize(start + dim, 0.0);
                vectors.read_f32(row, &mut values[start..]);
            }
            offsets.push(values.len() / dim);
        }
        Ok((values, offsets))
    }

    /// Some items on a device.
    pub(crate) fn gather(&self, items: &[u32], device: Device) -> Result<Encoded, Error> {
        if let Vectors::OnGpu { rows, .. } = &self.vectors
            && rows.device().with_precision_of(device) == device
        {
            let mut offsets = vec![0];
            let mut which = Vec::new();
            for &item in items {
                which.extend(self.rows_of(item).map(|row| row as u32));
                offsets.push(which.len());
            }
            let rows = ops::gather(&rows.in_precision_of(device), &which)?;
            return Ok(Encoded { rows, offsets });
        }
        let (values, offsets) = self.numbers(items)?;
        let shape = [values.len() / self.vectors.dim(), self.vectors.dim()];
        Ok(Encoded { rows: Tensor::new(values, &shape, device)?, offsets })
    }
}

/// Encodes items of which there are too many for the memory of a GPU: in halves, and those in halves.
fn in_parts(
    encode: &impl Fn(&[usize]) -> Result<Encoded, Error>,
    items: &[usize],
    add: &mut impl FnMut(Encoded) -> Result<(), Error>,
) -> Result<(), Error> {
    match encode(items) {
        Err(error) if error.is_out_of_memory() && items.len() > 1 => {
            let (first, rest) = items.split_at(items.len() / 2);
            in_parts(encode, first, add)?;
            in_parts(encode, rest, add)
        }
        encoded => add(encoded?),
    }
}

/// What has been encoded: on a GPU while there is room, and in a file from then on.
struct Kept {
    dim: usize,
    offsets: Vec<usize>,
    chunks: Vec<Tensor>,
    spill: Option<Spill>,
}

impl Kept {
    fn add(&mut self, encoded: Encoded) -> Result<(), Error> {
        self.dim = encoded.dim()?;
        let before = self.offsets.last().copied().unwrap_or(0);
        self.offsets.extend(encoded.offsets[1..].iter().map(|offset| before + offset));
        self.chunks.push(encoded.rows);
        // A GPU keeps them while there is room for them and a copy.
        let bytes: usize = self.chunks.iter().map(|rows| 4 * rows.len()).sum();
        let stays = self.spill.is_none() && self.chunks[0].device().has_room(2 * bytes)?;
        if stays { Ok(()) } else { self.spill() }
    }

    /// Writes what a GPU has to a file.
    fn spill(&mut self) -> Result<(), Error> {
        let mut file = self.spill.take().map_or_else(Spill::new, Ok)?;
        for rows in self.chunks.drain(..) {
            file.append_f32(&rows.to_f32s()?)?;
        }
        self.spill = Some(file);
        Ok(())
    }

    fn finish(mut self) -> Result<(Vectors, Vec<usize>), Error> {
        if !self.chunks.is_empty() {
            match ops::concat(&self.chunks.iter().collect::<Vec<_>>(), 0) {
                // Others have taken the room for the copy.
                Err(error) if error.is_out_of_memory() => self.spill()?,
                rows => {
                    let rows = rows?.detached();
                    return Ok((Vectors::OnGpu { rows, mapped: Arc::default() }, self.offsets));
                }
            }
        }
        let spill = self.spill.take().map_or_else(Spill::new, Ok)?;
        Ok((Vectors::Mapped(spill.finish(self.dim, Dtype::F32)?), self.offsets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_stand_where_they_are_arranged() {
        // Three items, with one, two and one vectors.
        let values = vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 8.0, 7.0, 9.0];
        let rows = Tensor::new(values, &[4, 2], Device::Cpu).unwrap();
        let encoded = Encoded { rows, offsets: vec![0, 1, 3, 4] };
        let encodings = Encodings::of(&encoded).unwrap().arranged(vec![2, 1, 1]);
        let again = encodings.arranged(vec![1, 0, 0, 2]);
        assert_eq!((again.len(), again.is_empty()), (4, false));
        let gathered = again.gather(&[0, 2], Device::Cpu).unwrap();
        assert_eq!(gathered.to_f32s().unwrap(), [3.0, 4.0, 5.0, 8.0, 7.0, 9.0]);
        assert_eq!(gathered.offsets, [0, 2, 3]);
        let means = again.means().unwrap();
        let mut mean = [0.0; 2];
        for (place, expected) in [[4.0, 6.0], [7.0, 9.0], [7.0, 9.0], [4.0, 6.0]].iter().enumerate()
        {
            means.read_f64(place, &mut mean);
            assert_eq!(mean, *expected);
        }
        let vectors = again.arranged(vec![1, 2]).matrix().unwrap();
        vectors.read_f64(1, &mut mean);
        assert_eq!((vectors.rows(), mean), (2, [7.0, 9.0]));
    }
}
