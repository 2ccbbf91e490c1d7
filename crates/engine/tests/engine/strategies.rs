//! Requirements on every strategy; new ones join by name.

use std::collections::{BTreeMap, HashSet};

use nextpair_engine::{BuiltIn, Error, Kind, Random, Settings, Strategy as _};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::case::{Case, cases};

fn some_cases(count: usize) -> Vec<Case> {
    let mut runner = TestRunner::deterministic();
    (0..count)
        .map(|_| cases().new_tree(&mut runner).unwrap().current())
        .filter(Case::is_possible)
        .collect()
}

#[test]
fn every_strategy_gives_distinct_items_within_the_pool() {
    for case in some_cases(40) {
        let pool = case.pool.len() / case.dim;
        for strategy in BuiltIn::all() {
            for budget in [1, case.budget, pool] {
                let picks = case.select(strategy, budget).unwrap();
                let distinct: HashSet<u32> = picks.indices().into_iter().collect();
                assert_eq!(distinct.len(), budget, "{}", strategy.name());
                assert!(distinct.iter().all(|&i| (i as usize) < pool));
                assert_eq!(picks.pool, pool);
                let falling = picks.picks.windows(2).all(|p| p[0].score >= p[1].score);
                // What one item tells can make another one tell more.
                assert!(
                    falling || strategy.name() == "v-optimal",
                    "{} scores fall",
                    strategy.name()
                );
            }
        }
    }
}

#[test]
fn every_strategy_repeats_itself() {
    for case in some_cases(10) {
        for strategy in BuiltIn::all() {
            let select = || case.select(strategy, case.budget).unwrap();
            assert_eq!(select(), select(), "{}", strategy.name());
        }
    }
}

#[test]
fn a_smaller_budget_is_a_prefix() {
    for case in some_cases(20) {
        for strategy in BuiltIn::all() {
            // These choose their candidates or clusters by the budget.
            if matches!(
                strategy,
                BuiltIn::Hybrid(_)
                    | BuiltIn::CoreSetMargin(_)
                    | BuiltIn::Stratified(_)
                    | BuiltIn::Typical(_)
            ) {
                continue;
            }
            let select = |b| case.select(strategy, b).unwrap().indices();
            let (few, many) = (select(case.budget.div_ceil(2)), select(case.budget));
            assert_eq!(few, many[..few.len()], "{}", strategy.name());
        }
    }
}

