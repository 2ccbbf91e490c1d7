//! Extensions by callers: strategies, ways to stop, blocks of their own size.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nextpair_core::Matrix;
use nextpair_engine::{
    BagOfWords, BuiltIn, Error, Hits, ItemFeatures, KnownSimilarities, Needs, Partial, Pick, Picks,
    Problem, Progress, Sharded, Sieve, Similarity, Strategy, bag_of_words, mean_features, ranks,
};
use proptest::strategy::{Strategy as _, ValueTree};
use proptest::test_runner::TestRunner;

use crate::case::{Case, cases};

fn some_cases(count: usize) -> Vec<Case> {
    let mut runner = TestRunner::deterministic();
    let case = |_| cases().new_tree(&mut runner).unwrap().current();
    (0..count).map(case).filter(Case::is_possible).collect()
}

/// Picks the first items.
struct First;

impl Strategy for First {
    fn needs(&self) -> Needs {
        let (matching, features) = (Some(Hits::default()), Some(ItemFeatures::Mean));
        Needs { matching, features, ..Needs::default() }
    }

    fn select(&self, problem: &Problem, budget: usize, _: &dyn Progress) -> Result<Picks, Error> {
        let (matching, features) = (problem.matching()?, problem.features()?);
        assert_eq!(matching.pool.rows(), features.pool.rows());
        let pick = |index| Pick::new(index, 0.0);
        let picks = problem.items().take(budget).map(pick).collect();
        let (pool, thresholds) = (problem.pool(), Vec::new());
        Ok(Picks { thresholds, ..Picks::of(picks, pool) })
    }
}

#[test]
fn a_strategy_from_outside_is_checked_as_ours_are() {
    for case in some_cases(5) {
        let problem = case.problem().unwrap();
        let picks = problem.select(&First, case.budget, &()).unwrap();
        assert_eq!(picks.indices(), (0..case.budget as u32).collect::<Vec<_>>());
        let refused = |problem: &Problem, budget| {
            problem.select(&First, budget, &()).unwrap_err().to_string()
        };
        assert_eq!(refused(&problem, 0), "the budget is 0; ask for at least one item");
        let given = case.given().unwrap();
        let error = refused(&given, 1);
        assert!(error.starts_with("this strategy needs a vector for every item"), "{error}");
        let none = Problem::of_pool(3).build().unwrap();
        assert!(refused(&none, 1).starts_with("this strategy needs the similarities"));
        let error = problem.score(&First, 1, &()).unwrap_err().to_string();
        assert!(error.starts_with("this strategy cannot be split into shards"), "{error}");
    }
    let features = Matrix::from_f32(1, &[1.0, f32::NAN]);
    let own = || Arc::new(KnownSimilarities::new(2, vec![1.0, 0.0, 0.0, 1.0]).unwrap());
    let problem = Problem::of_similarities(own(), own()).features(features.clone(), features);
    let error = problem.build().unwrap().select(&First, 1, &()).unwrap_err().to_string();
    assert_eq!(error, "the pool's features: row 1, dimension 0 is NaN");
}

/// Picks fixed items, whole or in pieces.
struct FixedPicks(Vec<u32>);

impl Strategy for FixedPicks {
    fn name(&self) -> &'static str {
        "told"
    }

    fn needs(&self) -> Needs {
        Needs::default()
    }

    fn shards(&self) -> Result<&dyn Sharded, &'static str> {
        Ok(self)
    }
}

impl Sharded for FixedPicks {
    fn score(&self, problem: &Problem, keep: usize, _: &dyn Progress) -> Result<Partial, Error> {
        Ok(Partial {
            items: vec![problem.items()],
            keep,
            best: Vec::new(),
            hard_negatives: None,
            anchors: Vec::new(),
            thresholds: Vec::new(),
            own: Vec::new(),
            hits: Vec::new(),
        })
    }

    fn finish(
        &self,
        _: Partial,
        problem: &Problem,
        _: usize,
        _: &dyn Progress,
    ) -> Result<Picks, Error> {
        let pick = |&index| Pick::new(index, f64::NAN);
        let (picks, pool) = (self.0.iter().map(pick).collect(), problem.pool());
        Ok(Picks::of(picks, pool))
    }
}

