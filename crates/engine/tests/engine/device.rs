//! GPUs against the CPU, bit for bit. Where there is no GPU, the tests say so and end.

use half::f16;
use nextpair_core::{Matrix, Side};
use nextpair_engine::{
    BuiltIn, CoreSet, Coverage, Device, Draws, Embeddings, Error, HardNegative, Herding, Hybrid,
    Metric, Novelty, Problem, Settings, Similarity, Spend, Tiles, Typical, VOptimal, Vectors,
    k_center, nearest,
};
use proptest::strategy::{Strategy, ValueTree};

use crate::case::{Case, Numbers, Parameters, cases, vectors};

/// Every GPU as it is used, with vectors that stay on it and that do not.
fn gpus_in_large_tiles() -> Vec<Device> {
    gpus_in([Tiles::default(), Tiles { keep: false, ..Tiles::default() }])
}

/// Every GPU with tiles so small that few items are many.
fn gpus_in_small_tiles() -> Vec<Device> {
    gpus_in([
        // One queue, and lists that overflow.
        Tiles { rows: 24, columns: 40, lanes: 1, found: 1, keep: true },
        Tiles { rows: 7, columns: 8, lanes: 3, found: 50, keep: false },
    ])
}

/// Every GPU, each in a few ways to cut its work.
fn gpus() -> Vec<Device> {
    [gpus_in_large_tiles(), gpus_in_small_tiles()].concat()
}

#[allow(clippy::print_stderr)]
fn gpus_in(ways: [Tiles; 2]) -> Vec<Device> {
    let count = (0..).take_while(|&index| Device::cuda(index).is_ok()).count();
    if count == 0 {
        eprintln!("there is no GPU here; nothing is compared");
    }
    let all = (0..count).flat_map(|index| ways.map(|tiles| Device::cuda_in(index, tiles)));
    all.map(Result::unwrap).collect()
}

fn strategies() -> [BuiltIn; 8] {
    [
        HardNegative::default().into(),
        Coverage::default().into(),
        CoreSet::default().into(),
        Hybrid::default().into(),
        Herding::default().into(),
        Novelty::default().into(),
        Typical::default().into(),
        VOptimal::default().into(),
    ]
}

#[test]
fn every_strategy_picks_the_same() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for device in gpus() {
        for _ in 0..60 {
            let case = cases().new_tree(&mut runner).unwrap().current();
            for strategy in strategies().map(|strategy| case.strategy(strategy)) {
                let on = |device: &Device| {
                    case.builder().on(device.clone()).build()?.select(&strategy, case.budget, &())
                };
                match (on(&Device::cpu()), on(&device)) {
                    (Ok(here), Ok(there)) => assert_eq!(here, there, "{strategy} {device}"),
                    (Err(here), Err(there)) => assert_eq!(here.to_string(), there.to_string()),
                    (here, there) => panic!("{strategy} {device}: {here:?} {there:?}"),
                }
            }
        }
    }
}

/// Several blocks, tiles and waves, sizes that divide by nothing: more items than a tile and two blocks
/// have, more pairs than a tile has columns.
#[test]
fn large_problems_pick_the_same() {
    let whole = gpus_in_large_tiles();
    let wide = Tiles { rows: 1000, columns: 256, lanes: 2, ..Tiles::default() };
    let cut = gpus_in([wide, Tiles { keep: false, ..wide }]);
    let small = gpus_in_small_tiles();
    for (numbers, metric, dim) in [
        (Numbers::Falling, Metric::Cosine, 67),
        (Numbers::Isotropic, Metric::Cosine, 512),
        (Numbers::Uneven, Metric::Dot, 64),
        (Numbers::Whole, Metric::Dot, 9),
        (Numbers::Extreme, Metric::Cosine, 33),
    ] {
        picks_are_the_same(numbers, metric, dim, (603, 9001), &whole);
        picks_are_the_same(numbers, metric, dim, (603, 2101), &cut);
        picks_are_the_same(numbers, metric, dim.min(67), (91, 307), &small);
    }
}

