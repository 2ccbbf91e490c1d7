//! What people give: arrays to choose from, and a strategy.

use nextpair::engine::{BuiltIn, Candidates, ItemNumbers, Refused, group_labels, one_each};
use nextpair::{
    Device, Error, ItemFeatures, Matrix, Metric, Problem, ProblemBuilder, Progress, Scope,
    Selection, Settings, Side,
};
use pyo3::prelude::*;

use crate::arrays::ArrayView;
use crate::errors;

/// A selection as `nextpair/_problem.py` states it. Arrays are by role.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Given {
    pool_side: String,
    metric: String,
    images: Option<ArrayView>,
    texts: Option<ArrayView>,
    pool: Option<ArrayView>,
    /// Similarities of the pool and of the pairs.
    similarities: Option<(ArrayView, ArrayView)>,
    /// Vectors of the pool and of the pairs' half on its side.
    features: Option<(ArrayView, ArrayView)>,
    queries: Option<ArrayView>,
    /// `exact`, or a cosine.
    dedupe: Option<String>,
    /// The first item, and the items of the whole pool.
    part: Option<(u32, usize)>,
    /// `auto`, `cpu`, `cuda` or `cuda:N`.
    device: String,
    settings: GivenSettings,
}

/// A strategy, and what belongs to a selection.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct GivenSettings {
    /// Its name, and its parameters as text.
    strategy: (String, Vec<(String, String)>),
    anchors: Option<Vec<usize>>,
    rivals: Option<Vec<usize>>,
    seed: u64,
    explain: usize,
    /// Labels of pairs, of one kind or of several.
    groups: Vec<Vec<u32>>,
}

/// Arrays to choose from.
pub(crate) struct Arrays {
    side: Side,
    metric: Metric,
    images: Option<Matrix>,
    texts: Option<Matrix>,
    pool: Option<Matrix>,
    similarities: Option<(Matrix, Matrix)>,
    features: Option<(Matrix, Matrix)>,
    queries: Option<Matrix>,
    part: Option<(u32, usize)>,
    device: Device,
}

impl Given {
    /// The selection of no item yet.
    pub(crate) fn selection(self, py: Python<'_>) -> PyResult<Selection<Arrays>> {
        let one = |lent: Option<ArrayView>| lent.map(|lent| lent.matrix(py)).transpose();
        let two = |lent: Option<(ArrayView, ArrayView)>| {
            lent.map(|(pool, paired)| Ok::<_, PyErr>((pool.matrix(py)?, paired.matrix(py)?)))
                .transpose()
        };
        let said = |said: String| errors::setting(py, said);
        let dedupe = self.dedupe.as_deref().map(str::parse).transpose();
        let from = Arrays {
            side: if self.pool_side == "text" { Side::Text } else { Side::Image },
            metric: if self.metric == "dot" { Metric::Dot } else { Metric::Cosine },
            images: one(self.images)?,
            texts: one(self.texts)?,
            pool: one(self.pool)?,
            similarities: two(self.similarities)?,
            features: two(self.features)?,
            queries: one(self.queries)?,
            part: self.part,
            device: self.device.parse().map_err(|error| errors::raise(py, error))?,
        };
        let strategy = self.settings.strategy().map_err(said)?;
        let pairs = from.pairs();
        let settings = self.settings.settings(pairs).map_err(|error| errors::raise(py, error))?;
        let dedupe = dedupe.map_err(|what: String| said(format!("dedupe: {what}")))?;
        Ok(Selection { strategy, settings, dedupe, ..Selection::new(from, 0) })
    }
}

impl GivenSettings {
    fn strategy(&self) -> Result<BuiltIn, String> {
        let (name, values) = &self.strategy;
        let mut strategy = BuiltIn::named(name).map_err(|what| format!("strategy: {what}"))?;
        for (name, text) in values {
            let mut parameters = strategy.parameters();
            let own = parameters.iter_mut().find(|own| own.name() == name);
            let own = own.ok_or_else(|| format!("{name}: the strategy has no such parameter"))?;
            own.value.set(text).map_err(|what| format!("{name}: {what}"))?;
        }
        Ok(strategy)
    }

    fn settings(self, pairs: usize) -> Result<Settings, Error> {
        let scope = match (self.anchors, self.rivals) {
            (None, None) => None,
            (anchors, rivals) => {
                let anchors = anchors.unwrap_or_else(|| (0..pairs).collect());
                Some(Scope { rivals: rivals.unwrap_or_else(|| anchors.clone()), anchors })
            }
        };
        let kinds = self.groups.iter().map(Vec::as_slice);
        let groups = match self.groups.len() {
            0 => None,
            _ => Some(group_labels(pairs, kinds)?),
        };
        Ok(Settings { scope, groups, seed: self.seed, explain: self.explain })
    }
}