#[test]
fn every_strategy_refuses_bad_budgets() {
    for case in some_cases(3) {
        let pool = case.pool.len() / case.dim;
        for strategy in BuiltIn::all() {
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
        case.select(Random::default(), 5).unwrap().indices()
    };
    assert_eq!(with(1), with(1));
    assert_ne!(with(1), with(2));
}

#[test]
fn names_read_back() {
    for strategy in BuiltIn::all() {
        assert_eq!(strategy.name().parse(), Ok(strategy));
    }
    let error = "margins".parse::<BuiltIn>().unwrap_err();
    assert!(error.contains("no strategy 'margins'; there are hard-negative, random"), "{error}");
}

#[test]
fn parameters_of_one_name_mean_the_same() {
    let mut known = BTreeMap::new();
    for mut strategy in BuiltIn::all() {
        let name = strategy.name();
        let mut own = HashSet::new();
        for parameter in strategy.parameters() {
            assert!(own.insert(parameter.name()), "{name} has {} twice", parameter.name());
            let means = (parameter.about, parameter.value.kind(), parameter.value.text());
            let first = known.entry(parameter.name()).or_insert((name, means.clone()));
            assert_eq!(first.1, means, "{} of {} and of {name}", parameter.name(), first.0);
        }
    }
}

/// Texts of values that are not the default.
fn other_values(kind: Kind, default: &str) -> Vec<String> {
    let texts = match kind {
        Kind::Whole => &["1", "7", "2001"][..],
        Kind::Number => &["0.25", "3", "0.0000001"],
        Kind::Amount => &["12", "5%", "33.333333333%"],
        Kind::Choice(words) => words,
    };
    texts.iter().filter(|text| **text != default).map(|text| (*text).to_owned()).collect()
}

/// The names of parameters with texts of other values, in the order in which they are declared.
fn others(mut strategy: BuiltIn) -> Vec<(&'static str, Vec<String>)> {
    let parameters = strategy.parameters().into_iter();
    let all: Vec<_> =
        parameters.map(|p| (p.name(), other_values(p.value.kind(), &p.value.text()))).collect();
    let possible = |name: &str, text: &String| with(strategy, name, text).check().is_ok();
    all.into_iter()
        .map(|(name, texts)| {
            (name, texts.into_iter().filter(|text| possible(name, text)).collect())
        })
        .collect()
}

/// The strategy with another value of a parameter.
fn with(mut strategy: BuiltIn, name: &str, text: &str) -> BuiltIn {
    let parameter = strategy.parameters().into_iter().find(|p| p.name() == name);
    parameter.unwrap().value.set(text).unwrap();
    strategy
}

/// Fails unless a strategy reads back from its name, and option by option too.
fn check_name(strategy: BuiltIn, options: usize) {
    let shown = strategy.to_string();
    assert_eq!(shown.parse(), Ok(strategy), "{shown}");
    let mut parts = shown.split('+');
    let mut built = BuiltIn::named(parts.next().unwrap()).unwrap();
    let parts: Vec<&str> = parts.collect();
    assert_eq!(parts.len(), options, "{shown}");
    // Their order does not matter.
    parts.iter().rev().for_each(|option| built.set_option(option).unwrap());
    assert_eq!(built, strategy, "{shown}");
    assert_eq!(strategy.changed(|parameter| parameter.name()).len(), options, "{shown}");
}

#[test]
fn every_parameter_is_shown_and_reads_back() {
    for strategy in BuiltIn::all() {
        check_name(strategy, 0);
        let others = others(strategy);
        for (name, texts) in &others {
            assert!(!texts.is_empty(), "{name}");
            for text in texts {
                let changed = with(strategy, name, text);
                assert_ne!(changed, strategy, "{name} {text}");
                check_name(changed, 1);
                assert_eq!(changed.changed(|parameter| parameter.name()), [*name]);
                assert_eq!(&changed.changed(|parameter| parameter.value.text()), &[text.as_str()]);
            }
        }
        let set = |all, (name, texts): &(&str, Vec<String>)| with(all, name, &texts[0]);
        check_name(others.iter().fold(strategy, set), others.len());
    }
}

#[test]
fn a_default_value_is_not_shown() {
    for (text, shown) in [
        ("hard-negative+top-5+count", "hard-negative+top-5+count"),
        ("hard-negative+count+top-5", "hard-negative+top-5+count"),
        ("hard-negative+top-1+surplus+nearest-miss", "hard-negative"),
        ("entropy+mini-0.05", "entropy+mini-5%"),
        ("entropy+mini-50+full", "entropy"),
        ("novelty+points-2000+mean+bandwidth-0.50", "novelty+bandwidth-0.5"),
        ("coverage+max-score--1", "coverage+max-score--1"),
    ] {
        let strategy: BuiltIn = text.parse().unwrap();
        assert_eq!(strategy.to_string(), shown);
    }
}

#[test]
fn options_that_a_strategy_does_not_have_are_refused() {
    for (text, says) in [
        ("random+top-5", "'top-5' is not a setting of random"),
        ("margin+bow", "'bow' is not a setting of margin"),
        ("core-set+full", "'full' is not a setting of core-set"),
        ("random+", "no setting ''; there are full, mini-M, top-K, surplus, count, "),
        ("random+top5", "no setting 'top5'; there are full, mini-M, top-K, surplus, count, "),
        ("hard-negative+top-x", "'top-x': 'x' is not a whole number"),
        ("hard-negative+top-0", "'top-0': top-k is 0; "),
        ("hard-negative+max-score-nan", "'max-score-nan': max-score is NaN; "),
        ("herding+points-0", "'points-0': points is 0; "),
        ("herding+bandwidth-inf", "'bandwidth-inf': bandwidth is inf; "),
        ("entropy+temperature-", "no setting 'temperature-'"),
        ("entropy+mini-x", "'mini-x': x is neither a count nor a share"),
    ] {
        let error = text.parse::<BuiltIn>().unwrap_err();
        assert!(error.starts_with(says), "{text}: {error}");
    }
}

/// Names are those of folders too: whoever changes one changes `names.txt`.
#[test]
fn names_and_defaults_stay() {
    let (mut lines, mut options) = (Vec::new(), BTreeMap::new());
    for mut strategy in BuiltIn::all() {
        let mut line = strategy.name().to_owned();
        for parameter in strategy.parameters() {
            line += &format!(" {}={}", parameter.name(), parameter.value.text());
        }
        lines.push(line);
        for (name, texts) in others(strategy) {
            let shown = texts.iter().map(|text| with(strategy, name, text).to_string());
            let shown: Vec<String> =
                shown.map(|shown| shown[strategy.name().len()..].to_owned()).collect();
            options.insert(name, format!("{name} {}", shown.join(" ")));
        }
    }
    lines.push(String::new());
    lines.extend(options.into_values());
    let expected: Vec<&str> = include_str!("names.txt").lines().collect();
    assert_eq!(lines, expected);
}