fn picks_are_the_same(
    numbers: Numbers,
    metric: Metric,
    dim: usize,
    (pairs, items): (usize, usize),
    devices: &[Device],
) {
    if devices.is_empty() {
        return;
    }
    let mut draws = Draws::new(3);
    let rivals = vectors(&mut draws, numbers, pairs, dim);
    let noise = vectors(&mut draws, numbers, pairs, dim);
    let budget = 40;
    let case = Case {
        metric,
        dim,
        anchors: rivals.iter().zip(noise).map(|(r, n)| (r + n) as f32 as f64).collect(),
        rivals,
        pool: vectors(&mut draws, numbers, items, dim),
        settings: Settings::default(),
        parameters: Parameters { top_k: 3, ..Parameters::default() },
        route: nextpair_engine::Route::Auto,
        budget,
    };
    let some = items as u32 / 3 + 1..2 * items as u32 / 3 + 2;
    let hard_negative = case.strategy(HardNegative::default());
    let score = |problem: Problem| problem.score(&hard_negative, budget, &()).unwrap();
    let part = score(case.builder().only(some.clone()).build().unwrap());
    for strategy in [hard_negative, CoreSet::default().into(), Herding::default().into()] {
        let here = case.select(strategy, budget).unwrap();
        for device in devices {
            let problem = case.builder().on(device.clone()).build().unwrap();
            // The second time with what the first left on the GPU.
            for time in 0..2 {
                let there = problem.select(&case.strategy(strategy), budget, &()).unwrap();
                assert!(here == there, "{numbers:?} {strategy} {device} {time}");
            }
        }
    }
    for device in devices {
        let there = case.builder().on(device.clone()).only(some.clone()).build().unwrap();
        assert!(score(there) == part, "{numbers:?} {device}");
    }
}

/// Vectors that rounding changes as much as it can, in every storage type.
fn hard_to_round(draws: &mut Draws, count: usize, dim: usize) -> Vec<f64> {
    let mut values = Vec::with_capacity(count * dim);
    for vector in 0..count {
        // A few numbers half-way between codes of half precision, once all are divided by the norm.
        let unit = 1.0 / (dim as f64).sqrt();
        for k in 0..dim {
            let step = (2 * ((vector * 31 + k * 17) % 500) + 1) as f64 / 2048.0;
            let sign = if draws.unit() < 0.5 { -1.0 } else { 1.0 };
            let tiny = if k % 5 == vector % 5 { 1e-6 } else { 1.0 };
            values.push(sign * tiny * unit * (1.0 + step));
        }
    }
    values
}

