//! Inputs of a problem, checked once.

use std::ops::Range;
use std::sync::Arc;

use nextpair_core::{Matrix, Side};

use super::{Features, Matching, Problem, Queries, Sources, Spend, check_within, rows_of, steady};
use crate::{
    Device, Embeddings, Error, Hits, Metric, Route, Rule, Settings, Similarity, Stored, Strategy,
    Vectors,
};

/// Names of the pool and of the two sides of the pairs in errors.
const POOL: &str = "the pool items";
const IMAGES: &str = "the paired images";
const TEXTS: &str = "the paired texts";
const QUERIES: &str = "the queries";
const POOL_SIMILARITIES: &str = "the pool's similarities";
const PAIRED_SIMILARITIES: &str = "the paired similarities";

/// Builds a [`Problem`]; [`build`](ProblemBuilder::build) checks every number of it.
pub struct ProblemBuilder {
    source: Source,
    metric: Metric,
    route: Route,
    device: Device,
    settings: Settings,
    features: Option<Features>,
    queries: Option<QueryInput>,
    usable: Option<Vec<f64>>,
    spend: Option<Spend>,
    items: Option<Range<u32>>,
    part: Option<Part>,
    reading: Reading,
}

/// When the numbers of a pool of embeddings are checked.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Reading {
    /// Before anything else.
    #[default]
    First,
    /// On first use, and the rest at the end.
    Once,
    /// The same, and fingerprints are kept, so that copies are found without reading again.
    OnceForCopies,
}

/// Where the rows of the pool lie in a larger pool.
#[derive(Clone, Copy)]
struct Part {
    first: u32,
    pool: usize,
}

/// The queries as given: embeddings, or similarities to them.
enum QueryInput {
    Embeddings(Matrix),
    Similarities(Queries),
}

enum Source {
    Embeddings(Box<Sides>),
    Similarities(Similarities),
    Stored(Box<Tables>),
    Pool(usize),
}

/// Similarities of the pool and of the paired set to the anchors.
struct Similarities {
    pool: Arc<dyn Similarity>,
    paired: Arc<dyn Similarity>,
}

/// Similarities in matrices.
struct Tables {
    pool: Matrix,
    paired: Matrix,
}

/// How to compare embeddings, and how to search them.
struct Compare {
    metric: Metric,
    route: Route,
    device: Device,
}

impl Compare {
    fn with(&self, rows: Vectors, columns: Vectors) -> Result<Arc<dyn Similarity>, Error> {
        Ok(Arc::new(Embeddings::new(rows, columns, self.metric)?.with_route(self.route)))
    }
}

/// Embeddings by role.
struct Sides {
    pool: Matrix,
    rivals: Matrix,
    rivals_name: &'static str,
    anchors: Matrix,
    anchors_name: &'static str,
}

impl ProblemBuilder {
    pub(super) fn of_embeddings(images: Matrix, texts: Matrix, pool: Matrix, side: Side) -> Self {
        let (rivals, anchors) = side.own_and_other(images, texts);
        let (rivals_name, anchors_name) = side.own_and_other(IMAGES, TEXTS);
        let sides = Sides { pool, rivals, rivals_name, anchors, anchors_name };
        Self::new(Source::Embeddings(Box::new(sides)))
    }

    pub(super) fn of_similarities(pool: Arc<dyn Similarity>, paired: Arc<dyn Similarity>) -> Self {
        Self::new(Source::Similarities(Similarities { pool, paired }))
    }

    pub(super) fn of_stored(pool: Matrix, paired: Matrix) -> Self {
        Self::new(Source::Stored(Box::new(Tables { pool, paired })))
    }

    pub(super) fn of_pool(items: usize) -> Self {
        Self::new(Source::Pool(items))
    }

    fn new(source: Source) -> Self {
        ProblemBuilder {
            source,
            metric: Metric::default(),
            route: Route::Auto,
            device: Device::default(),
            settings: Settings::default(),
            features: None,
            queries: None,
            usable: None,
            spend: None,
            items: None,
            part: None,
            reading: Reading::First,
        }
    }

    /// How to compare embeddings; by default, by their cosine.
    pub fn metric(self, metric: Metric) -> Self {
        ProblemBuilder { metric, ..self }
    }

    /// How to rule out pairs of embeddings. Only the time depends on it.
    pub fn route(self, route: Route) -> Self {
        ProblemBuilder { route, ..self }
    }

