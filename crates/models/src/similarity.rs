//! A trained model as a similarity of the engine: encoders run once, scores come in tiles.

use nextpair_data::{Dtype, Matrix, Progress, Spill};
use nextpair_engine::{self as engine, Embeddings, Metric, Ragged, Similarity, Vectors};

use crate::scorer::Matchers;
use crate::{Corpus, Encoded, Error, Model, Scorer};

/// Encoded images or captions, kept on disk and mapped, so that they do not count as memory.
pub struct Encodings {
    vectors: Matrix,
    /// Where each item begins, and the end of the last.
    offsets: Vec<usize>,
}

/// Items that are encoded at once.
const CHUNK: usize = 128;

impl Encodings {
    /// Encodes images of a corpus.
    pub fn of_images(
        model: &Model,
        corpus: &Corpus,
        items: &[usize],
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        progress.start("images", items.len() as u64);
        Self::collect(items, progress, |items| {
            model.encode_images(&corpus.features(items, model.device())?)
        })
    }

    /// Encodes captions of a corpus.
    pub fn of_texts(
        model: &Model,
        corpus: &Corpus,
        captions: &[usize],
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        progress.start("captions", captions.len() as u64);
        Self::collect(captions, progress, |captions| {
            model.encode_texts(&corpus.texts(captions, model.device())?)
        })
    }

    /// What is already encoded.
    pub fn of(encoded: &Encoded) -> Result<Self, Error> {
        let vectors = Matrix::from_f32(encoded.dim()?, &encoded.values()?);
        Ok(Encodings { vectors, offsets: encoded.offsets.clone() })
    }

    fn collect(
        items: &[usize],
        progress: &dyn Progress,
        encode: impl Fn(&[usize]) -> Result<Encoded, Error>,
    ) -> Result<Self, Error> {
        let mut spill = Spill::new()?;
        let mut offsets = vec![0];
        let mut dim = 1;
        for chunk in items.chunks(CHUNK) {
            let encoded = encode(chunk)?;
            dim = encoded.dim()?;
            let before = offsets.last().copied().unwrap_or(0);
            offsets.extend(encoded.offsets[1..].iter().map(|offset| before + offset));
            spill.append_f32(&encoded.values()?)?;
            progress.advance(chunk.len() as u64);
        }
        Ok(Encodings { vectors: spill.finish(dim, Dtype::F32)?, offsets })
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The length of the longest vector.
    fn longest(&self) -> f64 {
        let mut values = vec![0.0; self.vectors.dim()];
        (0..self.vectors.rows()).fold(0.0, |longest: f64, row| {
            self.vectors.read_f64(row, &mut values);
            longest.max(values.iter().map(|v| v * v).sum::<f64>().sqrt())
        })
    }

    /// The vectors of some items, one after the other.
    fn gather(&self, items: &[u32]) -> Gathered {
        let dim = self.vectors.dim();
        let mut offsets = vec![0];
        let mut values = Vec::new();
        for &item in items {
            for row in self.offsets[item as usize]..self.offsets[item as usize + 1] {
                let start = values.len();
                values.resize(start + dim, 0.0);
                self.vectors.read_f32(row, &mut values[start..]);
            }
            offsets.push(values.len() / dim);
        }
        Gathered { dim, values, offsets }
    }
}

/// The vectors of some items in memory.
struct Gathered {
    dim: usize,
    values: Vec<f32>,
    offsets: Vec<usize>,
}

impl Gathered {
    fn ragged(&self) -> Ragged<'_> {
        Ragged { dim: self.dim, values: &self.values, offsets: &self.offsets }
    }
}

/// What the rows of a similarity are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Images; the columns are captions.
    Images,
    /// Captions; the columns are images.
    Texts,
}

/// Hands `work` the similarity of encoded rows and columns.
pub fn with_similarity<T, E: From<Error>>(
    scorer: &Scorer,
    (rows, which): (&Encodings, Rows),
    columns: &Encodings,
    work: impl FnOnce(&dyn Similarity) -> Result<T, E>,
) -> Result<T, E> {
    match scorer {
        Scorer::Dot => {
            let names = match which {
                Rows::Images => ["the encoded images", "the encoded captions"],
                Rows::Texts => ["the encoded captions", "the encoded images"],
            };
            let left = Vectors::new(&rows.vectors, names[0]).map_err(Error::from)?;
            let right = Vectors::new(&columns.vectors, names[1]).map_err(Error::from)?;
            let similarity = Embeddings::new((&left, names[0]), (&right, names[1]), Metric::Dot);
            work(&similarity.map_err(Error::from)?)
        }
        Scorer::Order => {
            let largest = rows.longest() + columns.longest();
            work(&Ordered { rows, which, columns, largest })
        }
        Scorer::Cross(directions) => {
            let matchers = Matchers::new(directions)?;
            work(&Matched { matchers, rows, which, columns })
        }
    }
}

/// Attention: all tiles have to be looked at. A score has the same bits in every tile, so the
/// tiles are exact.
struct Matched<'a> {
    matchers: Matchers,
    rows: &'a Encodings,
    which: Rows,
    columns: &'a Encodings,
}

impl Similarity for Matched<'_> {
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
            return self.matchers.scores(of_rows, of_columns, out);
        }
        let mut turned = vec![0.0; out.len()];
        self.matchers.scores(of_columns, of_rows, &mut turned)?;
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

/// Order embeddings: `-|max(0, t - u)|`, canonically in double precision, ascending coordinates.
struct Ordered<'a> {
    rows: &'a Encodings,
    which: Rows,
    columns: &'a Encodings,
    /// No score is further from 0.
    largest: f64,
}

impl Similarity for Ordered<'_> {
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