/// A sieve lists every pair above its cut, in ascending order, whatever the cut: at values that pairs
/// have, next to them, and at the ends.
#[test]
fn sieves_lose_no_pair() {
    // Blocks of threads have 64 rows and 256 columns, small tiles at most 24 and 40.
    let (large, small) = (gpus_in_large_tiles(), gpus_in_small_tiles());
    let mut draws = Draws::new(11);
    for (devices, (count, columns, dim)) in [
        (&large, (1, 1, 1)),
        (&large, (131, 257, 13)),
        (&large, (70, 515, 96)),
        (&small, (1, 1, 1)),
        (&small, (33, 70, 8)),
        (&small, (26, 83, 29)),
    ] {
        for kind in 0..7 {
            if devices.is_empty() {
                continue;
            }
            let mut make = |count: usize| -> Vec<f64> {
                match kind {
                    0 => vectors(&mut draws, Numbers::Isotropic, count, dim),
                    1 => vectors(&mut draws, Numbers::Whole, count, dim),
                    2 => vectors(&mut draws, Numbers::Uneven, count, dim),
                    3 => vectors(&mut draws, Numbers::Extreme, count, dim),
                    4 => hard_to_round(&mut draws, count, dim),
                    // All but the same.
                    5 => (0..count * dim).map(|at| 1.0 + 1e-5 * (at % 7) as f64).collect(),
                    // As large and as small as norms may be.
                    _ => {
                        let scale = |at: usize| [1e-140, 1e140, 1.0][at / dim % 3];
                        (0..count * dim).map(|at| scale(at) * (1.0 + (at % 3) as f64)).collect()
                    }
                }
            };
            let (rows, cols) = (make(count), make(columns));
            for dtype in 0..3 {
                let matrix = |values: &[f64]| match dtype {
                    0 => Matrix::from_f64(dim, values),
                    1 => Matrix::from_vec(dim, values.iter().map(|&v| v as f32).collect()),
                    _ => Matrix::from_vec(dim, values.iter().map(|&v| f16::from_f64(v)).collect()),
                };
                let made = |values: &[f64]| Vectors::new(matrix(values), "vectors");
                // Some numbers are beyond the shorter types.
                let (Ok(x), Ok(y)) = (made(&rows), made(&cols)) else { continue };
                for metric in [Metric::Cosine, Metric::Dot] {
                    for device in devices {
                        let (x, y) = (x.clone().on(device), y.clone().on(device));
                        match Embeddings::new(x, y, metric) {
                            Ok(embeddings) => check_sieve(&embeddings, &mut draws, device),
                            Err(Error::ZeroVector { .. }) => {}
                            Err(other) => panic!("{other}"),
                        }
                    }
                }
            }
        }
    }
}

fn check_sieve(embeddings: &Embeddings, draws: &mut Draws, device: &Device) {
    let rows: Vec<u32> = (0..embeddings.rows() as u32).collect();
    let every: Vec<u32> = (0..embeddings.columns() as u32).collect();
    let scattered: Vec<u32> = every.iter().copied().filter(|c| c % 3 != 1).rev().collect();
    let some: Vec<u32> = rows.iter().copied().filter(|r| r % 4 != 2).collect();
    for columns in [every, scattered] {
        let mut values = vec![0.0; rows.len() * columns.len()];
        embeddings.exact_tile(&rows, &columns, &mut values).unwrap();
        let sieve = embeddings.sieve(&columns, None).unwrap();
        for round in 0..4 {
            let cuts: Vec<f64> = (0..columns.len())
                .map(|column| {
                    let row = (draws.unit() * rows.len() as f64) as usize;
                    let value = values[row.min(rows.len() - 1) * columns.len() + column];
                    match (round, column % 5) {
                        (0, _) => value.next_down(),
                        (_, 0) => f64::NEG_INFINITY,
                        (_, 1) => f64::INFINITY,
                        (_, 2) => 0.0,
                        _ => value,
                    }
                })
                .collect();
            for rows in [&rows, &some] {
                let found = sieve.above(rows, &cuts).unwrap();
                assert!(found.is_sorted_by(|a, b| a < b), "{device}");
                let inside =
                    |&(r, c): &(u32, u32)| (r as usize) < rows.len() && (c as usize) < cuts.len();
                assert!(found.iter().all(inside));
                let mut found = found.into_iter().peekable();
                for (r, &row) in rows.iter().enumerate() {
                    for (c, &cut) in cuts.iter().enumerate() {
                        let value = values[row as usize * columns.len() + c];
                        let listed = found.next_if_eq(&(r as u32, c as u32)).is_some();
                        assert!(listed || value <= cut, "{device}: row {row}, {value} > {cut}");
                    }
                }
            }
        }
    }
}

