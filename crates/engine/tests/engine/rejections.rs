//! Every error says what is wrong and where.

use std::sync::Arc;

use nextpair_core::{Amount, Matrix, Side};
use nextpair_engine::{
    BuiltIn, CoreSet, Coverage, Embeddings, Error, Guards, HardNegative, Hits, KnownSimilarities,
    Metric, Problem, ProblemBuilder, Random, Rule, Scope, Settings, Similarity, Strategy, Vectors,
    require_finite,
};

fn refused(hits: Hits, settings: Settings, pairs: usize) -> String {
    Rule::new(hits, &settings, pairs).unwrap_err().to_string()
}

#[test]
fn rules() {
    let (hits, settings) = (Hits::default, Settings::default);
    assert_eq!(refused(hits(), settings(), 0), "the paired set is empty");
    let zero = Hits { top_k: 0, ..hits() };
    let expected = "top-k is 0; the threshold is the k-th largest rival, k >= 1";
    assert_eq!(refused(zero, settings(), 3), expected);
    let many = Hits { top_k: 3, ..hits() };
    let expected = "anchor 0 has 2 rival groups, fewer than top-k = 3";
    assert_eq!(refused(many, settings(), 3), expected);
    let grouped = Settings { groups: Some(vec![1, 1, 2]), ..settings() };
    let expected = "anchor 0 has 1 rival groups, fewer than top-k = 2";
    assert_eq!(refused(Hits { top_k: 2, ..hits() }, grouped, 3), expected);
    let labels = Settings { groups: Some(vec![1, 2]), ..settings() };
    let expected = "2 group labels for 3 pairs; one label per pair is needed";
    assert_eq!(refused(hits(), labels, 3), expected);
    let sample = |count| Hits { sample: Some(Amount::Count(count)), ..hits() };
    let expected = "the sample of 4 is larger than the paired set of 3";
    assert_eq!(refused(sample(4), settings(), 3), expected);
    assert_eq!(refused(sample(0), settings(), 3), "the sampled pairs are empty");
    let tiny = Hits { sample: Some(Amount::Share(0.3)), ..hits() };
    assert_eq!(refused(tiny, settings(), 3), "the sampled pairs are empty");
    let given = |anchors: &[usize], rivals: &[usize]| {
        let scope = Scope { anchors: anchors.to_vec(), rivals: rivals.to_vec() };
        Settings { scope: Some(scope), ..settings() }
    };
    assert_eq!(
        refused(hits(), given(&[0, 7], &[0, 1]), 3),
        "the anchor indices: index 7 at position 1 is out of range, there are 3"
    );
    let expected = "the rival indices: index 1 appears twice";
    assert_eq!(refused(hits(), given(&[0], &[1, 1]), 3), expected);
    assert_eq!(refused(hits(), given(&[], &[1]), 3), "the anchor indices are empty");
    let expected = "pairs are drawn, or given by their indices, not both";
    assert_eq!(refused(sample(2), given(&[0, 1], &[0, 1]), 3), expected);
    let guards = Guards { max_score: Some(f64::NAN), ..Guards::default() };
    let expected = "max-score is NaN; a finite number is needed";
    assert_eq!(refused(Hits { guards, ..hits() }, settings(), 3), expected);
}

#[test]
fn vectors() {
    let refused = |dim, values: &[f64]| {
        Vectors::new(Matrix::from_f64(dim, values), "pool").err().unwrap().to_string()
    };
    assert_eq!(refused(2, &[0.0, 1.0, f64::NAN, 0.0]), "pool: row 1, dimension 0 is NaN");
    assert_eq!(refused(2, &[0.0, f64::INFINITY]), "pool: row 0, dimension 1 is inf");
    assert_eq!(
        refused(2, &[1e200, 1e200]),
        "pool: row 0 has a norm of inf, outside of what float64 can square: \
         1e-145 to 1e150, or zero"
    );
    let tiny = refused(1, &[0.0, 1e-170]);
    assert!(tiny.starts_with("pool: row 1 has a norm of 0e0, outside"), "{tiny}");
    let locals = Matrix::from_f32(2, &[1.0; 8]).with_locals(2);
    let error = Vectors::new(locals, "pool").err().unwrap().to_string();
    assert!(error.starts_with("pool have 2 vectors per item"), "{error}");
}

#[test]
fn embeddings() {
    let (two, three) = (Matrix::from_f32(2, &[1.0, 0.0]), Matrix::from_f32(3, &[1.0, 0.0, 0.0]));
    let (two, three) =
        (Vectors::new(two, "pool").unwrap(), Vectors::new(three, "paired texts").unwrap());
    let error = Embeddings::new(two.clone(), three, Metric::Dot).err();
    let error = error.unwrap().to_string();
    assert!(error.starts_with("pool have 2 dimensions but paired texts have 3; "), "{error}");
    assert!(error.contains("`nextpair train --model heads`"), "{error}");
    let zero = Matrix::from_f32(2, &[1.0, 0.0, 0.0, 0.0]);
    let zero = Vectors::new(zero, "pool").unwrap();
    let error = Embeddings::new(zero.clone(), two.clone(), Metric::Cosine).err();
    let expected = "pool: row 1 is a zero vector, which has no cosine similarity";
    assert_eq!(error.unwrap().to_string(), expected);
    assert!(Embeddings::new(zero, two, Metric::Dot).is_ok());
}