    /// Where to rule out pairs of embeddings: on the CPU by default. Only the time depends on it.
    pub fn on(self, device: Device) -> Self {
        ProblemBuilder { device, ..self }
    }

    /// Which pairs take part, the seed of every draw, and how much to explain.
    pub fn settings(self, settings: Settings) -> Self {
        ProblemBuilder { settings, ..self }
    }

    /// One vector per item of the whole pool and of the paired set, for strategies that use
    /// distances. By default, embeddings are their own features.
    pub fn features(self, pool: Matrix, paired: Matrix) -> Self {
        ProblemBuilder { features: Some(Features { pool, paired }), ..self }
    }

    /// Embeddings of search queries, on the side that the pool lacks. Strategies that cover points weigh them by their
    /// similarity to the queries.
    pub fn queries(self, queries: Matrix) -> Self {
        ProblemBuilder { queries: Some(QueryInput::Embeddings(queries)), ..self }
    }

    /// Similarities of any model to search queries.
    pub fn query_similarities(self, queries: Queries) -> Self {
        ProblemBuilder { queries: Some(QueryInput::Similarities(queries)), ..self }
    }

    /// The probability that each pool item can be paired at all, for strategies that weigh items by it.
    pub fn usable(self, probabilities: Vec<f64>) -> Self {
        ProblemBuilder { usable: Some(probabilities), ..self }
    }

    /// The cost of each pool item, and how much may be spent: picks end when the money runs out.
    pub fn spend(self, spend: Option<Spend>) -> Self {
        ProblemBuilder { spend, ..self }
    }

    /// Restricts the problem to some items of the pool: nothing is computed for the others.
    pub fn only(self, items: Range<u32>) -> Self {
        ProblemBuilder { items: Some(items), ..self }
    }

    /// The rows of the pool are only some items of a larger one: those from `first` on, of `pool` items.
    /// They can be [scored](Problem::score) where they are, and [finished](Problem::finish) with the
    /// others elsewhere. Features, if given, are those of the whole pool.
    pub fn part_of(self, first: u32, pool: usize) -> Self {
        ProblemBuilder { part: Some(Part { first, pool }), ..self }
    }

    /// Checks the embeddings of the pool when they are used instead of before, and the rest of them in
    /// the end, so that a pool larger than memory is read once. [`Problem::select`] and
    /// [`Problem::score`] fail then instead of [`build`](Self::build). With `inspected`, guards need
    /// not read them again to find copies.
    pub fn read_once(self, inspected: bool) -> Self {
        let reading = if inspected { Reading::OnceForCopies } else { Reading::Once };
        ProblemBuilder { reading, ..self }
    }

    /// Items in the whole pool.
    fn pool(&self) -> usize {
        self.part.map_or_else(|| self.rows(), |part| part.pool)
    }

    /// The items that have a row.
    fn here(&self) -> Range<u32> {
        let first = self.part.map_or(0, |part| part.first);
        // `rule` fails if there are more.
        first..first.saturating_add(self.rows() as u32)
    }

    /// Rows of the pool.
    fn rows(&self) -> usize {
        match &self.source {
            Source::Embeddings(sides) => sides.pool.rows(),
            Source::Similarities(given) => given.pool.rows(),
            Source::Stored(tables) => tables.pool.rows(),
            Source::Pool(items) => *items,
        }
    }

    /// Checks shapes, settings and the parameters of a strategy, but not the numbers.
    pub fn check(&self, strategy: &dyn Strategy) -> Result<(), Error> {
        strategy.check()?;
        let hits = strategy.needs().matching;
        match (self.rule(hits.unwrap_or_default())?, hits, &self.source) {
            // `Problem::select` names what is missing.
            (Some(_), ..) | (_, None, _) | (.., Source::Pool(_)) => Ok(()),
            (None, Some(_), _) => Err(Error::EmptyPaired),
        }
    }