/// The filter filters: of pairs far below their cuts, it lists none.
#[test]
fn sieves_rule_out_what_is_far() {
    let mut draws = Draws::new(5);
    for device in gpus() {
        let mut make = || {
            let values = vectors(&mut draws, Numbers::Isotropic, 500, 128);
            Vectors::new(Matrix::from_f64(128, &values), "vectors").unwrap().on(&device)
        };
        let embeddings = Embeddings::new(make(), make(), Metric::Cosine).unwrap();
        let every: Vec<u32> = (0..500).collect();
        let sieve = embeddings.sieve(&every, None).unwrap();
        let mut values = vec![0.0; 500 * 500];
        embeddings.exact_tile(&every, &every, &mut values).unwrap();
        let (cut, margin) = (0.2, 0.003);
        let found = sieve.above(&every, &vec![cut; 500]).unwrap();
        let near = values.iter().filter(|&&value| value > cut - margin).count();
        assert!(found.len() <= near, "{} {near} {device}", found.len());
    }
}

#[test]
fn distances_are_the_same_at_any_scale() {
    let mut draws = Draws::new(1);
    for device in gpus() {
        for exponent in [-100, -40, -20, 0, 20, 40, 100] {
            let scale = 10f64.powi(exponent);
            let mut make = |count: usize, far: f64| {
                let values: Vec<f64> =
                    (0..count * 16).map(|_| (draws.normal() + far) * scale).collect();
                Vectors::new(Matrix::from_f64(16, &values), "vectors").unwrap()
            };
            for far in [0.0, 100.0] {
                let (centres, items) = (make(700, far), make(400, far));
                let (a, b) = (centres.clone().on(&device), items.clone().on(&device));
                let here = nearest(&centres, &items, &()).unwrap();
                assert_eq!(nearest(&a, &b, &()).unwrap(), here, "1e{exponent} {device}");
                let here = k_center(&centres, &items, 50, &()).unwrap();
                assert_eq!(k_center(&a, &b, 50, &()).unwrap(), here, "1e{exponent} {device}");
            }
        }
    }
}

/// Clusters, copies, ties and lengths of all sizes: picks near each other, and far more than a list of
/// the GPU has.
#[test]
fn farthest_items_are_the_same() {
    let (large, small) = (gpus_in_large_tiles(), gpus_in_small_tiles());
    let mut draws = Draws::new(21);
    for (kind, dim) in (0..7).flat_map(|kind| [1, 3, 40].map(|dim| (kind, dim))) {
        if small.is_empty() {
            continue;
        }
        let mut make = |count: usize| -> Vec<f64> {
            let at = |item: usize, k: usize, draws: &mut Draws| match kind {
                0 => draws.normal(),
                // Five clusters, and tight ones.
                1 => ((item % 5 * (k + 3)) % 7) as f64 + 0.05 * draws.normal(),
                2 => ((item % 5 * (k + 3)) % 7) as f64 + 1e-9 * draws.normal(),
                // Copies of a few, far from the origin.
                3 => 1000.0 + ((item % 11 * (k + 5)) % 13) as f64,
                4 => (draws.normal() * 2.0).round(),
                // One that is far from everything, and lengths of all sizes.
                5 if item == 17 => 1e6,
                5 => draws.normal(),
                _ => draws.normal() * 10f64.powi(-((item % 9) as i32)),
            };
            (0..count * dim).map(|place| at(place / dim, place % dim, &mut draws)).collect()
        };
        for (devices, count, budgets) in
            [(&large, 700, vec![3, 90]), (&small, 500, vec![1, 9, 60, 300, 500])]
        {
            let (centres, items) = (make(20), make(count));
            for dtype in 0..3 {
                let vectors = |values: &[f64]| {
                    let matrix = match dtype {
                        0 => Matrix::from_f64(dim, values),
                        1 => Matrix::from_vec(dim, values.iter().map(|&v| v as f32).collect()),
                        _ => {
                            let halves = values.iter().map(|&v| f16::from_f64(v.min(6e4)));
                            Matrix::from_vec(dim, halves.collect())
                        }
                    };
                    Vectors::new(matrix, "vectors").unwrap()
                };
                let (centres, items) = (vectors(&centres), vectors(&items));
                for &budget in &budgets {
                    let here = k_center(&centres, &items, budget, &()).unwrap();
                    for device in devices {
                        let (a, b) = (centres.clone().on(device), items.clone().on(device));
                        let there = k_center(&a, &b, budget, &()).unwrap();
                        assert!(here == there, "kind {kind} {dim} {dtype} {budget} {device}");
                    }
                }
            }
        }
    }
}

