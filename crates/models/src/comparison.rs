//! Similarities of encoded images and captions: all pairs without gradients, or some with.

use std::ops::Range;

use nextpair_data::Side;
use nextpair_engine::{self as engine, Embeddings, Metric, Similarity, Vectors};
use nextpair_kernels::ops::{Matching, dot_pairs, dot_scores, linear, order_pairs};
use nextpair_kernels::{Device, Encoded, Precision, Tensor};

use crate::gpu_tiles::{GpuTiles, Scorer};
use crate::{Encodings, Error};

/// How a model compares images and captions.
///
/// The score of a pair must have the same bits whatever else is in the call, because it is computed
/// in tiles, in batches and alone.
pub trait Comparison: Send + Sync {
    /// The scores of some `(image, caption)` pairs, with gradients. Scores that are `known`, from
    /// [`scores`](Self::scores), need not be computed again.
    ///
    /// # Errors
    /// If there is no such pair.
    fn pair_scores(
        &self,
        images: &Encoded,
        texts: &Encoded,
        pairs: &[(u32, u32)],
        known: Option<Vec<f32>>,
    ) -> Result<Tensor, Error>;

    /// Number of members of the ensemble that it compares for: the items are those of the first, of the
    /// second, and so on, equally many of each, and all pairs are those within members.
    fn members(&self) -> usize {
        1
    }

    /// The scores of all pairs, images by captions, without gradients.
    ///
    /// # Errors
    /// If images and captions do not match.
    fn scores(&self, images: &Encoded, texts: &Encoded) -> Result<Vec<f32>, Error> {
        Ok(self.all_scores(&images.detached(), &texts.detached(), None)?.to_f32s()?)
    }

    /// The scores of all pairs, images by captions, with gradients. Scores that are `known` need not be
    /// computed again.
    ///
    /// # Errors
    /// If images and captions do not match.
    fn all_scores(
        &self,
        images: &Encoded,
        texts: &Encoded,
        known: Option<Vec<f32>>,
    ) -> Result<Tensor, Error> {
        let pairs = Encoded::pairs_of_members(images, texts, self.members());
        self.pair_scores(images, texts, &pairs, known)
    }

    /// Whether a device computes all gradients of all scores sooner than it finds out which are needed.
    fn is_dense_on(&self, _device: Device) -> bool {
        false
    }

    /// Whether a score takes about as long as an encoding.
    fn is_costly(&self) -> bool {
        true
    }

    /// The similarity of encoded `rows` of the side `of_rows` and `columns` of the other side. By default
    /// all tiles are scored, on the CPU.
    ///
    /// # Errors
    /// If they cannot be compared.
    fn similarity(
        self: Box<Self>,
        of_rows: Side,
        rows: Encodings,
        columns: Encodings,
        _device: Device,
    ) -> Result<Box<dyn Similarity>, Error>
    where
        Self: 'static,
    {
        Ok(Box::new(Tiles { comparison: self, of_rows, rows, columns, device: Device::Cpu }))
    }
}

/// Some items, detached from the graph, or all of them.
fn some(items: &Encoded, which: Range<usize>) -> Result<Encoded, Error> {
    if which.len() == items.len() {
        return Ok(items.clone());
    }
    let offsets = &items.offsets[which.start..=which.end];
    let rows = items.rows.some_rows(offsets[0]..offsets[which.len()])?;
    Ok(Encoded { rows, offsets: offsets.iter().map(|offset| offset - offsets[0]).collect() })
}

/// The dot product of one vector per item.
#[derive(Clone, Copy, Debug)]
pub struct Dot {
    /// Members of the ensemble.
    pub members: usize,
}

impl Comparison for Dot {
    fn pair_scores(
        &self,
        images: &Encoded,
        texts: &Encoded,
        pairs: &[(u32, u32)],
        _known: Option<Vec<f32>>,
    ) -> Result<Tensor, Error> {
        Ok(dot_pairs(images, texts, pairs)?)
    }

    fn members(&self) -> usize {
        self.members.max(1)
    }

    fn scores(&self, images: &Encoded, texts: &Encoded) -> Result<Vec<f32>, Error> {
        let [rows, columns] = [images, texts].map(|items| items.len() / self.members());
        let member = |at: usize| {
            let images = some(images, at * rows..(at + 1) * rows)?;
            let texts = some(texts, at * columns..(at + 1) * columns)?;
            Ok::<_, Error>(dot_scores(&images, &texts)?)
        };
        let mut scores = member(0)?;
        for at in 1..self.members() {
            scores.extend(member(at)?);
        }
        Ok(scores)
    }

