//! Guards: each warns of its mistake, and none on clean data.

use std::sync::Arc;

use nextpair_core::{Amount, Matrix, Side};
use nextpair_engine::{
    BuiltIn, Coverage, Draws, Finding, FindingInputs, Guards, HardNegative, Herding, Hybrid,
    KnownSimilarities, LeastSimilar, Metric, Problem, Random, Settings, VOptimal, Weight,
};
use rayon::prelude::*;

use crate::case::Parameters;

/// A generated world: items have a place in a space of meanings, both halves of a pair are seen from
/// there with noise, and each half may lie apart from the other.
#[derive(Clone, Debug)]
struct World {
    seed: u64,
    pairs: usize,
    items: usize,
    dim: usize,
    /// Dimensions of the meanings.
    inner: usize,
    /// Clusters of meanings, or none.
    clusters: usize,
    noise: f64,
    /// How far the halves lie apart.
    gap: f64,
    /// How far all vectors lie to one side.
    cone: f64,
    settings: Settings,
    parameters: Parameters,
    metric: Metric,
    budget: usize,
}

/// Vectors by row.
struct Seen {
    dim: usize,
    images: Vec<f64>,
    texts: Vec<f64>,
    pool: Vec<f64>,
}

impl World {
    /// A world of any kind whose model is of use.
    fn any(seed: u64) -> World {
        let mut draws = Draws::new(seed ^ 0x9e37);
        let pairs = 30 + draws.below(400);
        let items = pairs / 2 + draws.below(10 * pairs);
        let dim = [16, 32, 64, 128][draws.below(4)];
        let inner = dim.min([16, 32, 64][draws.below(3)]);
        let top_k = [1, 1, 5][draws.below(3)];
        World {
            seed,
            pairs,
            items,
            dim,
            inner,
            clusters: [0, 0, 20, 100][draws.below(4)],
            noise: 0.1 + 0.4 * draws.unit(),
            gap: [0.0, 0.3, 1.0][draws.below(3)],
            cone: [0.0, 1.0, 3.0][draws.below(3)],
            parameters: Parameters {
                top_k,
                weight: [Weight::Surplus, Weight::Count][draws.below(2)],
                sample: (draws.below(4) == 0).then_some(Amount::Count(pairs / 2)),
                ..Parameters::default()
            },
            settings: Settings { seed, explain: [0, 3, 10][draws.below(3)], ..Settings::default() },
            metric: [Metric::Cosine, Metric::Cosine, Metric::Dot][draws.below(3)],
            budget: 1 + items / [20, 50, 100][draws.below(3)],
        }
    }

    /// A usual one.
    fn usual() -> World {
        World {
            seed: 1,
            pairs: 300,
            items: 2000,
            dim: 32,
            inner: 32,
            clusters: 0,
            noise: 0.3,
            gap: 0.5,
            cone: 0.0,
            settings: Settings::default(),
            parameters: Parameters::default(),
            metric: Metric::Cosine,
            budget: 60,
        }
    }

    fn seen(&self) -> Seen {
        let mut draws = Draws::new(self.seed);
        let World { pairs, items, dim, inner, clusters, noise, gap, cone, .. } = *self;
        let centres: Vec<f64> = (0..clusters * inner).map(|_| draws.normal()).collect();
        let mut meaning = |count: usize| -> Vec<f64> {
            let mut meanings = Vec::with_capacity(count * inner);
            for _ in 0..count {
                let centre = if clusters == 0 { 0 } else { draws.below(clusters) * inner };
                for k in 0..inner {
                    let (own, of) = match clusters {
                        0 => (1.0, 0.0),
                        _ => (0.6, centres[centre + k]),
                    };
                    meanings.push(of + own * draws.normal());
                }
            }
            meanings
        };
        let (paired, pool) = (meaning(pairs), meaning(items));
        let mut draws = Draws::new(self.seed ^ 1);
        let offset: Vec<f64> = (0..dim).map(|_| draws.normal()).collect();
        let aside: Vec<f64> = (0..dim).map(|_| draws.normal()).collect();
        let mut seen = |meanings: &[f64], side: f64| -> Vec<f64> {
            let mut vectors = Vec::new();
            for meaning in meanings.chunks(inner) {
                for k in 0..dim {
                    // A second view of the meanings where there are more dimensions.
                    let value = meaning[k % inner] * if (k / inner) % 2 == 0 { 1.0 } else { -1.0 };
                    let shift = cone * offset[k] + gap * side * aside[k];
                    vectors.push(value + shift + noise * draws.normal());
                }
            }
            vectors
        };
        let (images, texts) = (seen(&paired, 1.0), seen(&paired, -1.0));
        Seen { dim, images, texts, pool: seen(&pool, 1.0) }
    }