#[test]
fn bad_numbers_are_refused_as_on_the_cpu() {
    for device in gpus() {
        let good = Matrix::from_f32(2, &[1.0, 0.0, 0.0, 1.0]);
        let bad = Matrix::from_f32(2, &[1.0, 0.0, 0.5, f32::NAN]);
        let problem = Problem::of_embeddings(good.clone(), good, bad, Side::Image).on(device);
        let error = problem.build().err().unwrap().to_string();
        assert_eq!(error, "the pool items: row 1, dimension 1 is NaN");
    }
}

/// Threads that all want the GPU get their turns, and their own answers.
#[test]
fn many_threads_share_a_gpu() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let tried: Vec<Case> =
        (0..12).map(|_| cases().new_tree(&mut runner).unwrap().current()).collect();
    for device in gpus() {
        std::thread::scope(|scope| {
            for case in &tried {
                let device = device.clone();
                scope.spawn(move || {
                    let strategy = case.strategy(HardNegative::default());
                    let on = |device: Device| {
                        case.builder().on(device).build()?.select(&strategy, case.budget, &())
                    };
                    match (on(Device::cpu()), on(device)) {
                        (Ok(here), Ok(there)) => assert_eq!(here, there),
                        (here, there) => assert!(here.is_err() && there.is_err()),
                    }
                });
            }
        });
    }
}

#[test]
fn a_gpu_that_is_not_there_is_an_error() {
    let error = Device::cuda(4096).err().unwrap();
    assert!(matches!(error, Error::Gpu(_)), "{error}");
    // Where there is none, the CPU is taken without a word.
    let auto: Device = "auto".parse().unwrap();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let case = cases().new_tree(&mut runner).unwrap().current();
    let on = |device: Device| {
        let problem = case.builder().on(device).build().unwrap();
        problem.select(&case.strategy(HardNegative::default()), case.budget, &()).unwrap()
    };
    assert_eq!(on(auto), on(Device::cpu()));
}

/// Weights, costs, explanations, sizes that fill no group and no block, and more picks than are launched at once.
#[test]
fn designs_pick_the_same() {
    let mut draws = Draws::new(11);
    for device in gpus() {
        for (items, pairs, dim, budget) in
            [(1, 0, 1, 1), (17, 3, 5, 17), (300, 40, 33, 60), (1100, 0, 300, 20), (77, 9, 530, 70)]
        {
            let rows = |draws: &mut Draws, count: usize| -> Matrix {
                Matrix::from_f64(dim, &vectors(draws, Numbers::Falling, count, dim))
            };
            let (pool, paired) = (rows(&mut draws, items), rows(&mut draws, pairs));
            let (usable, costs): (Vec<f64>, Vec<f64>) =
                (0..items).map(|_| (draws.unit(), 0.5 + draws.unit())).unzip();
            for weighed in [false, true] {
                let on = |device: Device| {
                    let problem = Problem::of_pool(items).features(pool.clone(), paired.clone());
                    let problem = match weighed {
                        false => problem,
                        true => {
                            let money = 1.5 + 0.8 * budget as f64;
                            let spend = Spend { costs: costs.clone(), money };
                            problem.usable(usable.clone()).spend(Some(spend))
                        }
                    };
                    let problem = problem.on(device).build().unwrap();
                    problem.select(&VOptimal::default(), budget, &()).unwrap()
                };
                let (here, there) = (on(Device::cpu()), on(device.clone()));
                assert_eq!(here, there, "{items} x {dim}, {pairs} pairs, {weighed} {device}");
            }
        }
    }
}