    fn all_scores(
        &self,
        images: &Encoded,
        texts: &Encoded,
        _known: Option<Vec<f32>>,
    ) -> Result<Tensor, Error> {
        // A product of two matrices, like a layer whose weights are the captions.
        let (rows, dim) = texts.rows.matrix_shape()?;
        let captions = texts.rows.reshaped(&[self.members(), rows / self.members(), dim])?;
        let nothing = Tensor::zeros(&[rows], texts.rows.device())?;
        Ok(linear(&images.rows, &captions, &nothing)?)
    }

    fn is_dense_on(&self, device: Device) -> bool {
        matches!(device, Device::Cuda(_))
    }

    fn is_costly(&self) -> bool {
        false
    }

    fn similarity(
        self: Box<Self>,
        of_rows: Side,
        rows: Encodings,
        columns: Encodings,
        _device: Device,
    ) -> Result<Box<dyn Similarity>, Error> {
        let (of_rows, of_columns) =
            of_rows.own_and_other("the encoded images", "the encoded captions");
        let rows = Vectors::new(rows.matrix()?, of_rows)?;
        let columns = Vectors::new(columns.matrix()?, of_columns)?;
        Ok(Box::new(Embeddings::new(rows, columns, Metric::Dot)?))
    }
}

/// Order embeddings: `-|max(0, t - u)|`, how far a caption is from being more general than the
/// image.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// Members of the ensemble.
    pub members: usize,
}

impl Comparison for Order {
    fn pair_scores(
        &self,
        images: &Encoded,
        texts: &Encoded,
        pairs: &[(u32, u32)],
        _known: Option<Vec<f32>>,
    ) -> Result<Tensor, Error> {
        Ok(order_pairs(images, texts, pairs)?)
    }

    fn members(&self) -> usize {
        self.members.max(1)
    }

    fn is_costly(&self) -> bool {
        false
    }

    fn similarity(
        self: Box<Self>,
        of_rows: Side,
        rows: Encodings,
        columns: Encodings,
        _device: Device,
    ) -> Result<Box<dyn Similarity>, Error> {
        let largest = rows.longest()? + columns.longest()?;
        Ok(Box::new(Ordered { of_rows, rows, columns, largest }))
    }
}

/// Attention between several vectors per item.
impl Comparison for Matching {
    fn pair_scores(
        &self,
        images: &Encoded,
        texts: &Encoded,
        pairs: &[(u32, u32)],
        known: Option<Vec<f32>>,
    ) -> Result<Tensor, Error> {
        Ok(Matching::pair_scores(self, images, texts, pairs, known)?)
    }

    fn scores(&self, images: &Encoded, texts: &Encoded) -> Result<Vec<f32>, Error> {
        Ok(Matching::scores(self, images, texts)?)
    }

    fn members(&self) -> usize {
        Matching::members(self)
    }

    fn similarity(
        self: Box<Self>,
        of_rows: Side,
        rows: Encodings,
        columns: Encodings,
        device: Device,
    ) -> Result<Box<dyn Similarity>, Error> {
        tiles(self, Matching::in_precision_of, of_rows, (rows, columns), device)
    }
}

/// The similarity by tiles that are scored on the device. On a GPU in a fast precision the pairs that could
/// matter are scored again in single precision, by the comparison that `in_precision_of` makes.
pub(crate) fn tiles<C: Comparison + 'static>(
    comparison: Box<C>,
    in_precision_of: impl Fn(&C, Device) -> C,
    of_rows: Side,
    (rows, columns): (Encodings, Encodings),
    device: Device,
) -> Result<Box<dyn Similarity>, Error> {
    let Device::Cuda(_) = device else {
        return Ok(Box::new(Tiles { comparison, of_rows, rows, columns, device }));
    };
    let exact = device.with_precision(Precision::Fp32);
    let canonical = (exact != device).then(|| {
        let comparison = Box::new(in_precision_of(&comparison, exact));
        Scorer { comparison, device: exact }
    });
    let fast = Scorer { comparison, device };
    Ok(Box::new(GpuTiles::new(fast, canonical, of_rows, (rows, columns))))
}