    fn problem(&self, seen: &Seen) -> Problem {
        let Seen { images, texts, pool, .. } = seen;
        let matrix = |values: &[f64]| {
            Matrix::from_vec(seen.dim, values.iter().map(|&v| v as f32).collect::<Vec<_>>())
        };
        Problem::of_embeddings(matrix(images), matrix(texts), matrix(pool), Side::Image)
            .settings(self.settings.clone())
            .metric(self.metric)
            .build()
            .unwrap()
    }

    fn findings(&self, seen: &Seen, strategy: impl Into<BuiltIn>) -> Vec<Finding> {
        let (problem, strategy) = (self.problem(seen), self.parameters.of(strategy));
        let picks = problem.select(&strategy, self.budget, &()).unwrap();
        problem.inspect(&strategy, &picks, &()).unwrap()
    }
}

fn kinds(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().map(Finding::kind).collect()
}

/// What guards find in a world that was changed.
fn found(world: &World, change: impl FnOnce(&mut Seen)) -> Vec<Finding> {
    let mut seen = world.seen();
    assert_eq!(world.findings(&seen, HardNegative::default()), [], "clean");
    change(&mut seen);
    world.findings(&seen, HardNegative::default())
}

#[test]
fn a_thousand_clean_worlds_have_no_findings() {
    let alarms: Vec<String> = (0..1000u64)
        .into_par_iter()
        .filter_map(|seed| {
            let mut world = World::any(seed);
            // A budget beyond the hits is no false alarm.
            let seen = world.seen();
            let hard_negative = world.parameters.of(HardNegative::default());
            let first = world.problem(&seen).select(&hard_negative, 1, &()).unwrap();
            // (`hybrid` looks at three candidates for each pick.)
            let hard = first.hard_negatives.unwrap() as usize;
            world.budget = world.budget.min(hard / 3).max(1);
            let strategies = [
                hard_negative,
                Coverage::default().into(),
                Hybrid::default().into(),
                VOptimal::default().into(),
            ];
            let findings = world.findings(&seen, strategies[seed as usize % 4]);
            (!findings.is_empty()).then(|| format!("{findings:?} in {world:?}"))
        })
        .collect();
    assert!(alarms.is_empty(), "{} of 1000: {}", alarms.len(), alarms.join("\n"));
}

#[test]
fn pairs_in_the_wrong_order() {
    for seed in 0..20 {
        let world = World { seed, pairs: 40 + 30 * seed as usize, ..World::usual() };
        let findings = found(&world, |seen| seen.texts.rotate_left(7 * seen.dim));
        assert!(kinds(&findings).contains(&"near-chance"), "{findings:?}");
    }
    // A constant similarity knows nothing either.
    let same = Arc::new(KnownSimilarities::new(50, vec![0.5; 50 * 50]).unwrap());
    let problem = Problem::of_similarities(same.clone(), same).build().unwrap();
    let strategy = HardNegative::default();
    let picks = problem.select(&strategy, 5, &()).unwrap();
    let findings = problem.inspect(&strategy, &picks, &()).unwrap();
    assert_eq!(kinds(&findings), ["near-chance", "no-hit"]);
}

/// Puts the second half of the texts in the place of the pool, and leaves the first half of the pairs.
fn with_texts_as_pool(seen: &mut Seen) {
    let half = seen.texts.len() / 2;
    seen.pool = seen.texts.split_off(half);
    seen.images.truncate(half);
}

