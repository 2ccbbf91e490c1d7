//! Requirements on every strategy; new ones join by name.

use std::collections::HashSet;

use nextpair_engine::{Error, Settings, StrategyName};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::case::{Case, cases};

fn some_cases(count: usize) -> Vec<Case> {
    let mut runner = TestRunner::deterministic();
    (0..count)
        .map(|_| cases().new_tree(&mut runner).unwrap().current())
        .filter(|case| case.problem().is_ok())
        .collect()
}

#[test]
fn every_strategy_gives_distinct_items_within_the_pool() {
    for case in some_cases(40) {
        let pool = case.pool.len() / case.dim;
        for &strategy in StrategyName::ALL {
            for budget in [1, case.budget, pool] {
                let picks = case.select(strategy, budget).unwrap();
                let distinct: HashSet<u32> = picks.indices().into_iter().collect();
                assert_eq!(distinct.len(), budget, "{}", strategy.as_str());
                assert!(distinct.iter().all(|&i| (i as usize) < pool));
                assert_eq!(picks.pool, pool);
                let falling = picks.picks.windows(2).all(|p| p[0].score >= p[1].score);
                assert!(falling, "{} scores fall", strategy.as_str());
            }
        }
    }
}

#[test]
fn every_strategy_repeats_itself() {
    for case in some_cases(10) {
        for &strategy in StrategyName::ALL {
            let select = || case.select(strategy, case.budget).unwrap();
            assert_eq!(select(), select(), "{}", strategy.as_str());
        }
    }
}

#[test]
fn a_smaller_budget_is_a_prefix() {
    for case in some_cases(20) {
        for &strategy in StrategyName::ALL {
            // These choose their candidates or clusters by the budget.
            if matches!(
                strategy,
                StrategyName::Hybrid
                    | StrategyName::CoreSetMargin
                    | StrategyName::Stratified
                    | StrategyName::Typical
            ) {
                continue;
            }
            let select = |b| case.select(strategy, b).unwrap().indices();
            let (few, many) = (select(case.budget.div_ceil(2)), select(case.budget));
            assert_eq!(few, many[..few.len()], "{}", strategy.as_str());
        }
    }
}

#[test]
fn every_strategy_refuses_bad_budgets() {
    for case in some_cases(3) {
        let pool = case.pool.len() / case.dim;
        for &strategy in StrategyName::ALL {
            let none = case.select(strategy, 0);
            assert!(matches!(none, Err(Error::ZeroBudget)));
            let more = case.select(strategy, pool + 1).unwrap_err().to_string();
            let expected = format!("the budget is {} but the pool has only {pool} items", pool + 1);
            assert_eq!(more, expected);
        }
    }
}

#[test]
fn random_follows_its_seed() {
    let case = some_cases(30).into_iter().max_by_key(|p| p.pool.len() / p.dim).unwrap();
    let with = |seed| {
        let settings = Settings { seed, ..case.settings.clone() };
        let case = Case { settings, ..case.clone() };
        case.select(StrategyName::Random, 5).unwrap().indices()
    };
    assert_eq!(with(1), with(1));
    assert_ne!(with(1), with(2));
}

#[test]
fn names_read_back() {
    for &strategy in StrategyName::ALL {
        assert_eq!(strategy.as_str().parse(), Ok(strategy));
    }
    let error = "margins".parse::<StrategyName>().unwrap_err();
    assert!(error.contains("no strategy 'margins'; there are hard-negative, random"), "{error}");
}
