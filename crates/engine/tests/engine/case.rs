//! Small selection problems of many kinds, and their answers by the reference.

use std::ops::Range;
use std::sync::Arc;

use nextpair_core::{Amount, Matrix, Side};
use nextpair_engine::{
    BuiltIn, Code, Draws, Error, Fill, Guards, HardNegative, KnownSimilarities, Metric, Picks,
    Problem, ProblemBuilder, Route, Scope, Settings, Value, Weight, group_labels, reference,
};
use proptest::prelude::*;

/// Runs this many cases, and prints failures without writing files.
pub fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Distribution of the numbers in vectors.
#[derive(Clone, Copy, Debug)]
pub enum Numbers {
    /// Normal, all axes alike.
    Isotropic,
    /// Normal, axes falling fast, so that pruning has something to do.
    Falling,
    /// Small whole numbers: many exact ties.
    Whole,
    /// Normal, with widely different norms.
    Uneven,
    /// Normal, with norms from one end of single precision to the other.
    Extreme,
}

/// Values for the parameters of all strategies, each of which has some of them.
#[derive(Clone, Debug)]
pub struct Parameters {
    pub sample: Option<Amount>,
    pub top_k: usize,
    pub weight: Weight,
    pub guards: Guards,
    pub fill: Fill,
    pub points: usize,
    pub bandwidth: Option<f64>,
    pub temperature: Option<f64>,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            sample: None,
            top_k: 1,
            weight: Weight::default(),
            guards: Guards::default(),
            fill: Fill::default(),
            points: 2000,
            bandwidth: None,
            temperature: None,
        }
    }
}

impl Parameters {
    /// The strategy with these values of all parameters that it has.
    pub fn of(&self, strategy: impl Into<BuiltIn>) -> BuiltIn {
        let mut strategy = strategy.into();
        for parameter in strategy.parameters() {
            let text = match parameter.name() {
                "sample" => self.sample.text(),
                "top_k" => self.top_k.text(),
                "weight" => self.weight.text(),
                "max_score" => self.guards.max_score.text(),
                "absolute_margin" => self.guards.absolute_margin.text(),
                "relative_margin" => self.guards.relative_margin.text(),
                "fill" => self.fill.text(),
                "points" => self.points.text(),
                "bandwidth" => self.bandwidth.text(),
                "temperature" => self.temperature.text(),
                "features" | "dimensions" | "prior" => continue,
                other => panic!("no case has values of {other}"),
            };
            // A number that is unset cannot be written.
            if text != parameter.value.text() {
                parameter.value.set(&text).unwrap();
            }
        }
        strategy
    }
}

#[derive(Clone, Debug)]
pub struct Case {
    pub metric: Metric,
    pub dim: usize,
    pub anchors: Vec<f64>,
    pub rivals: Vec<f64>,
    pub pool: Vec<f64>,
    pub settings: Settings,
    pub parameters: Parameters,
    pub route: Route,
    pub budget: usize,
}

pub fn vectors(draws: &mut Draws, numbers: Numbers, count: usize, dim: usize) -> Vec<f64> {
    let mut values = Vec::with_capacity(count * dim);
    for _ in 0..count {
        let length = 10f64.powf(4.0 * draws.unit() - 2.0);
        let start = values.len();
        for k in 0..dim {
            let normal = draws.normal();
            values.push(match numbers {
                Numbers::Isotropic => normal,
                Numbers::Falling => normal / (1.0 + k as f64),
                Numbers::Whole => (normal * 1.2).round(),
                Numbers::Uneven => normal * length,
                Numbers::Extreme => normal * length.powi(15),
            } as f32 as f64);
        }
        if values[start..].iter().all(|&v| v == 0.0) {
            values[start] = 1.0;
        }
    }
    values
}

