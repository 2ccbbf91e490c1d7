//! Similarities in matrices give the picks of the embeddings they come from.

use half::f16;
use nextpair_core::Matrix;
use nextpair_engine::{
    BuiltIn, CoreSet, Error, HardNegative, Picks, Problem, Settings, Similarity, Stored,
    Strategy as _,
};
use proptest::prelude::*;

use crate::case::{cases, config};

fn stored(pool: &Matrix, paired: &Matrix, settings: &Settings) -> Result<Problem, Error> {
    Problem::of_stored(pool.clone(), paired.clone()).settings(settings.clone()).build()
}

/// The strategies that need no vectors.
fn without_features() -> impl Iterator<Item = BuiltIn> {
    BuiltIn::all().filter(|strategy| strategy.needs().features.is_none())
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn picks_scores_and_reasons_are_those_of_the_embeddings(case in cases()) {
        if !case.is_possible() {
            return Ok(());
        }
        let problem = case.problem().unwrap();
        let table = |rows: &[f64]| Matrix::from_vec(case.pairs(), case.table(rows).concat());
        let (pool, paired) = (table(&case.pool), table(&case.rivals));
        let stored = stored(&pool, &paired, &case.settings).unwrap();
        for strategy in without_features().filter(|strategy| strategy.needs().matching.is_some()) {
            let strategy = case.strategy(strategy);
            if matches!(strategy, BuiltIn::Entropy(entropy) if entropy.temperature.is_none()) {
                // A temperature that is not given is relative to the largest products.
                continue;
            }
            let expected = problem.select(&strategy, case.budget, &()).unwrap();
            let found = stored.select(&strategy, case.budget, &()).unwrap();
            prop_assert_eq!(&found, &expected, "{}", strategy);
            // In parts, each of which reads its own rows alone.
            let half = (case.pool.len() / case.dim) as u32 / 2;
            let part = |items| -> Result<_, Error> {
                let part = Problem::of_stored(pool.clone(), paired.clone())
                    .settings(case.settings.clone())
                    .only(items)
                    .build()?;
                part.score(&strategy, case.budget, &())
            };
            let whole = part(0..half).unwrap().merge(part(half..stored.pool() as u32).unwrap());
            let merged = stored.finish(&strategy, whole.unwrap(), case.budget, &()).unwrap();
            prop_assert_eq!(&merged, &expected, "{} in parts", strategy);
        }
    }

    #[test]
    fn half_and_single_precision_are_read_exactly(case in cases()) {
        let clamp = |value: f64| f16::from_f64(value.clamp(-60000.0, 60000.0));
        let half = |rows: &[f64]| -> Vec<f16> {
            case.table(rows).concat().into_iter().map(clamp).collect()
        };
        let (pool, paired) = (half(&case.pool), half(&case.rivals));
        let select = |pool: Matrix, paired: Matrix| -> Result<Picks, Error> {
            stored(&pool, &paired, &case.settings)?
                .select(&case.strategy(HardNegative::default()), case.budget, &())
        };
        let pairs = case.pairs();
        let wide = |values: &[f16]| values.iter().map(|value| value.to_f64()).collect::<Vec<_>>();
        let single = |values: &[f16]| values.iter().map(|value| value.to_f32()).collect::<Vec<_>>();
        let matrix = |values: Vec<f64>| Matrix::from_vec(pairs, values);
        let Ok(expected) = select(matrix(wide(&pool)), matrix(wide(&paired))) else {
            return Ok(());
        };
        let halves = select(Matrix::from_vec(pairs, pool.clone()), Matrix::from_vec(pairs, paired.clone()));
        prop_assert_eq!(&halves.unwrap(), &expected);
        let singles = (Matrix::from_vec(pairs, single(&pool)), Matrix::from_vec(pairs, single(&paired)));
        prop_assert_eq!(&select(singles.0, singles.1).unwrap(), &expected);
    }
}

#[test]
fn shapes_and_numbers_are_checked() {
    let zeros =
        |rows: usize, columns: usize| Matrix::from_vec(columns, vec![0.0f32; rows * columns]);
    let build = |pool: Matrix, paired: Matrix| match stored(&pool, &paired, &Settings::default()) {
        Ok(_) => "built".to_owned(),
        Err(error) => error.to_string(),
    };
    assert_eq!(build(zeros(9, 4), zeros(4, 4)), "built");
    for (pool, paired, says) in [
        (zeros(9, 4), zeros(3, 4), "3 rows of the paired similarities, but there are 4 pairs"),
        (zeros(9, 5), zeros(4, 4), "5 columns of the pool's similarities, but there are 4 pairs"),
        (zeros(4, 9), zeros(4, 4), "4 rows and 9 columns, and there are 4 pairs: transpose them"),
    ] {
        let what = build(pool, paired);
        assert!(what.contains(says), "{what}");
    }
    let with = |rows: usize, at: usize, value: f32| {
        let mut values = vec![0.0; rows * 4];
        values[at] = value;
        Matrix::from_vec(4, values)
    };
    for (pool, paired, says) in [
        (with(9, 22, f32::NAN), zeros(4, 4), "the pool's similarities: row 5, column 2 is NaN"),
        (zeros(9, 4), with(4, 7, f32::INFINITY), "the paired similarities: row 1, column 3 is inf"),
    ] {
        assert_eq!(build(pool, paired), says);
    }
    let part = Problem::of_stored(with(9, 22, f32::NAN), zeros(4, 4)).only(4..9).build();
    assert!(part.err().unwrap().to_string().contains("row 5, column 2 is NaN"));
    // Nothing is read of other parts.
    assert!(Problem::of_stored(with(9, 22, f32::NAN), zeros(4, 4)).only(0..5).build().is_ok());
    let error = stored(&zeros(9, 4), &zeros(4, 4), &Settings::default())
        .unwrap()
        .select(&CoreSet::default(), 2, &())
        .unwrap_err();
    assert!(matches!(error, Error::NoFeatures { strategy: "core-set" }), "{error}");
}

#[test]
fn stored_numbers_have_no_negative_zero() {
    let stored = Stored::new(Matrix::from_vec(2, vec![-0.0f32, 1.0]), "numbers").unwrap();
    let mut values = [1.0; 2];
    stored.exact(0, &[0, 1], &mut values).unwrap();
    assert!(values[0].is_sign_positive() && values == [0.0, 1.0]);
}