/// A pool with these similarities to two anchors.
fn of_two_pairs(pool: Vec<f64>) -> ProblemBuilder {
    let own = KnownSimilarities::new(2, vec![1.0, 0.0, 0.0, 1.0]).unwrap();
    Problem::of_similarities(Arc::new(KnownSimilarities::new(2, pool).unwrap()), Arc::new(own))
}

fn reason<T>(result: Result<T, Error>) -> String {
    result.err().unwrap().to_string()
}

#[test]
fn an_empty_pool() {
    let problem = of_two_pairs(Vec::new()).build().unwrap();
    for strategy in BuiltIn::all() {
        assert!(matches!(problem.select(&strategy, 1, &()), Err(Error::EmptyPool)));
    }
}

#[test]
fn strategies_that_lack_their_inputs() {
    let problem = of_two_pairs(vec![0.5, 0.5]).build().unwrap();
    let error = reason(problem.select(&CoreSet::default(), 1, &()));
    let expected = "core-set needs a vector for every item of the pool and of the paired set; give vectors, or name a \
                    strategy that needs none, such as hard-negative";
    assert_eq!(error, expected);
    let problem = Problem::of_pool(1).build().unwrap();
    let expected = "coverage needs the similarities of the pool and of the paired set";
    assert_eq!(reason(problem.select(&Coverage::default(), 1, &())), expected);
    assert_eq!(reason(problem.score(&Coverage::default(), 1, &())), expected);
    assert!(problem.select(&Random::default(), 1, &()).is_ok());
}

fn matrix(rows: usize) -> Matrix {
    Matrix::from_vec(2, (0..2 * rows).map(|at| (at * at % 7) as f32 + 1.0).collect())
}

/// Ten items and no pairs, as features and as embeddings with queries or without.
fn without_pairs() -> [ProblemBuilder; 3] {
    let embeddings = || Problem::of_embeddings(matrix(0), matrix(0), matrix(10), Side::Text);
    [
        Problem::of_pool(10).features(matrix(10), matrix(0)),
        embeddings(),
        embeddings().queries(matrix(3)),
    ]
}

#[test]
fn empty_queries_are_refused() {
    let builder = || Problem::of_embeddings(matrix(4), matrix(4), matrix(10), Side::Image);
    for strategy in BuiltIn::all().filter(|strategy| strategy.needs().queries) {
        let picks = builder().queries(matrix(1)).build().unwrap().select(&strategy, 3, &());
        assert!(picks.is_ok(), "{strategy}: {picks:?}");
    }
    assert_eq!(
        reason(builder().queries(matrix(0)).build()),
        "the queries are empty; give at least one"
    );
}

#[test]
fn an_empty_paired_set_is_refused_by_those_that_compare() {
    let cases = |strategy| {
        without_pairs().into_iter().enumerate().map(move |(at, builder)| (at, builder, strategy))
    };
    for (at, builder, strategy) in BuiltIn::all().flat_map(cases) {
        let compares = strategy.needs().matching.is_some();
        let checked = builder.check(&strategy);
        assert_eq!(checked.is_err(), compares && at > 0, "{strategy}");
        let picks = builder.build().unwrap().select(&strategy, 10, &());
        match (compares, at == 2 && !strategy.needs().queries) {
            (true, _) => assert!(matches!(picks, Err(Error::EmptyPaired)), "{strategy}: {picks:?}"),
            (false, true) => {
                assert!(matches!(picks, Err(Error::QueriesUnread { .. })), "{strategy}")
            }
            (false, false) => assert_eq!(picks.unwrap().indices().len(), 10, "{strategy}"),
        }
    }
}

#[test]
fn inputs_that_do_not_fit_together() {
    let given = |columns, values: &[f64]| {
        Arc::new(KnownSimilarities::new(columns, values.to_vec()).unwrap())
    };
    let (two, three) = (given(2, &[1.0, 0.0, 0.0, 1.0]), given(3, &[0.5; 6]));
    let error = reason(Problem::of_similarities(three.clone(), two.clone()).build());
    assert_eq!(error, "3 columns of the pool's similarities, but there are 2 pairs");
    let error = reason(Problem::of_similarities(two, three).build());
    assert_eq!(error, "2 rows of the paired similarities, but there are 3 pairs");
    let features = |rows: usize| Matrix::from_vec(1, vec![1.0f32; rows]);
    let error = reason(Problem::of_pool(3).features(features(2), features(5)).build());
    assert_eq!(error, "features of 2 items for a pool of 3");
    let pairs = |images, texts, side| {
        reason(Problem::of_embeddings(features(images), features(texts), features(4), side).build())
    };
    for side in [Side::Image, Side::Text] {
        let expected = "3 paired images but 2 paired texts; row j of both is pair j";
        assert_eq!(pairs(3, 2, side), expected);
    }
    let zero = Matrix::from_f32(1, &[1.0, 1.0, 0.0]);
    let of_zero = || Problem::of_embeddings(features(2), features(2), zero.clone(), Side::Image);
    let expected = "the pool items: row 2 is a zero vector, which has no cosine similarity";
    assert_eq!(reason(of_zero().only(1..3).build()), expected);
    assert!(of_zero().only(0..2).build().is_ok(), "nobody looks at the others");
}

