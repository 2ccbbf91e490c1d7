//! How well images and captions find each other.

use std::sync::Arc;

use nextpair::engine::{Embeddings, Recall, Stored, Vectors, ranks};
use nextpair::{Error, Matrix, Metric, Similarity};
use pyo3::prelude::*;

use crate::arrays::ArrayView;
use crate::errors;
use crate::work::How;

/// R@1, R@5, R@10, median, mean, mean reciprocal and mean logarithm, and every rank from 1.
type Direction = (f64, f64, f64, f64, f64, f64, f64, Vec<u32>);

/// Ranks images (rows) and captions (columns) against each other: for captions of every image, and for
/// the image of every caption. `image_of` has the image of every caption.
#[pyfunction]
pub(crate) fn recall(
    py: Python<'_>,
    embeddings: Option<(ArrayView, ArrayView)>,
    similarities: Option<ArrayView>,
    image_of: Vec<u32>,
    metric: &str,
    how: How<'_>,
) -> PyResult<(Direction, Direction)> {
    let metric = if metric == "dot" { Metric::Dot } else { Metric::Cosine };
    let source = match (embeddings, similarities) {
        (Some((images, texts)), None) => Source::Embeddings(images.matrix(py)?, texts.matrix(py)?),
        (None, Some(similarities)) => Source::Similarities(similarities.matrix(py)?),
        _ => return Err(errors::input(py, "give embeddings or similarities".to_owned())),
    };
    how.work(py, move |progress| {
        let similarity = source.open(metric)?;
        let all = |count: usize| (0..count as u32).collect::<Vec<_>>();
        let (images, captions) = (all(similarity.rows()), all(similarity.columns()));
        let found = ranks(&*similarity, &images, &captions, &image_of, progress)?;
        Ok((direction(found.text), direction(found.image)))
    })
}

enum Source {
    Embeddings(Matrix, Matrix),
    Similarities(Matrix),
}

impl Source {
    fn open(self, metric: Metric) -> Result<Arc<dyn Similarity>, Error> {
        Ok(match self {
            Source::Embeddings(images, texts) => {
                let images = Vectors::new(images, "the paired images")?;
                let texts = Vectors::new(texts, "the paired texts")?;
                Arc::new(Embeddings::new(images, texts, metric)?)
            }
            Source::Similarities(matrix) => {
                Arc::new(Stored::new(matrix, "the paired similarities")?)
            }
        })
    }
}

fn direction(ranks: Vec<u32>) -> Direction {
    let Recall { at: [one, five, ten], median, mean, mean_reciprocal, mean_log } =
        Recall::of(&ranks);
    let ranks = ranks.into_iter().map(|rank| rank + 1).collect();
    (one, five, ten, median, mean, mean_reciprocal, mean_log, ranks)
}