    /// The rule of hits, if there are similarities, and pairs.
    fn rule(&self, hits: Hits) -> Result<Option<Arc<Rule>>, Error> {
        let pool = self.pool();
        if u32::try_from(pool).is_err() {
            return Err(Error::TooManyRows { what: POOL, rows: pool });
        }
        let (rows, here) = (self.rows(), self.here());
        if here.len() != rows {
            return Err(Error::TooManyRows { what: POOL, rows });
        }
        check_within(&here, &(0..pool as u32), pool)?;
        if let Some(items) = &self.items {
            check_within(items, &here, pool)?;
        }
        if let Some(found) = self.usable.as_ref().map(Vec::len).filter(|found| *found != pool) {
            return Err(Error::WeightCount { what: "probabilities", found, pool });
        }
        if let Some(probabilities) = &self.usable {
            check_weights("the probability", probabilities, |value| (0.0..=1.0).contains(&value))?;
            if pool > 0 && probabilities.iter().all(|&probability| probability == 0.0) {
                return Err(Error::NothingUsable);
            }
        }
        if let Some(Spend { costs, money }) = &self.spend {
            if costs.len() != pool {
                return Err(Error::WeightCount { what: "costs", found: costs.len(), pool });
            }
            check_weights("the cost", costs, |value| value.is_finite() && value > 0.0)?;
            if !(money.is_finite() && *money > 0.0) {
                return Err(Error::NotPositive { setting: "spend", value: *money });
            }
        }
        if let Some(features) = &self.features
            && features.pool.rows() != pool
        {
            return Err(Error::FeatureCount { features: features.pool.rows(), pool });
        }
        let pairs = match &self.source {
            Source::Pool(_) => return Ok(None),
            Source::Embeddings(sides) => sides.pairs()?,
            Source::Stored(tables) => tables.pairs()?,
            Source::Similarities(Similarities { pool, paired }) => {
                let pairs = paired.columns();
                for (what, found) in [
                    ("rows of the paired similarities", paired.rows()),
                    ("columns of the pool's similarities", pool.columns()),
                ] {
                    if found != pairs {
                        return Err(Error::SimilarityShape { what, found, pairs });
                    }
                }
                pairs
            }
        };
        match (&self.source, pairs) {
            // Strategies that compare nothing with pairs need none.
            (Source::Embeddings(_), 0) => Ok(None),
            _ => Rule::new(hits, &self.settings, pairs).map(|rule| Some(Arc::new(rule))),
        }
    }

    /// Builds the problem and checks every number it will use, unless those of the pool are to be
    /// [read once](Self::read_once).
    pub fn build(self) -> Result<Problem, Error> {
        let rule = self.rule(Hits::default())?;
        let (pool, here) = (self.pool(), self.here());
        let whole = 0..pool as u32;
        let items = self.items.unwrap_or(here.clone());
        let base = here.start;
        let compare = Compare { metric: self.metric, route: self.route, device: self.device };
        let mut inputs = Vec::new();
        let mut features_checked = false;
        let mut features = self.features;
        let mut first = 0;
        let mut sources = Sources::default();
        let mut pool_vectors = None;
        let queries = match (self.queries, &self.source) {
            (None, _) => None,
            (Some(QueryInput::Similarities(queries)), _) => Some(queries),
            (Some(QueryInput::Embeddings(queries)), Source::Embeddings(sides)) => {
                inputs.push(queries.clone());
                Some(steady(&inputs, || sides.queries(queries, &compare))?)
            }
            (Some(QueryInput::Embeddings(_)), _) => return Err(Error::QueriesWithoutEmbeddings),
        };
        if queries.as_ref().is_some_and(|queries| queries.pool.columns() == 0) {
            return Err(Error::NoQueries);
        }
        let similarities = match self.source {
            Source::Pool(_) => None,
            Source::Similarities(given) => Some(given),
            Source::Stored(tables) => {
                inputs.extend([tables.pool.clone(), tables.paired.clone()]);
                first = items.start;
                sources = Sources { pool: Some(tables.pool.clone()), base, anchors: None };
                Some(steady(&inputs, || tables.similarities(items.clone(), base))?)
            }
            Source::Embeddings(sides) => {
                inputs.extend([sides.pool.clone(), sides.rivals.clone(), sides.anchors.clone()]);
                first = items.start;
                sources = Sources {
                    pool: Some(sides.pool.clone()),
                    base,
                    anchors: Some(sides.anchors.clone()),
                };
                if features.is_none() && here == whole {
                    // Checked below, in full if the problem covers the whole pool.
                    features_checked = items == whole;
                    features =
                        Some(Features { pool: sides.pool.clone(), paired: sides.rivals.clone() });
                }
                let here = (items.clone(), base);
                let (similarities, pool) =
                    steady(&inputs, || sides.similarities(here, self.reading, &compare))?;
                pool_vectors = Some(pool);
                Some(similarities)
            }
        };
        if let Some(Features { pool, paired }) = &features
            && !features_checked
        {
            inputs.extend([pool.clone(), paired.clone()]);
        }
        let matching = similarities
            .zip(rule)
            .map(|(Similarities { pool, paired }, rule)| Matching { pool, paired, rule });
        Ok(Problem {
            pool,
            items,
            first,
            matching,
            features,
            features_checked,
            queries,
            usable: self.usable.map(Into::into),
            spend: self.spend.map(Arc::new),
            measures: None,
            sources,
            settings: Arc::new(self.settings),
            device: compare.device,
            pool_vectors,
            inputs,
        })
    }
}