pub fn cases() -> impl Strategy<Value = Case> {
    let sizes = (2usize..60, 1usize..90, 1usize..70);
    let numbers = prop::sample::select(vec![
        Numbers::Isotropic,
        Numbers::Falling,
        Numbers::Whole,
        Numbers::Uneven,
        Numbers::Extreme,
    ]);
    let metric = prop::sample::select(vec![Metric::Cosine, Metric::Dot]);
    let route = prop::sample::select(vec![
        Route::Auto,
        Route::Fixed { axes: None, code: Code::Float },
        Route::Fixed { axes: None, code: Code::Int8 },
        Route::Fixed { axes: Some(8), code: Code::Float },
        Route::Fixed { axes: Some(8), code: Code::Int8 },
        Route::Fixed { axes: Some(32), code: Code::Int8 },
    ]);
    let weight = prop::sample::select(vec![Weight::Surplus, Weight::Count]);
    let options = (1usize..6, any::<u64>(), 0u8..4, 0u8..4, 0.0..1.0f64);
    (sizes, numbers, metric, route, weight, options).prop_map(
        |((pairs, items, dim), numbers, metric, route, weight, options)| {
            let (top_k, seed, scope, guard, share) = options;
            let mut draws = Draws::new(seed);
            let rivals = vectors(&mut draws, numbers, pairs, dim);
            let mut anchors = vectors(&mut draws, numbers, pairs, dim);
            // Pairs that resemble each other, and a pool with copies of rivals.
            for (a, r) in anchors.iter_mut().zip(&rivals) {
                *a = (*a * 0.5 + r) as f32 as f64;
            }
            for anchor in anchors.chunks_mut(dim).filter(|a| a.iter().all(|&v| v == 0.0)) {
                anchor[0] = 1.0;
            }
            let mut pool = vectors(&mut draws, numbers, items, dim);
            for item in 0..items / 4 {
                let source = (item * 7) % pairs;
                pool[item * dim..][..dim].copy_from_slice(&rivals[source * dim..][..dim]);
            }
            // Images with two texts each; some of these texts are on another image too.
            let groups = (scope % 2 == 1).then(|| {
                let images: Vec<u32> = (0..pairs as u32).map(|j| j / 2).collect();
                let texts: Vec<u32> =
                    (0..pairs as u32).map(|j| if j % 7 == 3 { j - 2 } else { j }).collect();
                group_labels(pairs, [&images[..], &texts]).expect("one label each")
            });
            let split = |salt: usize| -> Vec<usize> {
                (0..pairs).filter(|j| !(j * 31 + salt).is_multiple_of(3)).rev().collect()
            };
            let given = || Scope { anchors: split(0), rivals: split(1) };
            let settings = Settings { scope: (scope == 3).then(given), groups, seed, explain: 2 };
            let sample = || Amount::Count(1 + (share * (pairs - 1) as f64) as usize);
            let parameters = Parameters {
                sample: (scope == 2).then(sample),
                top_k,
                weight,
                guards: match guard {
                    0 => Guards { max_score: Some(share), ..Guards::default() },
                    1 => Guards { absolute_margin: Some(0.1 * share), ..Guards::default() },
                    2 => Guards { relative_margin: Some(0.1), ..Guards::default() },
                    _ => Guards::default(),
                },
                fill: if guard < 2 { Fill::NearestMiss } else { Fill::Index },
                points: 1 + (seed % 80) as usize,
                bandwidth: (seed % 3 == 0).then_some(0.1 + share),
                temperature: (seed % 5 == 0).then_some(0.1),
            };
            let budget = 1 + (share * (items - 1) as f64) as usize;
            Case { metric, dim, anchors, rivals, pool, settings, parameters, route, budget }
        },
    )
}

/// The reference's view of a problem: everything a strategy could need.
pub struct Plain {
    pub anchors: Vec<usize>,
    pub xi: Vec<f64>,
    /// Similarities of the anchors' own pairs.
    pub own: Vec<f64>,
    pub hits: Vec<Vec<(usize, f64)>>,
    /// Similarities of pool items to all anchors.
    pub cross: Vec<Vec<f64>>,
}

impl Plain {
    /// The score of every item, with that of the filling if fewer than `wanted` have a hit.
    pub fn scores(&self, weight: Weight, fill: Fill, wanted: usize) -> Vec<f64> {
        let mut scores = reference::scores(&self.hits, &self.xi, weight);
        let hard = self.hits.iter().filter(|hits| !hits.is_empty()).count();
        if fill == Fill::NearestMiss && hard < wanted {
            for (i, score) in
                scores.iter_mut().enumerate().filter(|(i, _)| self.hits[*i].is_empty())
            {
                *score = reference::nearest_miss(&self.cross[i], &self.anchors, &self.xi);
            }
        }
        scores
    }
}