#[test]
fn the_picks_of_a_strategy_from_outside_are_checked() {
    let problem = Problem::of_pool(5).build().unwrap();
    let answers = |told: &FixedPicks| {
        let whole = problem.score(told, 3, &()).unwrap();
        [problem.select(told, 3, &()), problem.finish(told, whole, 3, &())]
    };
    for picks in answers(&FixedPicks(vec![4, 0, 2])) {
        assert_eq!(picks.unwrap().indices(), [4, 0, 2]);
    }
    for (told, expected) in [
        (vec![], "0 items for a budget of 3"),
        (vec![1, 2], "2 items for a budget of 3"),
        (vec![1, 2, 3, 4], "4 items for a budget of 3"),
        (vec![4, 1, 4], "item 4 twice"),
        (vec![0, 5, 1], "item 5 of a pool of 5"),
        (vec![0, u32::MAX, 1], "item 4294967295 of a pool of 5"),
    ] {
        for refused in answers(&FixedPicks(told)) {
            match refused {
                Err(Error::BadPicks { strategy: "told", what }) => assert_eq!(what, expected),
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Asks to stop after so many questions.
struct StopAfter {
    left: AtomicUsize,
}

impl StopAfter {
    fn new(asked: usize) -> Self {
        StopAfter { left: AtomicUsize::new(asked) }
    }
}

impl Progress for StopAfter {
    fn start(&self, _: &'static str, _: u64) {}
    fn advance(&self, _: u64) {}

    fn stopped(&self) -> bool {
        let less = |left: usize| Some(left.saturating_sub(1));
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) == Ok(0)
    }
}

/// How often `work` asks whether to go on. A stop at any of these times ends it.
fn asks<T>(work: impl Fn(&dyn Progress) -> Result<T, Error>) -> usize {
    for asked in 0..10_000 {
        match work(&StopAfter::new(asked)) {
            Err(Error::Stopped) => {}
            Ok(_) => return asked,
            Err(other) => panic!("{other}"),
        }
    }
    panic!("it never ends");
}

#[test]
fn every_strategy_can_be_stopped_between_any_two_blocks() {
    for case in some_cases(6) {
        let problem = case.problem().unwrap();
        for strategy in BuiltIn::all().map(|strategy| case.strategy(strategy)) {
            let asked = asks(|progress| problem.select(&strategy, case.budget, progress));
            // Once at the start, and in the loops of every strategy that has some.
            let least = match strategy {
                BuiltIn::Random(_) => 1,
                // One pass over blocks.
                BuiltIn::Entropy(_) | BuiltIn::Margin(_) | BuiltIn::LeastSimilar(_) => 2,
                _ => 3,
            };
            assert!(asked >= least, "{strategy}: {asked}");
        }
    }
}

#[test]
fn features_and_ranks_can_be_stopped() {
    let items = Matrix::from_vec(2, (0..240).map(|i| ((i * 7) % 13) as f32).collect());
    let items = items.with_locals(3);
    let settings = BagOfWords { clusters: 5, ..BagOfWords::default() };
    assert!(asks(|progress| bag_of_words(&items, &items, settings, progress)) > 4);
    assert!(asks(|progress| mean_features(&items, progress)) >= 1);
    let given = KnownSimilarities::new(3, vec![0.5; 9]).unwrap();
    let all = [0, 1, 2];
    assert!(asks(|progress| ranks(&given, &all, &all, &all, progress)) >= 4);
}

/// The similarities of another, searched in blocks of its own size. Its searches may remember
/// what they have computed.
struct InBlocks {
    inner: Arc<dyn Similarity>,
    rows: usize,
    remembers: bool,
}

struct Blocks<'a> {
    of: &'a InBlocks,
    columns: &'a [u32],
    inner: Box<dyn Sieve + 'a>,
}

impl Similarity for InBlocks {
    fn rows(&self) -> usize {
        self.inner.rows()
    }

    fn columns(&self) -> usize {
        self.inner.columns()
    }

    fn tile(&self, rows: &[u32], columns: &[u32], out: &mut [f32]) -> Result<(), Error> {
        self.inner.tile(rows, columns, out)
    }

    fn tile_error(&self, rows: &[u32], columns: &[u32]) -> f64 {
        self.inner.tile_error(rows, columns)
    }

    fn exact(&self, row: u32, columns: &[u32], out: &mut [f64]) -> Result<(), Error> {
        self.inner.exact(row, columns, out)
    }

    fn scale(&self) -> f64 {
        self.inner.scale()
    }

    fn sieve<'a>(
        &'a self,
        columns: &'a [u32],
        expected: Option<&[f64]>,
    ) -> Result<Box<dyn Sieve + 'a>, Error> {
        let inner = self.inner.sieve(columns, expected)?;
        Ok(Box::new(Blocks { of: self, columns, inner }))
    }
}

impl Sieve for Blocks<'_> {
    fn above(&self, rows: &[u32], cuts: &[f64]) -> Result<Vec<(u32, u32)>, Error> {
        assert!(rows.len() <= self.of.rows.max(1), "{} rows at once", rows.len());
        self.inner.above(rows, cuts)
    }

    fn seen(&self, rows: &[u32]) -> Option<Arc<[f32]>> {
        let mut values = vec![0.0; rows.len() * self.columns.len()];
        self.of.inner.tile(rows, self.columns, &mut values).unwrap();
        self.of.remembers.then(|| values.into())
    }

    fn rows_at_once(&self) -> usize {
        self.of.rows
    }
}

#[test]
fn picks_do_not_depend_on_the_rows_a_sieve_takes_at_once_or_on_what_it_remembers() {
    for case in some_cases(12) {
        let problem = case.problem().unwrap();
        let matching = problem.matching().unwrap();
        let features = problem.features().unwrap();
        for (rows, remembers) in
            [(0, false), (1, true), (7, false), (7, true), (100_000, true), (usize::MAX, false)]
        {
            let in_blocks = |inner: &Arc<dyn Similarity>| -> Arc<dyn Similarity> {
                Arc::new(InBlocks { inner: inner.clone(), rows, remembers })
            };
            let blocks =
                Problem::of_similarities(in_blocks(&matching.pool), in_blocks(&matching.paired))
                    .features(features.pool.clone(), features.paired.clone())
                    .settings(case.settings.clone())
                    .build()
                    .unwrap();
            for strategy in BuiltIn::all().map(|strategy| case.strategy(strategy)) {
                let picks = blocks.select(&strategy, case.budget, &()).unwrap();
                assert_eq!(picks, problem.select(&strategy, case.budget, &()).unwrap(), "{rows}");
            }
        }
    }
}
