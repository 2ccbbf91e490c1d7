//! What people give, as a problem of the facade.

use nextpair::engine::{Distinct, Fill, distinct, group_labels, mean_features};
use nextpair::{
    Alike, Error, Guards, Matrix, Metric, ProblemBuilder, Progress, Scope, Settings, Side, Weight,
};
use pyo3::prelude::*;

use crate::arrays::Lent;
use crate::errors;

/// A problem as `nextpair/_problem.py` states it. Arrays are by role.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Given {
    pool_side: String,
    metric: String,
    images: Option<Lent>,
    texts: Option<Lent>,
    pool: Option<Lent>,
    /// Similarities of the pool and of the pairs.
    similarities: Option<(Lent, Lent)>,
    /// Vectors of the pool and of the pairs' half on its side.
    features: Option<(Lent, Lent)>,
    queries: Option<Lent>,
    /// `exact`, or a cosine.
    dedupe: Option<String>,
    /// The first item, and the items of the whole pool.
    part: Option<(u32, usize)>,
    /// `auto`, `cpu`, `cuda` or `cuda:N`.
    device: String,
    settings: GivenSettings,
}

/// The parameters of a strategy, and what belongs to a selection.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct GivenSettings {
    sample: Option<usize>,
    anchors: Option<Vec<usize>>,
    rivals: Option<Vec<usize>>,
    top_k: usize,
    weight: String,
    fill: String,
    max_score: Option<f64>,
    absolute_margin: Option<f64>,
    relative_margin: Option<f64>,
    points: usize,
    bandwidth: Option<f64>,
    temperature: Option<f64>,
    seed: u64,
    explain: usize,
    /// Labels of pairs, of one kind or of several.
    groups: Vec<Vec<u32>>,
}

/// A problem whose arrays are matrices.
pub(crate) struct Inputs {
    side: Side,
    metric: Metric,
    images: Option<Matrix>,
    texts: Option<Matrix>,
    pool: Option<Matrix>,
    similarities: Option<(Matrix, Matrix)>,
    features: Option<(Matrix, Matrix)>,
    queries: Option<Matrix>,
    dedupe: Option<Alike>,
    part: Option<(u32, usize)>,
    device: String,
    settings: GivenSettings,
}

impl Given {
    pub(crate) fn inputs(self, py: Python<'_>) -> PyResult<Inputs> {
        let one = |lent: Option<Lent>| lent.map(|lent| lent.matrix(py)).transpose();
        let two = |lent: Option<(Lent, Lent)>| {
            lent.map(|(pool, paired)| Ok::<_, PyErr>((pool.matrix(py)?, paired.matrix(py)?)))
                .transpose()
        };
        let dedupe = self.dedupe.as_deref().map(str::parse).transpose();
        Ok(Inputs {
            side: if self.pool_side == "text" { Side::Text } else { Side::Image },
            metric: if self.metric == "dot" { Metric::Dot } else { Metric::Cosine },
            images: one(self.images)?,
            texts: one(self.texts)?,
            pool: one(self.pool)?,
            similarities: two(self.similarities)?,
            features: two(self.features)?,
            queries: one(self.queries)?,
            dedupe: dedupe.map_err(|said| errors::setting(py, format!("dedupe: {said}")))?,
            part: self.part,
            device: self.device,
            settings: self.settings,
        })
    }
}

impl GivenSettings {
    fn settings(self, pairs: usize) -> Result<Settings, Error> {
        let scope = match (self.sample, self.anchors, self.rivals) {
            (Some(sample), _, _) => Scope::Mini(sample),
            (None, None, None) => Scope::Full,
            (None, anchors, rivals) => {
                let anchors = anchors.unwrap_or_else(|| (0..pairs).collect());
                Scope::Given { rivals: rivals.unwrap_or_else(|| anchors.clone()), anchors }
            }
        };
        let kinds = self.groups.iter().map(Vec::as_slice);
        let groups = match self.groups.len() {
            0 => None,
            _ => Some(group_labels(pairs, kinds)?),
        };
        Ok(Settings {
            scope,
            top_k: self.top_k,
            weight: if self.weight == "count" { Weight::Count } else { Weight::Surplus },
            groups,
            guards: Guards {
                max_score: self.max_score,
                absolute_margin: self.absolute_margin,
                relative_margin: self.relative_margin,
            },
            seed: self.seed,
            explain: self.explain,
            fill: if self.fill == "index" { Fill::Index } else { Fill::NearestMiss },
            points: self.points,
            bandwidth: self.bandwidth,
            temperature: self.temperature,
        })
    }
}