impl Case {
    pub fn pairs(&self) -> usize {
        self.rivals.len() / self.dim
    }

    pub fn rows(&self, values: &[f64]) -> Vec<Vec<f64>> {
        values.chunks(self.dim).map(<[f64]>::to_vec).collect()
    }

    /// The strategy with the parameters of the case.
    pub fn strategy(&self, strategy: impl Into<BuiltIn>) -> BuiltIn {
        self.parameters.of(strategy)
    }

    /// Whether there are rivals enough for every strategy.
    pub fn is_possible(&self) -> bool {
        self.builder().check(&self.strategy(HardNegative::default())).is_ok()
    }

    /// The problem on single-precision matrices.
    pub fn problem(&self) -> Result<Problem, Error> {
        self.builder().build()
    }

    /// The same for some items of the pool only; features cover the whole pool.
    pub fn part(&self, items: Range<u32>) -> Result<Problem, Error> {
        self.builder().only(items).build()
    }

    /// The same for somebody who has only the rows of some items.
    pub fn alone(&self, items: Range<u32>) -> Result<Problem, Error> {
        let rows = items.start as usize * self.dim..items.end as usize * self.dim;
        let pool = self.pool.len() / self.dim;
        self.builder_of(&self.pool[rows]).part_of(items.start, pool).build()
    }

    pub fn builder(&self) -> ProblemBuilder {
        self.builder_of(&self.pool)
    }

    fn builder_of(&self, pool: &[f64]) -> ProblemBuilder {
        let single = |values: &[f64]| {
            let values: Vec<f32> = values.iter().map(|&v| v as f32).collect();
            Matrix::from_vec(self.dim, values)
        };
        let (rivals, anchors) = (single(&self.rivals), single(&self.anchors));
        Problem::of_embeddings(rivals, anchors, single(pool), Side::Image)
            .metric(self.metric)
            .route(self.route)
            .settings(self.settings.clone())
    }

    /// The same pool without a pair.
    pub fn unpaired(&self) -> Result<Problem, Error> {
        let alone = Case { rivals: Vec::new(), anchors: Vec::new(), ..self.clone() };
        alone
            .builder()
            .settings(Settings { groups: None, scope: None, ..self.settings.clone() })
            .build()
    }

    /// The same for a model without embeddings: known similarities.
    pub fn given(&self) -> Result<Problem, Error> {
        let (own, cross) = (self.table(&self.rivals), self.table(&self.pool));
        let given = |table: Vec<Vec<f64>>| {
            KnownSimilarities::new(self.pairs(), table.concat()).map(Arc::new)
        };
        Problem::of_similarities(given(cross)?, given(own)?).settings(self.settings.clone()).build()
    }

    pub fn select(&self, strategy: impl Into<BuiltIn>, budget: usize) -> Result<Picks, Error> {
        self.problem()?.select(&self.strategy(strategy), budget, &())
    }

    /// Similarities of some rows to all anchors.
    pub fn table(&self, rows: &[f64]) -> Vec<Vec<f64>> {
        let columns = self.rows(&self.anchors);
        let row = |x: &Vec<f64>| {
            columns.iter().map(|y| reference::similarity(self.metric, x, y)).collect()
        };
        self.rows(rows).iter().map(row).collect()
    }

    /// The reference's answer, or `None` where some anchor has too few rivals.
    pub fn plain(&self, anchors: &[u32], rivals: &[u32]) -> Option<Plain> {
        let anchors: Vec<usize> = anchors.iter().map(|&a| a as usize).collect();
        let rivals: Vec<usize> = rivals.iter().map(|&r| r as usize).collect();
        let (own, cross) = (self.table(&self.rivals), self.table(&self.pool));
        let identity = || (0..self.pairs() as u32).collect();
        let group: Vec<u32> = self.settings.groups.clone().unwrap_or_else(identity);
        let xi = reference::thresholds(&own, &anchors, &rivals, &group, self.parameters.top_k);
        let xi: Vec<f64> = xi.into_iter().collect::<Option<_>>()?;
        let positives: Vec<f64> = anchors.iter().map(|&j| own[j][j]).collect();
        let hits = reference::hits(&cross, &anchors, &xi, &positives, &self.parameters.guards);
        Some(Plain { anchors, xi, own: positives, hits, cross })
    }
}
