//! Scores of a batch in training. The threshold moves from caption to caption, and does so on the device.

use nextpair_cuda::Grid;

use super::ThresholdedRows;
use crate::Error;
use crate::cuda::lines::PAIR_THREADS;
use crate::ops::MinedBatch;

impl ThresholdedRows<'_> {
    /// Scores the captions of a batch in an order, with thresholds that begin with those `before`.
    pub(crate) fn mine(
        &self,
        order: &[usize],
        penalty: f64,
        before: [f64; 2],
    ) -> Result<MinedBatch, Error> {
        let (unit, captions, images) = (&self.unit, self.texts.len(), self.images.len());
        let words = self.texts.values.len() / self.dim;
        let tile = self.tile(0..images, self.texts.offsets)?;
        let (parts, tops) =
            (unit.empty::<f32>(images * words)?, unit.empty::<f32>(images * words)?);
        let arguments = [
            (&parts).into(),
            (&tops).into(),
            (&tile.described).into(),
            words.into(),
            (&self.attending).into(),
        ];
        let grid = Grid::plane(images, captions, PAIR_THREADS).shared(4 * self.most * self.rows);
        unit.run("regular_all", grid, &arguments)?;
        let (scores, thresholds) = (unit.empty(images * captions)?, unit.empty(captions)?);
        let (matched, mismatched) = (unit.empty::<f64>(words)?, unit.empty::<f64>(words)?);
        let mining = unit.array(&[before[0].to_bits(), before[1].to_bits(), 0])?;
        for &caption in order {
            let arguments = [
                (&scores).into(),
                (&thresholds).into(),
                (&parts).into(),
                (&tile.described).into(),
                (&mining).into(),
                caption.into(),
                captions.into(),
                words.into(),
                self.most.into(),
                (&self.attending).into(),
            ];
            let grid = Grid::blocks(images, PAIR_THREADS).shared(self.shared(self.most, 1));
            unit.run("threshold_column", grid, &arguments)?;
            let arguments = [
                (&mining).into(),
                (&matched).into(),
                (&mismatched).into(),
                (&scores).into(),
                (&tops).into(),
                (&tile.described).into(),
                caption.into(),
                captions.into(),
                words.into(),
                penalty.into(),
            ];
            unit.run("move_thresholds", Grid::blocks(1, PAIR_THREADS), &arguments)?;
        }
        let (scores, thresholds, after) =
            (scores.to_vec()?, thresholds.to_vec()?, mining.to_vec()?);
        let after = [f64::from_bits(after[0]), f64::from_bits(after[1])];
        Ok(MinedBatch { scores, thresholds, after })
    }
}