#[test]
fn a_pool_of_the_other_side() {
    let world = World { gap: 1.0, pairs: 600, budget: 10, ..World::usual() };
    let findings = found(&world, with_texts_as_pool);
    assert!(kinds(&findings).contains(&"other-side"), "{findings:?}");
    // Where both halves lie together, nothing can be said, and nothing is.
    let together = World { gap: 0.0, ..world };
    assert_eq!(found(&together, with_texts_as_pool), []);
}

#[test]
fn a_pool_of_the_other_side_is_seen_in_similarities_alone() {
    let world = World { gap: 2.0, items: 300, noise: 0.5, ..World::usual() };
    let (seen, mut other) = (world.seen(), World { pairs: 600, ..world.clone() }.seen());
    with_texts_as_pool(&mut other);
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let table = |rows: &[f64]| {
        let columns: Vec<&[f64]> = seen.texts.chunks(seen.dim).collect();
        let cosine = |x: &[f64], y: &[f64]| dot(x, y) / (dot(x, x) * dot(y, y)).sqrt();
        let rows = rows.chunks(seen.dim);
        let values = rows.flat_map(|x| columns.iter().map(|y| cosine(x, y)).collect::<Vec<_>>());
        Arc::new(KnownSimilarities::new(world.pairs, values.collect()).unwrap())
    };
    for (pool, expected) in [(&seen.pool, &[][..]), (&other.pool, &["other-side"])] {
        let problem = Problem::of_similarities(table(pool), table(&seen.images)).build().unwrap();
        let strategy = LeastSimilar::default();
        let picks = problem.select(&strategy, 10, &()).unwrap();
        assert_eq!(kinds(&problem.inspect(&strategy, &picks, &()).unwrap()), expected);
        assert_eq!(kinds(&problem.inspect_inputs(&strategy, &()).unwrap()), expected);
    }
}

#[test]
fn copies_in_the_pool() {
    let findings = found(&World::usual(), |seen| {
        let first = seen.pool[..3 * seen.dim].to_vec();
        seen.pool[100 * seen.dim..103 * seen.dim].copy_from_slice(&first);
    });
    let copies = Finding::Copies { items: 3, of: 2000, example: (100, 0) };
    assert!(findings.contains(&copies), "{findings:?}");
}

#[test]
fn picks_that_are_nearly_the_same() {
    let world = World::usual();
    let best = world.problem(&world.seen()).select(&HardNegative::default(), 20, &()).unwrap();
    let findings = found(&world, |seen| {
        let mut draws = Draws::new(3);
        for pick in &best.picks {
            // A burst of photographs behind the end.
            let source = seen.pool[pick.index as usize * seen.dim..][..seen.dim].to_vec();
            seen.pool.extend(source.iter().map(|value| value + 0.02 * draws.normal()));
        }
    });
    assert_eq!(kinds(&findings), ["picks-alike"], "{findings:?}");
}

#[test]
fn picks_that_are_paired_already() {
    let findings = found(&World::usual(), |seen| {
        let mut draws = Draws::new(3);
        let copies = seen.images[..50 * seen.dim].iter().map(|v| v + 0.02 * draws.normal());
        let copies: Vec<f64> = copies.collect();
        seen.pool.extend(copies);
    });
    assert!(kinds(&findings).contains(&"picks-paired"), "{findings:?}");
}

#[test]
fn one_exact_copy_of_a_pair_is_reported() {
    let world = World { budget: 200, ..World::usual() };
    let findings = found(&world, |seen| {
        let image = seen.images[..seen.dim].to_vec();
        seen.pool[..seen.dim].copy_from_slice(&image);
    });
    let paired = |finding: &Finding| {
        matches!(finding, Finding::PicksPaired { picks: 1, of: 200, example: (0, 0), .. })
    };
    assert!(findings.iter().any(paired), "{findings:?}");
}