#[test]
fn parts_that_do_not_lie_in_the_pool() {
    let problem = Problem::of_pool(5).build().unwrap();
    let expected = "the parts do not fit together: 4 items from 2 on do not lie in a pool of 5";
    assert_eq!(reason(problem.only(2..6)), expected);
    assert_eq!(reason(Problem::of_pool(5).only(2..6).build()), expected);
    let part = problem.only(1..3).unwrap();
    assert!(
        reason(part.only(0..2)).ends_with("2 items from 0 on do not lie in its 2 items from 1 on")
    );
    let error = reason(part.select(&Random::default(), 1, &()));
    assert!(error.ends_with("2 of 5 items are here; they can be scored, not selected"), "{error}");
}

#[test]
fn numbers_that_a_strategy_does_not_read() {
    let cross = vec![0.5, 0.25, 0.25, 0.5, 0.0, 0.0];
    let good = [Matrix::from_f32(2, &[1.0; 6]), Matrix::from_f32(2, &[1.0; 4])];
    let with = |at: usize, value: f32| {
        let mut values = vec![1.0; if at < 6 { 6 } else { 4 }];
        values[at % 6] = value;
        Matrix::from_f32(2, &values)
    };
    for at in 0..10 {
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let bad = with(at, value);
            let (pool, paired) = if at < 6 { (&bad, &good[1]) } else { (&good[0], &bad) };
            let problem = of_two_pairs(cross.clone()).features(pool.clone(), paired.clone());
            let problem = problem.build().unwrap();
            let what = if at < 6 { "the pool's features" } else { "the paired features" };
            let place = format!("row {}, dimension {} is {value}", at % 6 / 2, at % 2);
            for strategy in BuiltIn::all() {
                let refused = reason(problem.select(&strategy, 1, &()));
                assert_eq!(refused, format!("{what}: {place}"), "{strategy}");
                let Ok(whole) = problem.score(&strategy, 1, &()) else { continue };
                let refused = reason(problem.finish(&strategy, whole, 1, &()));
                assert_eq!(refused, format!("{what}: {place}"), "{strategy}");
            }
        }
    }
    let regions = with(3, f32::NAN).with_locals(3);
    let error = require_finite(&regions, "regions").unwrap_err().to_string();
    assert_eq!(error, "regions: row 0, vector 1, dimension 1 is NaN");
    assert!(require_finite(&good[0], "pool").is_ok());
}

/// A model that fails, or gives nonsense, for one pair.
struct Broken(f64);

impl Similarity for Broken {
    fn rows(&self) -> usize {
        3
    }

    fn columns(&self) -> usize {
        3
    }

    fn tile(&self, rows: &[u32], columns: &[u32], out: &mut [f32]) -> Result<(), Error> {
        for (out, &row) in out.chunks_mut(columns.len()).zip(rows) {
            let mut exact = vec![0.0; columns.len()];
            self.exact(row, columns, &mut exact)?;
            out.iter_mut().zip(exact).for_each(|(o, e)| *o = e as f32);
        }
        Ok(())
    }

    fn tile_error(&self, _: &[u32], _: &[u32]) -> f64 {
        0.0
    }

    fn exact(&self, row: u32, columns: &[u32], out: &mut [f64]) -> Result<(), Error> {
        if self.0 == 0.0 {
            return Err(Error::Similarity("the GPU went away".into()));
        }
        for (out, &column) in out.iter_mut().zip(columns) {
            *out = if (row, column) == (2, 1) { self.0 } else { 0.5 };
        }
        Ok(())
    }
}

#[test]
fn models_that_fail() {
    let own = KnownSimilarities::new(3, vec![1.0, 0.2, 0.1, 0.3, 1.0, 0.2, 0.1, 0.3, 1.0]).unwrap();
    let own: Arc<dyn Similarity> = Arc::new(own);
    let broken = |value| -> Arc<dyn Similarity> { Arc::new(Broken(value)) };
    let select = |pool: &Arc<dyn Similarity>, paired: &Arc<dyn Similarity>| {
        let problem = Problem::of_similarities(pool.clone(), paired.clone()).build().unwrap();
        reason(problem.select(&HardNegative::default(), 1, &()))
    };
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let expected = format!("the similarity of row 2 and anchor 1 is {value}");
        assert_eq!(select(&broken(value), &own), expected);
        assert_eq!(select(&own, &broken(value)), expected);
    }
    assert_eq!(select(&broken(0.0), &own), "the similarity failed: the GPU went away");
    let error = KnownSimilarities::new(2, vec![0.0, f64::NAN]).err().unwrap().to_string();
    assert_eq!(error, "the similarity of row 0 and anchor 1 is NaN");
}