impl Arrays {
    /// The paired half on the side of the pool.
    fn own(&self) -> Option<&Matrix> {
        self.side.own_and_other(self.images.as_ref(), self.texts.as_ref()).0
    }

    /// Pairs.
    fn pairs(&self) -> usize {
        match (&self.similarities, &self.images, &self.texts, &self.pool) {
            (Some((_, paired)), ..) => paired.rows(),
            (None, Some(images), Some(_), Some(_)) => images.rows(),
            _ => self.own().map_or(0, Matrix::rows),
        }
    }

    /// Vectors of the pool and of the pairs' half on its side, if there are any.
    fn vectors(&self) -> Option<(&Matrix, &Matrix)> {
        match &self.features {
            Some((pool, paired)) => Some((pool, paired)),
            None => self.pool.as_ref().zip(self.own()),
        }
    }
}

impl Candidates for Arrays {
    type Error = Error;

    fn items(&self) -> usize {
        let of_similarities = self.similarities.as_ref().map(|(pool, _)| pool.rows());
        let of_features = || self.features.as_ref().map(|(pool, _)| pool.rows());
        let of_part = || self.part.map(|(_, pool)| pool);
        let rows = of_similarities.or_else(|| self.pool.as_ref().map(Matrix::rows));
        rows.or_else(of_features).or_else(of_part).unwrap_or(0)
    }

    fn only(&self, kept: &[u32]) -> Self {
        let view = |pool: &Matrix| pool.view(kept.iter().map(|&item| item as usize));
        let first = |both: &(Matrix, Matrix)| (view(&both.0), both.1.clone());
        Arrays {
            images: self.images.clone(),
            texts: self.texts.clone(),
            pool: self.pool.as_ref().map(view),
            similarities: self.similarities.as_ref().map(first),
            features: self.features.as_ref().map(first),
            queries: self.queries.clone(),
            device: self.device.clone(),
            ..*self
        }
    }

    fn check_unchanged(&self) -> Result<(), Error> {
        Ok(())
    }

    fn problem(
        &self,
        _: &BuiltIn,
        _: &Settings,
        progress: &dyn Progress,
    ) -> Result<ProblemBuilder, Error> {
        let mut builder = match (&self.similarities, &self.images, &self.texts, &self.pool) {
            (Some((pool, paired)), ..) => Problem::of_stored(pool.clone(), paired.clone()),
            (None, Some(images), Some(texts), Some(pool)) => {
                let (images, texts) = (images.clone(), texts.clone());
                Problem::of_embeddings(images, texts, pool.clone(), self.side).metric(self.metric)
            }
            // For strategies that compare no images with texts.
            _ => {
                let builder = Problem::of_pool(self.items());
                match self.pool.as_ref().zip(self.own()) {
                    Some((pool, own)) => builder.features(pool.clone(), own.clone()),
                    None => builder,
                }
            }
        };
        if let Some((pool, paired)) = &self.features {
            builder = builder.features(one_each(pool, progress)?, one_each(paired, progress)?);
        }
        if let Some(queries) = &self.queries {
            builder = builder.queries(queries.clone());
        }
        if let Some((first, pool)) = self.part {
            builder = builder.part_of(first, pool);
        }
        Ok(builder.on(self.device.clone()))
    }

    fn features(
        &self,
        _: ItemFeatures,
        _: &Settings,
        progress: &dyn Progress,
    ) -> Result<(Matrix, Matrix), Error> {
        let missing = || {
            let what = "dedupe: duplicates are told by vectors of the pool and of the pairs; give features";
            Error::Files(what.to_owned())
        };
        let (pool, paired) = self.vectors().ok_or_else(missing)?;
        Ok((one_each(pool, progress)?, one_each(paired, progress)?))
    }

    fn copies(
        &self,
        settings: &Settings,
        progress: &dyn Progress,
    ) -> Result<(Matrix, Matrix), Error> {
        match (&self.similarities, self.vectors()) {
            // Equal items are equally similar to all pairs.
            (Some(similarities), None) => Ok(similarities.clone()),
            _ => self.features(ItemFeatures::Mean, settings, progress),
        }
    }

    fn refused(&self, _: &dyn Progress) -> Result<Option<Refused>, Error> {
        Ok(None)
    }

    fn numbers(&self) -> Result<ItemNumbers, Error> {
        let of_features = || self.features.as_ref().map(|(pool, _)| pool.clone());
        let compared = self.similarities.as_ref().map(|(pool, _)| pool.clone());
        let compared = compared.or_else(|| self.pool.clone());
        let vectors = self.vectors().map(|(pool, paired)| (pool.clone(), paired.clone()));
        let anchors = self.side.own_and_other(&self.images, &self.texts).1.clone();
        // Beside similarities, the vectors of the other half are not there.
        let anchors = anchors.filter(|_| self.similarities.is_none() && self.pool.is_some());
        Ok(ItemNumbers { rows: compared.or_else(of_features), vectors, anchors })
    }
}