#[test]
fn hubs() {
    let world = World { gap: 0.0, ..World::usual() };
    let findings = found(&world, |seen| {
        // Blank photographs, which are near to everything as dot products go.
        let (dim, mut draws) = (seen.dim, Draws::new(4));
        for item in 0..30 {
            let blank: Vec<f64> = (0..dim).map(|_| 1.0 + 0.1 * draws.normal()).collect();
            seen.pool[item * dim..][..dim].copy_from_slice(&blank);
        }
        // Texts that all speak of the same a little.
        seen.texts.iter_mut().for_each(|value| *value += 1.0);
    });
    assert!(kinds(&findings).contains(&"hubs"), "{findings:?}");
}

#[test]
fn hubs_of_few_pairs_hit_all_of_them() {
    let world = World { pairs: 40, items: 500, budget: 8, gap: 0.0, ..World::usual() };
    let findings = found(&world, |seen| {
        // Pairs that were learned by heart: rivals are far from each other, and blank pictures near to all texts.
        let dim = seen.dim;
        let mut draws = Draws::new(6);
        let aside: Vec<f64> = (0..dim).map(|_| 2.0 * draws.normal()).collect();
        for (text, image) in seen.texts.chunks_mut(dim).zip(seen.images.chunks_mut(dim)) {
            for (k, aside) in aside.iter().enumerate() {
                (text[k], image[k]) = (text[k] + aside, image[k] - aside);
            }
        }
        for blank in seen.pool[..10 * dim].chunks_mut(dim) {
            blank.iter_mut().zip(&aside).for_each(|(value, aside)| *value = aside + 0.3 * *value);
        }
    });
    assert!(kinds(&findings).contains(&"hubs"), "{findings:?}");
}

#[test]
fn a_pool_that_is_hit_more_than_pairs_would_be() {
    // Learned by heart: pairs have directions of their own, which no other item has. With 40 pairs nothing can be
    // seen of chance.
    for pairs in [300, 40] {
        let world = World { pairs, gap: 0.0, ..World::usual() };
        let by_heart = found(&world, |seen| {
            let dim = seen.dim;
            let mut draws = Draws::new(8);
            let apart: Vec<f64> = (0..dim).map(|_| draws.normal()).collect();
            let halves = seen.texts.chunks_mut(dim).zip(seen.images.chunks_mut(dim));
            for (pair, (text, image)) in halves.enumerate() {
                let mut own = Draws::new(100 + pair as u64);
                for k in 0..dim {
                    let direction = 3.0 * own.normal();
                    text[k] = direction + apart[k];
                    image[k] = direction - apart[k];
                }
            }
            seen.pool.chunks_mut(dim).for_each(|item| {
                item.iter_mut().zip(&apart).for_each(|(value, apart)| *value += 0.5 * apart);
            });
        });
        assert!(kinds(&by_heart).contains(&"pool-hit"), "{by_heart:?}");
    }
    // Images given as texts are like the pool of images.
    let exchanged = found(&World { gap: 0.3, ..World::usual() }, |seen| {
        std::mem::swap(&mut seen.images, &mut seen.texts);
    });
    assert!(
        kinds(&exchanged).iter().any(|kind| ["pool-hit", "other-side"].contains(kind)),
        "{exchanged:?}"
    );
}

#[test]
fn picks_that_look_like_nothing_paired() {
    let world = World { pairs: 200, budget: 40, inner: 16, ..World::usual() };
    let mut seen = world.seen();
    assert_eq!(world.findings(&seen, VOptimal::default()), [], "clean");
    // A tenth of the pool varies where nothing else does.
    let (dim, mut draws) = (seen.dim, Draws::new(9));
    for item in seen.pool.chunks_mut(dim).step_by(10) {
        item[..16].iter_mut().for_each(|value| *value *= 0.1);
        item[16..].iter_mut().for_each(|value| *value += 2.0 * draws.normal());
    }
    let findings = world.findings(&seen, VOptimal::default());
    assert!(kinds(&findings).contains(&"strangers"), "{findings:?}");
}