impl Inputs {
    /// Builds the problem, without the duplicates of its pool if that is asked for.
    pub(crate) fn problem(
        mut self,
        progress: &dyn Progress,
    ) -> Result<(nextpair::Problem, Option<Distinct>), Error> {
        if let Some((pool, paired)) = self.features.take() {
            self.features = Some((one_each(pool, progress)?, one_each(paired, progress)?));
        }
        let distinct = match self.dedupe {
            Some(alike) => Some(self.without_duplicates(alike, progress)?),
            None => None,
        };
        Ok((self.builder()?.build()?, distinct))
    }

    /// The paired half on the side of the pool.
    fn own(&self) -> Option<&Matrix> {
        self.side.own_and_other(self.images.as_ref(), self.texts.as_ref()).0
    }

    /// Leaves duplicates out of the pool.
    fn without_duplicates(
        &mut self,
        alike: Alike,
        progress: &dyn Progress,
    ) -> Result<Distinct, Error> {
        let vectors = match &self.features {
            Some((pool, paired)) => Some((pool, paired)),
            None => self.pool.as_ref().zip(self.own()),
        };
        let rows = match (alike, &self.similarities) {
            // Equal items are equally similar to all pairs.
            (Alike::Exact, Some((pool, paired))) => vectors.or(Some((pool, paired))),
            _ => vectors,
        };
        let Some((pool, paired)) = rows else {
            let what = "dedupe: duplicates are told by vectors of the pool and of the pairs; give features";
            return Err(Error::Files(what.to_owned()));
        };
        let distinct = distinct(pool, paired, alike, progress)?;
        let pools = [
            self.pool.as_mut(),
            self.similarities.as_mut().map(|(pool, _)| pool),
            self.features.as_mut().map(|(pool, _)| pool),
        ];
        for pool in pools.into_iter().flatten() {
            *pool = pool.view(distinct.kept.iter().map(|&item| item as usize));
        }
        Ok(distinct)
    }

    fn builder(self) -> Result<ProblemBuilder, Error> {
        let own = self.own().cloned();
        let Inputs { images, texts, pool, similarities, features, settings, .. } = self;
        let (builder, pairs) = match (similarities, images, texts, pool) {
            (Some((pool, paired)), ..) => {
                let pairs = paired.rows();
                (nextpair::Problem::of_stored(pool, paired), pairs)
            }
            (None, Some(images), Some(texts), Some(pool)) => {
                let pairs = images.rows();
                let problem = nextpair::Problem::of_embeddings(images, texts, pool, self.side);
                (problem.metric(self.metric), pairs)
            }
            // For strategies that compare no images with texts.
            (None, _, _, pool) => {
                let of_features = || features.as_ref().map(|(pool, _)| pool.rows());
                let of_part = || self.part.map(|(_, pool)| pool);
                let rows = pool.as_ref().map(Matrix::rows).or_else(of_features).or_else(of_part);
                let builder = nextpair::Problem::of_pool(rows.unwrap_or(0));
                let pairs = own.as_ref().map_or(0, Matrix::rows);
                let vectors = pool.zip(own).filter(|_| features.is_none());
                match vectors {
                    Some((pool, own)) => (builder.features(pool, own), pairs),
                    None => (builder, pairs),
                }
            }
        };
        let mut builder = builder.settings(settings.settings(pairs)?).on(self.device.parse()?);
        if let Some((pool, paired)) = features {
            builder = builder.features(pool, paired);
        }
        if let Some(queries) = self.queries {
            builder = builder.queries(queries);
        }
        if let Some((first, pool)) = self.part {
            builder = builder.part_of(first, pool);
        }
        Ok(builder)
    }
}

/// One vector per item: its own, or the mean of several.
fn one_each(matrix: Matrix, progress: &dyn Progress) -> Result<Matrix, Error> {
    match matrix.locals() {
        1 => Ok(matrix),
        _ => Ok(mean_features(&matrix, progress)?),
    }
}
