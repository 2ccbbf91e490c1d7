//! Comparisons of pairs that are written in operations.

use nextpair_data::Side;
use nextpair_engine::Similarity;
use nextpair_kernels::ops::{Part, Tables, by_pairs, leaky_relu, scale};
use nextpair_kernels::{self as kernels, Device, Encoded, Tensor};

use crate::comparison::tiles;
use crate::{Comparison, Encodings, Error, Weights};

/// How a model compares pairs. Both functions are all that it takes: some pairs with gradients and all
/// without are computed by them, chunk by chunk, on every device.
pub(crate) trait OfPairs: Clone + Send + Sync + 'static {
    /// What belongs to items whatever they are compared with: tables of rows.
    ///
    /// # Errors
    /// If the items do not match the weights.
    fn tables(&self, weights: &Weights, side: Side, items: &Encoded)
    -> Result<Vec<Encoded>, Error>;

    /// The scores of pairs of images and captions, a row of one number each. A score depends on its pair
    /// and the weights alone.
    ///
    /// # Errors
    /// If the items do not match the weights.
    fn scores(&self, part: &Part<'_>) -> Result<Tensor, kernels::Error>;
}

/// Compares pairs as a model with these weights does.
#[derive(Clone)]
pub(crate) struct Composed<M> {
    pub(crate) model: M,
    pub(crate) weights: Weights,
}

impl<M: OfPairs> Composed<M> {
    /// What `make` makes of pairs; see [`by_pairs`].
    pub(crate) fn made(
        &self,
        (images, texts): (&Encoded, &Encoded),
        pairs: &[(u32, u32)],
        known: Option<Vec<f32>>,
        make: impl Fn(&M, &Part<'_>) -> Result<Tensor, kernels::Error> + Send + Sync + 'static,
    ) -> Result<Tensor, Error> {
        let first = self.model.tables(&self.weights, Side::Image, images)?;
        let second = self.model.tables(&self.weights, Side::Text, texts)?;
        let weights = self.weights.iter().map(|(name, own)| (name.to_owned(), own.clone()));
        let (weights, model) = (weights.collect(), self.model.clone());
        Ok(by_pairs((&first, &second), pairs, weights, known, move |part| make(&model, part))?)
    }
}

impl<M: OfPairs> Comparison for Composed<M> {
    fn pair_scores(
        &self,
        images: &Encoded,
        texts: &Encoded,
        pairs: &[(u32, u32)],
        known: Option<Vec<f32>>,
    ) -> Result<Tensor, Error> {
        Ok(self.made((images, texts), pairs, known, M::scores)?.reshaped(&[pairs.len()])?)
    }

    fn similarity(
        self: Box<Self>,
        of_rows: Side,
        rows: Encodings,
        columns: Encodings,
        device: Device,
    ) -> Result<Box<dyn Similarity>, Error> {
        let in_precision_of = |own: &Self, device| {
            let weights = own.weights.in_precision_of(device);
            Composed { model: own.model.clone(), weights }
        };
        tiles(self, in_precision_of, of_rows, (rows, columns), device)
    }
}

/// The rows of tables by attention to their columns: products, of which negative ones count a tenth, at
/// unit norm over the rows of each column, then a softmax with a temperature.
pub(crate) fn attention(
    tables: &Tables,
    products: &Tensor,
    temperature: f32,
) -> Result<Tensor, kernels::Error> {
    let unit = tables.unit_columns(&leaky_relu(products)?)?;
    tables.softmax(&scale(&unit, temperature.into())?)
}