/// The similarity of a comparison that has no faster way than to compute all tiles. A score has the
/// same bits in every tile, so tiles are exact.
pub struct Tiles<C: ?Sized> {
    /// How to compare pairs.
    pub comparison: Box<C>,
    /// The side of the rows.
    pub of_rows: Side,
    /// The rows.
    pub rows: Encodings,
    /// The columns, of the other side.
    pub columns: Encodings,
    /// Where tiles are scored.
    pub device: Device,
}

impl<C: Comparison + ?Sized> Similarity for Tiles<C> {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn columns(&self) -> usize {
        self.columns.len()
    }

    fn tile(&self, rows: &[u32], columns: &[u32], out: &mut [f32]) -> Result<(), engine::Error> {
        let failed = |error: Error| engine::Error::Similarity(Box::new(error));
        let of_rows = self.rows.gather(rows, self.device).map_err(failed)?;
        let of_columns = self.columns.gather(columns, self.device).map_err(failed)?;
        let (images, texts) = self.of_rows.image_and_text(&of_rows, &of_columns);
        let scores = self.comparison.scores(images, texts).map_err(failed)?;
        turn(self.of_rows, &scores, columns.len(), out);
        Ok(())
    }

    fn tile_error(&self, _: &[u32], _: &[u32]) -> f64 {
        0.0
    }

    fn exact(&self, row: u32, columns: &[u32], out: &mut [f64]) -> Result<(), engine::Error> {
        let mut values = vec![0.0; columns.len()];
        self.tile(&[row], columns, &mut values)?;
        out.iter_mut().zip(values).for_each(|(out, value)| *out = f64::from(value));
        Ok(())
    }

    /// Tiles are canonical.
    fn exact_tile(
        &self,
        rows: &[u32],
        columns: &[u32],
        out: &mut [f64],
    ) -> Result<(), engine::Error> {
        let mut values = vec![0.0; out.len()];
        self.tile(rows, columns, &mut values)?;
        out.iter_mut().zip(values).for_each(|(out, value)| *out = f64::from(value));
        Ok(())
    }
}

/// Writes scores of images by captions as rows of the side `of_rows` by columns of the other.
pub(crate) fn turn(of_rows: Side, scores: &[f32], columns: usize, out: &mut [f32]) {
    if of_rows == Side::Image {
        return out.copy_from_slice(scores);
    }
    let rows = scores.len() / columns.max(1);
    for (row, out) in out.chunks_exact_mut(columns).enumerate() {
        out.iter_mut().enumerate().for_each(|(column, out)| *out = scores[column * rows + row]);
    }
}

/// Order embeddings canonically: double precision, ascending dimension.
struct Ordered {
    of_rows: Side,
    rows: Encodings,
    columns: Encodings,
    /// Upper bound on the magnitude of a score.
    largest: f64,
}

impl Similarity for Ordered {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn columns(&self) -> usize {
        self.columns.len()
    }

    fn tile(&self, rows: &[u32], columns: &[u32], out: &mut [f32]) -> Result<(), engine::Error> {
        let mut values = vec![0.0; columns.len()];
        for (&row, out) in rows.iter().zip(out.chunks_exact_mut(columns.len())) {
            self.exact(row, columns, &mut values)?;
            out.iter_mut().zip(&values).for_each(|(out, &value)| *out = value as f32);
        }
        Ok(())
    }

    fn tile_error(&self, _: &[u32], _: &[u32]) -> f64 {
        // Rounding to single precision.
        f64::from(f32::EPSILON) * self.largest
    }

    fn exact(&self, row: u32, columns: &[u32], out: &mut [f64]) -> Result<(), engine::Error> {
        let failed = |error: Error| engine::Error::Similarity(Box::new(error));
        let (own, _) = self.rows.numbers(&[row]).map_err(failed)?;
        let (others, _) = self.columns.numbers(columns).map_err(failed)?;
        for (out, other) in out.iter_mut().zip(others.chunks_exact(own.len())) {
            let squares = own.iter().zip(other).map(|(&own, &other)| {
                let (image, text) = self.of_rows.image_and_text(own, other);
                (f64::from(text) - f64::from(image)).max(0.0).powi(2)
            });
            // Not minus zero, so that equal values have equal bits.
            *out = 0.0 - squares.sum::<f64>().sqrt();
        }
        Ok(())
    }
}
