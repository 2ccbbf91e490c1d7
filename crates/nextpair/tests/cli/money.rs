//! `--spend` and `--costs`: money instead of a number of items.

use nextpair::engine::reference;

use crate::world::World;

/// What an item costs.
fn cost(item: usize) -> f64 {
    [0.1, 0.2, 0.7][item % 3]
}

fn world() -> World {
    let world = World::small();
    let rows = (0..40).map(|item| format!("{item},{}", cost(item)));
    world.write_lines("costs.csv", ["id,cost".to_owned()].into_iter().chain(rows));
    world
}

#[test]
fn money_buys_what_tells_most_for_it() {
    let world = world();
    let (pool, paired) = (world.pool.rows(), world.images.rows());
    let costs: Vec<f64> = (0..40).map(cost).collect();
    for (money, most) in [(0.1, 40), (1.0, 40), (1.0, 3), (100.0, 40)] {
        let flags = format!(
            "--strategy v-optimal --costs costs.csv --spend {money} --budget {most} --json"
        );
        let run = world.select(&flags);
        let weighed = reference::DesignWeights { usable: &[1.0; 40], costs: &costs, money };
        let expected = reference::design(&pool, &paired, Some(&weighed), 1.0, (&[], most));
        let found: Vec<(usize, f64)> = (world.picks("out/picks.jsonl").iter())
            .map(|pick| (pick["index"].as_u64().unwrap() as usize, pick["score"].as_f64().unwrap()))
            .collect();
        assert_eq!(found, expected, "{money}");
        let spent: f64 = found.iter().map(|(item, _)| cost(*item)).sum();
        let said: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        assert!((said["spent"].as_f64().unwrap() - spent).abs() < 1e-9, "{}", run.stdout);
        assert!(spent < money + 1e-6);
    }
}

#[test]
fn money_that_cannot_be_spent_is_refused() {
    let world = world();
    world.write("few.csv", b"id,cost\n0,1\n");
    for (flags, expected) in [
        ("--strategy v-optimal --spend 1", "--costs"),
        ("--strategy v-optimal --costs costs.csv", "--spend"),
        ("--strategy core-set --costs costs.csv --spend 1", "--spend is for v-optimal"),
        (
            "--strategy v-optimal --costs few.csv --spend 1",
            "few.csv: no cost for the pool item \"1\"",
        ),
        ("--strategy v-optimal --costs costs.csv --spend 0.05", "the cheapest item costs 0.1"),
        (
            "--strategy v-optimal --costs costs.csv --spend=-1",
            "spend is -1; it must be a number above 0",
        ),
    ] {
        world.select_refused(flags, &[expected]);
    }
}
