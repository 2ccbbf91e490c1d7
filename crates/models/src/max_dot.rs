//! The largest dot product of the vectors of an image and a caption.

use nextpair_data::Side;
use nextpair_engine::Similarity;
use nextpair_kernels::ops::{dot_pairs, dot_scores, largest_products};
use nextpair_kernels::{Device, Encoded, Precision, Tensor};

use crate::comparison::{Dot, Tiles};
use crate::gpu_tiles::{GpuTiles, Scorer};
use crate::{Comparison, Encodings, Error};

/// Compares items of `each` vectors by the largest dot product of any two.
#[derive(Clone, Copy)]
pub struct MaxDot {
    /// Vectors of an item.
    pub each: usize,
}

impl MaxDot {
    /// Every vector as an item.
    fn vectors(&self, items: &Encoded) -> Result<Encoded, Error> {
        Ok(Encoded::uniform(items.rows.clone(), 1)?)
    }
}

impl Comparison for MaxDot {
    /// The gradient goes to the two vectors with the largest product; of equal ones to the first.
    fn pair_scores(
        &self,
        images: &Encoded,
        texts: &Encoded,
        pairs: &[(u32, u32)],
        _known: Option<Vec<f32>>,
    ) -> Result<Tensor, Error> {
        let (each, squared) = (self.each as u32, self.each * self.each);
        let of_pair = |&(image, text): &(u32, u32)| {
            let rows = (0..each).flat_map(move |k| (0..each).map(move |l| (k, l)));
            rows.map(move |(k, l)| (image * each + k, text * each + l))
        };
        let all: Vec<(u32, u32)> = pairs.iter().flat_map(of_pair).collect();
        let (images, texts) = (self.vectors(images)?, self.vectors(texts)?);
        let products = dot_pairs(&images.detached(), &texts.detached(), &all)?.to_f64s()?;
        let largest = |own: &[f64]| {
            let first = (0..own.len()).rev().max_by(|&a, &b| own[a].total_cmp(&own[b]));
            first.unwrap_or(0)
        };
        let products = products.chunks_exact(squared).enumerate();
        let chosen = products.map(|(pair, own)| all[pair * squared + largest(own)]);
        Ok(dot_pairs(&images, &texts, &chosen.collect::<Vec<_>>())?)
    }

    fn scores(&self, images: &Encoded, texts: &Encoded) -> Result<Vec<f32>, Error> {
        if self.is_dense_on(images.rows.device()) {
            let (images, texts) = (images.detached(), texts.detached());
            return Ok(self.all_scores(&images, &texts, None)?.to_f32s()?);
        }
        let (rows, columns) = (images.len(), texts.len());
        let products = dot_scores(&self.vectors(images)?, &self.vectors(texts)?)?;
        let mut out = vec![f32::NEG_INFINITY; rows * columns];
        for (row, products) in products.chunks_exact((columns * self.each).max(1)).enumerate() {
            let out = &mut out[row / self.each * columns..][..columns];
            for (out, own) in out.iter_mut().zip(products.chunks_exact(self.each)) {
                // Written so that NaN stays.
                for &product in own {
                    *out = if product > *out || product.is_nan() { product } else { *out };
                }
            }
        }
        Ok(out)
    }

    fn all_scores(
        &self,
        images: &Encoded,
        texts: &Encoded,
        _known: Option<Vec<f32>>,
    ) -> Result<Tensor, Error> {
        let (images, texts) = (self.vectors(images)?, self.vectors(texts)?);
        let products = Dot { members: 1 }.all_scores(&images, &texts, None)?;
        let products = products.reshaped(&[images.len(), texts.len()])?;
        Ok(largest_products(&products, self.each)?)
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
        device: Device,
    ) -> Result<Box<dyn Similarity>, Error> {
        let Device::Cuda(_) = device else {
            return Ok(Box::new(Tiles { comparison: self, of_rows, rows, columns, device }));
        };
        let exact = device.with_precision(Precision::Fp32);
        let canonical =
            (exact != device).then(|| Scorer { comparison: Box::new(*self), device: exact });
        let fast = Scorer { comparison: self, device };
        Ok(Box::new(GpuTiles::new(fast, canonical, of_rows, (rows, columns))))
    }
}