#[test]
fn picks_without_a_hit() {
    let world = World { items: 100, budget: 10, ..World::usual() };
    assert_eq!(world.findings(&world.seen(), HardNegative::default()), []);
    let all = World { budget: 100, ..world };
    let findings = all.findings(&all.seen(), HardNegative::default());
    assert!(kinds(&findings).contains(&"no-hit"), "{findings:?}");
    // A strategy that does not look for hits has none.
    assert_eq!(all.findings(&all.seen(), Random::default()), []);
    // Picks of merged parts say it without their similarities.
    let problem = all.problem(&all.seen());
    let picks = problem.select(&HardNegative::default(), 100, &()).unwrap();
    assert_eq!(kinds(&FindingInputs::default().inspect(&picks, &()).unwrap()), ["no-hit"]);
}

#[test]
fn false_negatives() {
    // Photographs that the texts of pairs describe as well as their own.
    let world = World { noise: 0.5, dim: 64, inner: 64, gap: 0.0, ..World::usual() };
    let change = |seen: &mut Seen| {
        let halves = seen.images.iter().zip(&seen.texts).take(100 * seen.dim);
        let twins: Vec<f64> = halves.map(|(image, text)| (image + text) / 2.0).collect();
        seen.pool.extend(twins);
    };
    for explain in [0, 3] {
        let settings = Settings { explain, ..Settings::default() };
        let findings = found(&World { settings, ..world.clone() }, change);
        assert_eq!(kinds(&findings), ["false-negatives"], "{findings:?}");
    }
    // The flag that is named with it helps.
    let guards = Guards { relative_margin: Some(0.05), ..Guards::default() };
    let parameters = Parameters { guards, ..Parameters::default() };
    let guarded = World { parameters, ..world.clone() };
    assert_eq!(found(&guarded, change), []);
    // Merged parts have no similarities, but know what chance does.
    let mut seen = world.seen();
    change(&mut seen);
    let problem = world.problem(&seen);
    let strategy = HardNegative::default();
    let picks = problem.select(&strategy, world.budget, &()).unwrap();
    let chance = problem.chance(&strategy, world.budget, &()).unwrap();
    let findings =
        FindingInputs { chance, ..FindingInputs::default() }.inspect(&picks, &()).unwrap();
    assert_eq!(kinds(&findings), ["false-negatives"]);
}

#[test]
fn findings_know_their_places_and_words() {
    let finding = Finding::PicksAlike { picks: 2, of: 9, cosine: 0.98, example: (1, 0) };
    let moved = finding.among(&[4, 7]);
    let text = moved.text(|item| format!("photo-{item}"), |pair| pair.to_string());
    assert_eq!(
        text,
        "2 of 9 picks are nearly the same as an earlier one (cosine 0.980 or more; photo-7 and \
         photo-4)"
    );
    assert!(moved.to_string().contains("item 7 and item 4"), "{moved}");
}

#[test]
fn picks_without_gain_are_counted() {
    let rows: Vec<f64> = (0..6).flat_map(|i| [1.0 + f64::from(i % 3), 2.0]).collect();
    let (pool, same) = (Matrix::from_f64(2, &rows), Matrix::from_f64(2, &[2.0; 12]));
    for explain in [0, 3] {
        let inspected = |strategy: BuiltIn, pool: &Matrix, budget: usize| {
            let problem = Problem::of_pool(6).features(pool.clone(), pool.clone());
            let problem = problem.settings(Settings { explain, ..Settings::default() });
            let problem = problem.build().unwrap();
            let picks = problem.select(&strategy, budget, &()).unwrap();
            problem.inspect(&strategy, &picks, &()).unwrap()
        };
        let v_optimal = BuiltIn::from(VOptimal::default());
        assert!(!kinds(&inspected(v_optimal, &pool, 2)).contains(&"no-gain"));
        for strategy in [v_optimal, Herding::default().into()] {
            let found = inspected(strategy, &same, 4);
            let idle = found.iter().find(|finding| finding.kind() == "no-gain");
            let all = matches!(idle, Some(Finding::NoGain { picks: 4, of: 4 }));
            assert!(all, "{strategy} {explain}: {found:?}");
        }
        assert!(!kinds(&inspected(Random::default().into(), &same, 4)).contains(&"no-gain"));
    }
}
