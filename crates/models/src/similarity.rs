//! A trained model as a similarity of the engine: scores come in tiles.

use nextpair_engine::{self as engine, Embeddings, Metric, Similarity, Vectors};

use crate::scorer::Matchers;
use crate::{Encodings, Error, Scorer};

/// What the rows of a similarity are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Images; the columns are captions.
    Images,
    /// Captions; the columns are images.
    Texts,
}

/// The similarity of encoded rows, which are images or texts, and columns, which are the others.
pub fn similarity(
    scorer: &Scorer,
    which: Rows,
    rows: &Encodings,
    columns: &Encodings,
) -> Result<Box<dyn Similarity>, Error> {
    let (rows, columns) = (rows.clone(), columns.clone());
    Ok(match scorer {
        Scorer::Dot => {
            let (of_rows, of_columns) = match which {
                Rows::Images => ("the encoded images", "the encoded captions"),
                Rows::Texts => ("the encoded captions", "the encoded images"),
            };
            let rows = Vectors::new(rows.matrix(), of_rows)?;
            let columns = Vectors::new(columns.matrix(), of_columns)?;
            Box::new(Embeddings::new(rows, columns, Metric::Dot)?)
        }
        Scorer::Order => {
            let largest = rows.longest() + columns.longest();
            Box::new(Ordered { rows, which, columns, largest })
        }
        Scorer::Cross(directions) => {
            let matchers = Matchers::new(directions)?;
            Box::new(Matched { matchers, rows, which, columns })
        }
    })
}

/// Attention: all tiles have to be looked at. A score has the same bits in every tile, so the
/// tiles are exact.
struct Matched {
    matchers: Matchers,
    rows: Encodings,
    which: Rows,
    columns: Encodings,
}

impl Similarity for Matched {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn columns(&self) -> usize {
        self.columns.len()
    }

    fn tile(&self, rows: &[u32], columns: &[u32], out: &mut [f32]) -> Result<(), engine::Error> {
        let (of_rows, of_columns) = (self.rows.gather(rows), self.columns.gather(columns));
        let (of_rows, of_columns) = (of_rows.ragged(), of_columns.ragged());
        if self.which == Rows::Images {
            return self.matchers.scores(of_rows, of_columns, out).map_err(failed);
        }
        let mut turned = vec![0.0; out.len()];
        self.matchers.scores(of_columns, of_rows, &mut turned).map_err(failed)?;
        for (row, out) in out.chunks_exact_mut(columns.len()).enumerate() {
            for (column, out) in out.iter_mut().enumerate() {
                *out = turned[column * rows.len() + row];
            }
        }
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
}

fn failed(error: nextpair_kernels::Error) -> engine::Error {
    engine::Error::Similarity(Box::new(error))
}

/// Order embeddings: `-|max(0, t - u)|`, canonically in double precision, ascending coordinates.
struct Ordered {
    rows: Encodings,
    which: Rows,
    columns: Encodings,
    /// No score is further from 0.
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
        let own = self.rows.gather(&[row]).values;
        let dim = own.len();
        let others = self.columns.gather(columns).values;
        for (out, other) in out.iter_mut().zip(others.chunks_exact(dim)) {
            let above = own.iter().zip(other).map(|(&own, &other)| match self.which {
                Rows::Images => f64::from(other) - f64::from(own),
                Rows::Texts => f64::from(own) - f64::from(other),
            });
            let squares = above.map(|above| above.max(0.0).powi(2)).sum::<f64>();
            // Not minus zero: equal values have equal bits.
            *out = 0.0 - squares.sqrt();
        }
        Ok(())
    }
}
