//! Worlds in which the truth is known: how often intervals hold and verdicts are wrong.

use nextpair_data::Draws;

use super::{Family, Looks, Verdict, mean, sign_flip};

/// The noise of one measurement.
#[derive(Clone, Copy, Debug)]
enum Noise {
    Normal,
    /// Student's t with 3 degrees of freedom: now and then a seed is far off.
    HeavyTails,
    /// An exponential less its mean: always off to the same side.
    Skewed,
}

impl Noise {
    fn draw(self, draws: &mut Draws) -> f64 {
        match self {
            Noise::Normal => draws.normal(),
            Noise::HeavyTails => {
                let squares: f64 = (0..3).map(|_| draws.normal().powi(2)).sum();
                draws.normal() / (squares / 3.0).sqrt() / 3f64.sqrt()
            }
            Noise::Skewed => -(1.0 - draws.unit()).ln() - 1.0,
        }
    }
}

/// A world: strategies and random arms over seeds. A seed shifts all of them, which pairing removes.
#[derive(Clone, Copy, Debug)]
struct World {
    strategies: usize,
    random: usize,
    seeds: usize,
    noise: Noise,
    /// How much noisier each strategy is than the one before it.
    uneven: f64,
}

/// The true difference of a strategy.
fn truth(strategy: usize) -> f64 {
    0.7 * strategy as f64 - 1.0
}

/// The differences of strategies to the mean of the random arms, and those of random arms to the mean
/// of the others.
fn differences(world: World, draws: &mut Draws) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
    let mut chosen = vec![Vec::new(); world.strategies];
    let mut nulls = vec![Vec::new(); world.random];
    for _ in 0..world.seeds {
        let of_seed = 3.0 * draws.normal();
        let random: Vec<f64> =
            (0..world.random).map(|_| of_seed + world.noise.draw(draws)).collect();
        let baseline = mean(&random).unwrap();
        for (at, list) in chosen.iter_mut().enumerate() {
            let scale = 1.0 + world.uneven * at as f64;
            list.push(of_seed + truth(at) + scale * world.noise.draw(draws) - baseline);
        }
        for (at, list) in nulls.iter_mut().enumerate().filter(|_| world.random > 1) {
            let others = (baseline * world.random as f64 - random[at]) / (world.random - 1) as f64;
            list.push(random[at] - others);
        }
    }
    (chosen, nulls)
}

/// Shares of simulations.
#[derive(Debug, Default)]
struct Rates {
    /// All intervals of the strategies held the truth.
    covered: f64,
    /// Some null control was called different.
    false_alarm: f64,
    /// The sign-flip test called some null control different.
    flipped: f64,
}

/// Simulates experiments. The sign-flip test takes long, so only the first ones get it.
fn simulate(world: World, simulations: u64, flips: u64) -> Rates {
    let mut rates = Rates::default();
    let share = 1.0 / simulations as f64;
    for simulation in 0..simulations {
        let place = world.seeds * 100 + world.strategies * 10 + world.random;
        let mut draws = Draws::new(simulation.wrapping_mul(7919) + place as u64);
        let (chosen, nulls) = differences(world, &mut draws);
        let family = Family::of(&chosen, world.random);
        let holds = |(at, list): (usize, &Vec<f64>)| {
            let (low, high) = family.estimate(list).unwrap().interval().unwrap();
            low <= truth(at) && truth(at) <= high
        };
        rates.covered += share * f64::from(u8::from(chosen.iter().enumerate().all(holds)));
        if world.random > 1 {
            let family = Family::of(&nulls, world.random - 1);
            let called =
                |list: &Vec<f64>| family.estimate(list).unwrap().verdict() != Verdict::Unclear;
            rates.false_alarm += share * f64::from(u8::from(nulls.iter().any(called)));
            if simulation < flips {
                let called = sign_flip(&nulls).is_some_and(|p| p.iter().any(|&p| p <= 0.05));
                rates.flipped += f64::from(u8::from(called)) / flips as f64;
            }
        }
    }
    rates
}