/// Fails at the first weight of an item that is not allowed.
fn check_weights(
    what: &'static str,
    weights: &[f64],
    allowed: impl Fn(f64) -> bool,
) -> Result<(), Error> {
    match weights.iter().position(|&value| !allowed(value)) {
        Some(item) => Err(Error::BadWeight { what, item, value: weights[item] }),
        None => Ok(()),
    }
}

impl Tables {
    /// Number of pairs, or an error if the shapes do not match.
    fn pairs(&self) -> Result<usize, Error> {
        let (pairs, found) = (self.paired.dim(), self.paired.rows());
        if found != pairs {
            let what = "rows of the paired similarities";
            return Err(Error::SimilarityShape { what, found, pairs });
        }
        match (self.pool.rows(), self.pool.dim()) {
            (_, columns) if columns == pairs => Ok(pairs),
            (rows, columns) if rows == pairs => Err(Error::SimilarityTransposed { rows, columns }),
            (_, found) => {
                let what = "columns of the pool's similarities";
                Err(Error::SimilarityShape { what, found, pairs })
            }
        }
    }

    /// Similarities of some pool items, and of the rivals, to the anchors.
    fn similarities(&self, items: Range<u32>, base: u32) -> Result<Similarities, Error> {
        let paired = Stored::new(self.paired.clone(), PAIRED_SIMILARITIES)?;
        let first = items.start as usize;
        let pool = Stored::new(self.pool.slice(rows_of(&items, base)), POOL_SIMILARITIES);
        let pool = pool.map_err(|error| error.in_rows_from(first))?;
        Ok(Similarities { pool: Arc::new(pool), paired: Arc::new(paired) })
    }
}

impl Sides {
    /// Number of pairs, or an error if the shapes do not match.
    fn pairs(&self) -> Result<usize, Error> {
        for (right, matrix) in
            [(self.rivals_name, &self.rivals), (self.anchors_name, &self.anchors)]
        {
            if self.pool.dim() != matrix.dim() {
                let (left_dim, right_dim) = (self.pool.dim(), matrix.dim());
                return Err(Error::DimensionMismatch { left: POOL, left_dim, right, right_dim });
            }
        }
        let (rivals, anchors) = (self.rivals.rows(), self.anchors.rows());
        if rivals != anchors {
            let of_images = self.rivals_name == IMAGES;
            let (images, texts) = if of_images { (rivals, anchors) } else { (anchors, rivals) };
            return Err(Error::PairCount { images, texts });
        }
        Ok(rivals)
    }

    /// Similarities of some pool items, and of the rivals, to the anchors; and the vectors of the items.
    fn similarities(
        &self,
        (items, base): (Range<u32>, u32),
        reading: Reading,
        compare: &Compare,
    ) -> Result<(Similarities, Vectors), Error> {
        let device = &compare.device;
        let rivals = Vectors::new(self.rivals.clone(), self.rivals_name)?.on(device);
        let anchors = Vectors::new(self.anchors.clone(), self.anchors_name)?.on(device);
        let (rows, first) = (self.pool.slice(rows_of(&items, base)), items.start as usize);
        let prints = reading == Reading::OnceForCopies;
        let vectors = Vectors::unread(rows, POOL, first, prints)?.on(device);
        if reading == Reading::First {
            vectors.check_all()?;
        }
        let pool = compare.with(vectors.clone(), anchors.clone())?;
        Ok((Similarities { pool, paired: compare.with(rivals, anchors)? }, vectors))
    }

    /// Similarities of all pool items, and of the rivals, to queries.
    fn queries(&self, queries: Matrix, compare: &Compare) -> Result<Queries, Error> {
        let queries = Vectors::new(queries, QUERIES)?;
        let against = |own: &Matrix, name: &'static str| {
            compare.with(Vectors::new(own.clone(), name)?, queries.clone())
        };
        Ok(Queries {
            pool: against(&self.pool, POOL)?,
            paired: against(&self.rivals, self.rivals_name)?,
        })
    }
}