fn worlds() -> Vec<World> {
    let mut worlds = Vec::new();
    for noise in [Noise::Normal, Noise::HeavyTails, Noise::Skewed] {
        for seeds in [5, 8, 24] {
            for (strategies, random, uneven) in [(4, 1, 0.0), (6, 3, 0.0), (5, 3, 0.5), (5, 1, 0.5)]
            {
                worlds.push(World { strategies, random, seeds, noise, uneven });
            }
        }
    }
    worlds
}

/// Checks all worlds. Rates may be off by three standard deviations of so many simulations.
fn check(worlds: &[World], simulations: u64, flips: u64, print: bool) {
    for &world in worlds {
        let rates = simulate(world, simulations, flips);
        if print {
            let Rates { covered, false_alarm, flipped } = &rates;
            let World { strategies, random, seeds, noise, uneven } = world;
            println!(
                "{noise:?}, {strategies} strategies (uneven {uneven}), {random} random, {seeds} seeds: \
                 covered {:.1} %, null control called different {:.1} %, by sign flips {:.1} %",
                100.0 * covered,
                100.0 * false_alarm,
                100.0 * flipped
            );
        }
        let off = |simulations: u64| 3.0 * (0.05 * 0.95 / simulations as f64).sqrt();
        // A mean of few numbers that are off to one side is itself: no interval of this kind holds as said.
        let skewed = if matches!(world.noise, Noise::Skewed) { 0.15 } else { 0.0 };
        assert!(rates.covered >= 0.95 - skewed - off(simulations), "{world:?}: {rates:?}");
        assert!(rates.false_alarm <= 0.05 + off(simulations), "{world:?}: {rates:?}");
        assert!(rates.flipped <= 0.05 + off(flips), "{world:?}: {rates:?}");
        if simulations >= 1000 {
            assert!(rates.false_alarm <= 0.065, "{world:?}: {rates:?}");
        }
    }
}

#[test]
fn intervals_hold_and_null_controls_are_quiet() {
    let few = |world: &World| world.seeds < 10 && world.strategies != 5;
    let few: Vec<World> = worlds().into_iter().filter(few).collect();
    check(&few, 100, 100, false);
}

#[test]
#[ignore = "takes a minute and prints the rates"]
fn intervals_hold_and_null_controls_are_quiet_in_a_thousand_worlds() {
    check(&worlds(), 10_000, 1000, true);
    peek(1000, true);
}

/// Looks after every few seeds and stops at the first verdict, where nothing differs.
fn peek(simulations: u64, print: bool) {
    let seeds = [4, 6, 8, 12, 16, 24];
    for noise in [Noise::Normal, Noise::HeavyTails] {
        for planned in [false, true] {
            let looks = Looks::new(&seeds).unwrap();
            let world = World { strategies: 0, random: 4, seeds: 24, noise, uneven: 0.0 };
            let mut alarms = 0;
            for simulation in 0..simulations {
                let (_, nulls) = differences(world, &mut Draws::new(31 * simulation + 5));
                let called = |(look, &count): (usize, &usize)| {
                    let lists: Vec<Vec<f64>> =
                        nulls.iter().map(|list| list[..count].to_vec()).collect();
                    let error = if planned { looks.error(look) } else { 0.05 };
                    let family = Family::of(&lists, world.random - 1).at(error);
                    let found = |list: &Vec<f64>| family.estimate(list).unwrap().verdict();
                    lists.iter().any(|list| found(list) != Verdict::Unclear)
                };
                alarms += u64::from(seeds.iter().enumerate().any(called));
            }
            let rate = alarms as f64 / simulations as f64;
            if print {
                let how = if planned { "planned" } else { "at 5 % each" };
                println!(
                    "{noise:?}, looks after {seeds:?} seeds, {how}: {:.1} % alarms",
                    100.0 * rate
                );
            }
            match planned {
                false => assert!(rate > 0.08 || matches!(noise, Noise::HeavyTails), "{rate}"),
                true => assert!(rate <= 0.065, "{noise:?}: {rate}"),
            }
        }
    }
}

#[test]
fn looking_early_raises_no_more_alarms() {
    peek(300, false);
}
